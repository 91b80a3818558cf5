//! Defects that are planted on purpose, one at a time, to prove that the simulator finds them.
//!
//! Owns their names and the switch. Without the feature `mutants`, and in release builds always, the
//! switch is a constant `false`: nothing of this is in the library.

/// A defect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Mutant {
    /// A running call is evicted when room is needed.
    RunningEvicted,
    /// A twin of a running call is refused instead of attached.
    TwinRefused,
    /// A call is found by its id alone, whoever the caller is.
    KeyWithoutPrincipal,
    /// Method and arguments of a twin are not compared.
    DigestIgnored,
    /// A client's first unfinished call is taken for finished.
    MarkTooHigh,
    /// A call whose answer was held for its time is taken for a new one.
    TimeForgotten,
    /// A call is repeated at a server that has started anew.
    EpochNotCompared,
    /// A late answer is given to whichever call has the place of its own.
    SerialNotCompared,
    /// An authorised link does not start the attempt numbers over.
    AttemptsNotReset,
}

#[cfg(all(feature = "mutants", debug_assertions))]
mod switch {
    use std::cell::Cell;

    use super::Mutant;

    thread_local! {
        static PLANTED: Cell<Option<Mutant>> = const { Cell::new(None) };
    }

    /// Plants a defect in what this thread runs from now on, or takes it out.
    pub fn plant(mutant: Option<Mutant>) {
        PLANTED.set(mutant);
    }

    pub(crate) fn planted(mutant: Mutant) -> bool {
        PLANTED.get() == Some(mutant)
    }
}

#[cfg(not(all(feature = "mutants", debug_assertions)))]
mod switch {
    pub(crate) const fn planted(_: super::Mutant) -> bool {
        false
    }
}

#[cfg(all(feature = "mutants", debug_assertions))]
pub use switch::plant;
pub(crate) use switch::planted;
