//! Strings as JSON, in the two ways that there are readers for.

/// How text is escaped, and what is shown of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// What `System.Text.Json` writes, byte for byte: everything outside plain ASCII as `\uXXXX`,
    /// no fields, no items of a `ValueTuple`, and no infinity.
    Wire,
    /// What people and other programs read: UTF-8 with few escapes, all members and items, and
    /// `"NaN"`, `"Infinity"` and `"-Infinity"`.
    Text,
}

/// Appends a string with its quotes.
pub(crate) fn write_string(out: &mut Vec<u8>, text: &str, dialect: Dialect) {
    out.push(b'"');
    let mut run = 0;
    for (at, c) in text.char_indices() {
        if !needs_escape(c, dialect) {
            continue;
        }
        out.extend_from_slice(&text.as_bytes()[run..at]);
        run = at + c.len_utf8();
        write_escape(out, c, dialect);
    }
    out.extend_from_slice(&text.as_bytes()[run..]);
    out.push(b'"');
}

fn needs_escape(c: char, dialect: Dialect) -> bool {
    matches!(c, '\0'..='\x1F' | '"' | '\\')
        || (dialect == Dialect::Wire && matches!(c, '&' | '\'' | '+' | '<' | '>' | '`' | '\x7F'..))
}

fn write_escape(out: &mut Vec<u8>, c: char, dialect: Dialect) {
    let short = match c {
        '\u{8}' => b'b',
        '\t' => b't',
        '\n' => b'n',
        '\u{C}' => b'f',
        '\r' => b'r',
        '\\' => b'\\',
        '"' if dialect == Dialect::Text => b'"',
        _ => {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                out.extend_from_slice(b"\\u");
                for shift in [12, 8, 4, 0] {
                    let digit = (*unit >> shift) & 0xF;
                    out.push(b"0123456789ABCDEF"[usize::from(digit)]);
                }
            }
            return;
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}
