//! Calls without retries.

use super::*;

#[test]
fn a_call_is_answered_and_nothing_is_left_of_it() {
    let mut world = World::connected(resilient);
    world.idempotent(1);
    world.succeed();
    assert_eq!(
        world.answer_of(1),
        &Answer {
            data: Some(Bytes::from_static(b"5")),
            attempts: 1,
            replayed: false
        }
    );
    assert!(world.engine.timers.is_empty() && world.engine.unfinished.is_empty());
    assert_eq!((world.engine.calls.len(), world.engine.in_flight), (0, 0));
}

#[test]
fn answers_find_their_calls_in_any_order() {
    let mut world = World::connected(|_| {});
    for tag in 0..50 {
        world.call(tag, |_| {});
    }
    while let Some((id, _)) = world.requests.pop_back() {
        world.answer_id(id, Response::ok(None));
    }
    let order: Vec<_> = world.done.iter().map(|(tag, _)| *tag).collect();
    assert_eq!(order, (0..50).rev().collect::<Vec<_>>());
}

#[test]
fn without_a_connection_a_call_fails_at_once_as_not_sent() {
    let mut world = World::new(|_| {});
    world.call(1, |_| {});
    assert_eq!(
        (world.error(1).code(), world.error(1).outcome()),
        (ErrorCode::Transport, Outcome::NotSent)
    );
    assert!(world.error(1).is_retryable());
}

#[test]
fn without_options_every_call_ends_after_the_default_of_thirty_seconds() {
    let mut world = World::connected(|_| {});
    world.call(1, |_| {});
    assert_eq!(world.sleep(), 30_000);
    let error = world.error(1);
    assert_eq!(
        (error.code(), error.outcome(), error.attempts()),
        (ErrorCode::Timeout, Outcome::Unknown, 1)
    );
    // A late answer changes nothing.
    world.succeed();
    assert_eq!(world.done.len(), 1);
}

#[test]
fn only_the_constant_named_for_it_lets_a_call_wait_for_ever() {
    let mut world = World::connected(|o| o.attempt_timeout = None);
    world.call(1, |_| {});
    assert_eq!(world.engine.next_wakeup(), None);
    world.call(2, |spec| spec.timeout = Timeout::After(MS(100)));
    assert_eq!(world.sleep(), 100);
    assert!(world.is_open(1) && !world.is_open(2));
    let mut world = World::connected(resilient);
    world.call(1, |spec| spec.timeout = Timeout::Never);
    assert_eq!(world.sleep(), 30_000);
    assert!(!world.is_open(1));
}

#[test]
fn a_lost_link_ends_an_undeclared_call_as_unknown() {
    let mut world = World::connected(resilient);
    world.call(1, |_| {});
    world.lose();
    let error = world.error(1);
    assert_eq!(
        (error.code(), error.outcome()),
        (ErrorCode::Transport, Outcome::Unknown)
    );
    assert_eq!(error.details(), Some("reset"));
}

#[test]
fn a_request_that_did_not_leave_goes_out_again_on_the_next_link_as_its_first_attempt() {
    let mut world = World::connected(reconnect);
    world.call(1, |_| {});
    let mut bytes = 0;
    for tag in 2..4 {
        let spec_before = world.engine.link.ready().unwrap().session.produced();
        world.call(tag, |_| {});
        bytes += (world.engine.link.ready().unwrap().session.produced() - spec_before) as usize;
    }
    // All of the second and half of the third request got stuck.
    world.lose_with(bytes - 1);
    assert_eq!(world.error(1).outcome(), Outcome::Unknown);
    world.requests.clear();
    world.sleep();
    world.accept();
    assert_eq!(world.requests.len(), 2);
    world.succeed();
    world.succeed();
    assert_eq!(world.answer_of(2).attempts, 1);
    assert_eq!(world.answer_of(3).attempts, 1);
}

#[test]
fn a_request_that_did_not_leave_fails_as_not_sent_where_nothing_reconnects() {
    let mut world = World::connected(|_| {});
    world.call(1, |_| {});
    world.lose_with(1);
    assert_eq!(
        (world.error(1).outcome(), world.error(1).attempts()),
        (Outcome::NotSent, 1)
    );
}

#[test]
fn calls_wait_for_the_link_in_order_and_waiting_is_no_attempt() {
    let mut world = World::connected(resilient);
    world.lose();
    for tag in 1..=3 {
        world.call(tag, |_| {});
    }
    assert_eq!(world.engine.stats().queued, 3);
    world.sleep();
    world.accept();
    for _ in 0..3 {
        world.succeed();
    }
    let tags: Vec<_> = world.done.iter().map(|(tag, _)| *tag).collect();
    assert_eq!(tags, [1, 2, 3]);
    assert_eq!(world.answer_of(1).attempts, 1);
}

#[test]
fn a_waiting_call_ends_in_time_and_says_why_it_waited() {
    let mut world = World::connected(resilient);
    world.lose();
    world.call(1, |spec| spec.timeout = Timeout::After(MS(500)));
    assert_eq!(world.sleep(), 500);
    let error = world.error(1);
    assert_eq!(
        (error.code(), error.outcome(), error.attempts()),
        (ErrorCode::Timeout, Outcome::NotSent, 0)
    );
    assert_eq!(error.details(), Some("reset"));
    assert_eq!(world.engine.stats().queued, 0);
}

#[test]
fn the_queue_is_bounded_in_calls_and_bytes() {
    let mut world = World::connected(|o| {
        reconnect(o);
        o.max_queued_calls = 2;
        o.max_queued_bytes = 100;
    });
    world.lose();
    let big = |spec: &mut CallSpec| spec.arguments = Arguments::from_blobs(&[[0; 93]]);
    world.call(1, |_| {});
    world.call(2, big);
    assert_eq!(
        (world.error(2).code(), world.error(2).outcome()),
        (ErrorCode::Overloaded, Outcome::NotSent)
    );
    world.call(3, |_| {});
    world.call(4, |_| {});
    assert_eq!(world.error(4).code(), ErrorCode::Overloaded);
    world.engine.stop_reconnection();
    assert_eq!(world.engine.queued_bytes, 0);
}

#[test]
fn in_flight_calls_are_bounded_and_the_rest_follow() {
    let mut world = World::connected(|o| o.max_in_flight = 2);
    for tag in 0..5 {
        world.call(tag, |_| {});
    }
    for in_flight in [2, 2, 2, 2, 1] {
        assert_eq!(world.requests.len(), in_flight);
        world.succeed();
    }
    assert_eq!(world.done.len(), 5);
}

#[test]
fn calls_that_wait_for_room_end_as_not_sent_when_no_link_will_come() {
    let mut world = World::connected(|o| o.max_in_flight = 1);
    for tag in 0..3 {
        world.call(tag, |_| {});
    }
    world.lose();
    assert_eq!(world.error(0).outcome(), Outcome::Unknown);
    for tag in [1, 2] {
        let error = world.error(tag);
        assert_eq!(
            (error.code(), error.outcome()),
            (ErrorCode::Transport, Outcome::NotSent)
        );
    }
    assert_eq!(
        (world.engine.queued_bytes, world.engine.next_wakeup()),
        (0, None)
    );
}

#[test]
fn cancellation_ends_a_call_at_once_wherever_it_is() {
    let mut world = World::connected(resilient);
    let sent = world.call(1, |_| {}).unwrap();
    world.engine.cancel(sent);
    world.lose();
    let waiting = world.call(2, |_| {}).unwrap();
    world.engine.cancel(waiting);
    world.drain();
    assert_eq!(
        (world.error(1).code(), world.error(1).outcome()),
        (ErrorCode::Cancelled, Outcome::Unknown)
    );
    assert_eq!(
        (world.error(2).code(), world.error(2).outcome()),
        (ErrorCode::Cancelled, Outcome::NotSent)
    );
    world.engine.cancel(sent);
    world.drain();
    assert_eq!(world.done.len(), 2);
}

#[test]
fn an_answer_that_is_none_is_a_transport_error_of_unknown_outcome() {
    let mut world = World::connected(|_| {});
    world.call(1, |_| {});
    let (id, _) = world.requests.pop_front().unwrap();
    world.server.as_mut().unwrap().1.respond(id, b"\x04\x04");
    world.exchange();
    let error = world.error(1);
    assert_eq!(
        (error.code(), error.outcome()),
        (ErrorCode::Transport, Outcome::Unknown)
    );
    assert_eq!(error.message(), "Failed to deserialize response");
}
