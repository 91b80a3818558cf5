//! The retry policy.

use super::*;

#[test]
fn nothing_is_retried_that_was_not_declared() {
    let mut world = World::connected(resilient);
    world.call(1, |_| {});
    world.fail(status::TRANSPORT_ERROR);
    assert_eq!(world.error(1).attempts(), 1);
}

#[test]
fn timeouts_are_retried_with_the_documented_delays_under_one_id() {
    let mut world = World::connected(|o| {
        o.retry = Some(RetryOptions::default());
        o.attempt_timeout = Some(MS(1000));
    });
    world.idempotent(1);
    let mut waits = Vec::new();
    for _ in 0..7 {
        waits.push(world.sleep());
    }
    assert_eq!(waits, [1000, 500, 1000, 1000, 1000, 2000, 1000]);
    let error = world.error(1);
    assert_eq!(
        (error.code(), error.outcome(), error.attempts()),
        (ErrorCode::Timeout, Outcome::Unknown, 4)
    );
    let ids: BTreeSet<_> = world.received.iter().map(|r| r.invocation_id).collect();
    assert_eq!((world.received.len(), ids.len()), (4, 1));
    assert_eq!(
        world.log,
        [
            "retry Add 1 500ms timeout",
            "retry Add 2 1000ms timeout",
            "retry Add 3 2000ms timeout"
        ]
    );
}

#[test]
fn the_time_of_a_call_spans_attempts_and_delays() {
    let mut world = World::connected(|o| {
        o.retry = Some(RetryOptions::default());
        o.attempt_timeout = Some(MS(1000));
    });
    world.call(1, |spec| {
        spec.repeat = Repeat::Idempotent;
        spec.timeout = Timeout::After(MS(1800));
    });
    assert_eq!(world.sleep(), 1000);
    assert_eq!(world.sleep(), 500);
    assert_eq!(world.sleep(), 300);
    assert_eq!(
        (world.error(1).code(), world.error(1).attempts()),
        (ErrorCode::Timeout, 2)
    );
    // A delay that would outlast the call is not begun: the error itself says more.
    world.call(2, |spec| {
        spec.repeat = Repeat::Idempotent;
        spec.timeout = Timeout::After(MS(1200));
    });
    assert_eq!(world.sleep(), 1000);
    assert_eq!(world.error(2).attempts(), 1);
}

#[test]
fn the_default_bound_of_a_retried_call_is_that_of_all_attempts_and_delays() {
    let mut world = World::connected(resilient);
    world.lose();
    world.idempotent(1);
    world.pass(MS(123_499));
    assert!(world.is_open(1));
    world.pass(MS(1));
    assert_eq!(world.error(1).code(), ErrorCode::Timeout);
}

#[test]
fn a_retry_waits_for_the_link_and_then_goes_out_under_its_old_id() {
    let mut world = World::connected(resilient);
    world.idempotent(1);
    world.lose();
    world.pass(MS(900));
    assert_eq!(world.engine.stats().queued, 1);
    world.sleep();
    world.accept();
    world.succeed();
    assert_eq!(world.answer_of(1).attempts, 2);
    assert_eq!(
        world.received[0].invocation_id,
        world.received[1].invocation_id
    );
    assert_eq!(world.received[0].parameters, world.received[1].parameters);
    assert_eq!(world.log[2], "retry Add 1 500ms transport");
}

#[test]
fn a_late_answer_is_welcome_and_ends_the_call_once() {
    let mut world = World::connected(|o| {
        o.retry = Some(RetryOptions::default());
        o.attempt_timeout = Some(MS(1000));
    });
    world.idempotent(1);
    world.sleep();
    world.sleep();
    assert_eq!(world.requests.len(), 2);
    world.succeed();
    world.succeed();
    assert_eq!(world.answer_of(1).attempts, 2);
    world.idempotent(2);
    world.sleep();
    world.succeed();
    assert_eq!(world.answer_of(2).attempts, 1);
    assert_eq!(world.engine.timers.len(), 0);
}

#[test]
fn a_service_fault_is_retried_only_if_added_and_then_under_a_fresh_id() {
    let mut world = World::connected(resilient);
    world.idempotent(1);
    world.fail(status::INTERNAL_SERVER_ERROR);
    assert_eq!(
        (world.error(1).code(), world.error(1).attempts()),
        (ErrorCode::Remote, 1)
    );
    let mut world = World::connected(|o| {
        resilient(o);
        o.retry.as_mut().unwrap().retryable_statuses.insert(500);
    });
    world.idempotent(1);
    world.fail(status::INTERNAL_SERVER_ERROR);
    world.sleep();
    world.succeed();
    assert_eq!(world.answer_of(1).attempts, 2);
    assert_ne!(
        world.received[0].invocation_id,
        world.received[1].invocation_id
    );
}

#[test]
fn a_late_fault_makes_the_retry_a_new_question() {
    let mut world = World::connected(|o| {
        resilient(o);
        o.attempt_timeout = Some(MS(1000));
        o.retry.as_mut().unwrap().retryable_statuses.insert(500);
    });
    world.idempotent(1);
    world.sleep();
    world.fail(status::INTERNAL_SERVER_ERROR);
    world.sleep();
    assert_ne!(
        world.received[0].invocation_id,
        world.received[1].invocation_id
    );
    assert_eq!(world.log, ["retry Add 1 500ms timeout"]);
}

#[test]
fn a_predicate_is_asked_about_what_no_status_covers() {
    let mut world = World::connected(|o| {
        resilient(o);
        o.retry.as_mut().unwrap().has_predicate = true;
    });
    for tag in [1, 2] {
        world.idempotent(tag);
        world.fail(status::INTERNAL_SERVER_ERROR);
    }
    let [first, second] = world.judgements[..] else {
        panic!()
    };
    world.engine.judged(world.now, first, true);
    world.engine.judged(world.now, second, false);
    world.exchange();
    assert_eq!(world.error(2).code(), ErrorCode::Remote);
    world.sleep();
    world.succeed();
    assert_eq!(world.answer_of(1).attempts, 2);
}

#[test]
fn an_overloaded_server_is_given_the_time_it_asks_for_and_the_id_stays() {
    let mut world = World::connected(resilient);
    world.idempotent(1);
    let extension = Extension {
        retry_after_ms: Some(5000),
        ..Extension::default()
    };
    world.answer(Response {
        extension: Some(extension.encode().into()),
        ..Response::error(status::TRANSPORT_ERROR, "busy", None)
    });
    assert_eq!(world.sleep(), 5000);
    world.succeed();
    assert_eq!(
        world.received[0].invocation_id,
        world.received[1].invocation_id
    );
}

#[test]
fn an_exhausted_budget_gives_the_last_error() {
    let mut world = World::connected(|o| {
        resilient(o);
        o.retry.as_mut().unwrap().budget = Some(crate::resilience::budget::BudgetOptions {
            reserve_per_second: 0,
            percent: 20,
        });
    });
    for tag in 0..9 {
        world.idempotent(tag);
    }
    for _ in 0..9 {
        world.fail(status::TRANSPORT_ERROR);
    }
    // Nine calls earn one retry and a bit.
    assert_eq!(world.done.len(), 8);
    assert_eq!(world.engine.stats().retries, 1);
}

#[test]
fn linear_and_fixed_policies_wait_as_named() {
    for (kind, waits) in [
        (BackoffType::Fixed, [500, 500, 500]),
        (BackoffType::Linear, [500, 1000, 1500]),
    ] {
        let mut world = World::connected(|o| {
            resilient(o);
            o.retry.as_mut().unwrap().backoff = kind;
        });
        world.idempotent(1);
        for expected in waits {
            world.fail(status::TRANSPORT_ERROR);
            assert_eq!(world.sleep(), expected);
        }
    }
}

#[test]
fn retries_run_without_a_link_when_nothing_reconnects() {
    let mut world = World::connected(|o| o.retry = Some(RetryOptions::default()));
    world.idempotent(1);
    world.lose();
    assert_eq!(
        [world.sleep(), world.sleep(), world.sleep()],
        [500, 1000, 2000]
    );
    let error = world.error(1);
    // The first attempt was sent, whatever became of the others.
    assert_eq!((error.attempts(), error.outcome()), (4, Outcome::Unknown));
}
