use super::*;

const FULL: &str = r#"
[clients.MainClient]
endpoint = "tls://a:1"
endpoints = ["tls://b:2"]
codec = "memorypack"
encryption = true
token_file = "secret.txt"
connect_timeout = "1.5s"
attempt_timeout = "2m"
max_frame = 4096
max_in_flight = 7
reconnect = { preset = "fleet", max_delay = "5s", jitter = "full" }

[clients.MainClient.retry]
max_retries = 1
initial_delay = "10ms"
backoff = "linear"
statuses = [408, 500]
budget_percent = 50
idempotent = ["Get"]
deduplicated = ["int Add(int, int)"]

[clients.MainClient.socket]
keepalive_idle = "3s"

[clients.MainClient.tls]
authorities_file = "/etc/ca.pem"
pins = ["00:112233445566778899001122334455667788990011223344556677889900ff"]
certificate_file = "me.pem"

[clients.Other]
endpoint = "pipe://orders"
reconnect = true
"#;

fn parse(text: &str, name: &str) -> Result<ClientConfig> {
    ClientConfig::parse(text, Path::new("folder"), name)
}

#[test]
fn a_file_says_it_all() {
    let config = parse(FULL, "MainClient").unwrap();
    assert_eq!(config.name, "MainClient");
    assert_eq!(config.endpoints, ["tls://a:1", "tls://b:2"]);
    assert_eq!(config.codec, Some(Codec::MemoryPack));
    assert!(config.encryption);
    assert!(config.token == TokenConfig::File("folder/secret.txt".into()));
    assert_eq!(config.connect_timeout, Some(Duration::from_millis(1500)));
    assert_eq!(config.attempt_timeout, Some(Duration::from_secs(120)));
    assert_eq!(
        (config.max_frame, config.max_in_flight),
        (Some(4096), Some(7))
    );
    let reconnect = config.reconnect.unwrap();
    assert_eq!(reconnect.max_attempts, 0, "fleet");
    assert_eq!(reconnect.max_delay, Duration::from_secs(5));
    assert_eq!(reconnect.jitter, Jitter::Full);
    assert!(config.retry.is_some());
    assert_eq!(config.socket.keepalive_idle, Some(Duration::from_secs(3)));
    assert_eq!(config.socket.keepalive_probes, 3, "the default");
    assert_eq!(config.tls.authorities_file, Some("/etc/ca.pem".into()));
    assert_eq!(config.tls.pinned.len(), 1);
    assert_eq!(config.tls.pinned[0][31], 0xff);
    let me = PathBuf::from("folder/me.pem");
    assert_eq!(config.tls.identity_files, Some((me.clone(), me)));
    let other = parse(FULL, "Other").unwrap();
    assert_eq!(other.reconnect, Some(ReconnectOptions::default()));
    assert!(other.retry.is_none());
}

#[test]
fn a_named_client_can_be_made_and_knows_its_name() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let config = parse(FULL, "Other").unwrap();
    let client = config
        .builder()
        .unwrap()
        .runtime(runtime.handle().clone())
        .build()
        .unwrap();
    assert_eq!(client.name(), "Other");
    let health = client.health();
    assert_eq!(health.client_name, "Other");
    assert_eq!(health.status, crate::client::HealthStatus::Unhealthy);
    assert!(!health.is_initialized && !health.is_authorized && health.silence.is_none());
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    let one = |line: &str| format!("[clients.X]\nendpoint = \"tcp://a:1\"\n{line}\n");
    for (text, part) in [
        (
            "".to_owned(),
            "there is no [clients.X], nor any other client",
        ),
        (
            "[clients.Y]\nendpoint = \"tcp://a:1\"".to_owned(),
            "there are Y",
        ),
        (
            "[clients.X]".to_owned(),
            "clients.X.endpoint: there is none",
        ),
        (
            "[clients.X]\nendpoint = \"http://a\"".to_owned(),
            "clients.X.endpoint: ",
        ),
        (one("tokn = \"x\""), "unknown field `tokn`"),
        (one("connect_timeout = \"5\""), "a time above zero"),
        (one("connect_timeout = 5"), "a time above zero"),
        (one("connect_timeout = \"0s\""), "line 3"),
        (
            one("codec = \"xml\""),
            "clients.X.codec: \"xml\" is no codec",
        ),
        (one("token = \"a\"\ntoken_file = \"b\""), "give one of"),
        (
            one("token_env = \"WITRPC_NO_SUCH_VARIABLE\""),
            "WITRPC_NO_SUCH_VARIABLE",
        ),
        (one("reconnect = \"often\""), "\"often\" is no preset"),
        (
            one("[clients.X.reconnect]\njitter = \"some\""),
            "reconnect.jitter: \"some\"",
        ),
        (
            one("[clients.X.reconnect]\nbackoff_multiplier = 0.5"),
            "reconnect.backoff_multiplier",
        ),
        (
            one("[clients.X.retry]\nbackoff = \"steep\""),
            "retry.backoff: \"steep\"",
        ),
        (
            one("[clients.X.tls]\npins = [\"12\"]"),
            "64 hexadecimal digits",
        ),
        (one("[clients.X.tls]\nkey_file = \"k\""), "tls.key_file"),
        (one("= 1"), "line 3"),
    ] {
        let error = parse(&text, "X").err().expect(&text);
        assert_eq!(error.code(), crate::ErrorCode::InvalidArgument);
        assert!(error.message().contains(part), "{text}: {error}");
    }
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let error = ClientConfig::load(Some(Path::new("no/such.toml")), "X")
        .err()
        .unwrap();
    assert!(error.message().starts_with("no/such.toml: "), "{error}");
    let folder = ClientConfig::load(Some(Path::new(".")), "X").err().unwrap();
    assert!(folder.message().starts_with(".: "), "{folder}");
}
