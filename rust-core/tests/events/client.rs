//! Subscriptions: order, queues, handlers that misbehave.

use std::pin::Pin;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_core::Stream;
use witrpc::client::EventStream;
use witrpc::resilience::engine::State;
use witrpc::{EventQueueOptions, Overflow};

use crate::{connect, reconnecting, serve, soon, until};

fn queue(max_events: usize, overflow: Overflow) -> EventQueueOptions {
    EventQueueOptions {
        max_events,
        overflow,
        ..EventQueueOptions::client()
    }
}

/// What waits in a stream.
async fn ticks(stream: &mut EventStream, count: usize) -> Vec<i64> {
    let mut seen = Vec::new();
    for _ in 0..count {
        let event = soon(stream.next()).await.unwrap();
        seen.push(event.get::<(i64,)>().unwrap().0);
    }
    seen
}

#[tokio::test(flavor = "multi_thread")]
async fn events_of_several_kinds_come_in_the_order_in_which_they_were_raised() {
    let (_server, endpoint) = serve(|s| s).await;
    let (_client, feed) = connect(&endpoint, |c| c).await;
    // To one stream, and to handlers of their own, which share a client.
    let both = ["Tick", "event Action<string> Tock", "Tick"];
    let mut stream = feed.subscribe(both).unwrap().stream();
    let handled: Arc<Mutex<Vec<String>>> = Arc::default();
    let _handlers = ["Tock", "Tick"].map(|name| {
        let handled = handled.clone();
        feed.on_event(name, move |event| {
            handled.lock().unwrap().push(event.json().unwrap());
        })
        .unwrap()
    });
    feed.call::<()>("Mixed", (500,)).await.unwrap();
    let expected: Vec<_> = (0..500)
        .map(|n| match n % 2 {
            0 => format!("[{n}]"),
            _ => format!("[\"{n}\"]"),
        })
        .collect();
    for (n, arguments) in expected.iter().enumerate() {
        let event = soon(stream.next()).await.unwrap();
        assert_eq!(event.name(), ["Tick", "Tock"][n % 2]);
        assert_eq!(event.json().unwrap(), *arguments);
    }
    until(|| handled.lock().unwrap().len() == 500).await;
    assert_eq!(*handled.lock().unwrap(), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_that_blocks_holds_up_its_own_events_only() {
    let (_server, endpoint) = serve(|s| s).await;
    let (_client, feed) = connect(&endpoint, |c| {
        c.handler_patience(Some(Duration::from_millis(10)))
    })
    .await;
    let (_other, others) = connect(&endpoint, |c| c).await;
    let (go, gate) = mpsc::channel::<()>();
    let gate = Mutex::new(gate);
    let (sender, seen) = mpsc::channel();
    let blocked = feed
        .on_event("Tick", {
            let sender = sender.clone();
            move |event| {
                let (n,) = event.get::<(i64,)>().unwrap();
                sender.send(format!("slow {n}")).unwrap();
                if n == 0 {
                    gate.lock().unwrap().recv().unwrap();
                }
            }
        })
        .unwrap();
    let _quick = feed
        .on_event("Tock", move |event| {
            sender.send(event.get::<(String,)>().unwrap().0).unwrap();
        })
        .unwrap();
    let mut stream = feed.events("Tick").unwrap();
    let mut theirs = others.events("Tick").unwrap();
    feed.call::<()>("Mixed", (10,)).await.unwrap();
    let next = || seen.recv_timeout(Duration::from_secs(30)).unwrap();
    assert_eq!(next(), "slow 0");
    // Everything goes on beside it: handlers, streams, calls and their callbacks, other clients.
    let quick: Vec<_> = (0..5).map(|_| next()).collect();
    assert_eq!(quick, ["1", "3", "5", "7", "9"]);
    assert_eq!(ticks(&mut stream, 5).await, [0, 2, 4, 6, 8]);
    assert_eq!(ticks(&mut theirs, 5).await, [0, 2, 4, 6, 8]);
    let sum: i32 = soon(feed.call("Add", (2, 3)).into_future()).await.unwrap();
    assert_eq!(sum, 5);
    let (done, ended) = mpsc::channel();
    let call = feed.call::<i32>("Add", (2, 3));
    let _cancel = call.spawn_json(move |sum| done.send(sum.unwrap()).unwrap());
    let sum = ended.recv_timeout(Duration::from_secs(30)).unwrap();
    assert_eq!(sum, "5");
    assert_eq!(blocked.stats().waiting, 4);
    // Then its own come, in order.
    go.send(()).unwrap();
    let slow: Vec<_> = (0..4).map(|_| next()).collect();
    assert_eq!(slow, ["slow 2", "slow 4", "slow 6", "slow 8"]);
    let stats = blocked.stats();
    assert_eq!((stats.delivered, stats.dropped, stats.waiting), (5, 0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_that_panics_is_counted_and_gets_the_next_event() {
    let (_server, endpoint) = serve(|s| s).await;
    let (_client, feed) = connect(&endpoint, |c| c).await;
    let (sender, seen) = mpsc::channel();
    let panicking = feed.on_event("Tick", |_| panic!("on purpose")).unwrap();
    let half = feed
        .on_event("Tick", move |event| {
            let (n,) = event.get::<(i64,)>().unwrap();
            assert!(n % 2 == 1, "on purpose");
            sender.send(n).unwrap();
        })
        .unwrap();
    feed.call::<()>("Raise", (6,)).await.unwrap();
    let next = || seen.recv_timeout(Duration::from_secs(30)).unwrap();
    assert_eq!((next(), next(), next()), (1, 3, 5));
    assert_eq!(half.stats().panics, 3);
    until(|| panicking.stats().panics == 6).await;
    assert_eq!(panicking.stats().delivered, 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_fit_a_queue_is_dropped_as_its_policy_says_and_counted() {
    let (_server, endpoint) = serve(|s| s).await;
    let (_client, feed) = connect(&endpoint, |c| {
        c.event_queue(queue(3, Overflow::DropNewest))
            .handler_patience(None)
    })
    .await;
    let subscribe = || feed.subscribe(["Tick"]).unwrap();
    let mut oldest = subscribe()
        .queue(queue(3, Overflow::DropOldest))
        .unwrap()
        .stream();
    // The client's own default.
    let mut newest = subscribe().stream();
    let mut all = subscribe()
        .queue(EventQueueOptions::client())
        .unwrap()
        .stream();
    let (go, gate) = mpsc::channel::<()>();
    let (gate, (sender, seen)) = (Mutex::new(gate), mpsc::channel());
    let handler = subscribe()
        .queue(queue(2, Overflow::DropOldest))
        .unwrap()
        .handler(move |event| {
            sender.send(event.get::<(i64,)>().unwrap().0).unwrap();
            gate.lock().unwrap().recv().unwrap();
        });
    // The first event is in the handler, so that what is queued behind it is known.
    feed.call::<()>("Raise", (1,)).await.unwrap();
    let next = || seen.recv_timeout(Duration::from_secs(30)).unwrap();
    assert_eq!(next(), 0);
    for stream in [&mut oldest, &mut newest, &mut all] {
        assert_eq!(ticks(stream, 1).await, [0]);
    }
    feed.call::<()>("Raise", (10,)).await.unwrap();
    assert_eq!(ticks(&mut all, 10).await, (0..10).collect::<Vec<_>>());
    assert_eq!(ticks(&mut oldest, 3).await, [7, 8, 9]);
    assert_eq!(ticks(&mut newest, 3).await, [0, 1, 2]);
    assert_eq!(
        [
            oldest.dropped(),
            newest.dropped(),
            all.dropped(),
            handler.dropped()
        ],
        [7, 7, 0, 8]
    );
    for _ in 0..3 {
        go.send(()).unwrap();
    }
    assert_eq!((next(), next()), (8, 9));
    until(|| handler.stats().delivered == 3).await;
    assert_eq!(handler.stats().waiting, 0);
    assert!(subscribe().queue(queue(0, Overflow::DropOldest)).is_err());
    assert!(feed.subscribe([]).is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_that_asks_for_it_drops_the_link_and_the_client_comes_back() {
    let (_server, endpoint) = serve(|s| s).await;
    let (sender, reconnected) = mpsc::channel();
    let (client, feed) = connect(&endpoint, |c| {
        reconnecting(c).on_reconnected(move || sender.send(()).unwrap())
    })
    .await;
    let mut stream = feed
        .subscribe(["Tick"])
        .unwrap()
        .queue(queue(3, Overflow::Disconnect))
        .unwrap()
        .stream();
    // The call may lose its answer with the link.
    let _ = feed.call::<()>("Raise", (4,)).await;
    reconnected.recv_timeout(Duration::from_secs(30)).unwrap();
    assert_eq!(client.stats().reconnects, 1);
    let why = client.last_failure().unwrap();
    assert!(why.message().contains("Tick"), "{why}");
    assert_eq!(
        (ticks(&mut stream, 3).await, stream.dropped()),
        (vec![0, 1, 2], 1)
    );
    // The subscription goes on.
    feed.call::<()>("Raise", (3,)).await.unwrap();
    assert_eq!(ticks(&mut stream, 3).await, [0, 1, 2]);
    // Without reconnection the client stays disconnected.
    let (client, feed) = connect(&endpoint, |c| c).await;
    let _stream = feed
        .subscribe(["Tick"])
        .unwrap()
        .queue(queue(1, Overflow::Disconnect))
        .unwrap()
        .stream();
    let _ = feed.call::<()>("Raise", (2,)).await;
    soon(client.wait_for(State::Disconnected)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_blocked_handler_keeps_no_more_than_its_queue() {
    let (_server, endpoint) = serve(|s| s).await;
    let (client, feed) = connect(&endpoint, |c| c.handler_patience(None)).await;
    let (go, gate) = mpsc::channel::<()>();
    let gate = Mutex::new(gate);
    let handler = feed
        .subscribe(["Tick"])
        .unwrap()
        .queue(queue(10, Overflow::DropOldest))
        .unwrap()
        .handler(move |_| gate.lock().unwrap().recv().unwrap());
    for _ in 0..10 {
        feed.call::<()>("Raise", (2_000,)).await.unwrap();
    }
    until(|| handler.stats().dropped == 20_000 - 11).await;
    assert_eq!(handler.stats().waiting, 10);
    // Ending a subscription ends what waits; the handler that runs is let go.
    drop(handler);
    go.send(()).unwrap();
    let dispatcher = client.dispatcher().clone();
    let idle = tokio::task::spawn_blocking(move || dispatcher.wait_idle(Duration::from_secs(30)));
    assert!(idle.await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn handlers_may_end_their_own_subscription_and_make_calls() {
    let (_server, endpoint) = serve(|s| s).await;
    let (client, feed) = connect(&endpoint, |c| c).await;
    let (sender, seen) = mpsc::channel();
    let own: Arc<Mutex<Option<witrpc::client::Subscription>>> = Arc::default();
    let subscription = feed
        .on_event("Tick", {
            let (own, feed) = (Arc::downgrade(&own), feed.clone());
            let runtime = tokio::runtime::Handle::current();
            move |event| {
                let (n,) = event.get::<(i64,)>().unwrap();
                let call = feed.call::<i64>("Add", (n, 100));
                sender
                    .send(runtime.block_on(call.into_future()).unwrap())
                    .unwrap();
                if n == 1 {
                    drop(own.upgrade().unwrap().lock().unwrap().take());
                }
            }
        })
        .unwrap();
    *own.lock().unwrap() = Some(subscription);
    feed.call::<()>("Raise", (5,)).await.unwrap();
    let next = || seen.recv_timeout(Duration::from_secs(30));
    assert_eq!((next(), next()), (Ok(100), Ok(101)));
    let dispatcher = client.dispatcher().clone();
    let idle = tokio::task::spawn_blocking(move || dispatcher.wait_idle(Duration::from_secs(30)));
    assert!(idle.await.unwrap());
    assert!(seen.try_recv().is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_is_a_stream_and_ends_with_its_client() {
    let (_server, endpoint) = serve(|s| s).await;
    let (client, feed) = connect(&endpoint, |c| c).await;
    let mut stream = feed.events("event Action<int> Tick").unwrap();
    let waiting = tokio::spawn(async move {
        let mut seen = 0;
        while let Some(event) = std::future::poll_fn(|cx| Pin::new(&mut stream).poll_next(cx)).await
        {
            assert_eq!(event.get::<(i32,)>().unwrap(), (seen,));
            seen += 1;
        }
        seen
    });
    feed.call::<()>("Raise", (3,)).await.unwrap();
    client.close();
    assert_eq!(soon(waiting).await.unwrap(), 3);
}
