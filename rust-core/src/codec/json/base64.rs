//! Standard base64 with padding, as JSON holds bytes.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Appends the base64 of `bytes`.
pub(crate) fn encode(out: &mut Vec<u8>, bytes: &[u8]) {
    for chunk in bytes.chunks(3) {
        let group = u32::from(chunk[0]) << 16
            | u32::from(chunk.get(1).copied().unwrap_or_default()) << 8
            | u32::from(chunk.get(2).copied().unwrap_or_default());
        for i in 0..4 {
            out.push(if i <= chunk.len() {
                ALPHABET[(group >> (18 - 6 * i)) as usize & 63]
            } else {
                b'='
            });
        }
    }
}

/// The bytes of a base64 text; blanks are skipped as .NET does. Missing padding, other alphabets
/// and bits after the last byte are refused.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    let mut group = 0_u32;
    let (mut count, mut padding) = (0, 0);
    for byte in text.bytes() {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            b' ' | b'\t' | b'\n' | b'\r' => continue,
            b'=' if count >= 2 => {
                padding += 1;
                count += 1;
                group <<= 6;
                if count == 4 {
                    // The bits that padding stands for are zero.
                    let [_, first, second, third] = group.to_be_bytes();
                    out.push(first);
                    match (padding, second, third) {
                        (1, second, 0) => out.push(second),
                        (2, 0, 0) => {}
                        _ => return None,
                    }
                }
                continue;
            }
            _ => return None,
        };
        if padding > 0 {
            return None;
        }
        group = group << 6 | u32::from(value);
        count += 1;
        if count == 4 {
            out.extend_from_slice(&group.to_be_bytes()[1..]);
            (group, count) = (0, 0);
        }
    }
    (count == 0 || (count == 4 && padding > 0)).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back() {
        for len in 0..20_u8 {
            let bytes: Vec<u8> = (0..len).map(|i| i.wrapping_mul(97)).collect();
            let mut text = Vec::new();
            encode(&mut text, &bytes);
            assert_eq!(decode(std::str::from_utf8(&text).unwrap()), Some(bytes));
        }
    }

    #[test]
    fn only_standard_base64_is_read() {
        for (text, bytes) in [
            ("", &[][..]),
            ("AQID", &[1, 2, 3]),
            ("AQI=", &[1, 2]),
            ("AQ==", &[1]),
            (" A QID\n", &[1, 2, 3]),
            ("AQ= =", &[1]),
        ] {
            assert_eq!(decode(text).as_deref(), Some(bytes), "{text}");
        }
        for text in [
            "AQI", "AQJ=", "AR==", "A-_=", "====", "AQ==AQ==", "A===", "=AQI", "AQI==", "AQ=",
            "AQ=A", "AQIDé", "A",
        ] {
            assert_eq!(decode(text), None, "{text}");
        }
    }
}
