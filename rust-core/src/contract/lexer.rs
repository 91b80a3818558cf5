//! Splits a line of C# into tokens.
//!
//! Owns blanks, comments and literals; knows nothing of the grammar.

use super::syntax::ParseError;

/// A piece of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// A name or a keyword, without a leading `@`.
    Ident(&'a str),
    /// A name that a leading `@` keeps from being a keyword.
    Verbatim(&'a str),
    /// A number, string or character literal.
    Literal(&'a str),
    /// `=>`
    Arrow,
    /// `::`
    Colons,
    /// Any other character.
    Punct(char),
    /// The end of the line.
    End,
}

/// A token and the column where it starts, counted in characters from 1.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spanned<'a> {
    pub(super) token: Token<'a>,
    pub(super) column: usize,
    /// Byte offset of the first character.
    pub(super) start: usize,
}

/// Splits `line`; the last token is [`Token::End`].
pub(super) fn tokens(line: &str) -> Result<Vec<Spanned<'_>>, ParseError> {
    let mut lexer = Lexer {
        line,
        at: 0,
        column: 1,
    };
    let mut out = Vec::new();
    loop {
        let token = lexer.next()?;
        out.push(token);
        if token.token == Token::End {
            return Ok(out);
        }
    }
}

struct Lexer<'a> {
    line: &'a str,
    at: usize,
    column: usize,
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        &self.line[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn bump(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.at += next.len_utf8();
        self.column += 1;
        Some(next)
    }

    fn bump_while(&mut self, mut keep: impl FnMut(char) -> bool) {
        while self.peek().is_some_and(&mut keep) {
            self.bump();
        }
    }

    fn skip_blanks(&mut self) -> Result<(), ParseError> {
        loop {
            self.bump_while(|c| c.is_whitespace() || c == '\u{FEFF}');
            if self.rest().starts_with("//") {
                self.bump_while(|c| c != '\n');
            } else if self.rest().starts_with("/*") {
                let column = self.column;
                let Some(end) = self.rest()[2..].find("*/") else {
                    return Err(ParseError::new(column, "this comment has no end"));
                };
                let stop = self.at + 2 + end + 2;
                while self.at < stop {
                    self.bump();
                }
            } else {
                return Ok(());
            }
        }
    }

    fn next(&mut self) -> Result<Spanned<'a>, ParseError> {
        self.skip_blanks()?;
        let (start, column) = (self.at, self.column);
        let Some(first) = self.bump() else {
            return Ok(Spanned {
                token: Token::End,
                column,
                start,
            });
        };
        let token = match first {
            '@' if self.peek().is_some_and(is_ident_start) => {
                self.bump_while(is_ident_part);
                Token::Verbatim(&self.line[start + 1..self.at])
            }
            c if is_ident_start(c) => {
                self.bump_while(is_ident_part);
                Token::Ident(&self.line[start..self.at])
            }
            c if c.is_ascii_digit() => {
                self.number();
                Token::Literal(&self.line[start..self.at])
            }
            '"' | '\'' => {
                self.quoted(first, column)?;
                Token::Literal(&self.line[start..self.at])
            }
            '@' if self.peek() == Some('"') => {
                self.bump();
                self.verbatim_text(column)?;
                Token::Literal(&self.line[start..self.at])
            }
            '=' if self.peek() == Some('>') => {
                self.bump();
                Token::Arrow
            }
            ':' if self.peek() == Some(':') => {
                self.bump();
                Token::Colons
            }
            other => Token::Punct(other),
        };
        Ok(Spanned {
            token,
            column,
            start,
        })
    }

    fn number(&mut self) {
        let mut last = '0';
        loop {
            let rest = self.rest();
            let mut chars = rest.chars();
            let (Some(next), after) = (chars.next(), chars.next()) else {
                return;
            };
            let part = next.is_ascii_alphanumeric()
                || next == '_'
                || (next == '.' && after.is_some_and(|c| c.is_ascii_digit()))
                || (matches!(next, '+' | '-') && matches!(last, 'e' | 'E'));
            if !part {
                return;
            }
            last = next;
            self.bump();
        }
    }

    fn quoted(&mut self, quote: char, column: usize) -> Result<(), ParseError> {
        loop {
            match self.bump() {
                None | Some('\n') => {
                    return Err(ParseError::new(column, "this literal has no end"));
                }
                Some('\\') => {
                    self.bump();
                }
                Some(c) if c == quote => return Ok(()),
                Some(_) => {}
            }
        }
    }

    fn verbatim_text(&mut self, column: usize) -> Result<(), ParseError> {
        loop {
            match self.bump() {
                None => return Err(ParseError::new(column, "this literal has no end")),
                Some('"') if self.peek() == Some('"') => {
                    self.bump();
                }
                Some('"') => return Ok(()),
                Some(_) => {}
            }
        }
    }
}

fn is_ident_start(c: char) -> bool {
    c == '_' || c.is_alphabetic()
}

fn is_ident_part(c: char) -> bool {
    // The other characters are joiners that C# allows inside names.
    c == '_' || c.is_alphanumeric() || matches!(c, '\u{200C}' | '\u{200D}')
}
