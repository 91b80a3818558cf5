//! Access tokens: comparing them, and finding one in the text of a file.

/// True if both are the same. How long it takes does not depend on where they differ; only their
/// lengths show.
pub fn same_token(a: &str, b: &str) -> bool {
    aws_lc_rs::constant_time::verify_slices_are_equal(a.as_bytes(), b.as_bytes()).is_ok()
}

/// The token in the text of a file: without a byte order mark, and without blanks and line ends
/// around it, as .NET servers read theirs. `None` if nothing is left: an empty token means "none"
/// and would let everybody in.
pub fn token_of_file(text: &str) -> Option<&str> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text).trim();
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_the_token_is_the_same() {
        assert!(same_token("", "") && same_token("secret", "secret"));
        for wrong in ["", "secre", "secrets", "Secret"] {
            assert!(!same_token("secret", wrong));
        }
    }

    #[test]
    fn what_an_editor_adds_to_a_file_is_no_part_of_the_token() {
        for text in [
            "t k",
            "t k\n",
            "t k\r\n",
            " t k\t\n\n",
            "\u{feff}t k\r\n",
            "\nt k",
        ] {
            assert_eq!(token_of_file(text), Some("t k"), "{text:?}");
        }
        for text in ["", "\n", " \r\n", "\u{feff}"] {
            assert_eq!(token_of_file(text), None, "{text:?}");
        }
    }
}
