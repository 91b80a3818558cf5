//! Losing the link and getting it back.

use super::*;

#[test]
fn the_loop_has_the_documented_delays_and_ends_with_a_real_error() {
    let mut world = World::connected(resilient);
    world.now = world.now + MS(20_000);
    world.lose();
    let mut delays = Vec::new();
    for _ in 0..10 {
        delays.push(world.sleep() / 1000);
        world.refuse();
    }
    assert_eq!(delays, [1, 2, 4, 8, 16, 32, 64, 120, 120, 120]);
    assert_eq!(world.engine.state(), State::Failed);
    assert_eq!(world.log.last().unwrap(), "failed: refused");
    assert_eq!(world.log[0], "Reconnecting");
    assert_eq!(world.log[1], "reconnecting 1 1000ms");
    assert_eq!(world.engine.next_wakeup(), None);
}

#[test]
fn a_second_and_a_hundredth_loss_are_like_the_first() {
    let mut world = World::connected(reconnect);
    for n in 1..=100 {
        world.now = world.now + MS(60_000);
        world.lose();
        assert_eq!(world.sleep(), 1000, "loss {n}");
        world.accept();
        assert_eq!(
            world.log,
            [
                "Reconnecting",
                "reconnecting 1 1000ms",
                "Connected",
                "reconnected"
            ]
        );
        world.log.clear();
    }
    assert_eq!(world.engine.stats().reconnects, 100);
}

#[test]
fn an_unstable_link_does_not_reset_the_delays() {
    let mut world = World::connected(reconnect);
    for expected in [1000, 2000, 4000] {
        world.lose();
        assert_eq!(world.sleep(), expected);
        world.accept();
    }
}

#[test]
fn a_server_that_closes_in_order_is_left_alone_if_so_configured() {
    let options = |o: &mut EngineOptions| {
        reconnect(o);
        o.reconnect.as_mut().unwrap().reconnect_on_disconnect = false;
    };
    let mut world = World::connected(options);
    world.server_closes();
    assert_eq!(world.engine.state(), State::Disconnected);
    assert_eq!(world.engine.next_wakeup(), None);
    let mut world = World::connected(options);
    world.lose();
    assert_eq!(world.engine.state(), State::Reconnecting);
}

#[test]
fn disconnect_never_starts_the_loop_and_close_is_for_good() {
    let mut world = World::connected(resilient);
    world.call(1, |_| {});
    world.engine.disconnect();
    world.drain();
    assert_eq!(world.engine.state(), State::Disconnected);
    assert_eq!(world.engine.next_wakeup(), None);
    assert_eq!(
        (world.error(1).code(), world.error(1).outcome()),
        (ErrorCode::Closed, Outcome::Unknown)
    );
    world.engine.connect(world.now);
    world.accept();
    world.engine.close();
    world.drain();
    world.engine.connect(world.now);
    world.drain();
    assert_eq!(
        world.connects.last().unwrap().as_ref().unwrap_err().code(),
        ErrorCode::Closed
    );
    world.call(2, |_| {});
    assert_eq!(world.error(2).code(), ErrorCode::Closed);
}

#[test]
fn stop_ends_attempts_without_a_failure_callback_and_does_nothing_elsewhere() {
    let mut world = World::connected(resilient);
    world.engine.stop_reconnection();
    assert_eq!(world.engine.state(), State::Connected);
    world.lose();
    world.call(1, |_| {});
    world.engine.stop_reconnection();
    world.drain();
    assert_eq!(
        world.log,
        ["Reconnecting", "reconnecting 1 1000ms", "Disconnected"]
    );
    assert_eq!(
        (world.error(1).code(), world.error(1).outcome()),
        (ErrorCode::Closed, Outcome::NotSent)
    );
    assert_eq!(world.engine.next_wakeup(), None);
}

#[test]
fn reconnect_now_ends_the_wait_and_nothing_else() {
    let mut world = World::connected(resilient);
    world.engine.reconnect_now(world.now);
    world.drain();
    assert_eq!(world.opened.len(), 1);
    world.lose();
    world.engine.reconnect_now(world.now);
    world.accept();
    assert_eq!(world.engine.state(), State::Connected);
}

#[test]
fn reconnect_drops_the_link_and_is_the_first_attempt_of_a_loop() {
    let mut world = World::connected(resilient);
    world.engine.reconnect(world.now);
    world.drain();
    assert_eq!((world.closed.len(), world.opened.len()), (1, 2));
    world.refuse();
    assert_eq!(world.sleep(), 1000);
    world.accept();
    assert_eq!(
        world.log,
        [
            "Reconnecting",
            "reconnecting 1 0ms",
            "reconnecting 2 1000ms",
            "Connected",
            "reconnected"
        ]
    );
    let mut world = World::connected(|_| {});
    world.engine.reconnect(world.now);
    world.refuse();
    assert_eq!(
        world.log,
        [
            "Reconnecting",
            "reconnecting 1 0ms",
            "Failed",
            "failed: refused"
        ]
    );
}

#[test]
fn reports_about_an_old_link_are_ignored() {
    let mut world = World::connected(reconnect);
    let old = world.opened[0].0;
    world.lose();
    world.sleep();
    world.accept();
    world.engine.link_lost(world.now, old, Loss::Closed, 0);
    world
        .engine
        .link_failed(world.now, old, Error::new(ErrorCode::Transport, "late"));
    world.engine.link_opened(old, "");
    world
        .engine
        .receive(world.now, old, BytesMut::from(&b"junk"[..]));
    assert_eq!(world.engine.state(), State::Connected);
}
