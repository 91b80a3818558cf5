//! Writing to stdout and stderr, where a closed pipe is an end and not a panic.

use std::io::{self, Write};

/// Writes a line to stdout at once. False if nobody takes it.
pub(crate) fn line(text: &str) -> bool {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.write_all(b"\n"))
        .and_then(|()| out.flush())
        .is_ok()
}

/// Writes one line about the command to stderr, whatever the text holds.
pub(crate) fn note(text: &str) {
    let _ = writeln!(io::stderr().lock(), "witrpc: {}", one_line(text));
}

/// What servers send may hold anything: control characters are shown, not obeyed.
fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() {
            line.extend(c.escape_debug());
        } else {
            line.push(c);
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_one_line_and_moves_no_cursor() {
        assert_eq!(
            one_line("a\nb\u{1b}[31m\u{9b}é"),
            "a\\nb\\u{1b}[31m\\u{9b}é"
        );
    }
}
