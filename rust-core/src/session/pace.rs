//! Whether bytes move fast enough where somebody waits for them.
//!
//! A peer that sends a message one byte a second, or reads so, holds memory and a place without
//! being of use. It is let go when too little has moved in a whole window of time.

use std::time::Duration;

use crate::time::Time;

/// How fast one direction of one connection moves, looked at now and then.
#[derive(Debug)]
pub struct Pace {
    window: Duration,
    /// Bytes that must move in a window.
    least: u64,
    /// When the present window began, how many bytes had moved, and what was being waited for.
    since: Option<(Time, u64, u64)>,
}

impl Pace {
    /// At least so many bytes a second, over `window`.
    pub fn new(bytes_per_second: u32, window: Duration) -> Self {
        let least = u128::from(bytes_per_second) * window.as_millis() / 1000;
        Self {
            window,
            least: u64::try_from(least).unwrap_or(u64::MAX),
            since: None,
        }
    }

    /// `waiting`: something is on its way and not all there. `subject` tells it from what came
    /// before: a new one begins a new window. `moved` bytes have moved ever. True if that is too
    /// slow.
    pub fn is_too_slow(&mut self, now: Time, waiting: bool, subject: u64, moved: u64) -> bool {
        if !waiting || self.least == 0 {
            self.since = None;
            return false;
        }
        match self.since {
            Some((begun, before, same)) if same == subject && moved - before < self.least => {
                now.since(begun) >= self.window
            }
            _ => {
                self.since = Some((now, moved, subject));
                false
            }
        }
    }

    /// Nobody waited meanwhile.
    pub fn restart(&mut self) {
        self.since = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: fn(u64) -> Time = |s| Time::from_origin(Duration::from_secs(s));

    fn pace() -> Pace {
        Pace::new(240, Duration::from_secs(30))
    }

    #[test]
    fn one_byte_a_second_is_too_slow_after_a_window() {
        let mut pace = pace();
        let slow = (0..100).find(|s| pace.is_too_slow(S(*s), true, 1, *s));
        assert_eq!(slow, Some(30));
    }

    #[test]
    fn what_moves_fast_enough_may_take_for_ever() {
        let mut pace = pace();
        assert!((0..1000).all(|s| !pace.is_too_slow(S(s), true, 1, s * 250)));
        // What it was faster before does not count later.
        let stalled = (1000..1100).find(|s| pace.is_too_slow(S(*s), true, 1, 250_000));
        assert!(stalled.is_some_and(|s| s <= 1060), "{stalled:?}");
    }

    #[test]
    fn a_pause_between_messages_and_each_new_message_begin_anew() {
        let mut pace = pace();
        assert!((0..100).all(|s| !pace.is_too_slow(S(s), s % 29 != 0, 1, s)));
        assert!((100..200).all(|s| !pace.is_too_slow(S(s), true, s / 20, s)));
        assert!(!pace.is_too_slow(S(205), true, 10, 200));
        pace.restart();
        assert!(!pace.is_too_slow(S(500), true, 10, 200));
        assert!(pace.is_too_slow(S(530), true, 10, 200));
    }

    #[test]
    fn no_least_rate_means_no_limit() {
        let mut pace = Pace::new(0, Duration::from_secs(30));
        assert!((0..100).all(|s| !pace.is_too_slow(S(s), true, 1, 0)));
    }
}
