//! Delays as the server sees them: when attempts to connect arrive, against what was announced.

use std::time::{Duration, Instant};

use witrpc::client::Client;
use witrpc::resilience::backoff::Jitter;
use witrpc::resilience::reconnect::ReconnectOptions;
use witrpc_chaos::raw::{self, Peer, RawServer};
use witrpc_chaos::recorder::Recorder;
use witrpc_chaos::watch;

const MS: fn(u64) -> Duration = Duration::from_millis;

/// Lets the first connection stand, then resets it and all others, `attempts` times. Returns the
/// announced delays and the times from one event to the next, as the server measured them.
async fn measure(options: ReconnectOptions) -> Vec<(Duration, Duration)> {
    let attempts = options.max_attempts as usize;
    let (lost, mut losses) = tokio::sync::mpsc::unbounded_channel();
    let server = RawServer::start(move |number, stream| {
        let lost = lost.clone();
        async move {
            if number == 0 {
                // Taken before it is done, so that a delay measured from here is never too short.
                let peer = Peer::accept(stream).await.unwrap();
                let _ = lost.send(Instant::now());
                peer.reset();
            } else {
                let _ = lost.send(Instant::now());
                raw::reset(stream);
            }
        }
    });
    let recorder = Recorder::default();
    let builder = Client::builder(&server.endpoint())
        .seed([5; 32])
        .reconnect(options);
    let client = recorder.attach(builder).build().unwrap();
    client.connect().await.unwrap();
    watch::eventually("the last attempt has failed", || {
        recorder.failure().is_some()
    })
    .await;
    assert_eq!(recorder.check_cycles(), (0, attempts));
    let arrivals = server.arrivals();
    assert_eq!(arrivals.len(), attempts + 1);
    let mut measured = Vec::new();
    for (arrival, (_, delay)) in arrivals[1..].iter().zip(recorder.attempts()) {
        let begun = watch::within("the loss", losses.recv()).await.unwrap();
        measured.push((delay, arrival.duration_since(begun)));
    }
    measured
}

fn check(measured: &[(Duration, Duration)]) {
    for (announced, passed) in measured {
        assert!(
            passed >= announced,
            "{announced:?} were announced, {passed:?} passed"
        );
        // Not a judgement of speed: a delay of another attempt would be found out.
        assert!(*passed < *announced + MS(2000), "{announced:?}, {passed:?}");
    }
}

#[test]
fn attempts_arrive_after_the_announced_delays_which_double_up_to_the_cap() {
    watch::run(async {
        let measured = measure(ReconnectOptions {
            max_attempts: 7,
            initial_delay: MS(20),
            max_delay: MS(400),
            ..ReconnectOptions::default()
        })
        .await;
        let announced: Vec<_> = measured.iter().map(|(delay, _)| *delay).collect();
        assert_eq!(announced, [20, 40, 80, 160, 320, 400, 400].map(MS));
        check(&measured);
    });
}

#[test]
fn attempts_arrive_after_the_announced_delays_whatever_the_multiplier() {
    watch::run(async {
        let measured = measure(ReconnectOptions {
            max_attempts: 5,
            initial_delay: MS(100),
            max_delay: MS(1000),
            backoff_multiplier: 1.5,
            ..ReconnectOptions::default()
        })
        .await;
        let announced: Vec<_> = measured.iter().map(|(delay, _)| *delay).collect();
        assert_eq!(
            announced,
            [100_000, 150_000, 225_000, 337_500, 506_250].map(Duration::from_micros)
        );
        check(&measured);
    });
}

#[test]
fn with_jitter_the_announced_delay_is_the_one_that_is_waited() {
    watch::run(async {
        for jitter in [Jitter::Equal, Jitter::Full, Jitter::Decorrelated] {
            let measured = measure(ReconnectOptions {
                max_attempts: 6,
                initial_delay: MS(20),
                max_delay: MS(200),
                jitter,
                random_first_delay: true,
                ..ReconnectOptions::default()
            })
            .await;
            check(&measured);
            assert!(measured.iter().all(|(delay, _)| *delay <= MS(200)));
            let different = measured.windows(2).filter(|w| w[0].0 != w[1].0).count();
            assert!(different >= 4, "{jitter:?}: {measured:?}");
        }
    });
}

#[test]
fn the_growth_goes_on_over_links_that_do_not_last_and_starts_over_after_one_that_did() {
    watch::run(async {
        let server = RawServer::start(|number, stream| async move {
            let peer = Peer::accept(stream).await.unwrap();
            if number == 4 {
                tokio::time::sleep(MS(1200)).await;
            }
            peer.reset();
        });
        let recorder = Recorder::default();
        let builder = Client::builder(&server.endpoint()).reconnect(ReconnectOptions {
            initial_delay: MS(10),
            stable_after: MS(1000),
            ..ReconnectOptions::default()
        });
        let client = recorder.attach(builder).build().unwrap();
        client.connect().await.unwrap();
        watch::eventually("seven losses", || recorder.attempts().len() >= 7).await;
        client.disconnect();
        let attempts = recorder.attempts();
        let (numbers, delays): (Vec<_>, Vec<_>) = attempts[..7].iter().copied().unzip();
        // Attempts start over at each link, delays only after the fifth, which stood.
        assert_eq!(numbers, [1; 7]);
        assert_eq!(delays, [10, 20, 40, 80, 10, 20, 40].map(MS));
    });
}
