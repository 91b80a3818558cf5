//! The texts of dates, times, durations and versions, as `System.Text.Json` writes and reads them.

use super::time::{
    DAY, DateOnly, DateTime, DateTimeKind, DateTimeOffset, HOUR, MINUTE, SECOND, TimeOnly,
    TimeSpan, civil, day_number,
};

/// A text is not of the expected form; the words say which form that is.
type Result<T> = std::result::Result<T, &'static str>;

const ISO_DATE: &str = "not an ISO date";
const RANGE: &str = "a date outside the years 1 to 9999";
const DATE_ONLY: &str = "not a date of the form yyyy-MM-dd";
const TIME_SPAN: &str = "not a duration of the form [-][d.]hh:mm:ss[.fffffff]";
const TIME_ONLY: &str = "not a time of day of the form HH:mm:ss[.fffffff]";

/// Takes a text apart from the front.
struct Scan<'a> {
    bytes: &'a [u8],
}

impl<'a> Scan<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            bytes: text.as_bytes(),
        }
    }

    fn eat(&mut self, byte: u8) -> bool {
        match self.bytes.split_first() {
            Some((first, rest)) if *first == byte => {
                self.bytes = rest;
                true
            }
            _ => false,
        }
    }

    /// A number of exactly `count` digits.
    fn exactly(&mut self, count: usize) -> Option<i32> {
        let (digits, rest) = self.bytes.split_at_checked(count)?;
        let value = number(digits)?;
        self.bytes = rest;
        i32::try_from(value).ok()
    }

    /// All the digits that follow, at least one.
    fn digits(&mut self) -> Option<&'a [u8]> {
        let len = self.bytes.iter().take_while(|b| b.is_ascii_digit()).count();
        let (digits, rest) = self.bytes.split_at(len);
        self.bytes = rest;
        (len > 0).then_some(digits)
    }

    fn number(&mut self) -> Option<i64> {
        number(self.digits()?)
    }

    fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

/// The value of a run of digits; zeros in front do not count.
fn number(digits: &[u8]) -> Option<i64> {
    digits.iter().try_fold(0_i64, |value, byte| {
        if !byte.is_ascii_digit() {
            return None;
        }
        value.checked_mul(10)?.checked_add(i64::from(byte - b'0'))
    })
}

/// A fraction of a second in ticks; digits beyond the seventh are cut.
fn fraction(digits: &[u8]) -> i64 {
    (0..7).fold(0, |value, i| {
        value * 10 + digits.get(i).map_or(0, |b| i64::from(b - b'0'))
    })
}

enum Offset {
    None,
    Utc,
    Minutes(i16),
}

/// A date with an optional time and offset: `2026-11-30`, `2026-11-30T05:06`,
/// `2026-11-30T05:06:07.12+02:00`.
fn iso(text: &str) -> Option<(i64, Offset)> {
    let mut scan = Scan::new(text);
    let year = scan.exactly(4)?;
    let month = scan.eat(b'-').then(|| scan.exactly(2))??;
    let day = scan.eat(b'-').then(|| scan.exactly(2))??;
    let date = i64::from(day_number(year, month, day)?) * DAY;
    if scan.is_empty() {
        return Some((date, Offset::None));
    }
    let hour = scan.eat(b'T').then(|| scan.exactly(2))??;
    let minute = scan.eat(b':').then(|| scan.exactly(2))??;
    let mut second = 0;
    let mut ticks = 0;
    if scan.eat(b':') {
        second = scan.exactly(2)?;
        if scan.eat(b'.') {
            // .NET reads no text longer than sixteen digits allow.
            ticks = fraction(scan.digits().filter(|digits| digits.len() <= 16)?);
        }
    }
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let time = i64::from(hour) * HOUR + i64::from(minute) * MINUTE + i64::from(second) * SECOND;
    let offset = if scan.is_empty() {
        Offset::None
    } else if scan.eat(b'Z') {
        Offset::Utc
    } else {
        let negative = scan.eat(b'-');
        if !negative && !scan.eat(b'+') {
            return None;
        }
        let hours = scan.exactly(2)?;
        let minutes = if scan.is_empty() {
            0
        } else {
            scan.eat(b':').then(|| scan.exactly(2))??
        };
        let total = hours * 60 + minutes;
        if minutes > 59 || total > 14 * 60 {
            return None;
        }
        let total = total as i16;
        Offset::Minutes(if negative { -total } else { total })
    };
    scan.is_empty().then_some((date + time + ticks, offset))
}

/// Reads a `DateTime`; one with an offset becomes UTC.
pub(crate) fn read_date_time(text: &str) -> Result<DateTime> {
    let (ticks, offset) = iso(text).ok_or(ISO_DATE)?;
    match offset {
        Offset::None => DateTime::from_ticks(ticks, DateTimeKind::Unspecified),
        Offset::Utc => DateTime::from_ticks(ticks, DateTimeKind::Utc),
        Offset::Minutes(minutes) => {
            DateTime::from_ticks(ticks - i64::from(minutes) * MINUTE, DateTimeKind::Utc)
        }
    }
    .ok_or(RANGE)
}

/// Reads a `DateTimeOffset`; a missing offset is +00:00.
pub(crate) fn read_date_time_offset(text: &str) -> Result<DateTimeOffset> {
    let (ticks, offset) = iso(text).ok_or(ISO_DATE)?;
    let minutes = match offset {
        Offset::None | Offset::Utc => 0,
        Offset::Minutes(minutes) => minutes,
    };
    DateTimeOffset::from_local_ticks(ticks, minutes).ok_or(RANGE)
}

/// Reads `yyyy-MM-dd`.
pub(crate) fn read_date_only(text: &str) -> Result<DateOnly> {
    match iso(text) {
        Some((ticks, Offset::None)) if text.len() == "yyyy-MM-dd".len() => {
            DateOnly::from_day_number((ticks / DAY) as i32).ok_or(DATE_ONLY)
        }
        _ => Err(DATE_ONLY),
    }
}

/// Reads `[-][d.]hh:mm[:ss[.fffffff]]`, or a number of days alone.
pub(crate) fn read_time_span(text: &str) -> Result<TimeSpan> {
    time_span_ticks(text)
        .map(TimeSpan::from_ticks)
        .ok_or(TIME_SPAN)
}

fn time_span_ticks(text: &str) -> Option<i64> {
    let mut scan = Scan::new(text);
    let negative = scan.eat(b'-');
    let first = scan.number()?;
    let (days, hours, rest) = if scan.is_empty() {
        (first, 0, false)
    } else if scan.eat(b'.') {
        (first, scan.number()?, true)
    } else {
        (0, first, true)
    };
    let mut total = i128::from(days) * i128::from(DAY);
    if rest {
        let minutes = scan.eat(b':').then(|| scan.number())??;
        let seconds = match scan.eat(b':') {
            true => scan.number()?,
            false => 0,
        };
        let ticks = match scan.eat(b'.') {
            true => fraction(scan.digits().filter(|digits| digits.len() <= 7)?),
            false => 0,
        };
        if !scan.is_empty() || hours > 23 || minutes > 59 || seconds > 59 {
            return None;
        }
        total += i128::from(hours * HOUR + minutes * MINUTE + seconds * SECOND + ticks);
    }
    i64::try_from(if negative { -total } else { total }).ok()
}

/// Reads `HH:mm[:ss[.fffffff]]`.
pub(crate) fn read_time_only(text: &str) -> Result<TimeOnly> {
    let day_given = text
        .split(':')
        .next()
        .is_some_and(|first| first.contains('.'));
    if text.starts_with('-') || !text.contains(':') || day_given {
        return Err(TIME_ONLY);
    }
    time_span_ticks(text)
        .and_then(TimeOnly::from_ticks)
        .ok_or(TIME_ONLY)
}

/// Reads two to four numbers with dots between; a missing one is -1.
pub(crate) fn read_version(text: &str) -> Result<[i32; 4]> {
    const VERSION: &str = "not a version of two to four numbers";
    let mut parts = [-1; 4];
    let mut count = 0;
    for part in text.split('.') {
        let value = number(part.as_bytes())
            .filter(|_| !part.is_empty())
            .and_then(|value| i32::try_from(value).ok());
        match (parts.get_mut(count), value) {
            (Some(slot), Some(value)) => *slot = value,
            _ => return Err(VERSION),
        }
        count += 1;
    }
    if count < 2 { Err(VERSION) } else { Ok(parts) }
}

fn push_date(out: &mut String, ticks: i64) {
    let (year, month, day) = civil((ticks / DAY) as i32);
    out.push_str(&format!("{year:04}-{month:02}-{day:02}"));
}

fn push_clock(out: &mut String, ticks: i64) {
    let (hour, minute, second) = (ticks / HOUR % 24, ticks / MINUTE % 60, ticks / SECOND % 60);
    out.push_str(&format!("{hour:02}:{minute:02}:{second:02}"));
}

/// A date and time; the fraction only as long as it must be.
fn push_date_time(out: &mut String, ticks: i64) {
    push_date(out, ticks);
    out.push('T');
    push_clock(out, ticks);
    let fraction = ticks % SECOND;
    if fraction != 0 {
        let digits = format!(".{fraction:07}");
        out.push_str(digits.trim_end_matches('0'));
    }
}

/// `Z` for UTC. Local time is written as unspecified: its offset is not known here.
pub(crate) fn date_time(value: DateTime) -> String {
    let mut out = String::with_capacity(28);
    push_date_time(&mut out, value.ticks());
    if value.kind() == DateTimeKind::Utc {
        out.push('Z');
    }
    out
}

/// Always with an offset, never `Z`.
pub(crate) fn date_time_offset(value: DateTimeOffset) -> String {
    let mut out = String::with_capacity(33);
    push_date_time(&mut out, value.local_ticks());
    let minutes = value.offset_minutes();
    let sign = if minutes < 0 { '-' } else { '+' };
    let minutes = minutes.unsigned_abs();
    out.push_str(&format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60));
    out
}

/// The fraction absent or of seven digits.
pub(crate) fn time_span(value: TimeSpan) -> String {
    let mut out = String::with_capacity(26);
    if value.ticks() < 0 {
        out.push('-');
    }
    let ticks = value.ticks().unsigned_abs();
    let days = ticks / DAY.unsigned_abs();
    if days != 0 {
        out.push_str(&format!("{days}."));
    }
    push_time(&mut out, (ticks % DAY.unsigned_abs()) as i64);
    out
}

fn push_time(out: &mut String, ticks: i64) {
    push_clock(out, ticks);
    let fraction = ticks % SECOND;
    if fraction != 0 {
        out.push_str(&format!(".{fraction:07}"));
    }
}

/// The fraction absent or of seven digits.
pub(crate) fn time_only(value: TimeOnly) -> String {
    let mut out = String::with_capacity(16);
    push_time(&mut out, value.ticks());
    out
}

/// `yyyy-MM-dd`.
pub(crate) fn date_only(value: DateOnly) -> String {
    let mut out = String::with_capacity(10);
    push_date(&mut out, i64::from(value.day_number()) * DAY);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(text: &str) -> Option<String> {
        read_date_time(text).ok().map(date_time)
    }

    #[test]
    fn dates_are_read_as_dotnet_reads_them() {
        for (text, expected) in [
            ("2026-11-30", "2026-11-30T00:00:00"),
            ("2026-11-30T05:06", "2026-11-30T05:06:00"),
            ("2026-11-30T05:06Z", "2026-11-30T05:06:00Z"),
            ("2026-11-30T05:06:07.1Z", "2026-11-30T05:06:07.1Z"),
            (
                "2026-11-30T05:06:07.12345678Z",
                "2026-11-30T05:06:07.1234567Z",
            ),
            (
                "2026-11-30T05:06:07.99999999Z",
                "2026-11-30T05:06:07.9999999Z",
            ),
            ("2026-11-30T05:06:07+02:00", "2026-11-30T03:06:07Z"),
            ("2026-11-30T05:06:07+02", "2026-11-30T03:06:07Z"),
            ("2026-11-30T05:06:07-00:00", "2026-11-30T05:06:07Z"),
            ("2026-11-30T05:06+14:00", "2026-11-29T15:06:00Z"),
            ("2024-02-29", "2024-02-29T00:00:00"),
            ("9999-12-31T23:59:59.9999999", "9999-12-31T23:59:59.9999999"),
        ] {
            assert_eq!(times(text).as_deref(), Some(expected), "{text}");
        }
        for text in [
            "",
            "2026-11-30 05:06:07",
            "2026-11-30T05:06:07z",
            "2026-11-30t05:06:07Z",
            "2026-11-30T05:06:07.1234567890123456789Z",
            "2026-11-30T05:06:07.",
            "2026-11-30T05:06:07,5",
            "2026-11-30T05:06:07+0200",
            "2026-11-30T05:06:07+2:00",
            "2026-11-30T05:06:07+14:01",
            "2026-11-30T05:06:07+13:60",
            "2026-02-30",
            "2026-11-30T24:00:00",
            "2026-11-30T23:59:60",
            "2026-11-30T05",
            "2026-11-30T5:06:07",
            "26-11-30",
            "0000-01-01",
            "0001-01-01T00:00:00+01:00",
            "9999-12-31T23:59:59-01:00",
            "2026-11-30Z",
            "2026-11-30+02:00",
            "2026-11",
            "20261130",
            "2026-11-30T",
            " 2026-11-30",
            "2026-11-30T05:06:07Zx",
            "２０２６-11-30",
        ] {
            assert_eq!(times(text), None, "{text}");
        }
    }

    #[test]
    fn offsets_are_kept_and_a_missing_one_is_zero() {
        let read = |text: &str| read_date_time_offset(text).ok().map(date_time_offset);
        for (text, expected) in [
            ("2026-11-30", "2026-11-30T00:00:00+00:00"),
            ("2026-11-30T05:06:07Z", "2026-11-30T05:06:07+00:00"),
            ("2026-11-30T05:06:07-11:03", "2026-11-30T05:06:07-11:03"),
            ("0001-01-01T00:00:00-01:00", "0001-01-01T00:00:00-01:00"),
            ("2026-11-30T05:06:07+14:00", "2026-11-30T05:06:07+14:00"),
        ] {
            assert_eq!(read(text).as_deref(), Some(expected));
        }
        for text in [
            "0001-01-01T00:00:00+01:00",
            "9999-12-31T23:59:59-01:00",
            "2026-11-30T05:06:07-14:01",
        ] {
            assert_eq!(read(text), None);
        }
    }

    #[test]
    fn durations_are_read_as_dotnet_reads_them() {
        let read = |text: &str| read_time_span(text).ok().map(super::time_span);
        for (text, expected) in [
            ("1:2:3", "01:02:03"),
            ("5", "5.00:00:00"),
            ("-5", "-5.00:00:00"),
            ("23:59:59", "23:59:59"),
            ("1:2", "01:02:00"),
            ("-1:2:3", "-01:02:03"),
            ("1.2:3:4.5", "1.02:03:04.5000000"),
            ("1:2:3.1234567", "01:02:03.1234567"),
            ("001:2:3", "01:02:03"),
            ("0000000001:002:3", "01:02:03"),
            ("1.2:3", "1.02:03:00"),
            ("10675199.02:48:05.4775807", "10675199.02:48:05.4775807"),
            ("-10675199.02:48:05.4775808", "-10675199.02:48:05.4775808"),
            ("00:00:00.0000001", "00:00:00.0000001"),
        ] {
            assert_eq!(read(text).as_deref(), Some(expected), "{text}");
        }
        for text in [
            "24:00:00",
            "- 1:2:3",
            "+1:2:3",
            "1:2:3.12345678",
            "1:2:3.",
            "1:60:3",
            "1:2:60",
            "1.24:00:00",
            "10675199.02:48:05.4775808",
            "10675200",
            "1:2:3:4",
            "1:2:3:4.5",
            " 1:2:3",
            "1:2:3 ",
            "",
            "1.5",
            ".5",
            "5.",
            "P1D",
            "1:2:3,5",
            "99999999999",
            "1: 2:3",
            "99999999999999999999",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn times_of_day_are_read_as_dotnet_reads_them() {
        let read = |text: &str| read_time_only(text).ok().map(time_only);
        for (text, expected) in [
            ("05:06:07", "05:06:07"),
            ("1:02:03", "01:02:03"),
            ("01:02", "01:02:00"),
            ("23:59:59.9999999", "23:59:59.9999999"),
            ("05:06:07.1", "05:06:07.1000000"),
        ] {
            assert_eq!(read(text).as_deref(), Some(expected));
        }
        for text in [
            "24:00:00",
            "05:06:07.12345678",
            "-01:00:00",
            "1.00:00:00",
            "0.01:02:03",
            "05:06:07Z",
            "5",
            "",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn days_and_versions() {
        assert_eq!(
            read_date_only("2026-11-30").map(date_only).as_deref(),
            Ok("2026-11-30")
        );
        for text in [
            "2026-1-30",
            "2026-11-30T00:00:00",
            "26-11-30",
            "2026-02-29",
            " 2026-11-30",
        ] {
            assert!(read_date_only(text).is_err(), "{text}");
        }
        assert_eq!(read_version("1.2"), Ok([1, 2, -1, -1]));
        assert_eq!(read_version("01.02.3.2147483647"), Ok([1, 2, 3, i32::MAX]));
        for text in [
            "1",
            "1.2.3.4.5",
            "1.-2",
            " 1.2",
            "1.2 ",
            "2147483648.0",
            "1.2.",
            "",
            "a.b",
        ] {
            assert!(read_version(text).is_err(), "{text}");
        }
    }
}
