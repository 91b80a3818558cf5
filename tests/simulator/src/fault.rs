//! What goes wrong in a life, where it hits, and how often each pair was seen.

use std::fmt;

/// A fault, with everything that it needs to be the same again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The connection breaks after so many more bytes from client to server.
    CutUp(u64),
    /// The connection breaks after so many more bytes from server to client.
    CutDown(u64),
    /// The connection breaks now, or the next one is refused.
    Cut,
    /// The server closes the connection in order, or accepts the next one and closes it.
    Close,
    /// What is on its way, or the next connection, takes so many ms longer.
    Delay(u64),
    /// The client loses the connection now; what it sent there arrives so many ms later, while newer
    /// connections stand.
    Reorder(u64),
    /// The server is killed and starts again after so many ms.
    Restart(u64),
    /// The same, and clients are not told that their connections are gone.
    SilentRestart(u64),
    /// The server says that it is going away, and stops so many ms later, in order.
    GoingAway(u64),
    /// So many writes of the journal fail.
    StoreFailure(u64),
    /// The newest request of the client is sent again by others; see [`Twins`].
    Twin(Twins),
    /// So many calls of others arrive at once.
    Pressure(u64),
    /// The clock of the client jumps ahead by so many ms.
    ClientClock(u64),
    /// The clock of the server jumps ahead by so many ms, which is also what it looks like when the
    /// client's stands still.
    ServerClock(u64),
    /// The next methods to begin take so many ms longer.
    SlowHandler(u64),
    /// Tokens that were good so far are not any more.
    Token,
}

/// How twins of a request are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Twins {
    /// By two new connections at once, as a libwitrpc client repeats it.
    Repeated,
    /// By two new connections at once, as a .NET client repeats it.
    Plain,
    /// With other arguments.
    OtherArguments,
    /// By another principal.
    OtherPrincipal,
}

/// Faults as they are counted.
pub const KINDS: [&str; 16] = [
    "drop in a request",
    "drop in an answer",
    "drop",
    "server closes",
    "delay",
    "reorder",
    "restart, no journal",
    "restart, journal",
    "store fails",
    "twins",
    "pressure",
    "client clock jumps",
    "server clock jumps",
    "slow handler",
    "token rotates",
    "going away",
];

/// Where a client is when a fault hits it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// No connection, and none is being made.
    Down,
    /// A connection is being made.
    Connecting,
    /// Connected, not authorised yet.
    Handshake,
    /// Authorised, and no call is open.
    Idle,
    /// The newest call has not reached the server.
    Requesting,
    /// The server has the newest call.
    Executing,
    /// The answer to the newest call is on its way.
    Answering,
}

/// The phases, in order.
pub const PHASES: [&str; 7] = [
    "down",
    "connecting",
    "handshake",
    "idle",
    "requesting",
    "executing",
    "answering",
];

impl Fault {
    /// Its place in [`KINDS`].
    pub fn kind(self, journal: bool) -> usize {
        match self {
            Self::CutUp(_) => 0,
            Self::CutDown(_) => 1,
            Self::Cut => 2,
            Self::Close => 3,
            Self::Delay(_) => 4,
            Self::Reorder(_) => 5,
            Self::Restart(_) | Self::SilentRestart(_) if !journal => 6,
            Self::Restart(_) | Self::SilentRestart(_) => 7,
            Self::StoreFailure(_) => 8,
            Self::Twin(_) => 9,
            Self::Pressure(_) => 10,
            Self::ClientClock(_) => 11,
            Self::ServerClock(_) => 12,
            Self::SlowHandler(_) => 13,
            Self::Token => 14,
            Self::GoingAway(_) => 15,
        }
    }
}

/// How often each fault hit each phase.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hits(pub [[u64; PHASES.len()]; KINDS.len()]);

impl Hits {
    /// A fault hit.
    pub fn count(&mut self, kind: usize, phase: Phase) {
        self.0[kind][phase as usize] += 1;
    }

    /// Adds those of other lives.
    pub fn add(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().flatten().zip(other.0.iter().flatten()) {
            *mine += theirs;
        }
    }

    /// All of them.
    pub fn total(&self) -> u64 {
        self.0.iter().flatten().sum()
    }

    /// Pairs that were never seen.
    pub fn missing(&self) -> Vec<String> {
        let all = self.0.iter().zip(KINDS);
        all.flat_map(|(row, kind)| {
            let cells = row.iter().zip(PHASES).filter(|(n, _)| **n == 0);
            cells.map(move |(_, phase)| format!("{kind} × {phase}"))
        })
        .collect()
    }
}

impl fmt::Display for Hits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<20}", "fault × phase")?;
        for phase in PHASES {
            write!(f, "{phase:>12}")?;
        }
        for (kind, row) in KINDS.iter().zip(&self.0) {
            write!(f, "\n{kind:<20}")?;
            for n in row {
                write!(f, "{n:>12}")?;
            }
        }
        Ok(())
    }
}
