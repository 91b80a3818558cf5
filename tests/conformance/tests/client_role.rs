//! Our client against the live .NET peer: every method with every value sample, errors, overloads,
//! properties, repetitions, tokens, events, outages.

use std::collections::BTreeSet;
use std::time::Duration;

use uuid::Uuid;
use witrpc::client::{Client, ClientBuilder, RetryPolicy, Service};
use witrpc::resilience::engine::State;
use witrpc::resilience::reconnect::ReconnectOptions;
use witrpc::{ErrorCode, Outcome};
use witrpc_cli::demo;
use witrpc_conformance::own::runtime;
use witrpc_conformance::peer::{Peer, PeerServer};
use witrpc_conformance::{WATCHDOG, hex, values};

/// Runs a test on a peer with these options.
fn on_peer<F: Future<Output = ()>>(args: &[&str], test: impl FnOnce(PeerServer) -> F) {
    let Some(peer) = Peer::find() else { return };
    let server = peer.serve(args);
    let limit = tokio::time::Duration::from_secs(120);
    runtime().block_on(async {
        tokio::time::timeout(limit, test(server))
            .await
            .expect("it ends in time");
    });
}

async fn connected(builder: ClientBuilder) -> (Client, Service) {
    let client = builder.build().unwrap();
    client.connect().await.unwrap();
    let echo = client.service_of(demo::contract());
    (client, echo)
}

async fn echo(server: &PeerServer) -> (Client, Service) {
    connected(Client::builder(&server.endpoint())).await
}

async fn json(echo: &Service, line: &str, arguments: &str) -> Result<String, witrpc::Error> {
    echo.call_json::<()>(line, arguments)
        .timeout(WATCHDOG)
        .json()
        .await
}

/// The methods of the contract that give back their one argument, by its type.
fn mirrors() -> Vec<(String, String)> {
    let contract = demo::contract();
    let methods = contract.methods().iter().filter(|method| {
        matches!(method.params(), [only] if only.ty() == method.returns())
            && !["AddOne", "Not", "CountUp", "Fail", "FailAsync", "Overload"]
                .contains(&method.name())
    });
    methods
        .map(|method| {
            (
                method.params()[0].ty().stable_name().unwrap(),
                method.to_string(),
            )
        })
        .collect()
}

#[test]
fn every_value_sample_comes_back_as_the_bytes_that_net_makes_of_it() {
    on_peer(&[], |server| async move {
        let (_client, echo) = echo(&server).await;
        let mirrors = mirrors();
        let mut called = BTreeSet::new();
        let mut count = 0;
        for sample in values::samples() {
            for (_, line) in mirrors.iter().filter(|(ty, _)| *ty == sample.ty) {
                let place = format!("{line} of {}", sample.text());
                let call = echo.call_json::<()>(line, &format!("[{}]", sample.text()));
                let answer = call.timeout(WATCHDOG).encoded().await;
                match sample.blob() {
                    Some(expected) => {
                        let data = answer.unwrap_or_else(|e| panic!("{place}: {e}")).data;
                        let data = data.unwrap_or_default();
                        assert_eq!(hex(&data), hex(&expected), "{place}");
                        count += 1;
                    }
                    // NaN and the infinities.
                    None => {
                        let error = answer.unwrap_err();
                        assert_eq!(error.code(), ErrorCode::InvalidArgument, "{place}: {error}");
                    }
                }
                called.insert(line.clone());
            }
        }
        let all: BTreeSet<_> = mirrors.into_iter().map(|(_, line)| line).collect();
        assert_eq!(called, all, "every method that gives back its argument");
        assert!(count > 300, "{count}");
    });
}

/// Values that are not in the vectors: at the edges, and where readers and writers differ.
#[test]
fn more_values_come_back_as_they_should() {
    let same = [
        ("Big", "9007199254740993"),
        ("Big", "-9007199254740993"),
        ("ULong", "9223372036854775808"),
        ("Short", "-1"),
        ("SByte", "-128"),
        ("SByte", "127"),
        ("Byte", "0"),
        ("UShort", "0"),
        ("UInt", "2147483648"),
        ("Single", "1E-45"),
        ("Single", "16777216"),
        ("Single", "-0"),
        ("Single", "1.1754944E-38"),
        ("Double", "0.1"),
        ("Double", "1E-05"),
        ("Double", "0.0001"),
        ("Double", "12345678901234568"),
        ("Double", "1E+17"),
        ("Double", "2.2250738585072014E-308"),
        ("Double", "4.35"),
        ("Money", "0.00"),
        ("Money", "-0.10"),
        ("Money", "79228162514264337593543950335"),
        ("Money", "7.9228162514264337593543950335"),
        ("Money", "1234567890123456789.1234567890"),
        ("Letter", "\"\\u0000\""),
        ("Letter", "\"\u{ffff}\""),
        ("Letter", "\"\\\"\""),
        ("Echo", "\"\\u0000\\u001F\u{7f}\u{80}\u{2028}\u{feff}\""),
        (
            "Echo",
            "\"\u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467}\u{10ffff}\"",
        ),
        ("Echo", "\"null\""),
        ("Echo", "\"  \""),
        ("Id", "\"ffffffff-ffff-ffff-ffff-ffffffffffff\""),
        ("Id", "\"00000000-0000-0000-0000-000000000000\""),
        ("When", "\"0001-01-01T00:00:00Z\""),
        ("When", "\"2024-02-29T23:59:59.9999999\""),
        ("When", "\"2026-11-30T05:06:07.1Z\""),
        ("Offset", "\"0001-01-01T00:00:00+00:00\""),
        ("Offset", "\"9999-12-31T23:59:59.9999999+00:00\""),
        ("Offset", "\"2026-11-30T05:06:07+14:00\""),
        ("Offset", "\"2026-11-30T05:06:07-11:03\""),
        ("Span", "\"00:00:00\""),
        ("Span", "\"-10675199.02:48:05.4775808\""),
        ("Span", "\"10675199.02:48:05.4775807\""),
        ("Span", "\"00:00:00.0000001\""),
        ("Day", "\"0001-01-01\""),
        ("Day", "\"9999-12-31\""),
        ("Clock", "\"00:00:00\""),
        ("Clock", "\"23:59:59.9999999\""),
        ("Link", "\"relative/path?q=1#f\""),
        ("Link", "\"mailto:a@b\""),
        ("Ver", "\"1.2\""),
        ("Ver", "\"1.2.3.4\""),
        ("Ver", "\"2147483647.0\""),
        ("Paint", "0"),
        ("Paint", "-5"),
        ("MaybePaint", "null"),
        ("MaybeOffset", "null"),
        ("MaybeWhen", "\"2026-11-30T05:06:07\""),
        ("MaybeDouble", "-0"),
        ("MaybeMoney", "1.0"),
        ("Blob", "\"\""),
        ("Blob", "\"/+8=\""),
        ("Ints", "[]"),
        ("Ints", "[2147483647,-2147483648]"),
        ("Strings", "[null]"),
        ("Doubles", "[1E+308,5E-324,-0]"),
        ("Jagged", "[null,\"\",\"AA==\"]"),
        ("Find", "null"),
        ("Names", "[\"\",\"a\",\"a\"]"),
        ("Set", "[3,1,2]"),
        ("ReadOnly", "[]"),
        ("Many", "[0]"),
        ("Map", "{}"),
        ("Map", "{\"\":[],\"a b\":[1],\"\\u0001\":null}"),
        ("ByNumber", "{\"0\":\"\",\"-2147483648\":null}"),
        ("Kvp", "{\"Key\":null,\"Value\":0}"),
        ("Tup", "{\"Item1\":-1,\"Item2\":null}"),
        ("People", "[null]"),
        ("PeopleArray", "[]"),
        ("Anything", "[1,[2,[3,{\"a\":null}]],1.10,1e5,\"\u{e9}\"]"),
        ("Anything", "true"),
        ("EchoAsync", "null"),
    ];
    let others = [
        ("When", "\"2026-11-30\"", "\"2026-11-30T00:00:00\""),
        ("When", "\"2026-11-30T03:04\"", "\"2026-11-30T03:04:00\""),
        // No time zone of any machine takes part.
        (
            "When",
            "\"2026-11-30T05:06:07+02:00\"",
            "\"2026-11-30T03:06:07Z\"",
        ),
        (
            "Offset",
            "\"2026-11-30T05:06:07\"",
            "\"2026-11-30T05:06:07+00:00\"",
        ),
        (
            "Id",
            "\"AABBCCDD-EEFF-AABB-CCDD-EEFFAABBCCDD\"",
            "\"aabbccdd-eeff-aabb-ccdd-eeffaabbccdd\"",
        ),
        ("Span", "\"5\"", "\"5.00:00:00\""),
        ("Clock", "\"1:02\"", "\"01:02:00\""),
        ("Money", "1e2", "100"),
        ("Double", "1.0", "1"),
        ("Double", "100000000000000000000", "1E+20"),
        ("Set", "[1,1,2]", "[1,2]"),
        ("Find", " [ 1 ,\n 2 ] ", "[1,2]"),
        (
            "Describe",
            "{\"Height\":null,\"Age\":3}",
            "{\"Name\":null,\"Age\":3,\"Favourite\":0,\"Home\":null,\
            \"Tags\":null,\"Scores\":null,\"Photo\":null,\"Born\":\"0001-01-01T00:00:00\",\"Height\":null}",
        ),
        (
            "Pair",
            "{\"Item1\":1,\"Item2\":\"t\"}",
            "{\"Item1\":0,\"Item2\":null}",
        ),
        ("Not", "true", "false"),
        ("AddOne", "2147483647", "-2147483648"),
    ];
    on_peer(&[], |server| async move {
        let (_client, echo) = echo(&server).await;
        let same = same.map(|(line, text)| (line, text, text));
        for (line, text, expected) in same.into_iter().chain(others) {
            let result = json(&echo, line, &format!("[{text}]")).await;
            // The answer is shown as the text shows it: with few escapes.
            let expected = witrpc::codec::RawJson::parse(expected).unwrap();
            assert_eq!(result.as_deref(), Ok(expected.as_str()), "{line} of {text}");
        }
    });
}

#[test]
fn every_other_method_does_what_it_should() {
    on_peer(&[], |server| async move {
        let (_client, echo) = echo(&server).await;
        for (line, arguments, expected) in [
            ("Ping", "[]", "\"pong\""),
            ("Add", "[2,3]", "5"),
            ("Add", "[2147483647,1]", "-2147483648"),
            ("int Overload(int a)", "[5]", "5"),
            ("int Overload(string a)", "[\"five\"]", "4"),
            (
                "string Overload(int a, string b)",
                "[5,\"five\"]",
                "\"five5\"",
            ),
            ("get_Name", "[]", "\"echo\""),
            ("set_Name", "[\"n\u{eb}w\"]", "null"),
            ("get_Name", "[]", "\"n\u{eb}w\""),
            ("Fire", "[\"x\"]", "null"),
            ("get_Name", "[]", "\"x\""),
            ("SlowAsync", "[1,9]", "9"),
            ("Slow", "[1,9]", "9"),
            ("DelayAsync", "[1]", "null"),
            ("Count", "[]", "2"),
            ("CountUp", "[3]", "5"),
        ] {
            let result = json(&echo, line, arguments).await;
            assert_eq!(result.as_deref(), Ok(expected), "{line} {arguments}");
        }
        // The same by lines alone, without a contract.
        let open = echo.client().service("Demo.IEcho").unwrap();
        let sum: i32 = open.call("int Add(int, int)", (2, 3)).await.unwrap();
        assert_eq!(sum, 5);
        assert_eq!(
            json(&open, "Add(int, int)", "[2,3]").await.as_deref(),
            Ok("5")
        );
    });
}

#[test]
fn errors_carry_the_texts_of_the_server() {
    for (options, place) in [
        (&[][..], "service"),
        (&["--composite"], "any registered service"),
    ] {
        on_peer(options, |server| async move {
            let (client, echo) = echo(&server).await;
            for (line, details) in [
                (
                    "Fail",
                    "Exception has been thrown by the target of an invocation.",
                ),
                ("FailAsync", "One or more errors occurred. (boom)"),
                ("FailTaskAsync", "boom"),
            ] {
                let error = json(&echo, line, "[\"boom\"]").await.unwrap_err();
                assert_eq!(error.code(), ErrorCode::Remote);
                assert_eq!(error.message(), "Failed to process request");
                assert_eq!(error.details(), Some(details));
                assert_eq!((error.outcome(), error.attempts()), (Outcome::Answered, 1));
            }
            let error = json(&echo, "FailTaskAsync", "[\"\"]").await.unwrap_err();
            assert_eq!(error.details(), Some(""));
            let open = client.service("Demo.IEcho").unwrap();
            let error = json(&open, "int Nope()", "[]").await.unwrap_err();
            assert_eq!(error.code(), ErrorCode::BadRequest);
            let text = format!("Method not found on {place}, method name: Nope");
            assert_eq!(error.message(), text);
            assert_eq!(client.state(), State::Connected);
        });
    }
}

#[test]
fn large_values_and_many_calls_at_once_pass() {
    on_peer(&[], |server| async move {
        let (_client, echo) = echo(&server).await;
        let text = "x\u{e9}".repeat(500_000);
        let back: String = echo.call("Echo", (&text,)).await.unwrap();
        assert!(back == text);
        let calls: Vec<_> = (0..500)
            .map(|n| echo.call::<i32>("AddOne", (n,)).into_future())
            .collect();
        for (n, call) in calls.into_iter().enumerate() {
            assert_eq!(call.await.unwrap(), i32::try_from(n).unwrap() + 1);
        }
    });
}

#[test]
fn a_repetition_under_the_same_id_is_answered_from_memory() {
    on_peer(&["--trace"], |server| async move {
        let (_client, echo) = echo(&server).await;
        let id = Uuid::new_v4();
        for _ in 0..3 {
            let call = echo.call::<i32>("CountUp", (1,)).invocation_id(id);
            assert_eq!(call.await.unwrap(), 1);
        }
        assert_eq!(echo.call::<i32>("Count", ()).await.unwrap(), 1);
        let executed = server.executed(2);
        assert_eq!(executed[0], format!("CountUp {id}"));
        assert!(executed[1].starts_with("Count "));
    });
}

#[test]
fn a_token_must_be_right_at_the_handshake() {
    on_peer(&["--token", "s3cret"], |server| async move {
        let builder = || Client::builder(&server.endpoint());
        let (_client, echo) = connected(builder().token("s3cret")).await;
        assert_eq!(json(&echo, "Ping", "[]").await.as_deref(), Ok("\"pong\""));
        for client in [builder(), builder().token("wrong")] {
            let client = client.build().unwrap();
            let error = client.connect().await.unwrap_err();
            assert_eq!(error.code(), ErrorCode::Unauthorized);
            assert_eq!(error.details(), Some("Forbidden"));
            assert_eq!(client.state(), State::Failed);
        }
    });
    // A server without one refuses a client that has one.
    on_peer(&[], |server| async move {
        let client = Client::builder(&server.endpoint())
            .token("x")
            .build()
            .unwrap();
        let error = client.connect().await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::Unauthorized);
    });
}

#[test]
fn a_token_that_was_changed_is_fetched_anew_on_a_live_connection() {
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let file = file.join(format!("token-{}", std::process::id()));
    std::fs::write(&file, "first").unwrap();
    let path = file.to_str().unwrap().to_owned();
    on_peer(
        &["--token-file", &path.clone(), "--trace"],
        |server| async move {
            let read = move || std::fs::read_to_string(&path).map_err(|e| e.to_string());
            let builder = Client::builder(&server.endpoint()).blocking_token_provider(read);
            let (client, echo) = connected(builder).await;
            assert_eq!(echo.call::<i32>("CountUp", (1,)).await.unwrap(), 1);
            std::fs::write(&file, "second").unwrap();
            // The peer remembers the refusal under the old id: the second attempt has a new one.
            let answer = echo.call::<i32>("CountUp", (1,)).encoded().await.unwrap();
            assert_eq!(
                (answer.data.as_deref(), answer.attempts),
                (Some(&b"2"[..]), 2)
            );
            assert_eq!(client.stats().reconnects, 0);
            assert_eq!(server.executed(2).len(), 2);
            std::fs::remove_file(&file).unwrap();
        },
    );
}

#[test]
fn all_events_arrive_in_order_from_strong_and_weak_servers() {
    for options in [&[][..], &["--weak"]] {
        on_peer(options, |server| async move {
            let (_client, echo) = echo(&server).await;
            let mut progress = echo.events("Progress").unwrap();
            let mut changed = echo.events("Changed").unwrap();
            let mut person = echo.events("PersonChanged").unwrap();
            let mut nothing = echo.events("Nothing").unwrap();
            // Raised by another client.
            let (_other, raiser) = connected(Client::builder(&server.endpoint())).await;
            json(&raiser, "RaiseProgress", "[42]").await.unwrap();
            json(&raiser, "RaiseMany", "[200]").await.unwrap();
            json(&raiser, "RaiseChanged", "[7,\"n\u{f6}te\"]")
                .await
                .unwrap();
            json(&raiser, "RaisePerson", "[{\"Name\":\"Ann\",\"Age\":3}]")
                .await
                .unwrap();
            json(&raiser, "RaiseNull", "[]").await.unwrap();
            json(&raiser, "RaiseNothing", "[]").await.unwrap();
            for n in std::iter::once(42).chain(0..200) {
                assert_eq!(
                    progress.next().await.unwrap().get::<(i32,)>().unwrap(),
                    (n,)
                );
            }
            assert_eq!(
                changed.next().await.unwrap().json().unwrap(),
                "[null,{\"Percent\":7,\"Note\":\"n\u{f6}te\"}]"
            );
            assert_eq!(
                person.next().await.unwrap().json().unwrap(),
                "[{\"Name\":\"Ann\",\"Age\":3,\"Favourite\":0,\"Home\":null,\"Tags\":null,\"Scores\":null,\
                 \"Photo\":null,\"Born\":\"0001-01-01T00:00:00\",\"Height\":null},\"note\"]"
            );
            assert_eq!(person.next().await.unwrap().json().unwrap(), "[null,null]");
            assert_eq!(nothing.next().await.unwrap().json().unwrap(), "[]");
        });
    }
}

#[test]
fn an_event_comes_before_the_answer_of_the_call_that_raised_it() {
    on_peer(&[], |server| async move {
        let (_client, echo) = echo(&server).await;
        let (sender, receiver) = std::sync::mpsc::channel();
        let _subscription = echo
            .on_event("Progress", {
                let sender = sender.clone();
                move |event| sender.send(event.get::<(i32,)>().unwrap().0).unwrap()
            })
            .unwrap();
        let call = echo.call_json::<()>("RaiseMany", "[3]");
        let _cancel = call.spawn_encoded(move |answer| {
            sender.send(if answer.is_ok() { 100 } else { -1 }).unwrap();
        });
        let seen: Vec<_> = receiver.iter().take(4).collect();
        assert_eq!(seen, [0, 1, 2, 100]);
    });
}

/// Design section 1, third row of the table: what remains of the promise with a .NET server.
mod outages {
    use super::*;

    fn reconnecting(server: &PeerServer) -> ClientBuilder {
        Client::builder(&server.endpoint()).reconnect(ReconnectOptions {
            max_attempts: 0,
            initial_delay: Duration::from_millis(10),
            max_delay: Duration::from_millis(100),
            ..ReconnectOptions::default()
        })
    }

    fn quick() -> RetryPolicy {
        RetryPolicy::new().initial_delay(Duration::from_millis(10))
    }

    #[test]
    fn a_deduplicated_call_whose_connection_was_lost_is_told_as_unknown_and_not_repeated() {
        on_peer(&["--close-after", "1", "--trace"], |server| async move {
            let policy = quick().mark_deduplicated(["CountUp"]);
            let (client, echo) = connected(reconnecting(&server).retry(policy)).await;
            let error = echo.call::<i32>("CountUp", (1,)).await.unwrap_err();
            assert_eq!(
                (error.code(), error.outcome()),
                (ErrorCode::OutcomeUnknown, Outcome::Unknown)
            );
            // The client itself goes on.
            client.wait_for(State::Connected).await.unwrap();
            assert_eq!(echo.call::<i32>("Count", ()).await.unwrap(), 1);
            let executed = server.executed(2);
            assert_eq!(
                executed.iter().filter(|e| e.starts_with("CountUp")).count(),
                1
            );
        });
    }

    #[test]
    fn an_idempotent_call_whose_connection_was_lost_is_repeated_and_runs_twice_there() {
        on_peer(&["--close-after", "1", "--trace"], |server| async move {
            let policy = quick().mark_idempotent(["CountUp"]);
            let (_client, echo) = connected(reconnecting(&server).retry(policy)).await;
            let answer = echo.call::<i32>("CountUp", (1,)).encoded().await.unwrap();
            assert_eq!(
                (answer.data.as_deref(), answer.attempts),
                (Some(&b"2"[..]), 2)
            );
            assert!(!answer.replayed);
            assert_eq!(server.executed(2).len(), 2);
        });
    }

    #[test]
    fn a_late_answer_on_the_same_connection_is_repeated_and_runs_once() {
        on_peer(&["--delay", "300", "--trace"], |server| async move {
            let policy = quick().max_retries(10).mark_deduplicated(["CountUp"]);
            let builder = Client::builder(&server.endpoint())
                .retry(policy)
                .attempt_timeout(Some(Duration::from_millis(100)));
            let (_client, echo) = connected(builder).await;
            let answer = echo.call::<i32>("CountUp", (1,)).encoded().await.unwrap();
            assert_eq!(answer.data.as_deref(), Some(&b"1"[..]));
            assert!(answer.attempts > 1);
            assert_eq!(server.executed(1).len(), 1);
        });
    }

    #[test]
    fn a_server_that_falls_silent_is_a_timeout() {
        on_peer(&["--silent-after", "1"], |server| async move {
            let (_client, echo) = echo(&server).await;
            assert_eq!(echo.call::<i32>("CountUp", (1,)).await.unwrap(), 1);
            let call = echo
                .call::<i32>("CountUp", (1,))
                .timeout(Duration::from_millis(200));
            let error = call.await.unwrap_err();
            assert_eq!(
                (error.code(), error.outcome()),
                (ErrorCode::Timeout, Outcome::Unknown)
            );
        });
    }

    #[test]
    fn a_hundred_losses_in_a_row_are_a_hundred_reconnections() {
        on_peer(&["--close-every", "2"], |server| async move {
            let policy = quick()
                .initial_delay(Duration::from_millis(1))
                .max_retries(3)
                .budget(None)
                .mark_idempotent(["Ping"]);
            let options = ReconnectOptions {
                initial_delay: Duration::from_millis(1),
                max_delay: Duration::from_millis(1),
                ..ReconnectOptions::default()
            };
            let builder = Client::builder(&server.endpoint())
                .retry(policy)
                .reconnect(options);
            let (client, echo) = connected(builder).await;
            while client.stats().reconnects < 100 {
                let pong: String = echo.call("Ping", ()).timeout(WATCHDOG).await.unwrap();
                assert_eq!(pong, "pong");
            }
        });
    }

    #[test]
    fn a_killed_server_ends_the_call_and_a_returned_one_is_found() {
        let Some(peer) = Peer::find() else { return };
        let mut server = peer.serve(&["--exit-after", "1"]);
        runtime().block_on(async {
            let (client, echo) = connected(reconnecting(&server)).await;
            let error = echo.call::<i32>("CountUp", (1,)).await.unwrap_err();
            assert_eq!(
                (error.code(), error.outcome()),
                (ErrorCode::Transport, Outcome::Unknown)
            );
            server.process.wait();
            client.wait_for(State::Reconnecting).await.unwrap();
            let _server = peer.serve_at(server.port, &[]);
            client.wait_for(State::Connected).await.unwrap();
            assert_eq!(echo.call::<i32>("CountUp", (1,)).await.unwrap(), 1);
        });
    }
}
