//! Dates and times: ticks of 100 ns there, microseconds here.
//!
//! An aware `datetime` is a moment, a naive one says nothing about where: so they are UTC and
//! Unspecified. No time zone of the machine takes part. What .NET counts below a microsecond is cut
//! off on the way in.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{
    PyDate, PyDateAccess, PyDateTime, PyDelta, PyDeltaAccess, PyTime, PyTimeAccess, PyTzInfo,
    PyTzInfoAccess,
};
use witrpc::codec::{DateOnly, DateTime, DateTimeKind, DateTimeOffset, TimeOnly, TimeSpan};

use super::{Converted, Mismatch};

const MICROSECOND: i64 = 10;
const SECOND: i64 = 1_000_000 * MICROSECOND;
const MINUTE: i64 = 60 * SECOND;
const DAY: i64 = 24 * 60 * MINUTE;

fn ordinal(date: &Bound<'_, PyAny>) -> PyResult<i64> {
    date.call_method0(pyo3::intern!(date.py(), "toordinal"))?
        .extract()
}

fn clock(time: &impl PyTimeAccess) -> i64 {
    let seconds = (i64::from(time.get_hour()) * 60 + i64::from(time.get_minute())) * 60
        + i64::from(time.get_second());
    seconds * SECOND + i64::from(time.get_microsecond()) * MICROSECOND
}

fn delta_ticks(delta: &Bound<'_, PyDelta>) -> Converted<i64> {
    let ticks = i128::from(delta.get_days()) * i128::from(DAY)
        + i128::from(delta.get_seconds()) * i128::from(SECOND)
        + i128::from(delta.get_microseconds()) * i128::from(MICROSECOND);
    i64::try_from(ticks).map_err(|_| Mismatch::new("the timedelta is beyond the range of TimeSpan"))
}

/// Ticks of the clock of a datetime, and how far it is ahead of UTC.
fn ticks(value: &Bound<'_, PyDateTime>) -> Converted<(i64, Option<i64>)> {
    let local = (ordinal(value.as_any())? - 1) * DAY + clock(value);
    if value.get_tzinfo().is_none() {
        return Ok((local, None));
    }
    let offset = value.call_method0(pyo3::intern!(value.py(), "utcoffset"))?;
    if offset.is_none() {
        return Ok((local, None));
    }
    Ok((
        local,
        Some(delta_ticks(offset.cast::<PyDelta>().map_err(PyErr::from)?)?),
    ))
}

fn out_of_range(what: &str) -> Mismatch {
    Mismatch::new(format!("beyond the range of {what}"))
}

pub(super) fn date_time(value: &Bound<'_, PyDateTime>) -> Converted<DateTime> {
    let (local, offset) = ticks(value)?;
    let (ticks, kind) = match offset {
        Some(offset) => (local - offset, DateTimeKind::Utc),
        None => (local, DateTimeKind::Unspecified),
    };
    DateTime::from_ticks(ticks, kind).ok_or_else(|| out_of_range("DateTime"))
}

pub(super) fn date_time_offset(value: &Bound<'_, PyDateTime>) -> Converted<DateTimeOffset> {
    let (local, offset) = ticks(value)?;
    let offset = offset.unwrap_or(0);
    if offset % MINUTE != 0 {
        return Err(Mismatch::new("its offset from UTC is not in whole minutes"));
    }
    i16::try_from(offset / MINUTE)
        .ok()
        .and_then(|minutes| DateTimeOffset::from_local_ticks(local, minutes))
        .ok_or_else(|| out_of_range("DateTimeOffset"))
}

pub(super) fn time_span(value: &Bound<'_, PyDelta>) -> Converted<TimeSpan> {
    Ok(TimeSpan::from_ticks(delta_ticks(value)?))
}

pub(super) fn date_only(value: &Bound<'_, PyDate>) -> Converted<DateOnly> {
    let number = ordinal(value.as_any())? - 1;
    i32::try_from(number)
        .ok()
        .and_then(DateOnly::from_day_number)
        .ok_or_else(|| out_of_range("DateOnly"))
}

pub(super) fn time_only(value: &Bound<'_, PyTime>) -> Converted<TimeOnly> {
    if value.get_tzinfo().is_some() {
        return Err(Mismatch::new(
            "TimeOnly has no time zone, and the time has one",
        ));
    }
    TimeOnly::from_ticks(clock(value)).ok_or_else(|| out_of_range("TimeOnly"))
}

fn utc(py: Python<'_>) -> PyResult<Bound<'_, PyTzInfo>> {
    Ok(PyTzInfo::utc(py)?.to_owned())
}

fn make<'py>(
    py: Python<'py>,
    ticks: i64,
    zone: Option<&Bound<'py, PyTzInfo>>,
) -> PyResult<Bound<'py, PyAny>> {
    let date = from_ordinal(py, ticks.div_euclid(DAY) + 1)?;
    let date = date.cast::<PyDate>().map_err(PyErr::from)?;
    let (hour, minute, second, micro) = split(ticks.rem_euclid(DAY));
    Ok(PyDateTime::new(
        py,
        date.get_year(),
        date.get_month(),
        date.get_day(),
        hour,
        minute,
        second,
        micro,
        zone,
    )?
    .into_any())
}

fn from_ordinal(py: Python<'_>, ordinal: i64) -> PyResult<Bound<'_, PyAny>> {
    static FROM: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let from = FROM.get_or_try_init(py, || {
        let date = py.import("datetime")?.getattr("date")?;
        PyResult::Ok(date.getattr("fromordinal")?.unbind())
    })?;
    from.bind(py).call1((ordinal,))
}

fn split(ticks: i64) -> (u8, u8, u8, u32) {
    let seconds = ticks / SECOND;
    let part = |value: i64| u8::try_from(value).unwrap_or_default();
    (
        part(seconds / 3600),
        part(seconds / 60 % 60),
        part(seconds % 60),
        u32::try_from(ticks % SECOND / MICROSECOND).unwrap_or_default(),
    )
}

pub(super) fn py_date_time<'py>(py: Python<'py>, value: DateTime) -> PyResult<Bound<'py, PyAny>> {
    let zone = match value.kind() {
        DateTimeKind::Utc => Some(utc(py)?),
        DateTimeKind::Unspecified | DateTimeKind::Local => None,
    };
    make(py, value.ticks(), zone.as_ref())
}

pub(super) fn py_date_time_offset<'py>(
    py: Python<'py>,
    value: DateTimeOffset,
) -> PyResult<Bound<'py, PyAny>> {
    let zone = match value.offset_minutes() {
        0 => utc(py)?,
        minutes => {
            let offset = PyDelta::new(py, 0, i32::from(minutes) * 60, 0, true)?;
            PyTzInfo::fixed_offset(py, offset)?
        }
    };
    make(py, value.local_ticks(), Some(&zone))
}

pub(super) fn py_time_span<'py>(py: Python<'py>, value: TimeSpan) -> PyResult<Bound<'py, PyAny>> {
    let ticks = value.ticks();
    // Towards zero, as everything else is cut off.
    let micros = ticks / MICROSECOND;
    let days = i32::try_from(micros.div_euclid(DAY / MICROSECOND)).unwrap_or_default();
    let rest = micros.rem_euclid(DAY / MICROSECOND);
    let seconds = i32::try_from(rest / 1_000_000).unwrap_or_default();
    let micros = i32::try_from(rest % 1_000_000).unwrap_or_default();
    Ok(PyDelta::new(py, days, seconds, micros, false)?.into_any())
}

pub(super) fn py_date_only<'py>(py: Python<'py>, value: DateOnly) -> PyResult<Bound<'py, PyAny>> {
    from_ordinal(py, i64::from(value.day_number()) + 1)
}

pub(super) fn py_time_only<'py>(py: Python<'py>, value: TimeOnly) -> PyResult<Bound<'py, PyAny>> {
    let (hour, minute, second, micro) = split(value.ticks());
    Ok(PyTime::new(py, hour, minute, second, micro, None)?.into_any())
}
