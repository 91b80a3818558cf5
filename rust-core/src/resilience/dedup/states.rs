//! The states of a call as a table: what happens to it, what is answered, what it becomes.
//!
//! Owns the table that the docs show, that a test holds [`Table`](super::Table) to row by row, and
//! that the simulator's model follows. It decides nothing by itself.

use std::fmt;

use self::{Event::*, Reply::*, State::*};

/// Where a call stands in the memory of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// The server knows nothing of it.
    New,
    /// Its method has begun.
    Running,
    /// It has ended, and its answer is held.
    Done,
    /// It has ended, or may have, and its answer is not held: only that it was there is known.
    Forgotten,
}

/// What happens to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Event {
    /// A request with its id, method and arguments.
    Call,
    /// The same, while there is no room to run it.
    CallWithoutRoom,
    /// A request with its id, and another method or other arguments.
    OtherCall,
    /// The method ended.
    End,
    /// The method ended with an answer that is not kept: too big, or not storable.
    EndWithoutAnswer,
    /// The method refused to begin, for load.
    Refusal,
    /// Room is needed for other calls.
    Pressure,
    /// Its client stated that it will never send it again.
    GivenUp,
    /// Its answer was held for its time; the call is numbered.
    TimeOver,
    /// Its answer, or what was left of it, was held for its time; the call has no number.
    TimeOverUnnumbered,
    /// The server was killed and started again; its memory was not durable.
    Crash,
    /// The server was killed and started again; its memory was durable.
    CrashWithJournal,
}

/// What is answered to whoever sent the request, or waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reply {
    /// Nobody is told anything.
    Nothing,
    /// Its method is run.
    Runs,
    /// The answer follows when the call ends.
    Attached,
    /// The answer, to all that wait for it.
    AnswerToAll,
    /// The answer that was stored.
    StoredAnswer,
    /// Status 503: it did not run and may be sent again.
    Refused,
    /// Status 400: the id belongs to another call.
    Mismatch,
    /// Outcome unknown: it never runs.
    Unknown,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Call => "the call arrives",
            CallWithoutRoom => "the call arrives, and there is no room to run it",
            OtherCall => "another call arrives under its id",
            End => "its method ends",
            EndWithoutAnswer => "its method ends, and the answer can't be kept",
            Refusal => "its method refuses it for load",
            Pressure => "room is needed",
            GivenUp => "its client gives it up",
            TimeOver => "its time is over; it has a number",
            TimeOverUnnumbered => "its time is over; it has no number",
            Crash => "the server crashes, without a journal",
            CrashWithJournal => "the server crashes, with a journal",
        })
    }
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Nothing => "nothing",
            Runs => "it runs",
            Attached => "the answer, once there is one",
            AnswerToAll => "the answer, to all that wait",
            StoredAnswer => "the stored answer",
            Refused => "503: it did not run",
            Mismatch => "400: the id is taken",
            Unknown => "outcome unknown",
        })
    }
}

/// One row: a call in state `from`, to which `event` happens, is answered `reply` and is then in
/// state `to`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transition {
    /// The state before.
    pub from: State,
    /// What happens.
    pub event: Event,
    /// What is answered.
    pub reply: Reply,
    /// The state afterwards.
    pub to: State,
}

const fn row(from: State, event: Event, reply: Reply, to: State) -> Transition {
    Transition {
        from,
        event,
        reply,
        to,
    }
}

/// Every event that can happen in every state.
pub const TRANSITIONS: &[Transition] = &[
    row(New, Call, Runs, Running),
    row(New, CallWithoutRoom, Refused, New),
    row(Running, Call, Attached, Running),
    row(Running, CallWithoutRoom, Attached, Running),
    row(Running, OtherCall, Mismatch, Running),
    row(Running, End, AnswerToAll, Done),
    row(Running, EndWithoutAnswer, AnswerToAll, Forgotten),
    row(Running, Refusal, Refused, New),
    row(Running, Pressure, Nothing, Running),
    row(Running, GivenUp, Nothing, Forgotten),
    row(Running, Crash, Nothing, New),
    row(Running, CrashWithJournal, Nothing, Forgotten),
    row(Done, Call, StoredAnswer, Done),
    row(Done, CallWithoutRoom, StoredAnswer, Done),
    row(Done, OtherCall, Mismatch, Done),
    row(Done, Pressure, Nothing, Forgotten),
    row(Done, GivenUp, Nothing, Forgotten),
    row(Done, TimeOver, Nothing, Forgotten),
    row(Done, TimeOverUnnumbered, Nothing, New),
    row(Done, Crash, Nothing, New),
    row(Done, CrashWithJournal, Nothing, Done),
    row(Forgotten, Call, Unknown, Forgotten),
    row(Forgotten, CallWithoutRoom, Unknown, Forgotten),
    row(Forgotten, End, AnswerToAll, Forgotten),
    row(Forgotten, TimeOver, Nothing, Forgotten),
    row(Forgotten, TimeOverUnnumbered, Nothing, New),
    row(Forgotten, Crash, Nothing, New),
    row(Forgotten, CrashWithJournal, Nothing, Forgotten),
];

/// What an event does in a state; `None` if it can't happen there.
pub fn transition(from: State, event: Event) -> Option<&'static Transition> {
    TRANSITIONS
        .iter()
        .find(|row| row.from == from && row.event == event)
}
