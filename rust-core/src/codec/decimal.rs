//! The 96-bit decimal of .NET, which keeps its scale: `1.50` is not `1.5`.

use std::fmt;
use std::str::FromStr;

/// Greatest scale: digits after the decimal point.
const MAX_SCALE: u8 = 28;
const MAX_MANTISSA: u128 = (1 << 96) - 1;

/// A .NET `decimal`: sign, a 96-bit integer and a number of digits after the decimal point.
///
/// Equality is that of the text: `1.50` and `1.5` differ, and so do `0` and `-0`, though both
/// print as `0`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Decimal {
    low: u64,
    high: u32,
    scale: u8,
    negative: bool,
}

/// A text that is no `decimal`, or a number beyond its range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecimalError(&'static str);

impl fmt::Display for DecimalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for DecimalError {}

impl Decimal {
    /// Zero, without digits after the decimal point.
    pub const ZERO: Decimal = Decimal {
        low: 0,
        high: 0,
        scale: 0,
        negative: false,
    };

    /// A decimal of its parts; `None` if the integer has more than 96 bits or the scale is above
    /// 28.
    pub fn from_parts(negative: bool, mantissa: u128, scale: u8) -> Option<Decimal> {
        (mantissa <= MAX_MANTISSA && scale <= MAX_SCALE).then_some(Decimal {
            low: mantissa as u64,
            high: (mantissa >> 64) as u32,
            scale,
            negative,
        })
    }

    /// The integer of all digits, without the sign.
    pub fn mantissa(&self) -> u128 {
        (u128::from(self.high) << 64) | u128::from(self.low)
    }

    /// The number of digits after the decimal point, 0 to 28.
    pub fn scale(&self) -> u8 {
        self.scale
    }

    /// Whether the sign bit is set, also of a zero.
    pub fn is_negative(&self) -> bool {
        self.negative
    }

    /// Reads digits with an optional fraction and exponent, as .NET reads a decimal from JSON:
    /// digits beyond the 28th after the point, or beyond 96 bits, are rounded away, half to even;
    /// only a tie at the 30th digit goes up, as the reference has it.
    fn parse(text: &str) -> Result<Decimal, DecimalError> {
        const NOT_A_NUMBER: DecimalError = DecimalError("not a decimal number");
        const TOO_LARGE: DecimalError = DecimalError("beyond the range of decimal");
        let (negative, text) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        let (number, exponent) = match text.split_once(['e', 'E']) {
            Some((number, exponent)) => (number, parse_exponent(exponent).ok_or(NOT_A_NUMBER)?),
            None => (text, 0),
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let all_digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
        if whole.is_empty()
            || !all_digits(whole)
            || !all_digits(fraction)
            || (fraction.is_empty() && number.contains('.'))
        {
            return Err(NOT_A_NUMBER);
        }
        let zeros = whole
            .bytes()
            .chain(fraction.bytes())
            .take_while(|b| *b == b'0')
            .count();
        let digits = whole.bytes().chain(fraction.bytes()).skip(zeros);
        if zeros == whole.len() + fraction.len() {
            let scale = (fraction.len() as i64 - exponent).clamp(0, i64::from(MAX_SCALE));
            return Ok(Decimal {
                scale: scale as u8,
                negative,
                ..Decimal::ZERO
            });
        }
        // Digits before the decimal point, negative for zeros after it.
        let mut point = whole.len() as i64 - zeros as i64 + exponent;
        if point > 29 {
            return Err(TOO_LARGE);
        }
        let mut digits = digits.map(|b| u128::from(b - b'0')).enumerate().peekable();
        let mut mantissa = 0_u128;
        while point > 0 || (digits.peek().is_some() && point > -i64::from(MAX_SCALE)) {
            let next = digits.peek().map_or(0, |(_, digit)| *digit);
            if mantissa * 10 + next > MAX_MANTISSA {
                break;
            }
            mantissa = mantissa * 10 + next;
            digits.next();
            point -= 1;
        }
        if let Some((index, first)) = digits.next()
            && first >= 5
        {
            let tie = first == 5 && index < 29 && digits.all(|(_, digit)| digit == 0);
            if !tie || mantissa % 2 == 1 {
                mantissa += 1;
                if mantissa > MAX_MANTISSA {
                    // The last digit goes; what is left was rounded up already.
                    mantissa = MAX_MANTISSA / 10 + 1;
                    point += 1;
                }
            }
        }
        if point > 0 {
            return Err(TOO_LARGE);
        }
        if point < -i64::from(MAX_SCALE) {
            (mantissa, point) = (0, -i64::from(MAX_SCALE));
        }
        Decimal::from_parts(negative, mantissa, point.unsigned_abs() as u8).ok_or(TOO_LARGE)
    }
}

/// An exponent of any length, cut to what can matter.
fn parse_exponent(text: &str) -> Option<i64> {
    let (negative, digits) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    // Beyond this, a text that fits into memory is zero or out of range anyway.
    let value = digits.parse::<i64>().unwrap_or(1 << 40).min(1 << 40);
    Some(if negative { -value } else { value })
}

impl FromStr for Decimal {
    type Err = DecimalError;

    fn from_str(text: &str) -> Result<Self, DecimalError> {
        Decimal::parse(text)
    }
}

impl From<i64> for Decimal {
    fn from(value: i64) -> Self {
        Decimal {
            low: value.unsigned_abs(),
            high: 0,
            scale: 0,
            negative: value < 0,
        }
    }
}

/// All digits of the scale, no exponent, no sign for zero.
impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mantissa = self.mantissa();
        if self.negative && mantissa != 0 {
            f.write_str("-")?;
        }
        let scale = usize::from(self.scale);
        if scale == 0 {
            return write!(f, "{mantissa}");
        }
        let unit = 10_u128.pow(u32::from(self.scale));
        write!(f, "{}.{:0scale$}", mantissa / unit, mantissa % unit)
    }
}

impl fmt::Debug for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Text, what .NET reads from it (through `System.Text.Json`), and whether it is negative.
    const READ: &[(&str, &str)] = &[
        ("1e2", "100"),
        ("1.5e1", "15"),
        ("0e5", "0"),
        ("0e-5", "0.00000"),
        ("0e-40", "0.0000000000000000000000000000"),
        ("-0.00", "0.00"),
        ("1e-30", "0.0000000000000000000000000000"),
        (
            "0.00000000000000000000000000005",
            "0.0000000000000000000000000000",
        ),
        (
            "0.00000000000000000000000000015",
            "0.0000000000000000000000000002",
        ),
        (
            "0.000000000000000000000000000050000001",
            "0.0000000000000000000000000001",
        ),
        (
            "7.9228162514264337593543950335e28",
            "79228162514264337593543950335",
        ),
        (
            "79228162514264337593543950335.4",
            "79228162514264337593543950335",
        ),
        (
            "1.23456789012345678901234567895",
            "1.2345678901234567890123456790",
        ),
        (
            "1.23456789012345678901234567885",
            "1.2345678901234567890123456789",
        ),
        (
            "12345678901234567890.12345678905",
            "12345678901234567890.123456789",
        ),
        ("1e28", "10000000000000000000000000000"),
        ("1e-1000", "0.0000000000000000000000000000"),
        ("5e-29", "0.0000000000000000000000000000"),
        ("15e-29", "0.0000000000000000000000000002"),
        ("100e-2", "1.00"),
        ("1.50e1", "15.0"),
        ("1e-2147483649", "0.0000000000000000000000000000"),
        (
            "0.99999999999999999999999999999",
            "1.0000000000000000000000000000",
        ),
        (
            "9.99999999999999999999999999995",
            "10.000000000000000000000000000",
        ),
        ("123.456e2", "12345.6"),
        ("123.456e4", "1234560"),
        (
            "0.12345678901234567890123456785",
            "0.1234567890123456789012345678",
        ),
        (
            "0.12345678901234567890123456775",
            "0.1234567890123456789012345678",
        ),
        (
            "0.12345678901234567890123456785000001",
            "0.1234567890123456789012345679",
        ),
        ("10.5e-28", "0.0000000000000000000000000010"),
        ("11.5e-28", "0.0000000000000000000000000012"),
        (
            "79228162514264337593543950334.5",
            "79228162514264337593543950335",
        ),
        (
            "7.92281625142643375935439503345",
            "7.9228162514264337593543950335",
        ),
        (
            "7.92281625142643375935439503355",
            "7.922816251426433759354395034",
        ),
        (
            "8.12345678901234567890123456650",
            "8.123456789012345678901234566",
        ),
        (
            "8.12345678901234567890123456651",
            "8.123456789012345678901234567",
        ),
        (
            "8.12345678901234567890123456749",
            "8.123456789012345678901234567",
        ),
        (
            "123456789012345678901234567.885",
            "123456789012345678901234567.89",
        ),
        (
            "1234567890123456789012345678.45",
            "1234567890123456789012345678.5",
        ),
        (
            "1234567890123456789012345678.44999999999999999999",
            "1234567890123456789012345678.4",
        ),
        (
            "10000000000000000000000000000.5",
            "10000000000000000000000000001",
        ),
        (
            "99999999999999999999999999999.5e-1",
            "10000000000000000000000000000",
        ),
        (
            "0.000000000012345678901234567850000000000",
            "0.0000000000123456789012345678",
        ),
        (
            "0.000000000012345678901234567850000000001",
            "0.0000000000123456789012345679",
        ),
    ];

    #[test]
    fn texts_are_read_as_dotnet_reads_them() {
        for (text, expected) in READ {
            assert_eq!(
                text.parse::<Decimal>().unwrap().to_string(),
                *expected,
                "{text}"
            );
            let negative = format!("-{}", text.trim_start_matches('-'));
            let value = negative.parse::<Decimal>().unwrap();
            assert!(value.is_negative());
            assert_eq!(value.to_string().trim_start_matches('-'), *expected);
        }
    }

    #[test]
    fn what_is_too_large_or_no_number_fails() {
        for text in [
            "1e29",
            "79228162514264337593543950335.5",
            "79228162514264337593543950336",
            "1e1000",
            "1e99999999999999999999",
            "99999999999999999999999999999.99",
        ] {
            assert_eq!(
                text.parse::<Decimal>().unwrap_err().0,
                "beyond the range of decimal"
            );
        }
        for text in [
            "", "-", ".5", "1.", "1e", "1e+", "1x", "1.2.3", "NaN", "1_0", " 1",
        ] {
            assert_eq!(
                text.parse::<Decimal>().unwrap_err().0,
                "not a decimal number",
                "{text}"
            );
        }
    }

    #[test]
    fn parts_are_bounded() {
        assert!(Decimal::from_parts(false, 1 << 96, 0).is_none());
        assert!(Decimal::from_parts(false, 0, 29).is_none());
        let value = Decimal::from_parts(true, 150, 2).unwrap();
        assert_eq!(value.to_string(), "-1.50");
        assert_eq!(Decimal::from(-5).to_string(), "-5");
        assert_eq!(Decimal::from(i64::MIN).to_string(), "-9223372036854775808");
    }
}
