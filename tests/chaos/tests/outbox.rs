//! Handlers that commit what they did together with its result, and a server that is killed at any moment: with a resolver every call is answered, and each was done once.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::task::JoinSet;
use witrpc::client::{Client, RetryPolicy};
use witrpc::resilience::reconnect::ReconnectOptions;
use witrpc_chaos::port::ReservedPort;
use witrpc_chaos::served::{Scratch, program};
use witrpc_chaos::watch;

const KILLS: usize = 40;
const CALLERS: usize = 8;

struct Bank(Child);

impl Bank {
    fn start(endpoint: &str, scratch: &Path) -> Self {
        let mut child = Command::new(program("witrpc-chaos-bank"))
            .arg(endpoint)
            .args([scratch.join("journal"), scratch.join("database")])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let stdout = child.stdout.as_mut().unwrap();
        BufReader::with_capacity(1, stdout)
            .read_line(&mut line)
            .unwrap();
        assert!(line.starts_with("listening "), "{line}");
        Self(child)
    }

    fn kill(&mut self) {
        let _ = self.0.kill();
        self.0.wait().unwrap();
    }
}

impl Drop for Bank {
    fn drop(&mut self) {
        self.kill();
    }
}

#[test]
fn with_an_outbox_every_call_of_a_killed_server_is_answered_and_done_once() {
    watch::run_for(Duration::from_secs(180), async {
        let (scratch, port) = (Scratch::new(), ReservedPort::new());
        let mut bank = Bank::start(&port.endpoint(), scratch.path());
        let client = Client::builder(&port.endpoint())
            .reconnect(ReconnectOptions {
                max_attempts: 0,
                initial_delay: Duration::from_millis(1),
                max_delay: Duration::from_millis(2),
                ..ReconnectOptions::default()
            })
            .retry(
                RetryPolicy::new()
                    .mark_deduplicated(["Pay"])
                    .max_retries(1_000)
                    .initial_delay(Duration::from_millis(1))
                    .max_delay(Duration::from_millis(5))
                    .budget(None),
            )
            .build()
            .unwrap();
        client.connect().await.unwrap();
        let service = client.service("Demo.IBank").unwrap();
        let (stop, paid) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicI64::new(0)),
        );
        let mut callers = JoinSet::new();
        for _ in 0..CALLERS {
            let (service, stop, paid) = (service.clone(), stop.clone(), paid.clone());
            callers.spawn(async move {
                let (mut calls, mut recalled) = (0, 0);
                while !stop.load(Ordering::SeqCst) {
                    let call = service.call::<i64>("long Pay(string, long)", ("a", 3));
                    let answer = call.encoded().await.unwrap();
                    paid.fetch_add(3, Ordering::SeqCst);
                    calls += 1;
                    recalled += usize::from(answer.replayed);
                }
                (calls, recalled)
            });
        }
        let mut rng = StdRng::seed_from_u64(1);
        for _ in 0..KILLS {
            let before = paid.load(Ordering::SeqCst);
            watch::eventually("an answer", || paid.load(Ordering::SeqCst) > before).await;
            tokio::time::sleep(Duration::from_micros(rng.random_range(0..20_000))).await;
            bank.kill();
            bank = Bank::start(&port.endpoint(), scratch.path());
        }
        stop.store(true, Ordering::SeqCst);
        let (mut calls, mut recalled) = (0, 0);
        while let Some(ended) = watch::within("the end", callers.join_next()).await {
            let ended = ended.unwrap();
            (calls, recalled) = (calls + ended.0, recalled + ended.1);
        }
        let balance = service.call::<i64>("long Pay(string, long)", ("a", 0));
        assert_eq!(balance.await.unwrap(), paid.load(Ordering::SeqCst));
        println!("{calls} calls, {recalled} of them answered from the database or the journal");
        assert!(recalled > 0);
    });
}
