//! The first connection.

use super::*;

#[test]
fn a_first_connect_that_fails_is_told_and_not_repeated() {
    let mut world = World::new(resilient);
    world.engine.connect(world.now);
    world.refuse();
    assert_eq!(world.engine.state(), State::Disconnected);
    assert!(world.connects.pop().unwrap().is_err());
    assert_eq!(world.engine.next_wakeup(), None);
    assert_eq!(world.log, [] as [&str; 0]);
}

#[test]
fn a_first_connect_is_covered_when_asked_for() {
    let mut world = World::new(|o| {
        o.reconnect = Some(ReconnectOptions {
            retry_first_connect: true,
            ..ReconnectOptions::default()
        });
    });
    world.engine.connect(world.now);
    world.refuse();
    assert_eq!(world.engine.state(), State::Reconnecting);
    assert_eq!(world.sleep(), 1000);
    world.refuse();
    assert_eq!(world.sleep(), 2000);
    world.accept();
    assert_eq!(world.connects, [Ok(())]);
    assert_eq!(
        world.log,
        [
            "Reconnecting",
            "reconnecting 1 1000ms",
            "reconnecting 2 2000ms",
            "Connected",
            "reconnected"
        ]
    );
}

#[test]
fn a_stranger_that_talks_nonsense_is_no_final_refusal() {
    let mut world = World::new(|o| {
        o.reconnect = Some(ReconnectOptions {
            retry_first_connect: true,
            ..ReconnectOptions::default()
        });
        o.endpoints = 2;
    });
    world.engine.connect(world.now);
    let link = world.last_opened();
    world.engine.link_opened(link, "");
    let nonsense = Error::new(ErrorCode::Protocol, "a frame of 1347703880 bytes");
    world
        .engine
        .link_lost(world.now, link, Loss::Dropped(nonsense), 0);
    assert_eq!(world.engine.state(), State::Reconnecting);
    assert_eq!(world.sleep(), 1000);
    assert_eq!(world.opened.last().unwrap().1, 1);
    world.accept();
    assert_eq!(world.connects, [Ok(())]);
}

#[test]
fn connecting_is_limited_in_time_handshake_included() {
    let mut world = World::new(|o| o.connect_timeout = MS(3000));
    world.engine.connect(world.now);
    let link = world.last_opened();
    world.now = world.now + MS(2000);
    world.engine.link_opened(link, "");
    assert_eq!(world.sleep(), 1000);
    assert_eq!(world.closed, [link]);
    assert_eq!(
        world.connects[0].as_ref().unwrap_err().code(),
        ErrorCode::Timeout
    );
}

#[test]
fn a_refused_static_token_is_final() {
    let mut world = World::new(resilient);
    world.engine.connect(world.now);
    world.accept_with("wrong", false);
    assert_eq!(world.engine.state(), State::Failed);
    assert_eq!(
        world.connects[0].as_ref().unwrap_err().code(),
        ErrorCode::Unauthorized
    );
    assert_eq!(world.engine.next_wakeup(), None);
}

#[test]
fn a_token_provider_is_asked_once_more_before_a_refusal_is_final() {
    let mut world = World::connected(|o| {
        reconnect(o);
        o.token_is_provided = true;
    });
    world.lose();
    world.sleep();
    let first = world.last_opened();
    world.accept_with("old", false);
    assert_ne!(world.last_opened(), first);
    world.accept_with("new", true);
    assert_eq!(world.engine.state(), State::Connected);
    world.lose();
    world.sleep();
    world.accept_with("old", false);
    world.accept_with("old", false);
    assert_eq!(world.engine.state(), State::Failed);
    assert!(
        world
            .log
            .last()
            .unwrap()
            .starts_with("failed: the server refused the token")
    );
}

#[test]
fn endpoints_take_turns_until_one_answers() {
    let mut world = World::new(|o| {
        reconnect(o);
        o.reconnect.as_mut().unwrap().retry_first_connect = true;
        o.endpoints = 3;
    });
    world.engine.connect(world.now);
    for _ in 0..4 {
        world.refuse();
        world.sleep();
    }
    let endpoints: Vec<_> = world.opened.iter().map(|(_, endpoint)| *endpoint).collect();
    assert_eq!(endpoints, [0, 1, 2, 0, 1]);
}
