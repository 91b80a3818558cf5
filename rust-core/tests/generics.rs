//! Generic methods and calls by name, between a client and a server of this library over a real
//! socket: with every codec, in both forms of type names, and with what a .NET server does not find.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use serde_json::{Value as Json, json};
use uuid::Uuid;
use witrpc::client::{Client, ClientBuilder, MethodLookup, RetryPolicy, Service, TypeNameForm};
use witrpc::codec::{Codec, Value};
use witrpc::contract::{Contract, TypeDecl};
use witrpc::server::{Server, ServerBuilder, ServiceBuilder};
use witrpc::{ErrorCode, Outcome};

const CODECS: [Codec; 4] = [
    Codec::Json,
    Codec::MemoryPack,
    Codec::MessagePack,
    Codec::Protobuf,
];

const NIL: &str = "00000000-0000-0000-0000-000000000000";

const LINES: [&str; 11] = [
    "T Same<T>(T v)",
    "Task<List<T>> Twice<T>(T v)",
    "T[] Arr<T>(T[] v)",
    "Dictionary<string, T> Mixed<T>(Dictionary<string, T> d)",
    "Dictionary<TKey, List<TValue[]>> Deep<TKey, TValue>(Dictionary<TKey, List<TValue[]>> d, string s)",
    "Box<T> Wrap<T>(T v)",
    "T? Maybe<T>(T? v) where T : struct",
    "string Over(List<int> x)",
    "string Over<T>(List<T> x)",
    "string Over<T>(T x)",
    "string None<T>()",
];

fn contract() -> Contract {
    let mut builder = Contract::builder("Demo.IGeneric")
        .assembly("Demo.Contracts")
        .declare(
            TypeDecl::class("Demo.Person")
                .memorypack()
                .messagepack()
                .protobuf()
                .member("string? Name")
                .member("int Age"),
        )
        .declare(
            TypeDecl::class("Demo.Box<T>")
                .memorypack()
                .messagepack()
                .protobuf()
                .member("T Value"),
        );
    for line in LINES {
        builder = builder.method(line);
    }
    builder.build().unwrap()
}

/// The service: most methods give back what they got, the others say what they were called as.
fn service() -> ServiceBuilder {
    LINES
        .iter()
        .fold(ServiceBuilder::new(contract()), |service, line| {
            service.handle_values(line, |call, mut arguments| async move {
                let method = call.method();
                Ok(match method.name() {
                    "Twice" => Value::List(vec![arguments[0].clone(), arguments[0].clone()]),
                    "Wrap" => {
                        let mut value = witrpc::codec::Object::default();
                        value.members.push(("Value".into(), arguments.remove(0)));
                        Value::Object(Box::new(value))
                    }
                    "Over" | "None" => Value::String(method.to_string()),
                    _ => arguments.remove(0),
                })
            })
        })
}

async fn serve(builder: ServerBuilder) -> (Server, String) {
    let server = builder.listen("tcp://127.0.0.1:0").start().await.unwrap();
    let endpoint = server.endpoints()[0].to_string();
    (server, endpoint)
}

async fn connect(builder: ClientBuilder, contract: Contract) -> Service {
    let client = builder.build().unwrap();
    client.connect().await.unwrap();
    client.service_of(contract)
}

#[tokio::test]
async fn generic_methods_take_and_give_values_of_their_types_in_every_codec_and_form() {
    let person = json!({"Name": "Ann", "Age": 3});
    let cases: Vec<(&str, Vec<Json>, Json)> = vec![
        ("Same<int>", vec![json!(5)], json!(5)),
        ("Same<string>", vec![json!("x")], json!("x")),
        ("Same<string>", vec![json!(null)], json!(null)),
        ("Same<Person>", vec![person.clone()], person.clone()),
        ("Same<int[]>", vec![json!([1, 2])], json!([1, 2])),
        (
            "Same<Box<Box<int>>>",
            vec![json!({"Value": {"Value": 7}})],
            json!({"Value": {"Value": 7}}),
        ),
        (
            "Twice<Person>",
            vec![person.clone()],
            json!([person, person]),
        ),
        ("Maybe<int>", vec![json!(7)], json!(7)),
        ("Maybe<Guid>", vec![json!(null)], json!(null)),
        ("Wrap<decimal>", vec![json!(1.5)], json!({"Value": 1.5})),
        // What a .NET server does not find (weak spot 25).
        ("Arr<int>", vec![json!([1, 2])], json!([1, 2])),
        ("Arr<Demo.Person>", vec![json!([person])], json!([person])),
        ("Mixed<int>", vec![json!({"a": 1})], json!({"a": 1})),
        (
            "Mixed<List<Person>>",
            vec![json!({"a": [person]})],
            json!({"a": [person]}),
        ),
        (
            "Deep<int, Person>",
            vec![json!({"5": [[person], []]}), json!("s")],
            json!({"5": [[person], []]}),
        ),
        (
            "Over(List<int>)",
            vec![json!([1])],
            json!("string Over(List<int> x)"),
        ),
        (
            "Over<int>(List<int>)",
            vec![json!([1])],
            json!("string Over<int>(List<int> x)"),
        ),
        (
            "Over<int>(int)",
            vec![json!(1)],
            json!("string Over<int>(int x)"),
        ),
        (
            "Over<List<int>>(List<int>)",
            vec![json!([1])],
            json!("string Over<List<int>>(List<int> x)"),
        ),
        (
            "None<Dictionary<string, int>>",
            vec![],
            json!("string None<Dictionary<string, int>>()"),
        ),
    ];
    for codec in CODECS {
        let (_server, endpoint) = serve(Server::builder().codec(codec).service(service())).await;
        for form in [TypeNameForm::Weak, TypeNameForm::Strong] {
            let builder = Client::builder(&endpoint).codec(codec).type_names(form);
            let generic = connect(builder, contract()).await;
            for (line, arguments, expected) in &cases {
                // protobuf-net has no lists of lists.
                if codec == Codec::Protobuf && line.starts_with("Deep") {
                    continue;
                }
                let place = format!("{codec:?} {form:?} {line} {arguments:?}");
                let arguments = serde_json::to_string(arguments).unwrap();
                let call = generic.call_json::<()>(line, &arguments);
                let result = call.json().await.unwrap_or_else(|e| panic!("{place}: {e}"));
                let result: Json = serde_json::from_str(&result).unwrap();
                assert_eq!(&result, expected, "{place}");
            }
        }
    }
}

#[tokio::test]
async fn lines_alone_are_enough_without_a_declaration() {
    let service = ServiceBuilder::open("Demo.IGeneric")
        .handle("T Echo<T>(T value)", |call, (value,): (Json,)| async move {
            assert_eq!(call.type_arguments().len(), 1);
            Ok(json!({"type": call.type_arguments()[0].to_string(), "value": value}))
        })
        .handle_json(
            "object All<T>(Dictionary<string, T[]> all)",
            |_, json| async move { Ok(json) },
        );
    let service = service.handle_blobs("T Raw<T>(T value)", |_, blobs| async move {
        Ok(blobs.into_iter().next())
    });
    let (_server, endpoint) = serve(Server::builder().service(service)).await;
    let client = Client::builder(&endpoint).build().unwrap();
    client.connect().await.unwrap();
    let open = client.service("Demo.IGeneric").unwrap();
    let echo: Result<Json, _> = open.call("object Echo<int>(int value)", (5,)).await;
    // The result is none of the declared type: the handler is asked to keep to it.
    assert_eq!(echo.unwrap_err().code(), ErrorCode::Remote);
    let raw: String = open
        .call("T Raw<T>(T v) where T = string", ("x",))
        .await
        .unwrap();
    assert_eq!(raw, "x");
    let all: Json = open
        .call(
            "All<Guid>(Dictionary<string, Guid[]>)",
            (json!({"a": [NIL]}),),
        )
        .await
        .unwrap();
    assert_eq!(all, json!([{"a": [NIL]}]));

    // What a caller can get wrong is told before anything is sent.
    for (line, text) in [
        ("T Raw<T>(T v)", "no type is given for T of Raw"),
        (
            "Raw<Preson>(Preson v)",
            "no type is given for Preson of Raw",
        ),
        (
            "Raw<Demo.Person>(Demo.Person v)",
            "the assembly of Demo.Person is not known",
        ),
        (
            "Raw<int>",
            "expected the types of the parameters: Raw<int>(...)",
        ),
    ] {
        let error = open.call::<Json>(line, ("x",)).await.unwrap_err();
        assert_eq!(error.outcome(), Outcome::NotSent, "{line}: {error}");
        assert!(error.message().contains(text), "{line}: {error}");
    }
    let error = open
        .call::<i32>("int Raw<int>(int v)", ("x",))
        .await
        .unwrap_err();
    assert_eq!(error.code(), ErrorCode::InvalidArgument);
    // What only the server can know.
    for line in [
        "int Raw<int>(string v)",
        "int Raw<int, int>(int v)",
        "string Raw(string v)",
    ] {
        let error = open.call::<Json>(line, (json!("1"),)).await;
        let error = match line.starts_with("int Raw<int, int>") {
            true => open.call::<Json>(line, (1,)).await.unwrap_err(),
            false => error.unwrap_err(),
        };
        assert_eq!(error.code(), ErrorCode::BadRequest, "{line}: {error}");
        assert_eq!(
            error.message(),
            "Method not found on service, method name: Raw"
        );
    }
}

#[tokio::test]
async fn a_handler_is_for_the_open_method_and_there_is_one() {
    let start = |service: ServiceBuilder| async move {
        let server = Server::builder()
            .listen("tcp://127.0.0.1:0")
            .service(service);
        server.start().await.map(drop).unwrap_err().to_string()
    };
    let echo = |service: ServiceBuilder, line: &str| {
        service.handle_values(
            line,
            |_, mut arguments| async move { Ok(arguments.remove(0)) },
        )
    };
    let open = || ServiceBuilder::open("Demo.IGeneric");
    let error = start(echo(open(), "int Echo<int>(int v)")).await;
    assert!(
        error.contains("int Echo<int>(int v) has type arguments, but a handler is for all of them"),
        "{error}"
    );
    let error = start(echo(echo(open(), "T Echo<T>(T v)"), "U Echo<U>(U w)")).await;
    assert!(error.contains("it has a handler already"), "{error}");
    let error = start(echo(echo(open(), "int F(int[] v)"), "int F(int[,] v)")).await;
    assert!(
        error.contains(
            "it has the same id as int F(int[] v), so that clients can't tell them apart"
        ),
        "{error}"
    );
}

#[tokio::test]
async fn ordinary_methods_travel_by_name_where_asked_for() {
    // A contract of which nothing but the name is known: what is registered counts, not what is
    // listed.
    let service = ServiceBuilder::open("Demo.IEcho")
        .handle(
            "int Add(int a, int b)",
            |_, (a, b): (i32, i32)| async move { Ok(a + b) },
        )
        .handle("int Over(int a)", |_, (a,): (i32,)| async move { Ok(a) })
        .handle("int Over(string a)", |_, (a,): (String,)| async move {
            Ok(a.len())
        })
        .handle(
            "int? Maybe(List<(int, string)?> a)",
            |_, (_,): (Json,)| async move { Ok(None::<i32>) },
        )
        .handle("string ref_(ref int a)", |_, (a,): (i32,)| async move {
            Ok(a.to_string())
        })
        // Without an id: .NET's would change with the version of its runtime.
        .handle(
            "int Refs(ref List<int> a)",
            |_, (a,): (Vec<i32>,)| async move { Ok(a.len()) },
        );
    let (_server, endpoint) = serve(Server::builder().service(service)).await;
    for form in [TypeNameForm::Weak, TypeNameForm::Strong] {
        for lookup in [MethodLookup::Id, MethodLookup::IdOrName, MethodLookup::Name] {
            let builder = Client::builder(&endpoint)
                .type_names(form)
                .method_lookup(lookup);
            let echo = connect(builder, Contract::open("Demo.IEcho").unwrap()).await;
            let place = format!("{form:?} {lookup:?}");
            let sum: i32 = echo.call("int Add(int, int)", (2, 3)).await.expect(&place);
            let int: i32 = echo.call("int Over(int)", (2,)).await.expect(&place);
            let text: i32 = echo
                .call("int Over(string)", ("five",))
                .await
                .expect(&place);
            let none: Option<i32> = echo
                .call("int? Maybe(List<(int, string)?>)", (json!([null]),))
                .await
                .expect(&place);
            let by_ref: String = echo.call("string ref_(ref int)", (7,)).await.expect(&place);
            let refs: i32 = echo
                .call("int Refs(ref List<int>)", (vec![1, 2],))
                .await
                .expect(&place);
            assert_eq!(refs, 2);
            assert_eq!(
                (sum, int, text, none, &*by_ref),
                (5, 2, 4, None, "7"),
                "{place}"
            );
        }
    }
    let echo = connect(
        Client::builder(&endpoint),
        Contract::open("Demo.IEcho").unwrap(),
    )
    .await;
    let sum: i32 = echo
        .call("int Add(int, int)", (2, 3))
        .lookup(MethodLookup::Name)
        .await
        .unwrap();
    assert_eq!(sum, 5);
    // The id is that of another contract: only its name can be found.
    let base = connect(
        Client::builder(&endpoint),
        Contract::open("Demo.IEchoBase").unwrap(),
    )
    .await;
    let by_id = base.call::<i32>("int Add(int, int)", (2, 3)).await;
    assert_eq!(by_id.unwrap_err().code(), ErrorCode::BadRequest);
    let with_names = base
        .call::<i32>("int Add(int, int)", (2, 3))
        .lookup(MethodLookup::IdOrName);
    assert_eq!(with_names.await.unwrap(), 5);
}

/// Two generic methods are two calls, however alike their arguments are; and the same one is the
/// same.
#[tokio::test]
async fn a_repeated_generic_call_runs_once_and_another_one_is_told_from_it() {
    let executed = Arc::new(AtomicUsize::new(0));
    let count = executed.clone();
    let (_server, endpoint) = serve(Server::builder().service(service()).on_execute(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
    }))
    .await;
    let generic = connect(Client::builder(&endpoint), contract()).await;
    let id = Uuid::from_u128(7);
    for _ in 0..3 {
        let same: i32 = generic
            .call("Same<int>", (5,))
            .invocation_id(id)
            .await
            .unwrap();
        assert_eq!(same, 5);
    }
    assert_eq!(executed.load(Ordering::SeqCst), 1);
    let error = generic
        .call::<i64>("Same<long>", (5,))
        .invocation_id(id)
        .await
        .unwrap_err();
    assert_eq!(error.code(), ErrorCode::BadRequest);
    assert!(error.message().contains("invocation id"), "{error}");
    assert_eq!(executed.load(Ordering::SeqCst), 1);
}

/// A mark of the retry policy by the open line stands for all type arguments.
#[tokio::test]
async fn the_retry_policy_knows_generic_methods_by_their_open_line() {
    let refusals = Arc::new(Mutex::new(Vec::new()));
    let seen = refusals.clone();
    let service = ServiceBuilder::open("Demo.IGeneric");
    let service = ["T Echo<T>(T v)", "T Other<T>(T v)"]
        .iter()
        .fold(service, |service, line| {
            let seen = seen.clone();
            service.handle_values(line, move |call, mut arguments| {
                let mut seen = seen.lock().unwrap();
                seen.push(call.method().to_string());
                let first = seen.len() == 1;
                async move {
                    match first {
                        true => Err(witrpc::server::Fault::overloaded("not now")),
                        false => Ok(arguments.remove(0)),
                    }
                }
            })
        });
    let (_server, endpoint) = serve(Server::builder().service(service)).await;
    let policy = RetryPolicy::new()
        .initial_delay(std::time::Duration::from_millis(1))
        .mark_idempotent(["U Echo<U>(U value)"]);
    let open = Contract::open("Demo.IGeneric").unwrap();
    let generic = connect(Client::builder(&endpoint).retry(policy), open).await;
    let line = "int Echo<int>(int v)";
    assert_eq!(generic.call::<i32>(line, (5,)).await.unwrap(), 5);
    assert_eq!(refusals.lock().unwrap().len(), 2);
    refusals.lock().unwrap().clear();
    let other = generic.call::<i32>("int Other<int>(int v)", (5,)).await;
    assert_eq!(other.unwrap_err().code(), ErrorCode::Overloaded);
    assert_eq!(refusals.lock().unwrap().len(), 1);
}

/// .NET's proxy takes these for accessors of events (weak spot 28).
#[tokio::test]
async fn methods_that_look_like_event_accessors_are_methods() {
    let service = ServiceBuilder::open("Demo.IShop")
        .handle(
            "int add_Item(int n)",
            |_, (n,): (i32,)| async move { Ok(n + 1) },
        )
        .handle("T remove_Item<T>(T n)", |_, (n,): (i32,)| async move {
            Ok(n - 1)
        });
    let (_server, endpoint) = serve(Server::builder().service(service)).await;
    let shop = connect(
        Client::builder(&endpoint),
        Contract::open("Demo.IShop").unwrap(),
    )
    .await;
    let added: i32 = shop.call("int add_Item(int n)", (1,)).await.unwrap();
    let removed: i32 = shop
        .call("int remove_Item<int>(int n)", (1,))
        .await
        .unwrap();
    assert_eq!((added, removed), (2, 0));
}

/// A blob handler gets as many blobs as its method has parameters, however the call came.
#[tokio::test]
async fn blobs_are_counted_too() {
    let service = ServiceBuilder::open("Demo.IEcho")
        .handle_blobs("string Echo(string text)", |_, blobs| async move {
            Ok(Some(Bytes::from(format!("\"{}\"", blobs.len()))))
        });
    let (_server, endpoint) = serve(Server::builder().service(service)).await;
    let echo = connect(
        Client::builder(&endpoint),
        Contract::open("Demo.IEcho").unwrap(),
    )
    .await;
    for (blobs, expected) in [
        (vec!["1"], None),
        (vec![], Some("Echo takes 1 argument and got 0")),
        (vec!["1", "2"], Some("Echo takes 1 argument and got 2")),
    ] {
        let arguments = witrpc::wire::Arguments::from_blobs(&blobs);
        let answer = echo
            .call_encoded::<()>("string Echo(string text)", arguments)
            .lookup(MethodLookup::Name)
            .encoded()
            .await;
        match expected {
            None => assert_eq!(answer.unwrap().data.as_deref(), Some(&b"\"1\""[..])),
            Some(text) => assert_eq!(answer.unwrap_err().message(), text),
        }
    }
}
