//! Time as the pure parts see it: a number that only grows, handed in by whoever drives them.

use std::ops::Add;
use std::time::Duration;

/// A moment, in nanoseconds since an origin that the driver chose. A simulator starts at
/// [`Time::ZERO`]; the real drivers count from the start of the client or server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// The origin.
    pub const ZERO: Self = Self(0);
    /// A moment that never comes.
    pub const NEVER: Self = Self(u64::MAX);

    /// The moment `after` the origin (saturating after 584 years).
    pub fn from_origin(after: Duration) -> Self {
        Self(u64::try_from(after.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Time since the origin.
    pub fn since_origin(self) -> Duration {
        Duration::from_nanos(self.0)
    }

    /// Time from `earlier` to this moment; zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Time {
    type Output = Self;

    /// Saturates at [`Time::NEVER`].
    fn add(self, duration: Duration) -> Self {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(nanos))
    }
}
