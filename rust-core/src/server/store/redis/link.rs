//! The connection to Redis: one at a time, made anew whenever it fails.
//!
//! Owns sending. What is asked for meanwhile is collected and goes out together, so that many calls share a way
//! there and back, and a wait for replicas. What was not answered is sent again, on another connection, until its
//! time is over: scripts allow for that. Never: decide what an answer means for a call.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, ConnectionAddr, Pipeline, RedisError, Value};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;

use super::scripts::{self, Keys, Request, Script};
use crate::transport::tls::ClientConfig;

/// Requests that go out together, and their bytes; one always goes.
const MAX_BATCH: usize = 128;
const MAX_BATCH_BYTES: usize = 1024 * 1024;

/// Requests that wait. More are held back where they come from.
const MAX_WAITING: usize = 4096;

/// Time between attempts to connect.
const FIRST_DELAY: Duration = Duration::from_millis(20);
const MAX_DELAY: Duration = Duration::from_secs(1);

/// Why a request was not answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) reason: String,
    /// It may have been executed all the same.
    pub(super) may_have_happened: bool,
}

/// What the link is made of.
#[derive(Clone)]
pub(super) struct LinkOptions {
    pub(super) client: Client,
    pub(super) tls: Option<Arc<ClientConfig>>,
    pub(super) keys: Keys,
    pub(super) trust_restarts: bool,
    pub(super) wait_replicas: u32,
    /// How long a request may take, all in all.
    pub(super) timeout: Duration,
}

impl LinkOptions {
    /// How long an answer may take until the connection is given up, and how long connecting may.
    fn patience(&self) -> Duration {
        self.timeout / 2
    }
}

/// What is known of the other end.
#[derive(Debug)]
struct State {
    epoch: watch::Sender<Option<u64>>,
    /// Since when there is no connection, and why.
    down: Mutex<Option<(Instant, String)>>,
    connected: AtomicU64,
    /// The epoch may be another one by now.
    suspect: AtomicBool,
}

struct Job {
    request: Request,
    deadline: Instant,
    /// The script is not known there.
    in_full: bool,
    /// It was sent, and nothing was heard of it.
    unheard: bool,
    reply: oneshot::Sender<Result<Value, Failure>>,
}

impl Job {
    fn fail(self, reason: &str) {
        let _ = self.reply.send(Err(Failure {
            reason: reason.to_owned(),
            may_have_happened: self.unheard,
        }));
    }
}

/// See the [module](self). Clones share it; it ends with the last of them.
#[derive(Debug, Clone)]
pub(super) struct Link {
    queue: mpsc::Sender<Job>,
    state: Arc<State>,
    timeout: Duration,
}

impl Link {
    /// Starts it, on the tokio runtime that this is called in.
    pub(super) fn start(options: LinkOptions) -> Self {
        let (queue, jobs) = mpsc::channel(MAX_WAITING);
        let state = Arc::new(State {
            epoch: watch::Sender::new(None),
            down: Mutex::new(Some((Instant::now(), "not connected yet".to_owned()))),
            connected: AtomicU64::new(0),
            suspect: AtomicBool::new(false),
        });
        let timeout = options.timeout;
        let task = Task {
            options,
            state: state.clone(),
            jobs,
            waiting: VecDeque::new(),
            delay: Duration::ZERO,
        };
        tokio::spawn(task.run());
        Self {
            queue,
            state,
            timeout,
        }
    }

    /// The epoch as it was last seen; `None` before the first connection.
    pub(super) fn epoch(&self) -> watch::Receiver<Option<u64>> {
        self.state.epoch.subscribe()
    }

    /// How often a connection was made.
    pub(super) fn connected(&self) -> u64 {
        self.state.connected.load(Ordering::Relaxed)
    }

    /// Says why there is no connection, if there is none.
    pub(super) fn why_down(&self) -> Option<String> {
        let down = self.state.down.lock();
        down.as_ref().map(|(_, reason)| reason.clone())
    }

    /// The epoch seems to have changed: it is looked up before anything else is sent.
    pub(super) fn suspect_epoch(&self) {
        self.state.suspect.store(true, Ordering::SeqCst);
    }

    /// Asks, and waits for the answer as long as a request may take. While Redis has been away for
    /// as long as that already, who can come again (`can_wait` is false) is told so at once.
    pub(super) async fn ask(&self, request: Request, can_wait: bool) -> Result<Value, Failure> {
        let not_sent = |reason: String| Failure {
            reason,
            may_have_happened: false,
        };
        if !can_wait
            && let Some((since, reason)) = &*self.state.down.lock()
            && since.elapsed() > self.timeout
        {
            return Err(not_sent(reason.clone()));
        }
        let deadline = Instant::now() + self.timeout;
        let (job, answer) = job(request, deadline);
        match tokio::time::timeout_at(deadline, self.queue.send(job)).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return Err(not_sent("the store is closed".to_owned())),
            Err(_) => return Err(not_sent("too many requests wait for Redis".to_owned())),
        }
        match answer.await {
            Ok(result) => result,
            Err(_) => Err(Failure {
                reason: "the store was closed".to_owned(),
                may_have_happened: true,
            }),
        }
    }

    /// Has something done if it can be done within `limit`, without waiting for it.
    pub(super) fn tell(&self, request: Request, limit: Duration) {
        let _ = self.queue.try_send(job(request, Instant::now() + limit).0);
    }
}

fn job(request: Request, deadline: Instant) -> (Job, oneshot::Receiver<Result<Value, Failure>>) {
    let (reply, answer) = oneshot::channel();
    let job = Job {
        request,
        deadline,
        in_full: false,
        unheard: false,
        reply,
    };
    (job, answer)
}

/// A connection that has been looked at.
struct Ready {
    connection: MultiplexedConnection,
    _driver: Option<Driver>,
    /// By the numbers of scripts.
    hashes: Vec<String>,
}

/// What moves the bytes of a connection; it ends with this.
struct Driver(AbortHandle);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

struct Task {
    options: LinkOptions,
    state: Arc<State>,
    jobs: mpsc::Receiver<Job>,
    waiting: VecDeque<Job>,
    delay: Duration,
}

impl Task {
    async fn run(mut self) {
        let mut ready = None;
        loop {
            if ready.is_some() && self.waiting.is_empty() {
                match self.jobs.recv().await {
                    Some(job) => self.waiting.push_back(job),
                    None => return,
                }
            }
            while self.waiting.len() < MAX_WAITING
                && let Ok(job) = self.jobs.try_recv()
            {
                self.waiting.push_back(job);
            }
            if self.state.suspect.swap(false, Ordering::SeqCst) {
                ready = None;
            }
            let connection = match ready.take() {
                Some(connection) => connection,
                None => match self.connect().await {
                    Some(connection) => connection,
                    None if self.jobs.is_closed() => return,
                    None => continue,
                },
            };
            ready = self.exchange(connection).await;
        }
    }

    /// Connects once, after a delay if that has failed before.
    async fn connect(&mut self) -> Option<Ready> {
        let (options, patience, delay) =
            (self.options.clone(), self.options.patience(), self.delay);
        self.delay = (delay * 2).clamp(FIRST_DELAY, MAX_DELAY);
        let connecting = async move {
            tokio::time::sleep(delay).await;
            match tokio::time::timeout(patience, connect(&options)).await {
                Ok(connected) => connected,
                Err(_) => Err(format!("Redis does not answer within {patience:?}")),
            }
        };
        match self.meanwhile(connecting).await? {
            Ok((ready, epoch)) => {
                self.state.epoch.send_if_modified(|known| {
                    let is_new = *known != Some(epoch);
                    *known = Some(epoch);
                    is_new
                });
                self.state.connected.fetch_add(1, Ordering::Relaxed);
                *self.state.down.lock() = None;
                Some(ready)
            }
            Err(reason) => {
                self.failed(&reason);
                None
            }
        }
    }

    fn failed(&self, reason: &str) {
        tracing::warn!(reason, "no connection to Redis");
        let mut down = self.state.down.lock();
        let since = down.as_ref().map_or_else(Instant::now, |(since, _)| *since);
        *down = Some((since, reason.to_owned()));
    }

    /// Takes in what comes and lets go of what has waited for too long, until `work` is done. `None`
    /// if nobody asks any more.
    async fn meanwhile<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        tokio::pin!(work);
        loop {
            self.expire();
            let next = self.waiting.iter().map(|job| job.deadline).min();
            let has_room = self.waiting.len() < MAX_WAITING;
            tokio::select! {
                biased;
                done = &mut work => return Some(done),
                job = self.jobs.recv(), if has_room => self.waiting.push_back(job?),
                () = at(next) => {}
            }
        }
    }

    fn expire(&mut self) {
        let now = Instant::now();
        if self.waiting.iter().all(|job| job.deadline > now) {
            return;
        }
        let reason = match &*self.state.down.lock() {
            Some((_, reason)) => reason.clone(),
            None => "Redis did not answer in time".to_owned(),
        };
        for job in std::mem::take(&mut self.waiting) {
            match job.deadline > now {
                true => self.waiting.push_back(job),
                false => job.fail(&reason),
            }
        }
    }

    /// Sends what waits, or a part of it, and hands out the answers. Returns the connection, if it is
    /// still good.
    async fn exchange(&mut self, mut ready: Ready) -> Option<Ready> {
        self.expire();
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while batch.len() < MAX_BATCH
            && bytes < MAX_BATCH_BYTES
            && let Some(job) = self.waiting.pop_front()
        {
            bytes += job.request.bytes();
            batch.push(job);
        }
        if batch.is_empty() {
            return Some(ready);
        }
        let patience = self.options.patience();
        let replicas = self.options.wait_replicas;
        let pipeline = pipeline(&ready.hashes, &batch, replicas, patience / 2);
        let count = pipeline.len();
        let sending = async {
            let answers = ready.connection.send_packed_commands(&pipeline, 0, count);
            match tokio::time::timeout(patience, answers).await {
                Ok(answers) => answers.map_err(|error| error.to_string()),
                Err(_) => Err(format!("Redis does not answer within {patience:?}")),
            }
        };
        let answers = self.meanwhile(sending).await?;
        let mut answers = match answers {
            Ok(answers) if answers.len() == count => answers,
            Ok(_) => return self.again(batch, "Redis lost count"),
            Err(reason) => return self.again(batch, &reason),
        };
        if replicas > 0 {
            match answers.pop() {
                Some(Value::Int(reached)) if reached >= i64::from(replicas) => {}
                Some(Value::Int(reached)) => {
                    let reason = format!("only {reached} replicas of {replicas} have the record");
                    return self.again(batch, &reason);
                }
                other => return self.again(batch, &format!("WAIT was answered {other:?}")),
            }
        }
        let mut refused = None;
        for (mut job, answer) in batch.into_iter().zip(answers) {
            let Value::ServerError(error) = answer else {
                let _ = job.reply.send(Ok(answer));
                continue;
            };
            let error = RedisError::from(error).to_string();
            match Refusal::of(&error) {
                Refusal::UnknownScript => {
                    job.in_full = true;
                    self.waiting.push_back(job);
                }
                Refusal::Later => {
                    refused = Some(error);
                    self.waiting.push_back(job);
                }
                Refusal::Final { happened } => {
                    job.unheard |= happened;
                    job.fail(&error);
                }
            }
        }
        match refused {
            // Looked at anew: it may have become a replica.
            Some(error) => {
                self.failed(&error);
                None
            }
            None => {
                self.delay = Duration::ZERO;
                Some(ready)
            }
        }
    }

    /// Puts requests back that were sent, and gives the connection up.
    fn again(&mut self, batch: Vec<Job>, reason: &str) -> Option<Ready> {
        self.failed(reason);
        for mut job in batch.into_iter().rev() {
            job.unheard = true;
            self.waiting.push_front(job);
        }
        None
    }
}

async fn at(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

fn pipeline(hashes: &[String], batch: &[Job], replicas: u32, limit: Duration) -> Pipeline {
    let mut pipeline = Pipeline::with_capacity(batch.len() + 1);
    for Job {
        request, in_full, ..
    } in batch
    {
        let hash = hashes.get(request.script as usize);
        let mut command = match hash.filter(|_| !in_full) {
            Some(hash) => redis::cmd("EVALSHA").arg(hash).to_owned(),
            None => redis::cmd("EVAL").arg(request.script.text()).to_owned(),
        };
        add(&mut command, request);
        pipeline.add_command(command);
    }
    if replicas > 0 {
        let limit = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX).max(1);
        pipeline.cmd("WAIT").arg(replicas).arg(limit);
    }
    pipeline
}

fn add(command: &mut Cmd, request: &Request) {
    command.arg(request.keys.len());
    request.keys.iter().for_each(|key| {
        command.arg(key.as_slice());
    });
    request.args.iter().for_each(|arg| {
        command.arg(&arg[..]);
    });
}

/// What an error of Redis means for a request.
enum Refusal {
    UnknownScript,
    /// It was not done, and can be later.
    Later,
    Final {
        /// It may have been done in part.
        happened: bool,
    },
}

impl Refusal {
    fn of(error: &str) -> Self {
        let is = |code: &str| error.contains(code);
        if is("NOSCRIPT") || is("NoScript") {
            return Self::UnknownScript;
        }
        let later = [
            "LOADING",
            "READONLY",
            "MASTERDOWN",
            "NOREPLICAS",
            "BUSY",
            "TRYAGAIN",
            "CLUSTERDOWN",
            "MISCONF",
        ];
        if later.iter().any(|code| is(code)) {
            return Self::Later;
        }
        Self::Final {
            happened: !(is("OOM") || is("NOAUTH")),
        }
    }
}

/// Makes a connection, looks whether its other end is good for this, and asks for the epoch.
async fn connect(options: &LinkOptions) -> Result<(Ready, u64), String> {
    let (mut connection, driver) = dial(options).await?;
    let info: String = redis::cmd("INFO")
        .query_async(&mut connection)
        .await
        .map_err(said)?;
    let run = check(&info)?;
    let mut hashes = Vec::new();
    for script in Script::ALL {
        let mut load = redis::cmd("SCRIPT");
        load.arg("LOAD").arg(script.text());
        hashes.push(load.query_async(&mut connection).await.map_err(said)?);
    }
    let candidate = u64::from_ne_bytes(crate::random::bytes());
    let hello = scripts::hello(&options.keys, candidate, run, options.trust_restarts);
    let mut command = redis::cmd("EVAL");
    command.arg(hello.script.text());
    add(&mut command, &hello);
    let answer: Value = command.query_async(&mut connection).await.map_err(said)?;
    let epoch = scripts::epoch(&answer).ok_or_else(|| format!("the epoch reads {answer:?}"))?;
    let ready = Ready {
        connection,
        _driver: driver,
        hashes,
    };
    Ok((ready, epoch))
}

fn said(error: RedisError) -> String {
    error.to_string()
}

async fn dial(options: &LinkOptions) -> Result<(MultiplexedConnection, Option<Driver>), String> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(None)
        .set_response_timeout(None);
    let Some(tls) = &options.tls else {
        let client = &options.client;
        let connection = client.get_multiplexed_async_connection_with_config(&config);
        return Ok((connection.await.map_err(said)?, None));
    };
    let info = options.client.get_connection_info();
    let ConnectionAddr::Tcp(host, port) = info.addr() else {
        return Err("TLS is for connections over TCP".to_owned());
    };
    let (tls, name) = tls.towards(host).map_err(|error| error.to_string())?;
    let stream = TcpStream::connect((host.as_str(), *port)).await;
    let stream = stream.map_err(|error| error.to_string())?;
    let _ = stream.set_nodelay(true);
    let stream = TlsConnector::from(tls).connect(name, stream).await;
    let stream = stream.map_err(|error| format!("TLS: {error}"))?;
    let made = MultiplexedConnection::new_with_config(info.redis_settings(), stream, config).await;
    let (connection, driver) = made.map_err(said)?;
    let driver = Driver(tokio::spawn(driver).abort_handle());
    Ok((connection, Some(driver)))
}

/// Looks whether a Redis that says this of itself is good for a store. Returns the id of its process.
fn check(info: &str) -> Result<&str, String> {
    let field = |name: &str| {
        let mut lines = info.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
    };
    if field("loading") == Some("1") {
        return Err("Redis is still loading its data".to_owned());
    }
    if field("role").is_some_and(|role| role != "master") {
        return Err("this Redis is a replica: give the primary's address".to_owned());
    }
    if field("cluster_enabled") == Some("1") {
        return Err(
            "this is a Redis Cluster, whose keys are on several servers: \
                    give a Redis that holds all of them"
                .to_owned(),
        );
    }
    if let Some(policy) = field("maxmemory_policy")
        && policy != "noeviction"
        && field("maxmemory").is_some_and(|limit| limit != "0")
    {
        return Err(format!(
            "Redis drops keys when its memory is full (maxmemory-policy {policy}), also those of \
             calls that ran: set it to noeviction"
        ));
    }
    field("run_id").ok_or_else(|| "INFO of Redis has no run_id".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redis_that_would_forget_is_refused() {
        let info = |more: &str| format!("# Server\r\nrun_id:abc\r\nrole:master\r\n{more}\r\n");
        assert_eq!(
            check(&info("maxmemory:0\r\nmaxmemory_policy:allkeys-lru")),
            Ok("abc")
        );
        assert_eq!(
            check(&info("maxmemory:9\r\nmaxmemory_policy:noeviction")),
            Ok("abc")
        );
        for (more, says) in [
            ("maxmemory:9\r\nmaxmemory_policy:volatile-lru", "noeviction"),
            ("cluster_enabled:1", "Cluster"),
            ("loading:1", "loading"),
        ] {
            assert!(
                check(&info(more)).is_err_and(|e| e.contains(says)),
                "{more}"
            );
        }
        assert!(check("role:slave\r\nrun_id:abc").is_err_and(|e| e.contains("replica")));
        assert!(check("role:master").is_err());
    }
}
