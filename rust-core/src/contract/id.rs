//! Contract and method ids: FNV-1a over UTF-16 units.

const OFFSET: u64 = 14_695_981_039_346_656_037;
const PRIME: u64 = 1_099_511_628_211;

/// The 64-bit id of a text: FNV-1a that takes a whole UTF-16 unit at each step, as a signed
/// number with the same bits. For ASCII it equals the FNV-1a of the bytes.
pub fn stable_id(text: &str) -> i64 {
    text.encode_utf16()
        .fold(OFFSET, |hash, unit| {
            (hash ^ u64::from(unit)).wrapping_mul(PRIME)
        })
        .cast_signed()
}

#[cfg(test)]
mod tests {
    use super::stable_id;

    #[test]
    fn known_texts_have_known_ids() {
        assert_eq!(stable_id(""), -3_750_763_034_362_895_579);
        assert_eq!(stable_id("Demo.IEcho"), -3_881_419_401_912_983_062);
        assert_eq!(
            stable_id("Demo.IEcho#Add(System.Int32,System.Int32)"),
            2_843_837_614_665_828_375
        );
    }

    #[test]
    fn a_unit_counts_as_a_whole() {
        // 'Ā' is the unit 0x0100, which byte-wise hashing would split.
        let expected = (14_695_981_039_346_656_037_u64 ^ 0x0100).wrapping_mul(1_099_511_628_211);
        assert_eq!(stable_id("Ā"), expected.cast_signed());
        assert_ne!(stable_id("😀"), stable_id("\u{D7FF}\u{E000}"));
    }
}
