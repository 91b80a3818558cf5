//! To whom a server raises events: all, one, groups, principals.

use std::sync::{Arc, Mutex};

use uuid::Uuid;
use witrpc::ErrorCode;
use witrpc::client::{EventStream, Service};
use witrpc::server::Verdict;

use crate::raw::{event, server_of};
use crate::{CONTRACT, connect, contract, reconnecting, serve, soon, until};

async fn next(stream: &mut EventStream) -> i32 {
    let event = soon(stream.next()).await.unwrap();
    event.get::<(i32,)>().unwrap().0
}

async fn me(feed: &Service) -> Uuid {
    let id: String = feed.call("Me", ()).await.unwrap();
    id.parse().unwrap()
}

#[tokio::test]
async fn an_event_reaches_those_who_are_meant_and_nobody_else() {
    let (server, endpoint) = serve(|s| s).await;
    let (_a, a) = connect(&endpoint, |c| c).await;
    let (_b, b) = connect(&endpoint, |c| c).await;
    let (_c, c) = connect(&endpoint, |c| c).await;
    let mut streams = [&a, &b, &c].map(|feed| feed.events("Tick").unwrap());
    let (ids, publisher) = (
        [me(&a).await, me(&b).await, me(&c).await],
        server.publisher(),
    );
    a.call::<()>("Join", ("red",)).await.unwrap();
    b.call::<()>("Join", ("red",)).await.unwrap();
    b.call::<()>("Join", ("blue",)).await.unwrap();
    let mut expected = [vec![], vec![], vec![]];
    let mut n = 0;
    let mut raise = |to: &witrpc::server::Publisher, whom: &[usize]| {
        n += 1;
        assert_eq!(to.raise(CONTRACT, "Tick", (n,)).unwrap(), whom.len(), "{n}");
        whom.iter().for_each(|who| expected[*who].push(n));
    };
    raise(&publisher, &[0, 1, 2]);
    raise(&publisher.to_connection(ids[2]), &[2]);
    raise(
        &publisher.to_connections(&[ids[0], ids[1], ids[0]]),
        &[0, 1],
    );
    raise(&publisher.to_all_except(&[ids[0]]), &[1, 2]);
    raise(&publisher.to_group("red"), &[0, 1]);
    raise(&publisher.to_groups(&["red", "blue"]), &[0, 1]);
    raise(
        &publisher.to_groups_except(&["red", "blue"], &[ids[1]]),
        &[0],
    );
    raise(&publisher.to_group("no such group"), &[]);
    raise(&publisher.to_connection(Uuid::nil()), &[]);
    raise(&publisher.to_principal(""), &[0, 1, 2]);
    raise(&publisher.to_principal("nobody"), &[]);
    raise(&publisher.to_group("red").to_all(), &[0, 1, 2]);
    // By handlers, and by those who know an id.
    b.call::<()>("Leave", ("red",)).await.unwrap();
    raise(&publisher.to_group("red"), &[0]);
    assert_eq!(server.groups().add(ids[2], "red"), Ok(true));
    assert_eq!(server.groups().members("red").len(), 2);
    assert_eq!(
        server.groups().of(ids[2]),
        [std::sync::Arc::<str>::from("red")]
    );
    raise(&publisher.to_group("red"), &[0, 2]);
    assert!(server.groups().remove(ids[2], "red"));
    assert!(!server.groups().remove(ids[2], "red"));
    assert_eq!(server.groups().add(Uuid::nil(), "red"), Ok(false));
    raise(&publisher.to_group("red"), &[0]);
    for (whom, who, n) in [
        ("caller", &[0][..], 100),
        ("others", &[1, 2], 101),
        ("blue", &[1], 102),
    ] {
        a.call::<()>("Tell", (whom, n)).await.unwrap();
        who.iter().for_each(|who| expected[*who].push(n));
    }
    // Whoever got more than he should has it before this.
    publisher.raise(CONTRACT, "Tick", (-1,)).unwrap();
    for (stream, mut expected) in streams.iter_mut().zip(expected) {
        expected.push(-1);
        for n in expected {
            assert_eq!(next(stream).await, n);
        }
    }
}

#[tokio::test]
async fn a_principal_is_reached_on_all_its_connections_also_after_a_reconnection() {
    let (server, endpoint) = serve(|s| {
        s.validator(|credentials| match credentials.token {
            "" => Verdict::Refused,
            name => Verdict::Accepted(name.into()),
        })
    })
    .await;
    let (_ann, ann) = connect(&endpoint, |c| reconnecting(c).token("ann")).await;
    let (_twin, twin) = connect(&endpoint, |c| c.token("ann")).await;
    let (_bob, bob) = connect(&endpoint, |c| c.token("bob")).await;
    let mut streams = [&ann, &twin, &bob].map(|feed| feed.events("Tick").unwrap());
    let to_ann = server.publisher().to_principal("ann");
    assert_eq!(to_ann.raise(CONTRACT, "Tick", (1,)), Ok(2));
    let _ = ann.call::<()>("Cut", ()).await;
    // The old connection may still be on its way out.
    until(|| to_ann.raise(CONTRACT, "Tick", (2,)) == Ok(2) && server.stats().connections == 3)
        .await;
    server.publisher().raise(CONTRACT, "Tick", (3,)).unwrap();
    assert_eq!(
        (next(&mut streams[0]).await, next(&mut streams[0]).await),
        (1, 2)
    );
    assert_eq!(
        (next(&mut streams[1]).await, next(&mut streams[1]).await),
        (1, 2)
    );
    assert_eq!(next(&mut streams[2]).await, 3);
    let mut principals: Vec<_> = server
        .connections()
        .into_iter()
        .map(|c| c.principal)
        .collect();
    principals.sort();
    assert_eq!(principals, ["ann".into(), "ann".into(), Arc::from("bob")]);
}

#[tokio::test]
async fn connections_are_told_of_and_can_be_put_into_groups_before_their_first_call() {
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let (server, endpoint) = serve(|s| {
        let (told, ended) = (told.clone(), told.clone());
        s.validator(|credentials| match credentials.token {
            "bad" => Verdict::Refused,
            name => Verdict::Accepted(name.into()),
        })
        .on_connected(move |connection| {
            let name = connection.principal().to_owned();
            connection.join("everybody").unwrap();
            connection.join(&name).unwrap();
            connection.caller().raise(CONTRACT, "Tick", (7,)).unwrap();
            told.lock().unwrap().push(format!("{name} came"));
            assert!(name != "panic", "on purpose");
        })
        .on_disconnected(move |connection| {
            let (name, groups) = (connection.principal(), connection.groups());
            let reached = connection.caller().raise(CONTRACT, "Tick", (8,));
            assert_eq!(reached, Ok(0));
            ended
                .lock()
                .unwrap()
                .push(format!("{name} left {groups:?}"));
        })
    })
    .await;
    let (client, feed) = connect(&endpoint, |c| reconnecting(c).token("ann")).await;
    let mut stream = feed.events("Tick").unwrap();
    assert_eq!(server.groups().members("ann"), [me(&feed).await]);
    assert_eq!(
        server
            .publisher()
            .to_group("everybody")
            .raise(CONTRACT, "Tick", (1,)),
        Ok(1)
    );
    // The first of it was raised before the stream was there.
    let mut seen = next(&mut stream).await;
    if seen == 7 {
        seen = next(&mut stream).await;
    }
    assert_eq!(seen, 1);
    let before = me(&feed).await;
    let _ = feed.call::<()>("Cut", ()).await;
    assert_eq!(next(&mut stream).await, 7);
    until(|| server.stats().connections == 1).await;
    assert_eq!(server.groups().members("ann"), [me(&feed).await]);
    assert!(server.groups().of(before).is_empty());
    client.disconnect();
    until(|| server.stats().connections == 0).await;
    assert!(server.groups().members("everybody").is_empty());
    // A callback that panics harms nobody; who is refused is told of nowhere.
    let (client, feed) = connect(&endpoint, |c| c.token("panic")).await;
    assert_eq!(feed.call::<i32>("Add", (1, 2)).await, Ok(3));
    client.close();
    let refused = witrpc::client::Client::builder(&endpoint)
        .token("bad")
        .build()
        .unwrap();
    let error = refused.connect().await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::Unauthorized);
    until(|| server.stats().connections == 0).await;
    let left = "[\"ann\", \"everybody\"]";
    let told = told.lock().unwrap();
    assert_eq!(
        told[..2],
        ["ann came".to_owned(), format!("ann left {left}")]
    );
    assert_eq!(
        told[2..4],
        ["ann came".to_owned(), format!("ann left {left}")]
    );
    assert_eq!(
        told[4..],
        ["panic came", "panic left [\"everybody\", \"panic\"]"]
    );
}

#[tokio::test]
async fn a_raise_that_makes_no_sense_says_what_is_wrong() {
    let (server, _) = serve(|s| s).await;
    let publisher = server.publisher();
    for (contract, event, arguments, expected) in [
        ("Demo.INone", "Tick", "[1]", "no contract \"Demo.INone\""),
        (CONTRACT, "Tuck", "[1]", "event \"Tuck\""),
        (
            CONTRACT,
            "event Action<long> Tick",
            "[1]",
            "event \"event Action<long> Tick\"",
        ),
        (CONTRACT, "Tick", "[\"x\"]", "event Tick: event argument 1"),
        (CONTRACT, "Tick", "[]", "event Tick"),
        (CONTRACT, "Tick", "[1", "event Tick"),
    ] {
        let error = publisher
            .raise_json(contract, event, arguments)
            .unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidArgument);
        assert!(error.message().contains(expected), "{error}");
    }
    assert_eq!(publisher.raise_json(CONTRACT, "Nothing", "[]"), Ok(0));
}

#[tokio::test]
async fn names_of_types_on_the_wire_play_no_part() {
    let events = vec![
        event("Tick", &["1"], &["No.Such.Type"], &[]),
        event("Tick", &["2"], &[], &["No.Such.Type, No.Such.Assembly"]),
        event("Tick", &["3"], &[], &[]),
        event("Tick", &["4"], &["System.String"], &["System.String"]),
        // What does not fit the contract is an error of that event.
        event("Tick", &["\"five\""], &["System.Int32"], &[]),
        event("Tick", &["6", "6"], &[], &[]),
        event("Tick", &[], &[], &[]),
        event("tick", &["7"], &[], &[]),
        event("Tick", &["8"], &["System.Int32"], &[]),
    ];
    let endpoint = server_of(events);
    let client = witrpc::client::Client::builder(&endpoint).build().unwrap();
    let feed = client.service_of(contract());
    let mut stream = feed.events("Tick").unwrap();
    client.connect().await.unwrap();
    for n in 1..=4 {
        assert_eq!(next(&mut stream).await, n);
    }
    for _ in 5..=7 {
        let error = soon(stream.next()).await.unwrap().json().unwrap_err();
        assert_eq!(error.code(), ErrorCode::Protocol);
        assert!(error.message().contains("Tick"), "{error}");
        assert!(error.details().is_some(), "{error}");
    }
    assert_eq!(next(&mut stream).await, 8);
}

#[tokio::test]
async fn accessors_of_events_that_a_client_calls_change_nothing() {
    let (server, endpoint) = serve(|s| s).await;
    let (client, feed) = connect(&endpoint, |c| c).await;
    let mut stream = feed.events("Tick").unwrap();
    let open = client.service(CONTRACT).unwrap();
    for accessor in ["remove_Tick", "add_Tick", "add_Tick"] {
        let line = format!("void {accessor}(Action<int> value)");
        open.call::<()>(&line, (None::<i32>,)).await.unwrap();
    }
    // Neither none nor two.
    for n in 0..3 {
        assert_eq!(server.publisher().raise(CONTRACT, "Tick", (n,)).unwrap(), 1);
        assert_eq!(next(&mut stream).await, n);
    }
}
