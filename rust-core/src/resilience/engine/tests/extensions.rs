//! What only two libwitrpc peers do: taking calls back, remaining time, pings, going away.

use super::*;
use crate::session::KeepAliveOptions;

fn fields(request: &Request) -> Option<Extension> {
    request.extension.as_deref().and_then(Extension::decode)
}

fn pinging(options: &mut EngineOptions) {
    options.keep_alive = Some(KeepAliveOptions::default());
}

/// The server says that it will close the link.
fn go_away(world: &mut World) -> (LinkId, ServerSession) {
    let (link, mut server) = world.server.take().unwrap();
    assert!(server.going_away());
    let mut bytes = server.take_output();
    while let Some(body) = frame::split(&mut bytes, 1 << 20).unwrap() {
        world.engine.receive(world.now, link, body);
    }
    // It is answered, behind everything that was sent before.
    let mut bytes = world.engine.take_output(world.now, link);
    let mut left = 0;
    while let Some(body) = frame::split(&mut bytes, 1 << 20).unwrap() {
        left += match server.receive(body).unwrap() {
            ServerReceived::Leaves => 1,
            other => panic!("{other:?}"),
        };
    }
    assert_eq!(left, 1);
    world.drain();
    (link, server)
}

/// Answers a request on a link that is not the present one.
fn answer_on(world: &mut World, link: LinkId, server: &mut ServerSession, id: Uuid) {
    let mut response = Vec::new();
    Response::ok(Some(Bytes::from_static(b"5"))).encode(&mut response);
    server.respond(id, &response);
    let mut bytes = server.take_output();
    while let Some(body) = frame::split(&mut bytes, 1 << 20).unwrap() {
        world.engine.receive(world.now, link, body);
    }
    world.drain();
}

#[test]
fn a_cancelled_call_and_one_that_is_out_of_time_are_taken_back() {
    let mut world = World::connected(|_| {});
    let key = world.call(1, |_| {}).unwrap();
    let sent = world.requests[0].0;
    world.engine.cancel(key);
    world.exchange();
    assert_eq!(world.error(1).code(), ErrorCode::Cancelled);
    assert_eq!(world.cancelled, [sent]);
    // Once more does nothing.
    world.engine.cancel(key);
    world.exchange();
    assert_eq!(world.cancelled.len(), 1);

    world.call(2, |spec| spec.timeout = Timeout::After(MS(500)));
    let sent = world.requests[1].0;
    assert_eq!(world.sleep(), 500);
    assert_eq!(world.error(2).code(), ErrorCode::Timeout);
    assert_eq!(world.cancelled[1..], [sent]);
}

#[test]
fn an_attempt_that_is_repeated_is_not_taken_back_and_all_of_them_are_in_the_end() {
    let mut world = World::connected(resilient);
    world.deduplicated(1);
    // Four attempts without an answer; the repetitions attach to the first execution.
    for _ in 0..3 {
        world.sleep();
        assert!(world.cancelled.is_empty());
        world.sleep();
    }
    let sent: Vec<_> = world.requests.iter().map(|(id, _)| *id).collect();
    assert_eq!(sent.len(), 4);
    world.sleep();
    assert_eq!(world.error(1).code(), ErrorCode::Timeout);
    assert_eq!(world.cancelled, sent);
}

#[test]
fn a_call_with_an_id_of_the_callers_own_is_taken_back_by_a_cancellation_alone() {
    let mut world = World::connected(|_| {});
    let own = |spec: &mut CallSpec| spec.invocation_id = Some(Uuid::from_u128(5));
    world.call(1, own);
    world.sleep();
    assert_eq!(world.error(1).code(), ErrorCode::Timeout);
    assert!(world.cancelled.is_empty());
    let key = world.call(2, own).unwrap();
    world.engine.cancel(key);
    world.exchange();
    assert_eq!(world.cancelled.len(), 1);
}

#[test]
fn what_was_answered_or_lost_with_its_link_is_not_taken_back() {
    let mut world = World::connected(resilient);
    world.call(1, |_| {});
    world.succeed();
    world.call(2, |_| {});
    world.fail(status::INTERNAL_SERVER_ERROR);
    let key = world.idempotent(3).unwrap();
    world.lose();
    world.engine.cancel(key);
    world.sleep();
    world.accept();
    assert_eq!(world.error(3).code(), ErrorCode::Cancelled);
    assert!(world.cancelled.is_empty());
}

#[test]
fn a_request_says_how_long_its_caller_still_waits() {
    let mut world = World::connected(resilient);
    let remaining = |world: &World, at: usize| {
        fields(&world.received[at]).and_then(|fields| fields.remaining_ms)
    };
    world.call(1, |_| {});
    assert_eq!(remaining(&world, 0), Some(30_000), "one attempt");
    world.call(2, |spec| spec.timeout = Timeout::After(MS(1234)));
    assert_eq!(remaining(&world, 1), Some(1234));
    // A repetition may find the execution of an earlier attempt: the whole call's time counts.
    world.call(3, |spec| {
        spec.repeat = Repeat::Deduplicated;
        spec.timeout = Timeout::After(MS(60_000));
    });
    assert_eq!(remaining(&world, 2), Some(60_000));
    world.lose();
    world.pass(MS(1000));
    world.accept();
    assert_eq!(remaining(&world, 3), Some(59_000));
    // Without any limit there is nothing to say.
    let mut world = World::connected(|options| options.attempt_timeout = None);
    world.call(1, |spec| spec.timeout = Timeout::Never);
    assert_eq!(fields(&world.received[0]), None);
}

#[test]
fn the_trace_context_goes_with_every_attempt() {
    let mut world = World::connected(resilient);
    let trace: Arc<[u8]> = Arc::from(&[7; 1000][..]);
    world.call(1, |spec| {
        spec.repeat = Repeat::Idempotent;
        spec.trace_context = Some(trace.clone());
    });
    world.lose();
    world.pass(MS(1000));
    world.accept();
    assert_eq!(world.received.len(), 2);
    for request in &world.received {
        let fields = fields(request).unwrap();
        assert_eq!(fields.trace_context.as_deref(), Some(&trace[..]));
    }
}

#[test]
fn a_net_server_is_sent_none_of_it() {
    let mut world = World::new(|options| {
        pinging(options);
        options.attempt_timeout = Some(MS(1000));
    });
    world.dotnet = true;
    world.reach = None;
    world.engine.connect(world.now);
    world.accept();
    let key = world.call(1, |spec| spec.trace_context = Some(Arc::from(&b"t"[..])));
    assert_eq!(world.received[0].extension, None);
    world.engine.cancel(key.unwrap());
    world.exchange();
    world.pass(MS(600_000));
    assert!(world.cancelled.is_empty());
    assert_eq!(world.engine.state(), State::Connected);
    assert_eq!(world.engine.stats().round_trip, None);
}

#[test]
fn an_idle_link_is_pinged_and_the_round_trip_is_known() {
    let mut world = World::connected(pinging);
    assert_eq!(world.engine.stats().round_trip, Some(Duration::ZERO));
    world.pass(MS(600_000));
    assert_eq!(world.engine.state(), State::Connected);
    assert!(world.engine.silence(world.now).unwrap() <= MS(15_000));
}

#[test]
fn a_silent_server_is_dead_after_its_time_and_the_client_reconnects() {
    let mut world = World::connected(|options| {
        pinging(options);
        reconnect(options);
        options.attempt_timeout = None;
    });
    world.call(1, |_| {});
    let (link, _frozen) = world.server.take().unwrap();
    assert_eq!(world.sleep(), 15_000);
    assert_eq!(world.sleep(), 20_000);
    assert_eq!(world.closed, [link]);
    assert_eq!(world.log, ["Reconnecting", "reconnecting 1 1000ms"]);
    assert_eq!(world.error(1).outcome(), Outcome::Unknown);
    let failure = world.engine.last_failure().unwrap().to_string();
    assert!(failure.contains("no sign of life for 35s"), "{failure}");
}

#[test]
fn bytes_of_half_a_message_are_a_sign_of_life() {
    let mut world = World::connected(pinging);
    let (link, _slow) = world.server.take().unwrap();
    for _ in 0..100 {
        world.engine.heard(world.now, link);
        world.pass(MS(10_000));
    }
    assert_eq!(world.engine.state(), State::Connected);
}

#[test]
fn what_runs_is_finished_on_the_old_link_while_new_calls_go_to_the_next() {
    let mut world = World::connected(reconnect);
    world.call(1, |_| {});
    let old_request = world.requests[0].0;
    let (old, mut server) = go_away(&mut world);
    assert_eq!(world.log, ["Reconnecting", "reconnecting 1 1000ms"]);
    assert!(world.is_open(1));
    world.call(2, |_| {});
    assert_eq!(world.sleep(), 1000);
    world.accept();
    assert_eq!(world.engine.state(), State::Connected);
    // The queued call went to the new server, and nothing more to the old one.
    assert_eq!(world.requests.len(), 1);
    assert!(world.engine.take_output(world.now, old).is_empty());
    world.succeed();
    assert_eq!(world.answer_of(2).attempts, 1);
    assert!(world.is_open(1) && !world.closed.contains(&old));
    // The last answer closes the old link.
    answer_on(&mut world, old, &mut server, old_request);
    assert_eq!(world.answer_of(1).attempts, 1);
    assert_eq!(world.closed, [old]);
    assert_eq!(world.engine.stats().in_flight, 0);
}

#[test]
fn a_link_without_calls_is_closed_at_once_and_the_next_endpoint_is_tried() {
    let mut world = World::connected(|options| {
        reconnect(options);
        options.endpoints = 2;
    });
    let (old, _) = go_away(&mut world);
    assert_eq!(world.closed, [old]);
    world.sleep();
    world.drain();
    assert_eq!(world.opened.last().unwrap().1, 1);
}

#[test]
fn a_client_that_does_not_reconnect_after_an_end_in_order_finishes_and_stays_away() {
    for options in [
        None,
        Some(ReconnectOptions {
            reconnect_on_disconnect: false,
            ..ReconnectOptions::default()
        }),
    ] {
        let mut world = World::connected(|o| o.reconnect = options);
        world.call(1, |_| {});
        let request = world.requests[0].0;
        let (old, mut server) = go_away(&mut world);
        assert_eq!(world.log, ["Disconnected"]);
        world.call(2, |_| {});
        assert_eq!(world.error(2).outcome(), Outcome::NotSent);
        assert!(world.error(2).to_string().contains("going away"));
        answer_on(&mut world, old, &mut server, request);
        assert_eq!(world.answer_of(1).attempts, 1);
        assert_eq!((world.closed, world.opened.len()), (vec![old], 1));
    }
}

#[test]
fn a_link_that_is_lost_while_it_is_left_costs_its_own_calls_only() {
    let mut world = World::connected(resilient);
    world.idempotent(1);
    world.call(2, |_| {});
    let (old, _) = go_away(&mut world);
    world.sleep();
    world.accept();
    world.call(3, |_| {});
    let error = Error::new(ErrorCode::Transport, "reset");
    world
        .engine
        .link_lost(world.now, old, Loss::Dropped(error), 0);
    world.exchange();
    assert_eq!(world.error(2).outcome(), Outcome::Unknown);
    assert_eq!(world.engine.state(), State::Connected);
    assert!(world.is_open(3));
    // The one that may be repeated is, on the new link.
    world.sleep();
    assert_eq!(world.requests.len(), 2);
    world.succeed();
    world.succeed();
    assert_eq!(world.answer_of(1).attempts, 2);
    assert_eq!(world.answer_of(3).attempts, 1);
}

#[test]
fn what_had_not_left_is_sent_on_the_new_link_if_the_old_one_is_lost() {
    let mut world = World::connected(reconnect);
    let (old, mut server) = world.server.take().unwrap();
    world.call(1, |_| {});
    let request = world.engine.take_output(world.now, old).len();
    assert!(server.going_away());
    let mut bytes = server.take_output();
    let body = frame::split(&mut bytes, 1 << 20).unwrap().unwrap();
    world.engine.receive(world.now, old, body);
    world.sleep();
    world.accept();
    assert!(world.requests.is_empty());
    // Neither the request nor the answer to the server left this machine.
    let unsent = request + world.engine.take_output(world.now, old).len();
    world.engine.link_lost(world.now, old, Loss::Closed, unsent);
    world.exchange();
    world.succeed();
    assert_eq!(world.answer_of(1).attempts, 1);
}

#[test]
fn a_cancelled_call_on_a_link_that_is_left_is_taken_back_and_then_the_link_is_closed() {
    let mut world = World::connected(reconnect);
    let key = world.call(1, |_| {}).unwrap();
    let request = world.requests[0].0;
    let (old, mut server) = go_away(&mut world);
    world.engine.cancel(key);
    world.drain();
    assert!(
        world.closed.is_empty(),
        "the cancellation must go out first"
    );
    let mut bytes = world.engine.take_output(world.now, old);
    let body = frame::split(&mut bytes, 1 << 20).unwrap().unwrap();
    let received = server.receive(body).unwrap();
    assert!(matches!(received, ServerReceived::Cancel(id) if id == request));
    world.drain();
    assert_eq!(world.closed, [old]);
}

#[test]
fn reconnection_that_fails_leaves_the_old_link_its_answers_and_disconnect_does_not() {
    let mut world = World::connected(|options| {
        options.reconnect = Some(ReconnectOptions {
            max_attempts: 1,
            ..ReconnectOptions::default()
        });
    });
    world.call(1, |_| {});
    let request = world.requests[0].0;
    let (old, mut server) = go_away(&mut world);
    world.call(2, |_| {});
    world.sleep();
    world.refuse();
    assert_eq!(world.engine.state(), State::Failed);
    assert_eq!(world.error(2).outcome(), Outcome::NotSent);
    assert!(world.is_open(1));
    answer_on(&mut world, old, &mut server, request);
    assert_eq!(world.answer_of(1).attempts, 1);

    let mut world = World::connected(reconnect);
    world.call(1, |_| {});
    let (old, _) = go_away(&mut world);
    world.engine.disconnect();
    world.drain();
    assert_eq!(world.error(1).outcome(), Outcome::Unknown);
    assert_eq!(world.closed, [old]);
}

#[test]
fn a_frozen_server_that_is_left_is_noticed_too() {
    let mut world = World::connected(|options| {
        pinging(options);
        reconnect(options);
        options.attempt_timeout = None;
    });
    world.call(1, |_| {});
    let (old, _frozen) = go_away(&mut world);
    world.sleep();
    world.accept();
    world.pass(MS(60_000));
    assert_eq!(world.closed, [old]);
    assert_eq!(world.error(1).outcome(), Outcome::Unknown);
    assert_eq!(world.engine.state(), State::Connected);
}

#[test]
fn nonsense_in_the_messages_of_a_libwitrpc_server_is_ignored() {
    use crate::wire::{Envelope, Kind};
    let mut world = World::connected(pinging);
    let (link, server) = world.server.take().unwrap();
    for kind in [Kind::CANCELLATION, Kind::PING, Kind::PONG, Kind::GOING_AWAY] {
        for data in [
            None,
            Some(Bytes::new()),
            Some(Bytes::from_static(b"WXT\x02")),
            Some(Bytes::from_static(b"WXT\x01\x0d\x01\x00\x00")),
        ] {
            let mut body = BytesMut::new();
            let id = Uuid::from_u128(9);
            Envelope { id, kind, data }.encode(&mut body);
            world.engine.receive(world.now, link, body);
        }
    }
    world.server = Some((link, server));
    world.exchange();
    assert_eq!(world.engine.state(), State::Connected);
    world.call(1, |_| {});
    world.succeed();
    assert!(world.closed.is_empty());
}

#[test]
fn pings_that_are_not_taken_do_not_fill_the_memory() {
    let mut world = World::connected(pinging);
    let (link, mut server) = world.server.take().unwrap();
    for number in 0..10_000 {
        server.ping(number);
        let mut bytes = server.take_output();
        let body = frame::split(&mut bytes, 1 << 20).unwrap().unwrap();
        world.engine.receive(world.now, link, body);
    }
    assert!(world.engine.take_output(world.now, link).len() < 2000);
}
