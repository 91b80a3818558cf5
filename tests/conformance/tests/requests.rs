//! What a server makes of a request (protocol sections 10.4, 15.3, 16, 17): raw requests to our server
//! and, where it is to behave alike, to the .NET peer. Where ours is meant to be better the test says
//! so and shows what the peer does.

use bytes::Bytes;
use uuid::Uuid;
use witrpc::contract::stable_id;
use witrpc::wire::{Kind, ParameterType, Request, Response, status};
use witrpc_conformance::own::Own;
use witrpc_conformance::peer::Peer;
use witrpc_conformance::raw::{Raw, call, encode, frame, message, request, response};
use witrpc_conformance::target::Target;

const INT: &str = "System.Int32, System.Private.CoreLib";

fn ok(blob: &str) -> Response {
    Response::ok(Some(Bytes::copy_from_slice(blob.as_bytes())))
}

fn void() -> Response {
    Response::ok(None)
}

fn not_found(name: &str) -> Response {
    let text = format!("Method not found on service, method name: {name}");
    Response::error(status::BAD_REQUEST, text, None)
}

fn weak(name: &str) -> Option<ParameterType> {
    Some(ParameterType {
        name: Some(name.into()),
        assembly: Some("System.Private.CoreLib".into()),
    })
}

/// A request by name, with the names of its types.
fn by_name(method: &str, strong: &[&str], by_name: &[&str], blobs: &[&str]) -> Request {
    Request {
        parameter_types: Some(strong.iter().map(|name| Some((*name).to_owned())).collect()),
        parameter_types_by_name: Some(by_name.iter().map(|name| weak(name)).collect()),
        ..request(method, 0, blobs)
    }
}

/// Asks all servers, each on a connection of its own, and expects the same of them.
fn all_say(cases: Vec<(Request, Response)>) {
    for target in Target::all("") {
        for (request, expected) in &cases {
            let mut raw = Raw::authorized(target.port(), "");
            let answer = raw.ask(request);
            assert_eq!(&answer, expected, "{}: {request:?}", target.name());
        }
    }
}

#[test]
fn an_id_is_enough_and_nothing_else_is_looked_at() {
    let add = call("Add(int, int)", &["2", "3"]);
    all_say(vec![
        (add.clone(), ok("5")),
        (
            Request {
                method_name: None,
                ..add.clone()
            },
            ok("5"),
        ),
        (
            Request {
                method_name: Some("Nope".into()),
                contract_id: 17,
                ..add.clone()
            },
            ok("5"),
        ),
        // Names of types that would mean another overload.
        (
            Request {
                parameter_types: by_name("", &["System.String, System.Private.CoreLib"], &[], &[])
                    .parameter_types,
                ..add
            },
            ok("5"),
        ),
        (call("Overload(string)", &["\"five\""]), ok("4")),
        (
            call("Overload(int, string)", &["5", "\"five\""]),
            ok("\"five5\""),
        ),
    ]);
}

#[test]
fn without_a_known_id_name_and_types_decide() {
    let int = "System.Int32";
    all_say(vec![
        (request("Ping", 0, &[]), ok("\"pong\"")),
        (request("pING", 0, &[]), ok("\"pong\"")),
        (request("Ping", 4711, &[]), ok("\"pong\"")),
        (by_name("Add", &[INT, INT], &[], &["2", "3"]), ok("5")),
        (by_name("Add", &[], &[int, int], &["2", "3"]), ok("5")),
        (
            by_name("Add", &["System.Int32", "System.Int32"], &[], &["2", "3"]),
            ok("5"),
        ),
        (by_name("Overload", &[INT], &[], &["7"]), ok("7")),
        (
            by_name("Overload", &[], &["System.String"], &["\"five\""]),
            ok("4"),
        ),
        (
            by_name(
                "Map",
                &[
                    "System.Collections.Generic.Dictionary`2[[System.String, System.Private.CoreLib],\
                   [System.Collections.Generic.List`1[[System.Int32, System.Private.CoreLib]], \
                   System.Private.CoreLib]], System.Private.CoreLib",
                ],
                &[],
                &["{\"a\":[1]}"],
            ),
            ok("{\"a\":[1]}"),
        ),
        (
            by_name("Paint", &["Demo.Color, Demo.Contracts"], &[], &["7"]),
            ok("7"),
        ),
        // Not the types of any overload; not all of them; names nobody knows.
        (
            by_name(
                "Add",
                &["System.String, System.Private.CoreLib", INT],
                &[],
                &["\"2\"", "3"],
            ),
            not_found("Add"),
        ),
        (by_name("Add", &[INT], &[], &["2", "3"]), not_found("Add")),
        (
            by_name("Add", &[], &["Demo.Nope", int], &["2", "3"]),
            not_found("Add"),
        ),
        (request("Add", 0, &["2", "3"]), not_found("Add")),
        (request("Nope", 0, &[]), not_found("Nope")),
        (request("", 0, &[]), not_found("")),
        (
            Request {
                method_name: None,
                ..request("", 0, &[])
            },
            not_found(""),
        ),
        // A property has methods; its own name is none.
        (request("Name", 0, &[]), not_found("Name")),
        (request("get_Name", 0, &[]), ok("\"echo\"")),
        // The id is known, but not with that many arguments.
        (call("Add(int, int)", &["2"]), not_found("Add")),
        (call("AddOne(int)", &[]), not_found("AddOne")),
    ]);
}

#[test]
fn a_request_of_a_version_without_ids_works_by_name() {
    let whole = encode(|out| request("Ping", 0, &[]).encode(out));
    // Seven members: what follows them is cut off with their lengths.
    let lengths = &whole[1..11];
    let size: usize = lengths[..7].iter().map(|length| usize::from(*length)).sum();
    let cut = [&[7], &lengths[..7], &whole[11..11 + size]].concat();
    for target in Target::all("") {
        let mut raw = Raw::authorized(target.port(), "");
        raw.send(&frame(&message(Kind::REQUEST, Some(cut.clone().into()))));
        assert_eq!(
            response(&raw.expect_frame()),
            ok("\"pong\""),
            "{}",
            target.name()
        );
    }
}

#[test]
fn accessors_of_events_are_answered_with_nothing() {
    let id = stable_id("Demo.IEcho#add_Progress(System.Action<System.Int32>)");
    let action = "System.Action`1[[System.Int32, System.Private.CoreLib]], System.Private.CoreLib";
    all_say(vec![
        (request("add_Progress", id, &[""]), void()),
        (by_name("remove_Progress", &[action], &[], &[""]), void()),
    ]);
}

#[test]
fn a_server_of_several_contracts_says_so() {
    let text = "Method not found on any registered service, method name: Nope";
    let expected = Response::error(status::BAD_REQUEST, text, None);
    let own = Own::with(Own::composite);
    assert_eq!(
        Raw::authorized(own.port, "").ask(&request("Nope", 0, &[])),
        expected
    );
    assert_eq!(
        Raw::authorized(own.port, "").ask(&call("Add(int, int)", &["2", "3"])),
        ok("5")
    );
    let run = stable_id("Demo.Outer+IInner#Run(Demo.Outer+Arg)");
    assert_eq!(
        Raw::authorized(own.port, "").ask(&request("Run", run, &["{\"X\":7}"])),
        ok("7")
    );
    if let Some(peer) = Peer::find() {
        let peer = peer.serve(&["--composite"]);
        assert_eq!(
            Raw::authorized(peer.port, "").ask(&request("Nope", 0, &[])),
            expected
        );
    }
}

#[test]
fn failures_have_the_texts_of_the_reference() {
    let failed = |details: &str| {
        Response::error(
            status::INTERNAL_SERVER_ERROR,
            "Failed to process request",
            Some(details.into()),
        )
    };
    let reflection = failed("Exception has been thrown by the target of an invocation.");
    let negative = "The value needs to be either -1 (signifying an infinite timeout), 0 or a positive \
                    integer. (Parameter 'millisecondsDelay')";
    let no_text = "Operation is not valid due to the current state of the object.";
    all_say(vec![
        (call("Fail(string)", &["\"boom\""]), reflection.clone()),
        (
            call("FailAsync(string)", &["\"boom\""]),
            failed("One or more errors occurred. (boom)"),
        ),
        (call("FailTaskAsync(string)", &["\"boom\""]), failed("boom")),
        (call("FailTaskAsync(string)", &["\"\""]), failed("")),
        (
            call("FailAsync(string)", &[""]),
            failed(&format!("One or more errors occurred. ({no_text})")),
        ),
        (call("FailTaskAsync(string)", &[""]), failed(no_text)),
        // A method that is not async throws before it gives back its task.
        (call("DelayAsync(int)", &["-2"]), reflection.clone()),
        (
            call("SlowAsync(int, int)", &["-2", "1"]),
            failed(&format!("One or more errors occurred. ({negative})")),
        ),
        (call("Slow(int, int)", &["-2", "1"]), reflection.clone()),
        (call("Overload(string)", &[""]), reflection),
    ]);
}

#[test]
fn results_are_written_as_the_reference_writes_them() {
    all_say(vec![
        (
            call("Add(int, int)", &["2147483647", "1"]),
            ok("-2147483648"),
        ),
        (call("AddOne(int)", &["2147483647"]), ok("-2147483648")),
        (call("CountUp(int)", &["2147483647"]), ok("2147483647")),
        (call("CountUp(int)", &["1"]), ok("-2147483648")),
        (call("Echo(string)", &[""]), void()),
        (call("Echo(string)", &["\"\""]), ok("\"\"")),
        (
            call("Echo(string)", &["\"<\u{e9}\u{1f600}\\/\""]),
            ok("\"\\u003C\\u00E9\\uD83D\\uDE00/\""),
        ),
        (call("Overload(string)", &["\"\u{1f600}\""]), ok("2")),
        (call("Overload(int, string)", &["5", ""]), ok("\"5\"")),
        (
            call("When(DateTime)", &["\"2026-11-30\""]),
            ok("\"2026-11-30T00:00:00\""),
        ),
        (
            call("When(DateTime)", &["\"2026-11-30T03:04Z\""]),
            ok("\"2026-11-30T03:04:00Z\""),
        ),
        (call("Span(TimeSpan)", &["\"1:2:3\""]), ok("\"01:02:03\"")),
        (call("Money(decimal)", &["1e2"]), ok("100")),
        (call("Money(decimal)", &["1.10"]), ok("1.10")),
        (call("Double(double)", &["1e17"]), ok("1E\u{2b}17")),
        (call("Single(float)", &["1e9"]), ok("1E\u{2b}09")),
        (
            call(
                "Find(System.Collections.Generic.List<int>)",
                &[" [ 1 ,\n2 ] "],
            ),
            ok("[1,2]"),
        ),
        (
            call("Pair((int, string))", &["{\"Item1\":1,\"Item2\":\"t\"}"]),
            ok("{}"),
        ),
        (
            call("Anything(object)", &["{ \"a\" : 1e5 }"]),
            ok("{\"a\":1e5}"),
        ),
        (call("Blob(byte[])", &["\"\""]), ok("\"\"")),
        (call("MaybeBool(bool?)", &[""]), void()),
        (call("DelayAsync(int)", &["0"]), void()),
        (call("Fire(string)", &["\"x\""]), void()),
        (
            call(
                "Describe(Person)",
                &["{\"Age\":3,\"Unknown\":1,\"Name\":\"a\",\"Name\":\"b\"}"],
            ),
            ok(
                "{\"Name\":\"b\",\"Age\":3,\"Favourite\":0,\"Home\":null,\"Tags\":null,\"Scores\":null,\
                \"Photo\":null,\"Born\":\"0001-01-01T00:00:00\",\"Height\":null}",
            ),
        ),
    ]);
}

/// The peer takes for null or zero what it can't read, and runs the method. Ours refuses before the
/// method begins, and says where.
#[test]
fn an_argument_that_can_not_be_read_is_refused_with_its_place() {
    let own = Own::start();
    let mut raw = Raw::authorized(own.port, "");
    for (request, text) in [
        (
            call("Add(int, int)", &["2", "\"x\""]),
            "argument 2 \"b\": a string where an int is expected (byte 0)",
        ),
        (
            call("Add(int, int)", &["2", ""]),
            "argument 2 \"b\": nothing where an int is expected",
        ),
        (call("Add(int, int)", &["2", "3 4"]), "argument 2 \"b\": "),
        (
            call("AddOne(int)", &["2147483648"]),
            "argument 1 \"a\": 2147483648 ",
        ),
        (
            call("When(DateTime)", &["\"tomorrow\""]),
            "argument 1 \"value\": not an ISO date",
        ),
        (
            call("Blob(byte[])", &["[1,2,3]"]),
            "argument 1 \"value\": an array where base64 is expected (byte 0)",
        ),
        (
            call("Describe(Person)", &["{\"Home\":{\"Zip\":\"8001\"}}"]),
            "argument 1 \"value\".Home.Zip: a string where an int is expected (byte 15)",
        ),
        (
            call("Strings(string[])", &["[\"a\",1]"]),
            "argument 1 \"value\"[1]: a number where a string is expected (byte 5)",
        ),
        (
            call("Echo(string)", &["\"\u{1}\""]),
            "argument 1 \"text\": ",
        ),
        (call("Echo(string)", &["'x'"]), "argument 1 \"text\": "),
        // By name, too many and too few: .NET ignores the one and calls the other a failure.
        (
            by_name("Add", &[INT, INT], &[], &["2"]),
            "Add takes 2 arguments and got 1",
        ),
        (
            by_name("Add", &[INT, INT], &[], &["2", "3", "4"]),
            "Add takes 2 arguments and got 3",
        ),
        (call("Ping()", &["1"]), "Ping takes 0 arguments and got 1"),
    ] {
        let answer = raw.ask(&request);
        assert_eq!(answer.status, status::BAD_REQUEST, "{text}: {answer:?}");
        let message = answer.error_message.unwrap();
        assert!(message.starts_with(text), "{message} is not {text}");
        assert_eq!((answer.data, answer.error_details), (None, None));
    }
    assert_eq!(own.executed(), 0);
    if let Some(peer) = Peer::find() {
        let peer = peer.serve(&[]);
        let answer = Raw::authorized(peer.port, "").ask(&call("Add(int, int)", &["2", "\"x\""]));
        assert_eq!(answer, ok("2"));
    }
}

#[test]
fn a_repeated_request_gets_the_same_answer_and_runs_once() {
    for target in Target::all("") {
        let mut raw = Raw::authorized(target.port(), "");
        for (request, expected) in [
            (call("CountUp(int)", &["1"]), ok("1")),
            (call("Fire(string)", &["\"x\""]), void()),
        ] {
            for _ in 0..3 {
                assert_eq!(raw.ask(&request), expected, "{}", target.name());
            }
        }
        let failing = call("FailTaskAsync(string)", &["\"boom\""]);
        let first = raw.ask(&failing);
        assert_eq!(raw.ask(&failing), first);
        assert_eq!(raw.ask(&call("Count()", &[])), ok("1"), "{}", target.name());
        // Without an id every request is a new one.
        let mut anonymous = call("CountUp(int)", &["1"]);
        anonymous.invocation_id = Uuid::nil();
        assert_eq!(raw.ask(&anonymous), ok("2"));
        assert_eq!(raw.ask(&anonymous), ok("3"));
    }
}

/// On another connection the peer has forgotten (weak spot 14); ours has not.
#[test]
fn a_repetition_on_another_connection_runs_once_on_our_server_and_twice_on_the_peer() {
    for target in Target::all("") {
        let request = call("CountUp(int)", &["1"]);
        let first = Raw::authorized(target.port(), "").ask(&request);
        let second = Raw::authorized(target.port(), "").ask(&request);
        assert_eq!(first, ok("1"));
        let expected = if target.is_ours() { "1" } else { "2" };
        assert_eq!(second, ok(expected), "{}", target.name());
    }
}

#[test]
fn a_twin_that_comes_while_the_call_runs_gets_its_answer() {
    let own = Own::start();
    let slow = call("SlowAsync(int, int)", &["200", "7"]);
    let mut first = Raw::authorized(own.port, "");
    let mut second = Raw::authorized(own.port, "");
    let messages: Vec<_> = (0..2)
        .map(|_| message(Kind::REQUEST, Some(encode(|out| slow.encode(out)))))
        .collect();
    first.send(&frame(&messages[0]));
    second.send(&frame(&messages[1]));
    for (raw, message) in [&mut first, &mut second].into_iter().zip(&messages) {
        let answer = raw.expect_frame();
        assert_eq!((answer.id, response(&answer)), (message.id, ok("7")));
    }
    assert_eq!(own.executed(), 1);
}

/// What was refused before it began is not remembered: the same id then runs (weak spots 15 and 16 of
/// the reference, whose first answer stands whatever it was).
#[test]
fn a_refusal_is_forgotten_and_an_id_belongs_to_one_call() {
    for target in Target::all("") {
        let good = call("CountUp(int)", &["1"]);
        let wrong_token = Request {
            token: Some("x".into()),
            ..good.clone()
        };
        let unknown = Request {
            method_id: 0,
            method_name: Some("Nope".into()),
            ..good.clone()
        };
        for refused in [wrong_token, unknown] {
            let mut raw = Raw::authorized(target.port(), "");
            let refusal = raw.ask(&refused);
            assert_ne!(refusal.status, status::OK);
            let answer = raw.ask(&good);
            if target.is_ours() {
                assert_eq!(answer, ok("1"));
            } else {
                assert_eq!(answer, refusal);
            }
        }
        let mut raw = Raw::authorized(target.port(), "");
        let first = call("Echo(string)", &["\"a\""]);
        assert_eq!(raw.ask(&first), ok("\"a\""));
        for (line, blobs) in [("Echo(string)", ["\"b\""]), ("Fire(string)", ["\"a\""])] {
            let other = Request {
                invocation_id: first.invocation_id,
                ..call(line, &blobs)
            };
            let answer = raw.ask(&other);
            if target.is_ours() {
                assert_eq!(answer.status, status::BAD_REQUEST);
                assert!(answer.error_message.unwrap().contains("invocation id"));
            } else {
                assert_eq!(answer, ok("\"a\""));
            }
        }
    }
}

#[test]
fn an_event_comes_before_the_answer_and_to_everybody_who_is_authorized() {
    for target in Target::all("") {
        let mut raiser = Raw::authorized(target.port(), "");
        let mut other = Raw::authorized(target.port(), "");
        let mut stranger = Raw::connect(target.port());
        let request = call("RaiseMany(int)", &["3"]);
        let raise = message(Kind::REQUEST, Some(encode(|out| request.encode(out))));
        raiser.send(&frame(&raise));
        let mut connection_ids = Vec::new();
        for raw in [&mut raiser, &mut other] {
            let mut ids = Vec::new();
            for n in 0..3 {
                let envelope = raw.expect_frame();
                assert_eq!(envelope.kind, Kind::CALLBACK, "{}", target.name());
                ids.push(envelope.id);
                let event = Request::decode(&envelope.data.unwrap()).unwrap().unwrap();
                assert_eq!(event.method_name.as_deref(), Some("Progress"));
                assert_eq!(event.parameters, Some(vec![Some(n.to_string().into())]));
                assert_eq!(event.token.as_deref(), Some(""));
                assert_eq!(
                    (event.contract_id, event.method_id),
                    (request.contract_id, 0)
                );
            }
            ids.dedup();
            assert_eq!(ids.len(), 1, "one id for all events of a connection");
            connection_ids.extend(ids);
        }
        assert_ne!(connection_ids[0], connection_ids[1]);
        assert_eq!(response(&raiser.expect_frame()), void());
        // The next thing that the stranger hears is the answer to its own first word.
        let hello = message(
            Kind::INITIALIZATION,
            Some(witrpc_conformance::raw::initialization()),
        );
        stranger.send(&frame(&hello));
        assert_eq!(stranger.expect_frame().id, hello.id);
    }
}

/// The reference takes one call of a connection after the other; ours only where it is told to.
#[test]
fn a_slow_call_holds_up_no_other_unless_the_server_is_ordered() {
    let slow_then_quick = |port: u16| {
        let mut raw = Raw::authorized(port, "");
        let requests = [
            call("SlowAsync(int, int)", &["300", "1"]),
            call("Ping()", &[]),
        ];
        let sent: Vec<_> = requests
            .iter()
            .map(|request| message(Kind::REQUEST, Some(encode(|out| request.encode(out)))))
            .collect();
        raw.send(&sent.iter().flat_map(frame).collect::<Vec<_>>());
        let order = [raw.expect_frame().id, raw.expect_frame().id];
        order == [sent[0].id, sent[1].id]
    };
    let own = Own::start();
    assert!(!slow_then_quick(own.port));
    let ordered = Own::with(|builder| builder.ordered_per_connection());
    assert!(slow_then_quick(ordered.port));
    if let Some(peer) = Peer::find() {
        assert!(slow_then_quick(peer.serve(&[]).port));
    }
}
