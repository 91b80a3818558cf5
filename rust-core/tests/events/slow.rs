//! Clients that do not read as fast as events come.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use witrpc::client::EventStream;
use witrpc::security::ClientKey;
use witrpc::server::{Server, ServerBuilder, ServerLimits};
use witrpc::{EventQueueOptions, Overflow};

use crate::raw::{Got, RawClient};
use crate::{CONTRACT, connect, serve, soon, until};

const ROOM: usize = 100;

/// Raises events until `enough`, each numbered, none faster than a healthy client reads.
async fn flood(server: &Server, healthy: &mut EventStream, enough: impl Fn() -> bool) -> i64 {
    let publisher = server.publisher();
    let mut raised = 0;
    while !enough() {
        for n in raised..raised + 500 {
            publisher.raise(CONTRACT, "Tick", (n,)).unwrap();
        }
        for n in raised..raised + 500 {
            let event = soon(healthy.next()).await.unwrap();
            assert_eq!(event.get::<(i64,)>().unwrap(), (n,));
        }
        raised += 500;
        assert!(raised < 1_000_000, "the server keeps everything");
    }
    raised
}

/// Reads on a thread where that may block.
async fn read(mut client: RawClient) -> (Vec<i64>, Got, RawClient) {
    let reading = tokio::task::spawn_blocking(move || {
        let (events, end) = client.read();
        (events, end, client)
    });
    soon(reading).await.unwrap()
}

async fn a_slow_reader_costs_events(overflow: Overflow, key: Option<Arc<ClientKey>>) {
    let queue = EventQueueOptions {
        max_events: ROOM,
        overflow,
        ..EventQueueOptions::server()
    };
    let is_encrypted = key.is_some();
    // A client that reads nothing answers no pings, either.
    let limits = ServerLimits {
        keep_alive: None,
        ..ServerLimits::default()
    };
    let options = |s: ServerBuilder| s.event_queue(queue).encryption(is_encrypted);
    let (server, endpoint) = serve(|s| options(s).limits(limits)).await;
    let (_client, feed) = connect(&endpoint, |c| c.encryption(is_encrypted)).await;
    let mut healthy = feed.events("Tick").unwrap();
    let mut slow = RawClient::connect(&endpoint, "", key);
    let dropped = || server.stats().events_dropped;
    let raised = flood(&server, &mut healthy, || dropped() > 1_000).await;
    // An answer waits behind the events that it was raised behind.
    slow.ask();
    until(|| server.stats().executed == 1).await;
    let infos = server.connections();
    let info = infos.iter().find(|info| info.events_dropped > 0).unwrap();
    // The network may take a little more at any moment: how much waits is not exact.
    assert!(info.events_waiting <= ROOM, "{} wait", info.events_waiting);
    assert_eq!(info.events_dropped, dropped());
    assert_eq!(server.stats().slow_clients_closed, 0);

    // Every message opens, though some that would have stood between them were never sent.
    let (events, end, mut slow) = read(slow).await;
    assert_eq!(end, Got::Answer);
    assert_eq!(events.len() as u64 + dropped(), raised as u64);
    assert!(events.is_sorted_by(|a, b| a < b), "in order, none twice");
    let missing = (0..raised).find(|n| events.get(*n as usize) != Some(n));
    let (until_full, last) = (missing.unwrap(), *events.last().unwrap());
    match overflow {
        // What is lost had waited longest: the queue that is left ends with the latest.
        Overflow::DropOldest => {
            let rest = &events[events.len() - ROOM..];
            assert_eq!(rest, (raised - ROOM as i64..raised).collect::<Vec<_>>());
        }
        // What is lost came last: what waited at that moment was sent, without a gap.
        _ => assert!(until_full > ROOM as i64 && last < raised, "{until_full}"),
    }

    // And it is served as before.
    server.publisher().raise(CONTRACT, "Tick", (-1,)).unwrap();
    slow.ask();
    let (events, end, _slow) = read(slow).await;
    assert_eq!((events, end), (vec![-1], Got::Answer));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_reader_loses_the_oldest_events_and_nobody_else_any() {
    a_slow_reader_costs_events(Overflow::DropOldest, None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_reader_loses_the_newest_events_and_nobody_else_any() {
    a_slow_reader_costs_events(Overflow::DropNewest, None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dropped_events_leave_no_gap_in_the_seal_of_a_connection() {
    let key = Arc::new(ClientKey::generate().unwrap());
    a_slow_reader_costs_events(Overflow::DropOldest, Some(key.clone())).await;
    a_slow_reader_costs_events(Overflow::DropNewest, Some(key)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_reader_is_closed_where_no_event_may_be_lost() {
    for by_bytes in [false, true] {
        let (server, endpoint) = serve(|s| match by_bytes {
            // What is left to the defaults is bounded by what a client may leave unread.
            true => s.limits(ServerLimits {
                max_unsent_bytes: 200_000,
                ..ServerLimits::default()
            }),
            false => s.event_queue(EventQueueOptions {
                max_events: ROOM,
                ..EventQueueOptions::server()
            }),
        })
        .await;
        let (_client, feed) = connect(&endpoint, |c| c).await;
        let mut healthy = feed.events("Tick").unwrap();
        let slow = RawClient::connect(&endpoint, "", None);
        let closed = || server.stats().slow_clients_closed == 1;
        flood(&server, &mut healthy, closed).await;
        until(|| server.stats().connections == 1).await;
        assert_eq!(server.stats().events_dropped, 0);
        let (events, end, _) = read(slow).await;
        assert_eq!(end, Got::End);
        assert_eq!(events, (0..events.len() as i64).collect::<Vec<_>>());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_burst_within_the_bounds_reaches_a_client_that_reads_whole() {
    let (server, endpoint) = serve(|s| s).await;
    let (_client, feed) = connect(&endpoint, |c| c).await;
    let mut stream = feed.events("Tick").unwrap();
    let seen = Arc::new(AtomicU64::new(0));
    let handler = feed
        .on_event("Tick", {
            let seen = seen.clone();
            move |_| {
                seen.fetch_add(1, Ordering::Relaxed);
            }
        })
        .unwrap();
    feed.call::<()>("Raise", (60_000,)).await.unwrap();
    for n in 0..60_000 {
        let event = soon(stream.next()).await.unwrap();
        assert_eq!(event.get::<(i64,)>().unwrap(), (n,));
    }
    until(|| seen.load(Ordering::Relaxed) == 60_000).await;
    assert_eq!(handler.dropped(), 0);
    let stats = server.stats();
    assert_eq!((stats.events_dropped, stats.slow_clients_closed), (0, 0));
}
