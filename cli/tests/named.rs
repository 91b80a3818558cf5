//! Clients that a file describes: `witrpc call @NAME …`.

mod common;

use common::{TempFile, run, serve, witrpc};

fn described(endpoint: &str) -> TempFile {
    TempFile::new(&format!(
        "[clients.Main]\nendpoint = \"{endpoint}\"\nconnect_timeout = \"20s\"\nreconnect = \"fleet\"\n\
         [clients.Main.retry]\ndeduplicated = [\"CountUp\"]\n"
    ))
}

#[test]
fn a_client_is_opened_by_its_name() {
    let server = serve(&[]);
    let file = described(&server.endpoint);
    let add = ["Demo.IEcho", "int Add(int,int)", "2", "3"];
    let ended = run([&["call", "@Main"], &add[..], &["--config", file.path()]].concat());
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "5\n"), "{ended:?}");
    let output = witrpc()
        .args(["call", "@Main"])
        .args(add)
        .env("WITRPC_CONFIG", file.path())
        .output()
        .unwrap();
    assert_eq!(output.stdout, b"5\n");
}

#[test]
fn what_the_file_says_wrong_is_told() {
    let file = described("http://nowhere");
    for (name, part) in [
        ("@Main", "clients.Main.endpoint"),
        ("@Other", "there are Main"),
    ] {
        let args = [
            "call",
            name,
            "Demo.IEcho",
            "int Count()",
            "--config",
            file.path(),
        ];
        let ended = run(args);
        assert_eq!(ended.code, 3, "{ended:?}");
        assert!(ended.stderr.contains(part), "{ended:?}");
        assert!(ended.stderr.contains(file.path()), "{ended:?}");
    }
}
