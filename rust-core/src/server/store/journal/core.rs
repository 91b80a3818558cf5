//! What a journal knows and does, one batch of requests after another: the table, the log, and the step from one to the other.
//!
//! Owns the order that everything rests on: what is asked for is looked up, what is new is written in one frame, and only when that is durable does the table take it over and is
//! anybody told. Runs on the thread of the journal alone; threads and queues are [`writer`](super::writer)'s.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use hashbrown::HashMap;

use super::directory::Directory;
use super::format::{ENTRY, Entry, FRAME, Kind, begin_frame};
use super::log::Log;
use super::recovery::recover;
use super::snapshot;
use crate::resilience::dedup::{Admission, CallId, DedupOptions, Table, Ticket};
use crate::server::store::{Claim, Fence, StoreError, StoredCall};
use crate::time::Time;

/// Bytes that must be left in the log when a call is claimed: for the answers of those that run, should the disk be full by then.
const RESERVE: u64 = 128 * 1024;

/// A log is at least so long before a snapshot takes its place.
const SHORTEST_LOG: u64 = 2 * 1024 * 1024;

/// How long a log to which a write failed waits before a new one is tried.
const PAUSE: Duration = Duration::from_millis(100);

/// What is asked of the journal.
pub(super) enum Request {
    Begin(StoredCall),
    End(Fence, Option<Bytes>),
    Gone(Fence),
}

/// What it says.
pub(super) type Reply = Result<Claim, StoreError>;

/// See the [module](self).
pub(super) struct Core {
    directory: Arc<Directory>,
    epoch: u64,
    table: Table<()>,
    /// Calls that were claimed and have not ended.
    claims: HashMap<u64, Ticket>,
    next_claim: u64,
    /// `None` until there is room for one.
    log: Option<Log>,
    /// The last log, whether it is written to or not, and how many of its bytes count.
    last: (u64, u64),
    files: Vec<(Kind, u64)>,
    frame: Vec<u8>,
    snapshot: Option<(u64, JoinHandle<io::Result<u64>>)>,
    snapshot_size: u64,
    /// When the log is long enough for the next snapshot.
    rotate_at: u64,
    /// Why the last write failed, if it did, and when the next is tried.
    trouble: Option<(String, Time)>,
}

/// A request on its way.
enum Step {
    Said(Reply),
    Claims(u64, Ticket),
    Ends(Ticket, Option<Bytes>),
    Goes(Ticket),
}

impl Core {
    /// Reads what is there, and begins a new log.
    pub(super) fn open(
        directory: Directory,
        now: Time,
        bounds: DedupOptions,
    ) -> Result<Self, StoreError> {
        let (mut table, mut claims, mut next_claim) = (Table::new(bounds), HashMap::new(), 0);
        let past = recover(&directory, |entry| match entry {
            Entry::Intent {
                claim,
                call,
                digest,
            } => {
                // It was claimed before, and given back without a trace.
                if let Some(old) = table.ticket(&call.principal, call.invocation) {
                    claims.retain(|_, ticket| *ticket != old);
                }
                claims.insert(claim, table.reenter(now, &call, digest));
                next_claim = next_claim.max(claim + 1);
            }
            Entry::End { claim, answer } => {
                if let Some(ticket) = claims.remove(&claim) {
                    match answer {
                        Some(answer) => table.finish(now, ticket, &answer),
                        None => table.finish_unknown(now, ticket),
                    };
                }
            }
            Entry::Gone { claim } => {
                if let Some(ticket) = claims.remove(&claim) {
                    table.abandon(ticket);
                }
            }
            Entry::Known(piece) => table.recall(now, piece),
            Entry::NextLife => end_unknown(&mut table, now, &mut claims),
            Entry::Complete => {}
        })?;
        end_unknown(&mut table, now, &mut claims);
        let epoch = past.epoch;
        let mut core = Self {
            directory: Arc::new(directory),
            epoch: epoch.unwrap_or_else(|| u64::from_ne_bytes(crate::random::bytes())),
            table,
            claims,
            next_claim,
            log: None,
            last: (past.last, past.sealed),
            files: past.files,
            frame: Vec::new(),
            snapshot: None,
            snapshot_size: 0,
            rotate_at: 0,
            trouble: None,
        };
        begin_frame(&mut core.frame);
        match core.begin_log(Some(past.is_cut_short)) {
            Ok(()) if epoch.is_some() => core.begin_snapshot(now),
            Ok(()) => {}
            // Calls that need no journal are served meanwhile, and old ones are answered.
            // What is cut short is noticed again then.
            Err(error) if epoch.is_some() && is_full(&error) && !past.is_cut_short => {
                core.fails(now, &error);
            }
            Err(error) => {
                return Err(StoreError::new(format!(
                    "the journal {} can't be written: {error}",
                    core.directory.path().display()
                )));
            }
        }
        Ok(core)
    }

    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Does what is asked, in order, with one wait for the disk.
    pub(super) fn commit(&mut self, now: Time, requests: Vec<Request>) -> Vec<Reply> {
        let room = self.make_room(now, &requests);
        let has_new = requests.iter().any(|r| matches!(r, Request::Begin(_)));
        let mut steps: Vec<Step> = requests
            .into_iter()
            .map(|request| self.prepare(now, request, &room))
            .collect();
        let written = match self.frame.len() > FRAME {
            true => self.write(now, has_new && room.is_ok()),
            false => Ok(()),
        };
        let replies = steps.drain(..).map(|step| self.settle(now, step, &written));
        let replies = replies.collect();
        self.rotate(now);
        replies
    }

    /// Whether new calls may be claimed. What has begun may use up what is left.
    fn make_room(&mut self, now: Time, requests: &[Request]) -> Result<(), StoreError> {
        let size = |request: &Request| match request {
            Request::Begin(call) => ENTRY + call.principal.len(),
            Request::End(_, answer) => ENTRY + answer.as_ref().map_or(0, Bytes::len),
            Request::Gone(_) => ENTRY,
        };
        let is_new = |request: &&Request| matches!(request, Request::Begin(_));
        let all = (FRAME + requests.iter().map(size).sum::<usize>()) as u64;
        let new = requests.iter().filter(is_new).map(size).sum::<usize>() as u64;
        let pause = self.trouble.clone().filter(|(_, until)| now < *until);
        let mut made = match &pause {
            Some((what, _)) => Err(StoreError::new(what)),
            None => self.grow(now, if new == 0 { all } else { all + RESERVE }),
        };
        if made.is_err()
            && let Some(log) = &mut self.log
            && let Err(error) = log.make_room(all - new)
            && pause.is_none()
        {
            made = Err(StoreError::new(format!("{error}")));
        }
        made
    }

    /// Makes room for so many bytes, in a new log if the last one can't be written to any more.
    fn grow(&mut self, now: Time, bytes: u64) -> Result<(), StoreError> {
        let first = self.log.is_none().then_some(false);
        let mut made = match self.log.as_ref().is_none_or(Log::is_broken) {
            true => self.begin_log(first),
            false => Ok(()),
        };
        if let Some(log) = &mut self.log
            && made.is_ok()
        {
            made = log.make_room(bytes);
        }
        made.map_err(|error| {
            self.fails(now, &error);
            StoreError::new(format!("the journal can't be written: {error}"))
        })
    }

    fn begin_log(&mut self, first: Option<bool>) -> io::Result<()> {
        let (last, sealed) = match &self.log {
            Some(log) => (log.index, log.written()),
            None => self.last,
        };
        let log = Log::create(&self.directory, last + 1, self.epoch, sealed, first)?;
        self.files.push((Kind::Log, log.index));
        self.last = (log.index, 0);
        self.log = Some(log);
        self.rotate_at = SHORTEST_LOG.max(self.snapshot_size * 2);
        Ok(())
    }

    fn prepare(&mut self, now: Time, request: Request, room: &Result<(), StoreError>) -> Step {
        match request {
            Request::Begin(call) => match room {
                Ok(()) => self.claim(now, call),
                Err(error) => self.look_up(now, call, error),
            },
            Request::End(Fence(claim), answer) => match self.claims.remove(&claim) {
                Some(ticket) => {
                    let answer_kept = answer.clone();
                    Entry::End {
                        claim,
                        answer: answer_kept,
                    }
                    .encode(&mut self.frame);
                    Step::Ends(ticket, answer)
                }
                None => Step::Said(Err(not_claimed())),
            },
            Request::Gone(Fence(claim)) => match self.claims.remove(&claim) {
                Some(ticket) => {
                    Entry::Gone { claim }.encode(&mut self.frame);
                    Step::Goes(ticket)
                }
                None => Step::Said(Err(not_claimed())),
            },
        }
    }

    fn begin(&mut self, now: Time, call: &StoredCall, has_room: bool) -> (CallId, u64, Admission) {
        let (first, _) = call.digest.split_first_chunk().unwrap_or((&[0; 8], &[]));
        let digest = u64::from_le_bytes(*first);
        let id = CallId {
            principal: call.principal.clone(),
            invocation: call.invocation,
            numbered: call.numbered,
            repeated: call.repeated,
            elsewhere: false,
        };
        if call.not_executed {
            self.table.undo(&id.principal, id.invocation, digest);
        }
        let admission = self.table.begin(now, &id, digest, (), has_room);
        (id, digest, admission)
    }

    fn claim(&mut self, now: Time, call: StoredCall) -> Step {
        let (call, digest, admission) = self.begin(now, &call, true);
        let Admission::New(ticket) = admission else {
            return Step::Said(Ok(said(admission)));
        };
        let claim = self.next_claim;
        self.next_claim += 1;
        let entry = Entry::Intent {
            claim,
            call,
            digest,
        };
        entry.encode(&mut self.frame);
        Step::Claims(claim, ticket)
    }

    /// There is no room for a new call; what is known can still be answered.
    fn look_up(&mut self, now: Time, call: StoredCall, error: &StoreError) -> Step {
        Step::Said(match self.begin(now, &call, false).2 {
            Admission::NoRoom => Err(error.clone()),
            admission => Ok(said(admission)),
        })
    }

    fn write(&mut self, now: Time, has_new: bool) -> Result<(), StoreError> {
        let mut frame = std::mem::take(&mut self.frame);
        let written = match &mut self.log {
            Some(log) if !log.is_broken() => log.append(&mut frame),
            _ => Err(io::Error::other("there is no room for it")),
        };
        begin_frame(&mut frame);
        self.frame = frame;
        match written {
            Ok(()) => {
                // What has begun may end in the room that was kept for it: no sign of better times.
                if has_new && let Some((what, _)) = self.trouble.take() {
                    let path = self.directory.path().display().to_string();
                    tracing::info!(path, was = what, "the journal can be written again");
                }
                Ok(())
            }
            Err(error) => {
                self.fails(now, &error);
                Err(StoreError::new(format!(
                    "the journal could not be written: {error}"
                )))
            }
        }
    }

    fn fails(&mut self, now: Time, error: &io::Error) {
        if self.trouble.is_none() {
            let path = match &self.log {
                Some(log) => log.path().display().to_string(),
                None => self.directory.path().display().to_string(),
            };
            tracing::error!(path, %error, "the journal can't be written: calls of durable methods are refused until it can");
        }
        self.trouble = Some((error.to_string(), now + PAUSE));
    }

    /// The write is over: what follows from it for the table, and what is said.
    fn settle(&mut self, now: Time, step: Step, written: &Result<(), StoreError>) -> Reply {
        match (step, written) {
            (Step::Said(reply), _) => reply,
            (Step::Claims(claim, ticket), Ok(())) => {
                self.claims.insert(claim, ticket);
                Ok(Claim::Run(Fence(claim)))
            }
            (Step::Claims(_, ticket), Err(error)) => {
                self.table.abandon(ticket);
                Err(error.clone())
            }
            (Step::Ends(ticket, Some(answer)), Ok(())) => {
                self.table.finish(now, ticket, &answer);
                Ok(Claim::Replay(answer))
            }
            (Step::Ends(ticket, _), written) => {
                self.table.finish_unknown(now, ticket);
                written.clone().map(|()| Claim::OutcomeUnknown)
            }
            (Step::Goes(ticket), written) => {
                self.table.abandon(ticket);
                written.clone().map(|()| Claim::OutcomeUnknown)
            }
        }
    }

    /// Begins a new log where the old one is long, and has a snapshot take the place of the old ones.
    fn rotate(&mut self, now: Time) {
        if let Some(done) = self.snapshot.take_if(|(_, thread)| thread.is_finished()) {
            self.snapshot_ended(done);
        }
        let is_long = |log: &Log| log.written() >= self.rotate_at && !log.is_broken();
        if self.snapshot.is_some() || !self.log.as_ref().is_some_and(is_long) {
            return;
        }
        match self.begin_log(None) {
            Ok(()) => self.begin_snapshot(now),
            Err(error) => {
                tracing::warn!(%error, "the journal can't begin a new file and goes on with the old one");
                self.rotate_at += SHORTEST_LOG;
            }
        }
    }

    /// Has everything written down that is known up to the beginning of the present log.
    fn begin_snapshot(&mut self, now: Time) {
        let mut entries: Vec<Entry> = self
            .table
            .remembered(now)
            .into_iter()
            .map(Entry::Known)
            .collect();
        let running = self.claims.iter().map(|(claim, ticket)| {
            let (call, digest) = self.table.running(*ticket);
            Entry::Intent {
                claim: *claim,
                call,
                digest,
            }
        });
        entries.extend(running);
        let index = self.last.0 - 1;
        let old = self.files.iter().copied();
        let old: Vec<_> = old.filter(|(_, i)| *i <= index).collect();
        let (directory, epoch) = (self.directory.clone(), self.epoch);
        let write = move || snapshot::write(&directory, index, epoch, entries, &old);
        match std::thread::Builder::new()
            .name("witrpc-snapshot".into())
            .spawn(write)
        {
            Ok(thread) => self.snapshot = Some((index, thread)),
            Err(error) => tracing::error!(%error, "no thread for a snapshot of the journal"),
        }
    }

    fn snapshot_ended(&mut self, (index, thread): (u64, JoinHandle<io::Result<u64>>)) {
        match thread.join() {
            Ok(Ok(size)) => {
                self.files.retain(|(_, i)| *i > index);
                self.files.push((Kind::Snapshot, index));
                self.snapshot_size = size;
                self.rotate_at = self.rotate_at.max(size * 2);
            }
            Ok(Err(error)) => {
                tracing::warn!(%error, "no snapshot of the journal was made: its logs stay")
            }
            Err(_) => tracing::error!("the snapshot of the journal panicked: its logs stay"),
        }
    }

    /// Waits for what is being written.
    pub(super) fn close(&mut self) {
        if let Some(thread) = self.snapshot.take() {
            self.snapshot_ended(thread);
        }
    }
}

/// The process that ran these calls is dead.
fn end_unknown(table: &mut Table<()>, now: Time, claims: &mut HashMap<u64, Ticket>) {
    let mut running: Vec<(u64, Ticket)> = claims.drain().collect();
    running.sort_unstable_by_key(|(claim, _)| *claim);
    for (_, ticket) in running {
        table.finish_unknown(now, ticket);
    }
}

fn not_claimed() -> StoreError {
    StoreError::new("the call was not claimed, or has ended")
}

/// What is said about a call that is not to be run.
fn said(admission: Admission) -> Claim {
    match admission {
        Admission::Replay(answer) => Claim::Replay(answer),
        Admission::Mismatch => Claim::Mismatch,
        Admission::Full | Admission::NoRoom => Claim::Full,
        // A twin of a call that runs does not come this far; if one does, it must not run.
        Admission::New(_) | Admission::Attached | Admission::OutcomeUnknown => {
            Claim::OutcomeUnknown
        }
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}
