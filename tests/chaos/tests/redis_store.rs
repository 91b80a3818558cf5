//! The store on Redis, asked directly, with a real Redis that is killed, emptied, started again and frozen.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use uuid::Uuid;
use witrpc::resilience::dedup::Numbered;
use witrpc::server::store::{CallStore, Claim, Fence, RedisOptions, RedisStore, StoredCall};
use witrpc_chaos::redis::{Keeps, Redis};
use witrpc_chaos::watch;

/// Long, as many tests share the machine.
const LEASE: Duration = Duration::from_secs(20);

/// Options for `redis`, to be changed.
fn options(redis: &Redis) -> RedisOptions {
    RedisOptions {
        lease: LEASE,
        timeout: Duration::from_secs(2),
        ..RedisOptions::new(redis.url())
    }
}

/// A server of the fleet, as far as its store goes.
struct Member {
    store: Arc<RedisStore>,
    epoch: u64,
}

impl Member {
    async fn join(options: RedisOptions) -> Self {
        let store = Arc::new(RedisStore::new(options).unwrap());
        let epoch = store.open().await.unwrap().epoch;
        Self { store, epoch }
    }

    fn epoch_now(&self) -> u64 {
        *self.store.epoch().unwrap().borrow()
    }

    /// A call without a number.
    fn call(&self, id: u128) -> StoredCall {
        StoredCall {
            principal: "ann".into(),
            invocation: Uuid::from_u128(id),
            numbered: None,
            repeated: false,
            elsewhere: false,
            epoch: self.epoch,
            digest: [7; 16],
            not_executed: false,
        }
    }

    fn numbered(&self, number: u64, first_unfinished: u64) -> StoredCall {
        let client = Uuid::from_u128(1 << 90);
        StoredCall {
            numbered: Some(Numbered {
                client,
                number,
                first_unfinished,
            }),
            ..self.call(u128::from(number))
        }
    }

    async fn begin(&self, call: &StoredCall) -> Claim {
        watch::within("a claim", self.store.begin(call))
            .await
            .unwrap()
    }

    async fn claims(&self, call: &StoredCall) -> Fence {
        match self.begin(call).await {
            Claim::Run(fence) => fence,
            other => panic!("{other:?}"),
        }
    }

    async fn finishes(&self, call: &StoredCall, fence: Fence, answer: &'static str) -> bool {
        let answer = Bytes::from(answer);
        self.store.finish(call, fence, Some(&answer)).await.is_ok()
    }

    async fn runs(&self, call: &StoredCall, answer: &'static str) {
        let fence = self.claims(call).await;
        assert!(self.finishes(call, fence, answer).await);
    }
}

fn again(call: &StoredCall) -> StoredCall {
    StoredCall {
        repeated: true,
        elsewhere: true,
        ..call.clone()
    }
}

/// A test on a Redis that keeps this.
fn on_redis<F>(name: &'static str, keeps: Keeps, test: impl FnOnce(Redis) -> F + Send + 'static)
where
    F: Future<Output = ()> + Send + 'static,
{
    watch::run(async move {
        if let Some(redis) = Redis::start(name, keeps) {
            test(redis).await;
        }
    });
}

#[test]
fn an_answer_of_one_server_is_the_answer_of_all() {
    on_redis("answers", Keeps::Nothing, async |redis| {
        let (a, b) = (
            Member::join(options(&redis)).await,
            Member::join(options(&redis)).await,
        );
        assert_eq!(a.epoch, b.epoch);
        let call = a.call(1);
        a.runs(&call, "one").await;
        for member in [&a, &b] {
            assert_eq!(member.begin(&call).await, Claim::Replay("one".into()));
            let other = StoredCall {
                digest: [8; 16],
                ..call.clone()
            };
            assert_eq!(member.begin(&other).await, Claim::Mismatch);
        }
        // The same id of somebody else is another call.
        let other = StoredCall {
            principal: "bob".into(),
            ..call.clone()
        };
        b.runs(&other, "two").await;
        assert_eq!(a.begin(&other).await, Claim::Replay("two".into()));
        // An answer that is not kept.
        let big = a.call(2);
        let fence = a.claims(&big).await;
        a.store.finish(&big, fence, None).await.unwrap();
        assert_eq!(b.begin(&big).await, Claim::OutcomeUnknown);
        // A fleet of another name knows nothing of it.
        let apart = Member::join(RedisOptions {
            prefix: "other:".into(),
            ..options(&redis)
        })
        .await;
        assert_ne!(apart.epoch, a.epoch);
        apart
            .runs(
                &StoredCall {
                    epoch: apart.epoch,
                    ..call
                },
                "three",
            )
            .await;
        let stats = b.store.stats();
        assert_eq!((stats.replayed, stats.leases, stats.refused), (1, 0, 0));
    });
}

#[test]
fn who_meets_a_call_that_runs_elsewhere_waits_for_its_end() {
    on_redis("waiting", Keeps::Nothing, async |redis| {
        let (a, b) = (
            Member::join(options(&redis)).await,
            Member::join(options(&redis)).await,
        );
        let call = a.call(1);
        let fence = a.claims(&call).await;
        let store = b.store.clone();
        let twin = call.clone();
        let waiting = tokio::spawn(async move { store.begin(&twin).await });
        watch::eventually("it waits", || b.store.stats().waited == 1).await;
        assert!(a.finishes(&call, fence, "late").await);
        let claim = watch::within("the twin", waiting).await.unwrap().unwrap();
        assert_eq!(claim, Claim::Replay("late".into()));

        // One that its handler refused is run by who waits.
        let call = a.call(2);
        let fence = a.claims(&call).await;
        let (store, twin) = (b.store.clone(), call.clone());
        let waiting = tokio::spawn(async move { store.begin(&twin).await });
        watch::eventually("it waits", || b.store.stats().waited == 2).await;
        a.store.abandon(&call, fence).await.unwrap();
        let claim = watch::within("the twin", waiting).await.unwrap().unwrap();
        assert!(
            matches!(claim, Claim::Run(other) if other != fence),
            "{claim:?}"
        );

        // So is a numbered one.
        let call = a.numbered(50, 1);
        let fence = a.claims(&call).await;
        a.store.abandon(&call, fence).await.unwrap();
        b.runs(&again(&call), "at last").await;

        // One whose server says nothing more, of a wait that nobody waits for any more: no trace.
        let waited = Instant::now();
        let call = a.call(3);
        a.claims(&call).await;
        let limit = Duration::from_millis(50);
        assert!(
            tokio::time::timeout(limit, b.store.begin(&call))
                .await
                .is_err()
        );
        assert!(waited.elapsed() < LEASE);
    });
}

#[test]
fn a_call_whose_lease_has_lapsed_is_unknown_and_never_runs_again() {
    on_redis("lapsed", Keeps::Nothing, async |redis| {
        let (a, b) = (
            Member::join(options(&redis)).await,
            Member::join(options(&redis)).await,
        );
        let call = a.call(1);
        let fence = a.claims(&call).await;
        // As if nothing had been heard of its server for so long.
        redis.command(&format!("HSET witrpc:call:ann:{} until 1", call.invocation));
        assert_eq!(b.begin(&call).await, Claim::OutcomeUnknown);
        // It lived all the time: what it says comes too late.
        assert!(!a.finishes(&call, fence, "too late").await);
        assert_eq!(a.store.stats().leases_lost, 1);
        for member in [&a, &b] {
            assert_eq!(member.begin(&call).await, Claim::OutcomeUnknown);
        }
        // Who knows from elsewhere that it was not executed may run it.
        let free = StoredCall {
            not_executed: true,
            ..call.clone()
        };
        let other_fence = b.claims(&free).await;
        assert!(!a.finishes(&call, fence, "too late again").await);
        a.store.abandon(&call, fence).await.unwrap();
        assert!(b.finishes(&free, other_fence, "after all").await);
        assert_eq!(a.begin(&call).await, Claim::Replay("after all".into()));
    });
}

#[test]
fn a_lease_is_renewed_while_its_call_runs_and_lapses_with_its_server() {
    on_redis("leases", Keeps::Nothing, async |redis| {
        let lease = Duration::from_millis(300);
        let short = RedisOptions {
            lease,
            ..options(&redis)
        };
        let (a, b) = (Member::join(short.clone()).await, Member::join(short).await);
        let (slow, gone) = (a.call(1), a.call(2));
        let fence = a.claims(&slow).await;
        let store = b.store.clone();
        let twin = slow.clone();
        let waiting = tokio::spawn(async move { store.begin(&twin).await });
        // What is measured is time itself: several leases long.
        tokio::time::sleep(lease * 3).await;
        assert!(a.finishes(&slow, fence, "slow").await);
        let claim = watch::within("the twin", waiting).await.unwrap().unwrap();
        assert_eq!(claim, Claim::Replay("slow".into()));
        a.claims(&gone).await;
        a.store.close().await;
        assert_eq!(b.begin(&gone).await, Claim::OutcomeUnknown);
        // A store that was closed may be opened again; one that is open may not.
        assert!(b.store.open().await.is_err());
        assert!(a.store.begin(&gone).await.is_err());
        a.store.open().await.unwrap();
        assert_eq!(a.begin(&gone).await, Claim::OutcomeUnknown);
    });
}

#[test]
fn numbers_outlast_answers() {
    on_redis("numbers", Keeps::Nothing, async |redis| {
        let short = RedisOptions {
            hold: Duration::from_millis(200),
            ..options(&redis)
        };
        let (a, b) = (Member::join(short.clone()).await, Member::join(short).await);
        let (first, plain) = (a.numbered(1, 1), a.call(100));
        a.runs(&first, "one").await;
        a.runs(&plain, "plain").await;
        assert_eq!(b.begin(&first).await, Claim::Replay("one".into()));
        watch::eventually("the answers are gone", || {
            redis.keys("witrpc:call:*").is_empty()
        })
        .await;
        // Late, not said to be a repetition, at another server: it is known all the same.
        assert_eq!(b.begin(&first).await, Claim::OutcomeUnknown);
        assert_eq!(b.begin(&again(&first)).await, Claim::OutcomeUnknown);
        // Without a number only its record knew it.
        b.runs(&plain, "twice").await;
        // A number that has not come yet runs, also as a repetition.
        b.runs(&again(&b.numbered(2, 1)), "two").await;
    });
}

#[test]
fn what_a_client_gave_up_is_let_go_of_and_never_runs() {
    on_redis("marks", Keeps::Nothing, async |redis| {
        let (a, b) = (
            Member::join(options(&redis)).await,
            Member::join(options(&redis)).await,
        );
        for number in 1..=100 {
            a.runs(&a.numbered(number, 1), "x").await;
        }
        assert_eq!(redis.keys("witrpc:call:*").len(), 100);
        // A few at a time.
        b.runs(&b.numbered(101, 101), "x").await;
        b.runs(&b.numbered(102, 101), "x").await;
        assert_eq!(redis.keys("witrpc:call:*").len(), 2);
        for number in [1, 57, 100] {
            assert_eq!(a.begin(&a.numbered(number, 1)).await, Claim::OutcomeUnknown);
        }
    });
}

#[test]
fn a_client_that_was_forgotten_is_not_taken_for_a_new_one() {
    on_redis("clients", Keeps::Nothing, async |redis| {
        let short = RedisOptions {
            hold: Duration::from_millis(100),
            client_hold: Duration::from_millis(300),
            ..options(&redis)
        };
        let a = Member::join(short).await;
        // The store is young: nobody can have been forgotten.
        let early = a.numbered(1, 1);
        a.runs(&again(&early), "one").await;
        watch::eventually("the client is forgotten", || {
            redis.keys("witrpc:begun:*").is_empty()
        })
        .await;
        assert_eq!(a.begin(&again(&early)).await, Claim::OutcomeUnknown);
        // It goes on: later calls run, repeated ones too; what lies before may have come.
        a.runs(&a.numbered(5, 1), "five").await;
        assert_eq!(
            a.begin(&again(&a.numbered(4, 1))).await,
            Claim::OutcomeUnknown
        );
        a.runs(&again(&a.numbered(6, 1)), "six").await;
        // What came to this process only is known by its own memory.
        let here = StoredCall {
            repeated: true,
            ..a.numbered(3, 1)
        };
        a.runs(&here, "three").await;
    });
}

#[test]
fn a_redis_that_was_emptied_begins_a_new_epoch() {
    on_redis("emptied", Keeps::Nothing, async |redis| {
        let (a, b) = (
            Member::join(options(&redis)).await,
            Member::join(options(&redis)).await,
        );
        let (call, running) = (a.numbered(1, 1), a.call(2));
        a.runs(&call, "one").await;
        let fence = a.claims(&running).await;
        redis.command("FLUSHALL");
        // Told before anybody has noticed: what was known of the call is lost.
        assert_eq!(b.begin(&again(&call)).await, Claim::OutcomeUnknown);
        // A fresh call of a client that was told the old epoch does not run either: a twin of it may have come before.
        assert!(b.store.begin(&b.numbered(9, 1)).await.is_err());
        watch::eventually("the new epoch", || {
            a.epoch_now() != a.epoch && a.epoch_now() == b.epoch_now()
        })
        .await;
        assert_eq!(b.begin(&again(&call)).await, Claim::OutcomeUnknown);
        assert!(b.store.begin(&call).await.is_err());
        // The answer of the one that ran meanwhile can't be stored.
        assert!(!a.finishes(&running, fence, "lost").await);
        // Calls of the new epoch run.
        let fresh = StoredCall {
            epoch: a.epoch_now(),
            ..a.numbered(10, 1)
        };
        a.runs(&fresh, "ten").await;
        assert_eq!(b.begin(&fresh).await, Claim::Replay("ten".into()));
        assert!(a.store.stats().epochs >= 1);
    });
}

#[test]
fn a_redis_that_comes_back_empty_or_may_have_lost_something_begins_a_new_epoch() {
    for (keeps, trusted) in [
        (Keeps::Nothing, true),
        (Keeps::Nothing, false),
        (Keeps::Everything, false),
    ] {
        on_redis("killed", keeps, async move |mut redis| {
            let a = Member::join(RedisOptions {
                trust_restarts: trusted,
                ..options(&redis)
            })
            .await;
            let (call, plain) = (a.numbered(1, 1), a.call(2));
            a.runs(&call, "one").await;
            a.runs(&plain, "two").await;
            redis.restart();
            watch::eventually("the new epoch", || a.epoch_now() != a.epoch).await;
            assert_eq!(a.begin(&again(&call)).await, Claim::OutcomeUnknown);
            // What is still there counts.
            let plain = StoredCall {
                epoch: a.epoch_now(),
                ..plain
            };
            match keeps {
                Keeps::Everything => assert_eq!(a.begin(&plain).await, Claim::Replay("two".into())),
                Keeps::Nothing => a.runs(&plain, "two").await,
            }
        });
    }
}

#[test]
fn a_redis_that_keeps_everything_may_be_trusted_over_restarts() {
    on_redis("kept", Keeps::Everything, async |mut redis| {
        let trusting = RedisOptions {
            trust_restarts: true,
            ..options(&redis)
        };
        let (a, b) = (
            Member::join(trusting.clone()).await,
            Member::join(trusting).await,
        );
        let (done, running) = (a.numbered(1, 1), a.numbered(2, 1));
        a.runs(&done, "one").await;
        let fence = a.claims(&running).await;
        redis.kill();
        // Asked while it is away, answered when it is back.
        let (store, twin) = (b.store.clone(), again(&done));
        let waiting = tokio::spawn(async move { store.begin(&twin).await });
        redis.restart();
        let claim = watch::within("the claim", waiting).await.unwrap().unwrap();
        assert_eq!(claim, Claim::Replay("one".into()));
        assert!(a.finishes(&running, fence, "two").await);
        assert_eq!(b.begin(&again(&running)).await, Claim::Replay("two".into()));
        assert_eq!((a.epoch_now(), b.epoch_now()), (a.epoch, a.epoch));
    });
}

#[test]
fn without_redis_nothing_begins_and_no_answer_counts() {
    on_redis("away", Keeps::Everything, async |mut redis| {
        let quick = RedisOptions {
            timeout: Duration::from_millis(400),
            trust_restarts: true,
            ..options(&redis)
        };
        let a = Member::join(quick.clone()).await;
        let (running, fresh) = (a.numbered(1, 1), a.numbered(2, 1));
        let fence = a.claims(&running).await;
        redis.kill();
        let begun = Instant::now();
        let error = a.store.begin(&fresh).await.unwrap_err();
        assert!(error.to_string().starts_with("Redis: "), "{error}");
        assert!(!a.finishes(&running, fence, "lost").await);
        assert!(
            begun.elapsed() < Duration::from_secs(5),
            "{:?}",
            begun.elapsed()
        );
        // Who comes now is told at once.
        let begun = Instant::now();
        assert!(a.store.begin(&fresh).await.is_err());
        assert!(
            begun.elapsed() < Duration::from_millis(200),
            "{:?}",
            begun.elapsed()
        );
        assert!(!a.store.stats().is_connected);
        // No server starts without it.
        let other = RedisStore::new(quick).unwrap();
        assert!(other.open().await.is_err());
        redis.restart();
        watch::eventually("the connection", || a.store.stats().is_connected).await;
        // It did not run, and may now; the other one's outcome stays unknown once its lease is over.
        a.runs(&fresh, "two").await;
        assert!(a.store.stats().connections >= 2);
    });
}

#[test]
fn a_frozen_redis_holds_nobody_up_and_a_claim_that_was_on_its_way_is_taken_back() {
    on_redis("frozen", Keeps::Nothing, async |redis| {
        let quick = RedisOptions {
            timeout: Duration::from_millis(400),
            ..options(&redis)
        };
        let a = Member::join(quick.clone()).await;
        let (first, running) = (a.numbered(1, 1), a.numbered(2, 1));
        let fence = a.claims(&running).await;
        redis.freeze();
        let begun = Instant::now();
        assert!(a.store.begin(&first).await.is_err());
        assert!(!a.finishes(&running, fence, "slow").await);
        assert!(
            begun.elapsed() < Duration::from_secs(5),
            "{:?}",
            begun.elapsed()
        );
        redis.thaw();
        watch::eventually("the connection", || a.store.stats().is_connected).await;
        // The claim reaches Redis after all, from a connection that nobody holds any more; it is
        // taken back, or found to be without an answer. It never counts as one that ran.
        match a.begin(&first).await {
            Claim::Run(fence) => assert!(a.finishes(&first, fence, "one").await),
            Claim::OutcomeUnknown => {}
            other => panic!("{other:?}"),
        }
    });
}

#[test]
fn with_replicas_asked_for_nothing_counts_before_they_have_it() {
    on_redis("replicas", Keeps::Nothing, async |redis| {
        let strict = RedisOptions {
            wait_replicas: 1,
            timeout: Duration::from_millis(600),
            ..options(&redis)
        };
        let a = Member::join(RedisOptions {
            timeout: Duration::from_secs(5),
            ..strict.clone()
        })
        .await;
        let mut replica = redis.replica();
        let call = a.numbered(1, 1);
        a.runs(&call, "one").await;
        // It is there when this returns.
        assert_eq!(replica.keys("witrpc:call:*").len(), 1);
        let b = Member::join(strict).await;
        replica.freeze();
        assert!(b.store.begin(&b.numbered(2, 1)).await.is_err());
        replica.thaw();
        a.runs(&a.numbered(3, 1), "three").await;

        // The primary is lost, and the replica takes its place at the servers' next connection.
        drop(redis);
        replica.command("REPLICAOF NO ONE");
        let promoted = Member::join(options(&replica)).await;
        assert_ne!(promoted.epoch, a.epoch, "clients must not repeat over it");
        let plain = StoredCall {
            epoch: promoted.epoch,
            ..call
        };
        assert_eq!(promoted.begin(&plain).await, Claim::Replay("one".into()));
        replica.kill();
    });
}

#[test]
fn a_redis_that_is_no_good_is_refused_with_the_reason() {
    on_redis("unfit", Keeps::Nothing, async |redis| {
        let quick = RedisOptions {
            timeout: Duration::from_millis(500),
            ..options(&redis)
        };
        let open = async |options: RedisOptions| {
            let store = RedisStore::new(options).unwrap();
            store.open().await.unwrap_err().to_string()
        };
        redis.command("CONFIG SET maxmemory 100mb");
        redis.command("CONFIG SET maxmemory-policy allkeys-lru");
        let error = open(quick.clone()).await;
        assert!(error.contains("noeviction"), "{error}");
        redis.command("CONFIG SET maxmemory-policy noeviction");
        let replica = redis.replica();
        let error = open(RedisOptions {
            url: replica.url(),
            ..quick.clone()
        })
        .await;
        assert!(error.contains("replica"), "{error}");
        redis.command("CONFIG SET requirepass secret");
        let error = open(quick.clone()).await;
        assert!(
            error.contains("NOAUTH") || error.to_lowercase().contains("auth"),
            "{error}"
        );
        let url = redis.url().replace("redis://", "redis://:secret@");
        let member = Member::join(RedisOptions { url, ..quick }).await;
        assert!(!format!("{:?}", member.store).contains("secret"));
        member.runs(&member.call(1), "one").await;
    });
}

#[test]
fn a_redis_may_be_reached_over_tls() {
    on_redis("TLS", Keeps::Nothing, async |redis| {
        let Some(url) = redis.listen_with_tls() else {
            return watch::skip("the store over TLS", "this Redis was built without TLS");
        };
        let mut trusting = RedisOptions {
            url: url.clone(),
            ..options(&redis)
        };
        let ca = concat!(env!("CARGO_MANIFEST_DIR"), "/../certs/ca.pem");
        trusting.tls.authorities = Some(std::fs::read(ca).unwrap());
        let (a, b) = (
            Member::join(trusting).await,
            Member::join(options(&redis)).await,
        );
        a.runs(&a.call(1), "sealed").await;
        assert_eq!(b.begin(&b.call(1)).await, Claim::Replay("sealed".into()));
        // Who does not know the authority is not taken in.
        let strange = RedisOptions {
            url,
            timeout: Duration::from_millis(500),
            ..options(&redis)
        };
        let error = RedisStore::new(strange).unwrap().open().await.unwrap_err();
        assert!(error.to_string().contains("certificate"), "{error}");
    });
}

#[test]
fn a_full_redis_begins_nothing() {
    on_redis("full", Keeps::Nothing, async |redis| {
        let a = Member::join(options(&redis)).await;
        let running = a.call(1);
        let fence = a.claims(&running).await;
        redis.command("CONFIG SET maxmemory 1");
        let error = a.store.begin(&a.call(2)).await.unwrap_err().to_string();
        assert!(error.contains("OOM"), "{error}");
        assert!(!a.finishes(&running, fence, "lost").await);
        redis.command("CONFIG SET maxmemory 0");
        a.runs(&a.call(2), "two").await;
    });
}

#[test]
fn scripts_that_redis_forgot_are_sent_in_full() {
    on_redis("scripts", Keeps::Nothing, async |redis| {
        let a = Member::join(options(&redis)).await;
        redis.command("SCRIPT FLUSH");
        let call = a.numbered(1, 1);
        a.runs(&call, "one").await;
        assert_eq!(a.begin(&call).await, Claim::Replay("one".into()));
        assert_eq!(a.store.stats().connections, 1);
    });
}

#[test]
fn many_calls_at_once_share_the_way() {
    on_redis("many", Keeps::Nothing, async |redis| {
        let (a, b) = (
            Member::join(options(&redis)).await,
            Member::join(options(&redis)).await,
        );
        let (a, b) = (Arc::new(a), Arc::new(b));
        let mut tasks = Vec::new();
        for n in 0..400 {
            let (a, b) = (a.clone(), b.clone());
            // Each is sent to both at once: one runs it, the other gets its answer.
            tasks.push(tokio::spawn(async move {
                let call = a.call(1000 + n);
                let both = tokio::join!(one_end(&a, &call), one_end(&b, &call));
                assert_eq!(i32::from(both.0) + i32::from(both.1), 1, "{n}");
            }));
        }
        for task in tasks {
            watch::within("a pair", task).await.unwrap();
        }
        assert_eq!(a.store.stats().leases + b.store.stats().leases, 0);
    });
}

/// Runs a call unless the other server does. True if it ran here.
async fn one_end(member: &Member, call: &StoredCall) -> bool {
    match member.begin(call).await {
        Claim::Run(fence) => {
            assert!(member.finishes(call, fence, "both").await);
            true
        }
        Claim::Replay(answer) => {
            assert_eq!(answer, "both");
            false
        }
        other => panic!("{other:?}"),
    }
}
