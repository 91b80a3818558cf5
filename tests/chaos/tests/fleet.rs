//! Servers that share a Redis, and clients that go from one to the other: a call that the first one executed and could not answer is answered by
//! the second, and nothing runs twice, whatever is killed.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use uuid::Uuid;
use witrpc::client::{Client, RetryPolicy};
use witrpc::resilience::engine::{Answer, State};
use witrpc::resilience::reconnect::ReconnectOptions;
use witrpc::server::Server;
use witrpc::server::store::{RedisOptions, RedisStore};
use witrpc::{ErrorCode, Outcome, Result};
use witrpc_chaos::demo::{Demo, ECHO, endpoint};
use witrpc_chaos::load::{Ledger, Load, Rule, Tally};
use witrpc_chaos::proxy::Proxy;
use witrpc_chaos::recorder::Recorder;
use witrpc_chaos::redis::{Keeps, Redis};
use witrpc_chaos::served::Served;
use witrpc_chaos::trace::Trace;
use witrpc_chaos::watch;

/// Loads take both cores.
static ALONE: Mutex<()> = Mutex::new(());

fn soon() -> ReconnectOptions {
    ReconnectOptions {
        max_attempts: 0,
        initial_delay: Duration::from_millis(1),
        max_delay: Duration::from_millis(10),
        ..ReconnectOptions::default()
    }
}

fn eager(methods: &[&str]) -> RetryPolicy {
    RetryPolicy::new()
        .mark_deduplicated(methods.iter().copied())
        .max_retries(500)
        .initial_delay(Duration::from_millis(1))
        .max_delay(Duration::from_millis(20))
        .budget(None)
}

/// A server of the fleet in this process, and a way to it that can be cut.
struct Member {
    demo: Demo,
    server: Server,
    store: Arc<RedisStore>,
    proxy: Proxy,
}

impl Member {
    async fn join(redis: &Redis) -> Self {
        let store = Arc::new(RedisStore::new(RedisOptions::new(redis.url())).unwrap());
        let demo = Demo::default();
        let server = demo.durable_server(store.clone()).start().await.unwrap();
        let address = endpoint(&server)["tcp://".len()..].parse().unwrap();
        let proxy = Proxy::start(address, 1);
        Self {
            demo,
            server,
            store,
            proxy,
        }
    }
}

fn client_of(members: [&Member; 2]) -> Client {
    let [a, b] = members.map(|member| member.proxy.endpoint());
    let builder = Client::builder(&a).endpoint(&b).reconnect(soon());
    builder.retry(eager(&["Hold", "CountUp"])).build().unwrap()
}

fn hold(client: &Client, id: Option<Uuid>) -> tokio::task::JoinHandle<Result<Answer>> {
    let echo = client.service(ECHO).unwrap();
    tokio::spawn(async move {
        let mut call = echo.call::<i32>("int Hold(int)", (7,));
        if let Some(id) = id {
            call = call.invocation_id(id);
        }
        call.encoded().await
    })
}

#[test]
fn a_call_that_the_first_server_executed_and_could_not_answer_is_answered_by_the_second() {
    watch::run(async {
        let Some(redis) = Redis::start("a call that moves on", Keeps::Nothing) else {
            return;
        };
        for (own_id, ends_before) in [
            (None, true),
            (None, false),
            (Some(Uuid::from_u128(9)), false),
        ] {
            let (a, b) = (Member::join(&redis).await, Member::join(&redis).await);
            let client = client_of([&a, &b]);
            client.connect().await.unwrap();
            let call = hold(&client, own_id);
            watch::eventually("it runs", || a.server.stats().running == 1).await;
            // The way to the first server is gone for good.
            if ends_before {
                b.proxy.down().await;
                a.proxy.down().await;
                a.demo.gate.add_permits(1);
                watch::eventually("it has ended", || a.server.stats().running == 0).await;
                b.proxy.up();
            } else {
                a.proxy.down().await;
                watch::eventually("the second one waits", || b.store.stats().waited == 1).await;
                a.demo.gate.add_permits(1);
            }
            let answer = watch::within("the answer", call).await.unwrap().unwrap();
            assert!(answer.replayed && answer.attempts >= 2, "{answer:?}");
            let ran = [&a, &b].map(|member| member.demo.trace().of_method("Hold"));
            assert_eq!(ran, [1, 0]);
            assert_eq!(b.store.stats().replayed, 1);
        }
    });
}

#[test]
fn two_clients_with_one_id_at_two_servers_get_one_execution_and_one_answer() {
    watch::run(async {
        let Some(redis) = Redis::start("one id at two servers", Keeps::Nothing) else {
            return;
        };
        let members = [Member::join(&redis).await, Member::join(&redis).await];
        let mut echoes = Vec::new();
        for member in &members {
            let client = Client::builder(&endpoint(&member.server)).build().unwrap();
            client.connect().await.unwrap();
            echoes.push(client.service(ECHO).unwrap());
        }
        for n in 1..=50 {
            let calls = echoes.iter().map(|echo| {
                let call = echo.call::<usize>("int CountUp(int)", (1,));
                call.invocation_id(Uuid::from_u128(n)).into_future()
            });
            let calls: Vec<_> = calls.map(tokio::spawn).collect();
            let mut answers = Vec::new();
            for call in calls {
                answers.push(watch::within("an answer", call).await.unwrap().unwrap());
            }
            assert_eq!(answers[0], answers[1], "call {n}");
        }
        // The same id for something else.
        let other = echoes[1].call::<usize>("int CountUp(int)", (2,));
        let error = other.invocation_id(Uuid::from_u128(1)).await.unwrap_err();
        assert_eq!(error.outcome(), Outcome::Answered, "{error:?}");
        let trace = Trace::of_all(members.iter().map(|member| member.demo.trace()));
        assert_eq!((trace.len(), trace.repeated()), (50, vec![]));
    });
}

#[test]
fn when_records_were_lost_clients_begin_anew_and_what_was_on_its_way_is_unknown() {
    watch::run(async {
        let Some(redis) = Redis::start("a new epoch", Keeps::Nothing) else {
            return;
        };
        let (a, b) = (Member::join(&redis).await, Member::join(&redis).await);
        let recorder = Recorder::default();
        let [to_a, to_b] = [&a, &b].map(|member| member.proxy.endpoint());
        let builder = Client::builder(&to_a).endpoint(&to_b).reconnect(soon());
        let builder = builder.retry(eager(&["Hold", "CountUp"]));
        let client = recorder.attach(builder).build().unwrap();
        client.connect().await.unwrap();
        let call = hold(&client, None);
        watch::eventually("it runs", || a.server.stats().running == 1).await;
        redis.command("FLUSHALL");
        // Its connection was told the old epoch: it is made to leave without anybody asking for it.
        watch::eventually("the client comes back", || recorder.reconnected() >= 1).await;
        watch::within("the link", client.wait_for(State::Connected))
            .await
            .unwrap();
        let echo = client.service(ECHO).unwrap();
        let counted = echo.call::<usize>("int CountUp(int)", (1,)).await;
        assert_eq!(counted, Ok(1));
        a.demo.gate.add_permits(9);
        b.demo.gate.add_permits(9);
        let error = watch::within("the end", call).await.unwrap().unwrap_err();
        assert_eq!(
            (error.code(), error.outcome()),
            (ErrorCode::OutcomeUnknown, Outcome::Unknown)
        );
        let ran = Trace::of_all([a.demo.trace(), b.demo.trace()]);
        assert_eq!(ran.of_method("Hold"), 1);
    });
}

#[test]
fn without_redis_durable_calls_are_refused_and_run_once_it_is_back() {
    watch::run(async {
        let Some(mut redis) = Redis::start("no Redis", Keeps::Everything) else {
            return;
        };
        let store = RedisStore::new(RedisOptions {
            timeout: Duration::from_millis(100),
            trust_restarts: true,
            ..RedisOptions::new(redis.url())
        });
        let demo = Demo::default();
        let server = demo.durable_server(store.unwrap()).start().await.unwrap();
        let client = Client::builder(&endpoint(&server)).build().unwrap();
        client.connect().await.unwrap();
        let echo = client.service(ECHO).unwrap();
        redis.kill();
        let error = echo
            .call::<usize>("int CountUp(int)", (1,))
            .await
            .unwrap_err();
        assert_eq!(
            (error.code(), error.outcome()),
            (ErrorCode::Overloaded, Outcome::Answered)
        );
        assert!(demo.trace().is_empty());
        let patient = Client::builder(&endpoint(&server))
            .retry(eager(&["CountUp"]))
            .build()
            .unwrap();
        patient.connect().await.unwrap();
        let echo = patient.service(ECHO).unwrap();
        let call = tokio::spawn(async move { echo.call::<usize>("int CountUp(int)", (1,)).await });
        redis.restart();
        assert_eq!(watch::within("the answer", call).await.unwrap(), Ok(1));
        assert_eq!(demo.trace().of_method("CountUp"), 1);
    });
}

/// Two serving processes on one Redis, and clients that go from one to the other.
struct Fleet {
    servers: Vec<Served>,
    clients: Vec<Client>,
    loads: Vec<Load>,
}

const LEASE: &str = "400ms";

/// How often a server is killed.
const KILLS: usize = 25;

impl Fleet {
    async fn start(redis: &Redis, more: &[&str]) -> Self {
        let mut args = vec!["--redis-lease", LEASE, "--redis-timeout", "1s"];
        let url = redis.url();
        args.extend(["--redis", &url]);
        args.extend(more);
        let servers = vec![Served::start(&args), Served::start(&args)];
        let (mut clients, mut loads) = (Vec::new(), Vec::new());
        for n in 0..4 {
            // Each begins at another one.
            let (first, second) = (&servers[n % 2], &servers[(n + 1) % 2]);
            let client = Client::builder(&first.endpoint())
                .endpoint(&second.endpoint())
                .reconnect(soon())
                .retry(eager(&["Echo", "CountUp"]))
                .build()
                .unwrap();
            client.connect().await.unwrap();
            loads.push(Load::start(&client, 9, n as u64));
            clients.push(client);
        }
        Self {
            servers,
            clients,
            loads,
        }
    }

    fn answered(&self) -> usize {
        self.loads.iter().map(Load::answered).sum()
    }

    async fn goes_on(&self, calls: usize) {
        let before = self.answered();
        watch::eventually("answers", || self.answered() > before + calls).await;
    }

    /// Nothing ran twice, and what was answered ran once.
    async fn end(self) -> Tally {
        let mut ledgers = Vec::new();
        for load in self.loads {
            ledgers.push(load.finish().await);
        }
        let trace = Trace::of_all(self.servers.iter().map(Served::trace));
        let tally = Ledger::all(ledgers).judge(&trace, Rule::AtMostOnce, false);
        println!("{tally:?}, {} executed", trace.len());
        assert_eq!((tally.not_sent, tally.refused), (0, 0), "{tally:?}");
        drop(self.clients);
        tally
    }
}

#[test]
fn servers_that_are_killed_at_random_cost_no_answer_and_run_nothing_twice() {
    let _alone = ALONE.lock();
    watch::run(async {
        let Some(redis) = Redis::start("servers are killed", Keeps::Nothing) else {
            return;
        };
        let mut rng = StdRng::seed_from_u64(5);
        let mut fleet = Fleet::start(&redis, &[]).await;
        for _ in 0..KILLS {
            fleet.goes_on(rng.random_range(20..200)).await;
            let one = rng.random_range(0..2);
            // Sometimes both are gone for a while.
            if rng.random_bool(0.2) {
                fleet.servers[1 - one].kill();
                fleet.servers[1 - one].restart();
            }
            fleet.servers[one].restart();
        }
        fleet.goes_on(500).await;
        let tally = fleet.end().await;
        assert!(tally.answered > KILLS * 100, "{tally:?}");
        // Those that were running when their server was killed, and no others.
        assert!(tally.unknown < tally.answered / 10, "{tally:?}");
    });
}

#[test]
fn a_redis_that_is_killed_emptied_and_frozen_under_load_makes_nothing_run_twice() {
    let _alone = ALONE.lock();
    watch::run(async {
        for (keeps, more) in [
            (Keeps::Nothing, &[][..]),
            (Keeps::Everything, &[]),
            (Keeps::Everything, &["--redis-trust-restarts"]),
        ] {
            let Some(mut redis) = Redis::start("Redis is killed", keeps) else {
                return;
            };
            let fleet = Fleet::start(&redis, more).await;
            for round in 0..6 {
                fleet.goes_on(100).await;
                match round % 3 {
                    0 => redis.restart(),
                    1 => {
                        redis.freeze();
                        tokio::time::sleep(Duration::from_millis(200)).await;
                        redis.thaw();
                    }
                    _ => drop(redis.command("FLUSHALL")),
                }
            }
            fleet.goes_on(300).await;
            let tally = fleet.end().await;
            assert!(tally.answered > 900, "{tally:?}");
        }
    });
}

#[test]
fn killed_servers_and_a_redis_that_keeps_everything_together_lose_no_answer() {
    let _alone = ALONE.lock();
    watch::run(async {
        let Some(mut redis) = Redis::start("everything is killed", Keeps::Everything) else {
            return;
        };
        let mut rng = StdRng::seed_from_u64(6);
        let mut fleet = Fleet::start(&redis, &["--redis-trust-restarts"]).await;
        for _ in 0..10 {
            fleet.goes_on(rng.random_range(20..100)).await;
            match rng.random_range(0..3) {
                0 => redis.restart(),
                one => fleet.servers[one - 1].restart(),
            }
        }
        fleet.goes_on(200).await;
        let tally = fleet.end().await;
        assert!(tally.unknown < tally.answered / 5, "{tally:?}");
    });
}
