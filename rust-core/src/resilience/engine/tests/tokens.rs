//! Tokens that are refused; and an event.

use super::*;

#[test]
fn a_refused_request_token_is_fetched_once_more_for_all_and_the_calls_go_out_again() {
    let mut world = World::connected(|o| o.token_is_provided = true);
    world.call(1, |_| {});
    world.call(2, |_| {});
    world.fail(status::UNAUTHORIZED);
    world.fail(status::UNAUTHORIZED);
    assert_eq!(world.refreshes, 1);
    world.engine.token_refreshed(world.now, Ok("new"));
    world.exchange();
    assert_eq!(world.received[2].token.as_deref(), Some("new"));
    assert_ne!(
        world.received[0].invocation_id,
        world.received[2].invocation_id
    );
    world.succeed();
    world.fail(status::UNAUTHORIZED);
    assert_eq!(world.answer_of(1).attempts, 2);
    assert_eq!(
        (world.error(2).code(), world.error(2).attempts()),
        (ErrorCode::Unauthorized, 2)
    );
    assert_eq!(world.refreshes, 1);
}

#[test]
fn a_failing_provider_and_a_static_token_end_the_call_with_the_refusal() {
    let mut world = World::connected(|o| o.token_is_provided = true);
    world.call(1, |_| {});
    world.fail(status::UNAUTHORIZED);
    world
        .engine
        .token_refreshed(world.now, Err(Error::new(ErrorCode::Transport, "no vault")));
    world.drain();
    assert_eq!(world.error(1).code(), ErrorCode::Unauthorized);
    assert!(world.error(1).to_string().contains("no vault"));
    let mut world = World::connected(|_| {});
    world.call(1, |_| {});
    world.fail(status::UNAUTHORIZED);
    assert_eq!(
        (world.refreshes, world.error(1).outcome()),
        (0, Outcome::Answered)
    );
}

#[test]
fn a_refused_token_never_makes_a_sent_deduplicated_call_a_new_one() {
    let mut world = World::connected(|o| {
        resilient(o);
        o.token_is_provided = true;
    });
    world.deduplicated(1);
    world.lose();
    world.sleep();
    world.sleep();
    world.accept_with("expired", true);
    world.fail(status::UNAUTHORIZED);
    world.engine.token_refreshed(world.now, Ok("new"));
    world.exchange();
    let ids: BTreeSet<_> = world.received.iter().map(|r| r.invocation_id).collect();
    assert_eq!((world.received.len(), ids.len()), (3, 1));
}

#[test]
fn an_event_is_handed_on() {
    let mut world = World::connected(|_| {});
    let mut payload = Vec::new();
    Request {
        method_name: Some("Progress".into()),
        ..Request::default()
    }
    .encode(&mut payload);
    world.server.as_mut().unwrap().1.event(&payload);
    world.exchange();
    assert_eq!(world.log, ["event Progress"]);
}
