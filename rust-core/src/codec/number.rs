//! Numbers as text, digit for digit as .NET writes them, and the IEEE half.

use std::fmt;

/// An IEEE half, which .NET calls `Half`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Half(u16);

impl Half {
    /// The half with these bits.
    pub fn from_bits(bits: u16) -> Half {
        Half(bits)
    }

    /// The bits.
    pub fn to_bits(self) -> u16 {
        self.0
    }

    /// The nearest half; ties go to the even one, what is too large becomes infinity.
    pub fn from_f64(value: f64) -> Half {
        let bits = value.to_bits();
        let sign = ((bits >> 48) & 0x8000) as u16;
        let exponent = ((bits >> 52) & 0x7FF) as i32 - 1023;
        let fraction = bits & ((1 << 52) - 1);
        if exponent == 1024 {
            let nan = u16::from(fraction != 0) << 9;
            return Half(sign | 0x7C00 | nan);
        }
        if exponent < -25 {
            return Half(sign);
        }
        // The significand with its leading one, to be shifted to ten bits of fraction.
        let (shift, base) = if exponent < -14 {
            (42 + (-14 - exponent) as u32, 0)
        } else {
            (42, (exponent + 14) as u64)
        };
        let significand = fraction | (1 << 52);
        let kept = significand >> shift;
        let rest = significand & ((1 << shift) - 1);
        let half = 1_u64 << (shift - 1);
        let round = u64::from(rest > half || (rest == half && kept & 1 == 1));
        // A carry runs into the exponent, which is where it belongs.
        let magnitude = (base << 10) + kept + round;
        Half(sign | magnitude.min(0x7C00) as u16)
    }

    /// The same number; every half is also a single.
    pub fn to_f32(self) -> f32 {
        let sign = if self.0 & 0x8000 == 0 { 1.0 } else { -1.0 };
        let exponent = i32::from((self.0 >> 10) & 0x1F);
        let fraction = f32::from(self.0 & 0x3FF);
        let magnitude = match exponent {
            0 => fraction * 2f32.powi(-24),
            31 if fraction == 0.0 => f32::INFINITY,
            31 => f32::NAN,
            _ => (1024.0 + fraction) * 2f32.powi(exponent - 25),
        };
        sign * magnitude
    }

    /// Whether it is neither infinite nor not a number.
    pub fn is_finite(self) -> bool {
        self.0 & 0x7C00 != 0x7C00
    }
}

impl fmt::Debug for Half {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.to_f32())
    }
}

/// Appends an integer.
pub(crate) fn write_i64(out: &mut Vec<u8>, value: i64) {
    // As many digits as a u64 has, filled from the end.
    let mut digits = [0; 20];
    let mut at = digits.len();
    let mut rest = value.unsigned_abs();
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if value < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(&digits[at..]);
}

/// Appends a finite double: the fewest digits that read back the same.
pub(crate) fn write_f64(out: &mut Vec<u8>, value: f64) {
    let text = even_tie(
        format!("{value:e}"),
        15,
        |digits| format!("{value:.digits$e}"),
        |text| text.parse() == Ok(value),
    );
    write_scientific(out, &text, 17);
}

/// Appends a finite single.
pub(crate) fn write_f32(out: &mut Vec<u8>, value: f32) {
    let text = even_tie(
        format!("{value:e}"),
        6,
        |digits| format!("{value:.digits$e}"),
        |text| text.parse() == Ok(value),
    );
    write_scientific(out, &text, 9);
}

/// Appends a finite half.
pub(crate) fn write_half(out: &mut Vec<u8>, value: Half) {
    let exact = value.to_f32();
    let same = |text: &String| {
        text.parse::<f64>()
            .is_ok_and(|parsed| Half::from_f64(parsed).0 == value.0)
    };
    // Five digits tell all halves apart. At a power of two the digits below may be too far away
    // where those above are not.
    let shortest = (0..5)
        .flat_map(|digits| {
            let text = format!("{exact:.digits$e}");
            let above = last_digit(&text, 1);
            [Some(text), above]
        })
        .flatten()
        .find(same)
        .unwrap_or_else(|| format!("{exact:e}"));
    write_scientific(out, &shortest, 17);
}

/// Where two shortest forms are equally near, .NET takes the one that ends in an even digit, and
/// Rust the greater one. `least` is the number of digits from which on that can happen.
fn even_tie(
    shortest: String,
    least: usize,
    exact: impl Fn(usize) -> String,
    reads_back: impl Fn(&str) -> bool,
) -> String {
    let mantissa = shortest.split('e').next().unwrap_or_default();
    let digits = mantissa.bytes().filter(u8::is_ascii_digit).count();
    let odd = mantissa.bytes().last().is_some_and(|b| b % 2 == 1);
    if digits < least || !odd {
        return shortest;
    }
    let Some(below) = last_digit(&shortest, -1) else {
        return shortest;
    };
    // Halfway between the two, all further digits are zero.
    let (mantissa, exponent) = below.split_once('e').unwrap_or((&below, "0"));
    let point = if mantissa.contains('.') { "" } else { "." };
    let longer = exact(digits);
    if longer != format!("{mantissa}{point}5e{exponent}") {
        return shortest;
    }
    let all = exact(1100);
    let (all, _) = all.split_once('e').unwrap_or((&all, "0"));
    let (longer, _) = longer.split_once('e').unwrap_or((&longer, "0"));
    if all.trim_end_matches('0') == longer && reads_back(&below) {
        below
    } else {
        shortest
    }
}

/// The text with another last digit of its mantissa, where that needs no carry.
fn last_digit(text: &str, add: i8) -> Option<String> {
    let (mantissa, exponent) = text.split_once('e')?;
    let last = mantissa.bytes().last()?.checked_add_signed(add)?;
    last.is_ascii_digit().then(|| {
        let head = &mantissa[..mantissa.len() - 1];
        format!("{head}{}e{exponent}", char::from(last))
    })
}

/// From Rust's `-1.25e-7` to .NET's form: plain from 1e-4 up to 10 to the power of `plain`,
/// otherwise `-1.25E-07`.
fn write_scientific(out: &mut Vec<u8>, text: &str, plain: i32) {
    let (negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let (first, rest) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if negative {
        out.push(b'-');
    }
    if !(-4..plain).contains(&exponent) {
        out.extend_from_slice(first.as_bytes());
        if !rest.is_empty() {
            out.push(b'.');
            out.extend_from_slice(rest.as_bytes());
        }
        let sign = if exponent < 0 { '-' } else { '+' };
        out.extend_from_slice(format!("E{sign}{:02}", exponent.unsigned_abs()).as_bytes());
    } else if exponent < 0 {
        out.extend_from_slice(b"0.");
        out.extend(std::iter::repeat_n(
            b'0',
            exponent.unsigned_abs() as usize - 1,
        ));
        out.extend_from_slice(first.as_bytes());
        out.extend_from_slice(rest.as_bytes());
    } else {
        let whole = exponent as usize;
        out.extend_from_slice(first.as_bytes());
        let (before, after) = rest.split_at(whole.min(rest.len()));
        out.extend_from_slice(before.as_bytes());
        out.extend(std::iter::repeat_n(b'0', whole - before.len()));
        if !after.is_empty() {
            out.push(b'.');
            out.extend_from_slice(after.as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn f64_text(value: f64) -> String {
        let mut out = Vec::new();
        write_f64(&mut out, value);
        String::from_utf8(out).unwrap()
    }

    fn f32_text(value: f32) -> String {
        let mut out = Vec::new();
        write_f32(&mut out, value);
        String::from_utf8(out).unwrap()
    }

    fn half_text(value: f64) -> String {
        let mut out = Vec::new();
        write_half(&mut out, Half::from_f64(value));
        String::from_utf8(out).unwrap()
    }

    // These numbers lie exactly between two shortest forms.
    #[allow(clippy::excessive_precision)]
    #[test]
    fn doubles_have_the_text_of_dotnet() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1e16, "10000000000000000"),
            (12_345_678_901_234_568.0, "12345678901234568"),
            (123_456_789_012_345_680.0, "1.2345678901234568E+17"),
            (1e17, "1E+17"),
            (0.0001, "0.0001"),
            (0.000_01, "1E-05"),
            (0.000_123_45, "0.00012345"),
            (5e-324, "5E-324"),
            (f64::MAX, "1.7976931348623157E+308"),
            (1_234_567.125, "1234567.125"),
            (4.35, "4.35"),
            (254_196_618_010_908.125, "254196618010908.12"),
            (-2_087_230_540_684_486.25, "-2087230540684486.2"),
            (16_731_529_422_199.062_5, "16731529422199.062"),
            (100.0, "100"),
            (1.0 / 3.0, "0.3333333333333333"),
        ] {
            assert_eq!(f64_text(value), text);
        }
    }

    #[allow(clippy::excessive_precision)]
    #[test]
    fn singles_have_the_text_of_dotnet() {
        for (value, text) in [
            (1e-5, "1E-05"),
            (1e8, "100000000"),
            (123_456_784.0, "123456780"),
            (1e9, "1E+09"),
            (16_777_216.0, "16777216"),
            (168_781.125, "168781.12"),
            (-3_914_043.25, "-3914043.2"),
            (1.0 / 3.0, "0.33333334"),
            (f32::MAX, "3.4028235E+38"),
            (1e-45, "1E-45"),
        ] {
            assert_eq!(f32_text(value), text);
        }
    }

    #[test]
    fn halves_have_the_text_of_dotnet() {
        for (value, text) in [
            (0.1, "0.1"),
            (65504.0, "65500"),
            (1e-7, "1E-07"),
            (-0.0, "-0"),
            (1000.0, "1000"),
            (0.000_01, "1E-05"),
            (2048.0, "2048"),
            (0.333, "0.333"),
            (2.71999, "2.72"),
            (0.015_625, "0.01563"),
        ] {
            assert_eq!(half_text(value), text);
        }
    }

    #[test]
    fn integers_are_plain() {
        for value in [0, 1, -1, 9, 10, 99, 100, -12_345, i64::MAX, i64::MIN] {
            let mut out = Vec::new();
            write_i64(&mut out, value);
            assert_eq!(String::from_utf8(out).unwrap(), value.to_string());
        }
    }

    #[test]
    fn all_halves_have_the_text_of_dotnet() {
        // The hash of all texts in the order of their bits, a line each, as .NET 10 writes them.
        let mut hash = 14_695_981_039_346_656_037_u64;
        for half in (0..=u16::MAX)
            .map(Half::from_bits)
            .filter(|h| h.is_finite())
        {
            let mut line = Vec::new();
            write_half(&mut line, half);
            line.push(b'\n');
            for byte in line {
                hash = (hash ^ u64::from(byte)).wrapping_mul(1_099_511_628_211);
            }
        }
        assert_eq!(hash.cast_signed(), -5_770_913_284_919_811_851);
    }

    #[test]
    fn every_half_survives_a_single_and_its_text() {
        for bits in 0..=u16::MAX {
            let half = Half::from_bits(bits);
            if !half.is_finite() {
                assert!(!half.to_f32().is_finite());
                continue;
            }
            assert_eq!(Half::from_f64(f64::from(half.to_f32())), half);
            let mut text = Vec::new();
            write_half(&mut text, half);
            let parsed: f64 = std::str::from_utf8(&text).unwrap().parse().unwrap();
            assert_eq!(Half::from_f64(parsed), half);
        }
    }

    #[test]
    fn halves_round_to_even_and_overflow_to_infinity() {
        assert_eq!(Half::from_f64(65519.99).to_bits(), 0x7BFF);
        assert_eq!(Half::from_f64(65520.0).to_bits(), 0x7C00);
        assert_eq!(Half::from_f64(-1e300).to_bits(), 0xFC00);
        assert_eq!(Half::from_f64(2f64.powi(-25)).to_bits(), 0);
        assert_eq!(Half::from_f64(2f64.powi(-25) * 1.0001).to_bits(), 1);
        assert_eq!(Half::from_f64(2f64.powi(-24) * 1.5).to_bits(), 2);
        assert_eq!(Half::from_f64(1.0 + 2f64.powi(-11)).to_bits(), 0x3C00);
        assert_eq!(Half::from_f64(1.0 + 3.0 * 2f64.powi(-11)).to_bits(), 0x3C02);
        assert!(Half::from_f64(f64::NAN).to_f32().is_nan());
    }
}
