//! The name path (protocol sections 15.3 and 15.5) in both roles: the recorded generic calls of a .NET
//! client, our client against the live peer by name, and what our server makes of names that .NET
//! stumbles over.

use std::sync::Arc;

use bytes::Bytes;
use witrpc::client::{Client, MethodLookup, Service, TypeNameForm};
use witrpc::contract::Contract;
use witrpc::wire::{ParameterType, Request, Response, status};
use witrpc_cli::demo::{self, Faults};
use witrpc_conformance::conversation::{Call, load};
use witrpc_conformance::own::{Own, runtime};
use witrpc_conformance::peer::Peer;
use witrpc_conformance::player::{play, recorded_requests};
use witrpc_conformance::raw::{Raw, call, request, response};
use witrpc_conformance::target::Target;
use witrpc_conformance::{WATCHDOG, hex, values};

const CORE: &str = "System.Private.CoreLib";
const INT: &str = "System.Int32, System.Private.CoreLib";
const STRING: &str = "System.String, System.Private.CoreLib";

/// Our server with generic methods beside the others.
fn own() -> Own {
    Own::with(|builder| {
        let faults = Arc::new(Faults::default());
        builder.service(demo::generic_service(None, faults))
    })
}

/// The whole contract that was recorded; ours serves it without what is special to .NET's tasks.
fn recorded_contract() -> Contract {
    let mut document: serde_json::Value =
        serde_json::from_str(&demo::generic_contract().to_json()).unwrap();
    let methods = document["methods"].as_array_mut().unwrap();
    methods.push("ValueTask<int> Val(int a)".into());
    methods.push("Task? NullTask()".into());
    Contract::from_json(&document.to_string()).unwrap()
}

fn strong(names: &[&str]) -> Option<Vec<Option<String>>> {
    Some(names.iter().map(|name| Some((*name).to_owned())).collect())
}

fn weak(names: &[&str]) -> Option<Vec<Option<ParameterType>>> {
    let one = |name: &&str| {
        Some(ParameterType {
            name: Some((*name).to_owned()),
            assembly: Some(CORE.into()),
        })
    };
    Some(names.iter().map(one).collect())
}

fn ok(blob: &str) -> Response {
    Response::ok(Some(Bytes::copy_from_slice(blob.as_bytes())))
}

fn generic(method: &str, types: &[&str], params: &[&str], blobs: &[&str]) -> Request {
    Request {
        generic_arguments: strong(types),
        parameter_types: strong(params),
        contract_id: demo::generic_contract().id(),
        ..request(method, 0, blobs)
    }
}

/// The recorded client's generic calls, byte for byte, to our server: what .NET answered, and an
/// answer where .NET finds nothing (weak spot 25).
#[test]
fn our_server_answers_the_recorded_generic_calls_and_those_that_net_does_not_find() {
    let conversation = load("generics-json");
    // Of this contract alone, as it was recorded.
    let own = Own::alone(demo::generic_service(None, Arc::new(Faults::default())));
    let mut raw = Raw::connect(own.port);
    let mut better = Vec::new();
    let frames = conversation.frames.chunks(2);
    let calls = [None, None]
        .into_iter()
        .chain(conversation.calls.iter().map(Some));
    for (frames, call) in frames.zip(calls) {
        let [asked, answered] = frames else { break };
        let (Some(body), Some(expected)) = (asked.body(), answered.body()) else {
            break;
        };
        raw.send(&witrpc_conformance::raw::framed(&body));
        let got = raw.expect_frame();
        match call {
            None => assert_eq!(Some(&got), answered.envelope().as_ref()),
            Some(call) if Some(&got) != answered.envelope().as_ref() => {
                let answer = response(&got);
                let text = answer
                    .data
                    .as_ref()
                    .map(|d| String::from_utf8_lossy(d).into_owned());
                better.push((call.method.clone(), answer.status, text));
            }
            Some(_) => assert_eq!(
                hex(&witrpc_conformance::raw::encode(|out| got.encode(out))),
                hex(&expected)
            ),
        }
    }
    let found = |name: &str, text: &str| (name.to_owned(), status::OK, Some(text.to_owned()));
    let unknown = |name: &str| (name.to_owned(), status::BAD_REQUEST, None);
    assert_eq!(
        better,
        [
            found("Arr", "[1]"),
            found("Mixed", "\"1 by Int32\""),
            found("Over", "\"generic String\""),
            unknown("NullTask"),
            unknown("Val"),
        ]
    );
    assert_eq!(conversation.calls.len(), 19);
}

/// The line of a recorded call.
fn line(call: &Call) -> String {
    match (call.method.as_str(), &call.generic_arguments[..]) {
        ("Over", []) => "Over(List<int>)".to_owned(),
        (method, []) => method.to_owned(),
        (method, types) => format!("{method}<{}>", types.join(", ")),
    }
}

/// Our client makes the recorded calls of the recorded server, and asks as .NET's client does: in the
/// strong form to the byte, in the weak form with the same names.
#[test]
fn our_client_makes_generic_calls_as_the_recorded_client_does() {
    let recorded = recorded_requests("generics-json");
    for form in [TypeNameForm::Strong, TypeNameForm::Weak] {
        let conversation = load("generics-json");
        let player = play("generics-json");
        runtime().block_on(async {
            let client = Client::builder(&player.endpoint)
                .type_names(form)
                .build()
                .unwrap();
            client.connect().await.unwrap();
            let service = client.service_of(recorded_contract());
            for call in &conversation.calls {
                let place = format!("{form:?}: {}", line(call));
                let arguments: Vec<_> = call.arguments.iter().map(|value| value.get()).collect();
                let arguments = format!("[{}]", arguments.join(","));
                let result = service
                    .call_json::<()>(&line(call), &arguments)
                    .timeout(WATCHDOG)
                    .json()
                    .await;
                match (result, &call.error) {
                    // The struct of the task itself, of which .NET's client could not read the result.
                    (Ok(result), None) if call.method == "Val" => {
                        assert!(result.contains("\"Result\":3"), "{place}: {result}");
                    }
                    (Ok(result), None) => {
                        let value = |text: &str| -> serde_json::Value {
                            serde_json::from_str(text).unwrap()
                        };
                        let expected = call.result.as_ref().map_or("null", |r| r.get());
                        assert_eq!(value(&result), value(expected), "{place}");
                    }
                    (Err(error), Some(text)) => assert_eq!(error.message(), text, "{place}"),
                    (result, _) => panic!("{place}: {result:?}"),
                }
            }
        });
        player.thread.join().unwrap();
        let ours = player.requests.lock().unwrap();
        assert_eq!(ours.len(), recorded.len());
        for (ours, recorded) in ours.iter().zip(&recorded) {
            let mut expected = Request {
                invocation_id: ours.invocation_id,
                ..recorded.clone()
            };
            if recorded.method_id != 0 {
                // By id, without names.
                expected.parameter_types = Some(Vec::new());
            } else if form == TypeNameForm::Weak {
                let apart = |names: &mut Option<Vec<Option<String>>>| {
                    let names = names.replace(Vec::new()).unwrap();
                    let one = |name: Option<String>| {
                        let name = name.unwrap();
                        let (name, assembly) = name.rsplit_once(", ").unwrap();
                        Some(ParameterType {
                            name: Some(name.to_owned()),
                            assembly: Some(assembly.to_owned()),
                        })
                    };
                    Some(names.into_iter().map(one).collect())
                };
                expected.parameter_types_by_name = apart(&mut expected.parameter_types);
                expected.generic_arguments_by_name = apart(&mut expected.generic_arguments);
            }
            assert_eq!(ours, &expected, "{form:?}");
        }
    }
}

/// Every method that gives back its one argument, by name alone, in both forms, at the live peer and
/// at our server.
#[test]
fn our_client_finds_every_method_by_name() {
    for target in Target::all("") {
        runtime().block_on(async {
            for form in [TypeNameForm::Weak, TypeNameForm::Strong] {
                for lookup in [MethodLookup::Name, MethodLookup::IdOrName] {
                    let client = Client::builder(&format!("tcp://127.0.0.1:{}", target.port()))
                        .type_names(form)
                        .method_lookup(lookup)
                        .build()
                        .unwrap();
                    client.connect().await.unwrap();
                    let echo = client.service_of(demo::contract());
                    let place = format!("{} {form:?} {lookup:?}", target.name());
                    assert!(mirrored(&echo, &place).await > 35, "{place}");
                    for (line, arguments, expected) in [
                        ("Ping", "[]", "\"pong\""),
                        ("Overload(int)", "[5]", "5"),
                        ("Overload(string)", "[\"five\"]", "4"),
                        ("Overload(int, string)", "[5, \"five\"]", "\"five5\""),
                        ("SlowAsync", "[0, 7]", "7"),
                        ("get_Name", "[]", "\"echo\""),
                    ] {
                        let call = echo.call_json::<()>(line, arguments).timeout(WATCHDOG);
                        assert_eq!(call.json().await.unwrap(), expected, "{place} {line}");
                    }
                }
            }
        });
    }
}

/// Calls what gives back its argument with one sample each, and says how many there were.
async fn mirrored(echo: &Service, place: &str) -> usize {
    let samples = values::samples();
    let mut count = 0;
    for method in demo::contract().methods() {
        let [param] = method.params() else { continue };
        if param.ty() != method.returns() || method.name() == "Overload" {
            continue;
        }
        if ["AddOne", "Not", "CountUp", "Fail", "FailAsync"].contains(&method.name()) {
            continue;
        }
        let ty = param.ty().stable_name().unwrap();
        let fits = |s: &&values::Sample| s.ty == ty && s.blob().is_some_and(|b| !b.is_empty());
        let Some(sample) = samples.iter().find(fits) else {
            continue;
        };
        let answer = echo
            .call_json::<()>(method.name(), &format!("[{}]", sample.text()))
            .timeout(WATCHDOG)
            .encoded()
            .await
            .unwrap_or_else(|e| panic!("{place} {method}: {e}"));
        let data = answer.data.unwrap_or_default();
        assert_eq!(hex(&data), hex(&sample.blob().unwrap()), "{place} {method}");
        count += 1;
    }
    count
}

/// The peer's own client names types in the weak form: for our server that is the same.
#[test]
fn the_weak_peer_finds_every_method_of_our_server() {
    let Some(peer) = Peer::find() else { return };
    let own = own();
    for args in [&[][..], &["--weak"]] {
        let (summary, failed) = peer.client(own.port, args);
        assert!(failed.is_empty(), "{args:?}: {failed:?}");
        assert!(summary.ends_with(", 0 failed"), "{args:?}: {summary}");
    }
}

#[test]
fn generic_requests_are_understood_in_every_spelling() {
    let own = own();
    let mut raw = Raw::authorized(own.port, "");
    let list = "System.Collections.Generic.List`1";
    let version = "Version=10.0.0.0, Culture=neutral, PublicKeyToken=7cec85d7bea7798e";
    let full = format!("{list}[[System.Int32, {CORE}, {version}]], {CORE}, {version}");
    for types in [
        vec![INT],
        vec!["System.Int32"],
        vec!["System.Int32, mscorlib"],
        vec!["System.Int32, System.Private.CoreLib, Version=10.0.0.0, Culture=neutral"],
    ] {
        for params in [
            format!("{list}[[{INT}]], {CORE}"),
            format!("{list}[System.Int32]"),
            full.clone(),
        ] {
            let strong_form = generic("Count", &types, &[&params], &["[1,2]"]);
            assert_eq!(raw.ask(&strong_form), ok("2"), "{types:?} {params}");
            let bare = params
                .split(&format!(", {CORE}, {version}"))
                .next()
                .unwrap();
            let weak_form = Request {
                generic_arguments: Some(Vec::new()),
                parameter_types: Some(Vec::new()),
                generic_arguments_by_name: weak(&["System.Int32"]),
                parameter_types_by_name: weak(&[match params == full {
                    true => &params,
                    false => bare,
                }]),
                ..generic("Count", &[], &[], &["[1,2]"])
            };
            assert_eq!(raw.ask(&weak_form), ok("2"), "{weak_form:?}");
        }
    }
    // Type arguments for a method without type parameters are not looked at.
    let plain = Request {
        generic_arguments: strong(&[STRING]),
        parameter_types: strong(&[INT, INT]),
        ..request("Add", 0, &["2", "3"])
    };
    assert_eq!(raw.ask(&plain), ok("5"));
    // But where there are both, they decide which is meant.
    let ints = format!("{list}[[{INT}]], {CORE}");
    for (types, expected) in [(vec![], "\"plain\""), (vec![INT], "\"generic Int32\"")] {
        let over = generic("Over", &types, &[&ints], &["[1]"]);
        assert_eq!(raw.ask(&over), ok(expected));
    }
}

/// Nothing is loaded or run for the sake of a name, and none breaks anything.
#[test]
fn generic_requests_that_make_no_sense_are_not_found_or_refused() {
    let own = own();
    let mut raw = Raw::authorized(own.port, "");
    let deep = format!(
        "{}System.Int32{}",
        "System.Collections.Generic.List`1[".repeat(40),
        "]".repeat(40)
    );
    let wide = "System.Int32[".to_owned() + &",".repeat(40) + "]";
    for (types, params, blob) in [
        (vec![], vec![INT], "5"),
        (vec![INT, INT], vec![INT], "5"),
        (vec![INT], vec![], "5"),
        (vec![INT], vec![STRING], "\"5\""),
        (vec![STRING], vec![INT], "5"),
        (vec!["System.Void"], vec!["System.Void"], "5"),
        (vec!["System.Int32&"], vec!["System.Int32&"], "5"),
        (vec!["System.Int32*"], vec!["System.Int32*"], "5"),
        (vec![""], vec![""], "5"),
        (vec!["[["], vec!["[["], "5"),
        (vec![&deep], vec![&deep], "5"),
        (vec![&wide], vec![&wide], "5"),
        (vec!["!0"], vec!["System.Int32"], "5"),
    ] {
        let answer = raw.ask(&generic("Same", &types, &params, &[blob]));
        assert_eq!(answer.status, status::BAD_REQUEST, "{types:?}: {answer:?}");
        let text = answer.error_message.unwrap();
        assert_eq!(
            text, "Method not found on any registered service, method name: Same",
            "{types:?}"
        );
    }
    let nothing = Request {
        generic_arguments: Some(vec![None]),
        parameter_types: Some(vec![None]),
        ..generic("Same", &[], &[], &["5"])
    };
    assert_eq!(raw.ask(&nothing).status, status::BAD_REQUEST);
    let many = generic("Same", &vec![INT; 100_000], &vec![INT; 100_000], &["5"]);
    assert_eq!(raw.ask(&many).status, status::BAD_REQUEST);
    // A type that nobody declared can be any JSON; one that is declared is held to it.
    let anything = generic(
        "Same",
        &["Demo.Nobody, X"],
        &["Demo.Nobody, X"],
        &["{\"a\":1}"],
    );
    assert_eq!(raw.ask(&anything), ok("{\"a\":1}"));
    let person = "Demo.Person, Demo.Contracts";
    let wrong = raw.ask(&generic("Same", &[person], &[person], &["{\"Age\":\"x\"}"]));
    assert_eq!(wrong.status, status::BAD_REQUEST);
    assert_eq!(
        wrong.error_message.as_deref(),
        Some("argument 1 \"v\".Age: a string where an int is expected (byte 7)")
    );
    // All of that has done the connection no harm.
    assert_eq!(raw.ask(&generic("Same", &[INT], &[INT], &["5"])), ok("5"));
}

/// The reference resolves every name while it decodes, so that one unknown name loses the whole
/// request (weak spots 46 and 63); the peer has that from it.
#[test]
fn type_names_that_nobody_knows_do_no_harm_where_an_id_is_there() {
    for target in Target::all("") {
        let mut raw = Raw::authorized(target.port(), "");
        let add = Request {
            parameter_types: strong(&["Demo.Nobody, Nowhere", INT]),
            ..call("Add(int, int)", &["2", "3"])
        };
        let answer = raw.ask(&add);
        if target.is_ours() {
            assert_eq!(answer, ok("5"));
        } else {
            assert_eq!(answer.error_message.as_deref(), Some("Request is empty"));
        }
    }
}

/// The reference looks by the weak names and decodes by the strong ones (weak spot 64); here the method
/// that was found says what its arguments are.
#[test]
fn where_the_forms_disagree_the_arguments_are_read_as_those_of_the_method_that_was_found() {
    for target in Target::all("") {
        let mut raw = Raw::authorized(target.port(), "");
        let over = Request {
            parameter_types: strong(&[STRING]),
            parameter_types_by_name: weak(&["System.Int32"]),
            ..request("Overload", 0, &["7"])
        };
        let answer = raw.ask(&over);
        if target.is_ours() {
            assert_eq!(answer, ok("7"));
        } else {
            assert_ne!(answer, ok("7"));
        }
    }
}

/// The reference compares names by culture, so that characters which culture ignores match too (weak
/// spot 60). Here only the case of letters is ignored.
#[test]
fn names_are_compared_by_their_letters() {
    let own = Own::start();
    let mut raw = Raw::authorized(own.port, "");
    for name in ["Ping", "PING", "ping"] {
        assert_eq!(raw.ask(&request(name, 0, &[])), ok("\"pong\""), "{name}");
    }
    for name in [
        "Ping\0",
        "Pi\u{ad}ng",
        "P\u{200b}ing",
        " Ping",
        "P\u{131}ng",
        "P\u{130}ng",
        "\u{ff30}ing",
    ] {
        assert_eq!(
            raw.ask(&request(name, 0, &[])).status,
            status::BAD_REQUEST,
            "{name:?}"
        );
    }
}
