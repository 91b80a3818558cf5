//! Servers that are stopped in order and started again, under load: a libwitrpc client is told, and
//! no call fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use witrpc::client::Client;
use witrpc::resilience::engine::State;
use witrpc::resilience::reconnect::ReconnectOptions;
use witrpc_chaos::demo::ECHO;
use witrpc_chaos::served::Served;
use witrpc_chaos::watch;

/// Callers without any retry policy, of which none may ever see an error.
struct Calling {
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicUsize>,
    callers: JoinSet<usize>,
}

impl Calling {
    fn start(client: &Client) -> Self {
        let (stop, answered) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let mut callers = JoinSet::new();
        for caller in 0..16 {
            let (stop, answered) = (stop.clone(), answered.clone());
            let echo = client.service(ECHO).unwrap();
            callers.spawn(async move {
                let mut made = 0;
                while !stop.load(Ordering::SeqCst) {
                    // Some take a while, so that there is always something that runs.
                    let ms = if caller < 4 { 30 } else { 0 };
                    let call = echo.call::<i32>("int Slow(int ms,int)", (ms, caller));
                    let result = watch::within("an answer", call.into_future()).await;
                    assert_eq!(result, Ok(caller), "caller {caller} after {made} calls");
                    made += 1;
                    answered.fetch_add(1, Ordering::SeqCst);
                }
                made
            });
        }
        Self {
            stop,
            answered,
            callers,
        }
    }

    async fn goes_on(&self) {
        let before = self.answered.load(Ordering::SeqCst);
        watch::eventually("calls go on", || {
            self.answered.load(Ordering::SeqCst) > before + 200
        })
        .await;
    }

    /// How many calls were made.
    async fn end(mut self) -> usize {
        self.stop.store(true, Ordering::SeqCst);
        let mut made = 0;
        while let Some(caller) = self.callers.join_next().await {
            made += caller.unwrap();
        }
        made
    }
}

fn soon() -> ReconnectOptions {
    ReconnectOptions {
        initial_delay: Duration::from_millis(20),
        max_delay: Duration::from_millis(100),
        max_attempts: 0,
        ..ReconnectOptions::default()
    }
}

async fn connected(endpoints: &[&Served]) -> Client {
    let mut builder = Client::builder(&endpoints[0].endpoint()).reconnect(soon());
    for served in &endpoints[1..] {
        builder = builder.endpoint(&served.endpoint());
    }
    let client = builder.build().unwrap();
    client.connect().await.unwrap();
    client
}

#[test]
fn a_server_that_is_restarted_in_order_under_load_costs_no_call() {
    watch::run(async {
        let mut served = Served::start(&[]);
        let client = connected(&[&served]).await;
        let calling = Calling::start(&client);
        for _ in 0..5 {
            calling.goes_on().await;
            served = tokio::task::spawn_blocking(move || {
                assert_eq!(served.roll(), Some(0));
                served
            })
            .await
            .unwrap();
        }
        calling.goes_on().await;
        let made = calling.end().await;
        assert_eq!(client.stats().reconnects, 5);
        assert_eq!(client.stats().retries, 0);
        assert_eq!(served.trace().len(), made, "each ran exactly once");
    });
}

#[test]
fn a_rolling_restart_of_two_servers_under_load_costs_no_call() {
    watch::run(async {
        let mut both = [Served::start(&[]), Served::start(&[])];
        let client = connected(&[&both[0], &both[1]]).await;
        let calling = Calling::start(&client);
        for n in [0, 1, 0, 1] {
            calling.goes_on().await;
            both = tokio::task::spawn_blocking(move || {
                assert_eq!(both[n].roll(), Some(0));
                both
            })
            .await
            .unwrap();
        }
        calling.goes_on().await;
        let made = calling.end().await;
        assert_eq!(client.state(), State::Connected);
        let ran: usize = both.iter().map(|served| served.trace().len()).sum();
        assert_eq!(ran, made, "each ran exactly once");
    });
}
