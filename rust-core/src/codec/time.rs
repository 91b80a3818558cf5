//! Dates, times and durations of .NET, counted in ticks of 100 ns.
//!
//! Owns their ranges and calendar arithmetic; their texts are in `time_text`. No time zone of the
//! machine takes part anywhere.

/// Ticks in a second.
pub(crate) const SECOND: i64 = 10_000_000;
pub(crate) const MINUTE: i64 = 60 * SECOND;
pub(crate) const HOUR: i64 = 60 * MINUTE;
pub(crate) const DAY: i64 = 24 * HOUR;
/// Number of the last day, 9999-12-31, counted from 0001-01-01.
pub(crate) const MAX_DAY: i32 = 3_652_058;
/// 9999-12-31T23:59:59.9999999.
pub(crate) const MAX_TICKS: i64 = (MAX_DAY as i64 + 1) * DAY - 1;
/// 1970-01-01 in ticks.
pub(crate) const UNIX_EPOCH: i64 = 719_162 * DAY;
/// Greatest offset from UTC, either way.
const MAX_OFFSET_MINUTES: i16 = 14 * 60;

/// What a [`DateTime`] is relative to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum DateTimeKind {
    /// Not said.
    #[default]
    Unspecified,
    /// UTC.
    Utc,
    /// The local time of the machine that wrote it, which is not known here.
    Local,
}

/// A .NET `DateTime`: ticks of 100 ns since 0001-01-01T00:00:00, and what they are relative to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DateTime {
    ticks: i64,
    kind: DateTimeKind,
}

impl DateTime {
    /// 0001-01-01T00:00:00, the default of .NET.
    pub const MIN: DateTime = DateTime {
        ticks: 0,
        kind: DateTimeKind::Unspecified,
    };

    /// The time of these ticks; `None` outside the years 1 to 9999.
    pub fn from_ticks(ticks: i64, kind: DateTimeKind) -> Option<DateTime> {
        (0..=MAX_TICKS)
            .contains(&ticks)
            .then_some(DateTime { ticks, kind })
    }

    /// Ticks of 100 ns since 0001-01-01T00:00:00.
    pub fn ticks(self) -> i64 {
        self.ticks
    }

    /// What it is relative to.
    pub fn kind(self) -> DateTimeKind {
        self.kind
    }
}

/// A .NET `DateTimeOffset`: a local clock time with its offset from UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DateTimeOffset {
    local_ticks: i64,
    offset_minutes: i16,
}

impl DateTimeOffset {
    /// 0001-01-01T00:00:00+00:00, the default of .NET.
    pub const MIN: DateTimeOffset = DateTimeOffset {
        local_ticks: 0,
        offset_minutes: 0,
    };

    /// The time on a local clock with its offset; `None` when either the local or the UTC time is
    /// outside the years 1 to 9999, or the offset is more than 14 hours.
    pub fn from_local_ticks(local_ticks: i64, offset_minutes: i16) -> Option<DateTimeOffset> {
        let utc = local_ticks.checked_sub(i64::from(offset_minutes) * MINUTE)?;
        let valid = (0..=MAX_TICKS).contains(&local_ticks)
            && (0..=MAX_TICKS).contains(&utc)
            && (-MAX_OFFSET_MINUTES..=MAX_OFFSET_MINUTES).contains(&offset_minutes);
        valid.then_some(DateTimeOffset {
            local_ticks,
            offset_minutes,
        })
    }

    /// The same, from the UTC time.
    pub fn from_utc_ticks(utc_ticks: i64, offset_minutes: i16) -> Option<DateTimeOffset> {
        let local = utc_ticks.checked_add(i64::from(offset_minutes) * MINUTE)?;
        Self::from_local_ticks(local, offset_minutes)
    }

    /// Ticks of the local clock since 0001-01-01T00:00:00.
    pub fn local_ticks(self) -> i64 {
        self.local_ticks
    }

    /// Ticks of UTC since 0001-01-01T00:00:00.
    pub fn utc_ticks(self) -> i64 {
        self.local_ticks - i64::from(self.offset_minutes) * MINUTE
    }

    /// Minutes that the local clock is ahead of UTC.
    pub fn offset_minutes(self) -> i16 {
        self.offset_minutes
    }
}

/// A .NET `TimeSpan`: a duration in ticks of 100 ns, perhaps negative.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct TimeSpan(i64);

impl TimeSpan {
    /// The duration of these ticks.
    pub fn from_ticks(ticks: i64) -> TimeSpan {
        TimeSpan(ticks)
    }

    /// Ticks of 100 ns.
    pub fn ticks(self) -> i64 {
        self.0
    }
}

/// A .NET `DateOnly`: a day from 0001-01-01 to 9999-12-31.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct DateOnly(i32);

impl DateOnly {
    /// The day of this number, counted from 0001-01-01 as 0.
    pub fn from_day_number(number: i32) -> Option<DateOnly> {
        (0..=MAX_DAY).contains(&number).then_some(DateOnly(number))
    }

    /// Days since 0001-01-01.
    pub fn day_number(self) -> i32 {
        self.0
    }
}

/// A .NET `TimeOnly`: a time of day in ticks of 100 ns since midnight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct TimeOnly(i64);

impl TimeOnly {
    /// The time of day of these ticks; `None` outside a day.
    pub fn from_ticks(ticks: i64) -> Option<TimeOnly> {
        (0..DAY).contains(&ticks).then_some(TimeOnly(ticks))
    }

    /// Ticks of 100 ns since midnight.
    pub fn ticks(self) -> i64 {
        self.0
    }
}

/// Number of a day, counted from 0001-01-01 as 0; `None` if there is no such day.
pub(crate) fn day_number(year: i32, month: i32, day: i32) -> Option<i32> {
    if !(1..=9999).contains(&year) || !(1..=12).contains(&month) || day < 1 {
        return None;
    }
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let length = match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    if day > length {
        return None;
    }
    // Years that begin in March have the leap day at their end.
    let shifted_year = if month <= 2 { year - 1 } else { year };
    let shifted_month = (month + 9) % 12;
    let day_of_year = (153 * shifted_month + 2) / 5 + day - 1;
    let leaps = shifted_year / 4 - shifted_year / 100 + shifted_year / 400;
    // 0000-03-01 is 306 days before 0001-01-01.
    Some(365 * shifted_year + leaps + day_of_year - 306)
}

/// Year, month and day of a day number.
pub(crate) fn civil(day_number: i32) -> (i32, i32, i32) {
    let days = day_number + 306;
    let era = days / 146_097;
    let day_of_era = days % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    let year = year_of_era + era * 400 + i32::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_has_one_number() {
        let mut expected = (1, 1, 1);
        for number in 0..=MAX_DAY {
            assert_eq!(civil(number), expected);
            assert_eq!(day_number(expected.0, expected.1, expected.2), Some(number));
            let (year, month, day) = expected;
            expected = if day_number(year, month, day + 1).is_some() {
                (year, month, day + 1)
            } else if month < 12 {
                (year, month + 1, 1)
            } else {
                (year + 1, 1, 1)
            };
        }
        assert_eq!(expected, (10_000, 1, 1));
        assert_eq!(day_number(1970, 1, 1), Some(719_162));
        assert_eq!(day_number(2023, 2, 29), None);
        assert_eq!(day_number(1900, 2, 29), None);
    }

    #[test]
    fn ranges_are_those_of_dotnet() {
        assert!(DateTime::from_ticks(MAX_TICKS + 1, DateTimeKind::Utc).is_none());
        assert_eq!(MAX_TICKS, 3_155_378_975_999_999_999);
        assert!(DateTimeOffset::from_local_ticks(0, 60).is_none());
        assert!(DateTimeOffset::from_local_ticks(0, -60).is_some());
        assert!(DateTimeOffset::from_local_ticks(DAY, 841).is_none());
        assert!(DateTimeOffset::from_utc_ticks(i64::MAX, 840).is_none());
        assert!(TimeOnly::from_ticks(DAY).is_none());
        assert!(DateOnly::from_day_number(-1).is_none());
    }
}
