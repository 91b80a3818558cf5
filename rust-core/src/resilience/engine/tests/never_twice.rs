//! Where a deduplicated call may be repeated.

use super::*;
use crate::wire::extension::Extension;

#[test]
fn a_deduplicated_call_is_repeated_where_the_server_remembers_it() {
    let mut world = World::connected(resilient);
    world.deduplicated(1);
    world.lose();
    world.sleep();
    world.sleep();
    world.accept();
    world.succeed();
    assert_eq!(world.answer_of(1).attempts, 2);
}

#[test]
fn a_deduplicated_call_is_not_repeated_at_a_server_that_forgot() {
    let mut world = World::connected(resilient);
    world.deduplicated(1);
    world.idempotent(2);
    world.lose();
    world.sleep();
    world.sleep();
    world.reach = Some(Reach { epoch: 8, ..REACH });
    world.accept();
    let error = world.error(1);
    assert_eq!(
        (error.code(), error.outcome(), error.attempts()),
        (ErrorCode::OutcomeUnknown, Outcome::Unknown, 1)
    );
    assert!(world.is_open(2));
    assert_eq!(world.requests.len(), 1);
}

#[test]
fn a_deduplicated_call_is_not_repeated_beyond_the_announced_time() {
    let mut world = World::connected(|o| {
        resilient(o);
        o.attempt_timeout = Some(MS(4_000));
        o.retry.as_mut().unwrap().initial_delay = MS(6_000);
    });
    world.reach = Some(Reach {
        hold_ms: 10_000,
        ..REACH
    });
    world.lose();
    world.sleep();
    world.accept();
    world.deduplicated(1);
    world.sleep();
    world.sleep();
    assert_eq!(world.error(1).code(), ErrorCode::OutcomeUnknown);
    assert_eq!(world.received.len(), 1);
}

#[test]
fn at_a_dotnet_server_a_deduplicated_call_is_repeated_on_its_connection_only() {
    let options = |o: &mut EngineOptions| {
        resilient(o);
        o.attempt_timeout = Some(MS(1000));
    };
    let mut world = World::new(options);
    world.dotnet = true;
    world.engine.connect(world.now);
    world.accept();
    world.deduplicated(1);
    world.sleep();
    world.sleep();
    assert_eq!(world.received.len(), 2);
    assert_eq!(world.received[0].extension, None);
    world.lose();
    world.sleep();
    world.accept();
    assert_eq!(world.error(1).code(), ErrorCode::OutcomeUnknown);
}

#[test]
fn at_a_dotnet_server_a_deduplicated_call_is_not_repeated_after_sixty_four_others() {
    for (others, repeated) in [(63, true), (64, false)] {
        let mut world = World::new(|o| {
            resilient(o);
            o.attempt_timeout = Some(MS(1000));
        });
        world.dotnet = true;
        world.engine.connect(world.now);
        world.accept();
        world.deduplicated(1);
        for tag in 0..others {
            world.call(1000 + tag, |_| {});
        }
        world.sleep();
        world.sleep();
        assert_eq!(world.is_open(1), repeated, "{others} others");
    }
}

#[test]
fn numbers_and_marks_are_told_to_a_libwitrpc_server_only_for_calls_that_may_come_again() {
    let mut world = World::connected(resilient);
    let fields = |world: &World| {
        world
            .received
            .last()
            .unwrap()
            .extension
            .as_deref()
            .and_then(Extension::decode)
    };
    let without_numbers = |world: &World| {
        let fields = fields(world).unwrap();
        (fields.call_number, fields.first_unfinished, fields.attempt) == (None, None, None)
    };
    world.call(1, |_| {});
    assert!(without_numbers(&world));
    world.deduplicated(2);
    let first = fields(&world).unwrap();
    assert_eq!(
        (first.call_number, first.first_unfinished, first.attempt),
        (Some(2), Some(2), None)
    );
    world.deduplicated(3);
    assert_eq!(fields(&world).unwrap().first_unfinished, Some(2));
    world.requests.pop_front();
    world.succeed();
    world.deduplicated(4);
    assert_eq!(fields(&world).unwrap().first_unfinished, Some(3));
    world.call(5, |spec| {
        spec.repeat = Repeat::Deduplicated;
        spec.invocation_id = Some(Uuid::from_u128(5));
    });
    assert!(without_numbers(&world));
    assert_eq!(
        world.received.last().unwrap().invocation_id,
        Uuid::from_u128(5)
    );
}

#[test]
fn a_libwitrpc_server_is_told_of_a_repetition_that_must_not_run() {
    let own_id = |spec: &mut CallSpec| {
        spec.repeat = Repeat::Deduplicated;
        spec.invocation_id = Some(Uuid::from_u128(5));
    };
    let deduplicated = |spec: &mut CallSpec| spec.repeat = Repeat::Deduplicated;
    let idempotent = |spec: &mut CallSpec| spec.repeat = Repeat::Idempotent;
    let cases: [(fn(&mut CallSpec), _); 3] = [
        (own_id, Some(2)),
        (deduplicated, Some(2)),
        (idempotent, None),
    ];
    for (change, repeated) in cases {
        let mut world = World::connected(resilient);
        world.call(1, change);
        world.lose();
        assert_eq!((world.sleep(), world.sleep()), (500, 500));
        world.accept();
        let attempts: Vec<_> = world
            .received
            .iter()
            .map(|r| r.extension.as_deref().and_then(Extension::decode)?.attempt)
            .collect();
        assert_eq!(attempts, [None, repeated]);
    }
}

#[test]
fn where_a_server_has_lost_the_answer_only_a_call_that_may_run_twice_is_asked_anew() {
    for (repeat, ends) in [
        (Repeat::Deduplicated, true),
        (Repeat::Idempotent, false),
        (Repeat::Never, true),
    ] {
        let mut world = World::connected(resilient);
        world.call(1, |spec| spec.repeat = repeat);
        let first = world.received[0].invocation_id;
        world.answer(Response::error(500, crate::OUTCOME_UNKNOWN_TEXT, None));
        assert_eq!(world.is_open(1), !ends);
        if ends {
            let error = world.error(1);
            assert_eq!(
                (error.code(), error.outcome()),
                (ErrorCode::OutcomeUnknown, Outcome::Unknown)
            );
            continue;
        }
        assert_eq!(world.sleep(), 500);
        assert_ne!(world.received[1].invocation_id, first);
        world.succeed();
        assert_eq!(world.answer_of(1).attempts, 2);
    }
    // If that comes to nothing, the outcome stays unknown.
    let mut world = World::connected(|o| o.retry = Some(RetryOptions::default()));
    world.idempotent(1);
    world.answer(Response::error(500, crate::OUTCOME_UNKNOWN_TEXT, None));
    world.lose();
    world.pass(MS(60_000));
    assert_eq!(world.error(1).outcome(), Outcome::Unknown);
}

#[test]
fn an_id_of_the_callers_own_lets_a_stored_answer_stand() {
    let mut world = World::connected(|o| {
        resilient(o);
        o.retry.as_mut().unwrap().retryable_statuses.insert(500);
    });
    world.call(1, |spec| {
        spec.repeat = Repeat::Idempotent;
        spec.invocation_id = Some(Uuid::from_u128(5));
    });
    world.fail(500);
    assert_eq!(world.error(1).attempts(), 1);
    world.call(2, |spec| spec.invocation_id = Some(Uuid::nil()));
    assert_eq!(world.error(2).code(), ErrorCode::InvalidArgument);
}

#[test]
fn a_call_that_is_asked_anew_gets_a_new_number_with_its_new_id() {
    let mut world = World::connected(|o| {
        resilient(o);
        o.retry.as_mut().unwrap().retryable_statuses.insert(500);
    });
    world.deduplicated(1);
    world.fail(500);
    world.sleep();
    world.deduplicated(2);
    let said: Vec<_> = world
        .received
        .iter()
        .map(|request| {
            let fields = Extension::decode(request.extension.as_deref().unwrap()).unwrap();
            (
                fields.call_number.unwrap(),
                fields.first_unfinished.unwrap(),
            )
        })
        .collect();
    // The server may forget the old id; it must not take the new one for it.
    assert_eq!(said, [(1, 1), (2, 2), (3, 2)]);
    assert_ne!(
        world.received[0].invocation_id,
        world.received[1].invocation_id
    );
}

#[test]
fn a_call_that_was_executed_and_is_repeated_is_never_said_to_be_not_sent() {
    let mut world = World::connected(|o| {
        o.retry = Some(RetryOptions::default());
        o.retry.as_mut().unwrap().retryable_statuses.insert(500);
        o.retry.as_mut().unwrap().max_retries = 1;
    });
    world.deduplicated(1);
    world.fail(500);
    world.lose();
    world.sleep();
    let error = world.error(1);
    assert_eq!(
        (error.code(), error.outcome(), error.is_retryable()),
        (ErrorCode::Transport, Outcome::Answered, false)
    );
}

#[test]
fn a_late_fault_under_an_id_of_the_callers_own_stands() {
    let mut world = World::connected(|o| {
        resilient(o);
        o.attempt_timeout = Some(MS(1000));
        o.retry.as_mut().unwrap().retryable_statuses.insert(500);
    });
    world.call(1, |spec| {
        spec.repeat = Repeat::Deduplicated;
        spec.invocation_id = Some(Uuid::from_u128(42));
    });
    // The attempt is over, and the next one waits for its turn: another server might get it.
    world.sleep();
    world.fail(500);
    let error = world.error(1);
    assert_eq!(
        (error.code(), error.outcome()),
        (ErrorCode::Remote, Outcome::Answered)
    );
    assert_eq!(world.received.len(), 1);
}

/// What the last request said of earlier attempts: the attempt's number, whether one may have been executed in another life of the server, and
/// whether it may run twice.
fn stated(world: &World) -> (Option<u32>, bool, bool) {
    let request = world.received.last().unwrap();
    let fields = Extension::decode(request.extension.as_deref().unwrap()).unwrap();
    (fields.attempt, fields.elsewhere, fields.may_have_come)
}

#[test]
fn a_server_whose_epoch_outlasts_it_is_told_what_another_life_may_have_executed() {
    let life = |life| {
        Some(Reach {
            life: Some(life),
            ..REACH
        })
    };
    let mut world = World::connected(resilient);
    world.reach = life(1);
    world.lose();
    world.sleep();
    world.accept();
    world.deduplicated(1);
    assert_eq!(stated(&world), (None, false, false));
    let mut again = |reach: u64| {
        let (before, links) = (world.received.len(), world.opened.len());
        world.lose();
        while world.opened.len() == links {
            world.sleep();
        }
        world.reach = life(reach);
        world.accept();
        while world.received.len() == before {
            world.sleep();
        }
        stated(&world)
    };
    assert_eq!(again(1), (Some(2), false, false));
    assert_eq!(again(2), (Some(3), true, false));
    // It was the last one, but may have been the first.
    assert_eq!(again(2), (Some(4), true, false));
}

#[test]
fn a_repetition_that_may_run_twice_says_so() {
    let mut world = World::connected(resilient);
    world.idempotent(1);
    assert_eq!(stated(&world), (None, false, false));
    world.lose();
    world.sleep();
    world.sleep();
    world.accept();
    assert_eq!(stated(&world), (None, false, true));
}
