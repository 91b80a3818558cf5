//! The grammar of method, event, property and member lines (`docs/method-lines.md`).
//!
//! Owns the step from text to a syntax tree. What a name means is decided in `resolve`.

use super::lexer::{self, Spanned, Token};
use super::syntax::{
    CONTEXTUAL_MODIFIERS, Line, MODIFIERS, MethodSyntax, PARAM_MODIFIERS, ParamSyntax, ParseError,
    Segment, TYPE_KEYWORDS, TypeNode, TypeSyntax, WhereSyntax, is_keyword,
};
use super::types::MAX_TYPE_DEPTH;

/// Longest line that is looked at, in bytes.
const MAX_LINE: usize = 64 * 1024;
/// Most items of a tuple, which .NET nests by sevens.
const MAX_TUPLE: usize = 64;

/// Parses a line.
pub(super) fn parse_line(line: &str) -> Result<Line, ParseError> {
    let mut parser = Parser::new(line)?;
    parser.line()
}

/// Parses a type that stands alone.
pub(super) fn parse_type(text: &str) -> Result<TypeSyntax, ParseError> {
    let mut parser = Parser::new(text)?;
    let ty = parser.ty(0)?;
    parser.end("the end of the type")?;
    Ok(ty)
}

/// Parses a parameter list without its parentheses: `int a, string b`.
pub(super) fn parse_params(text: &str) -> Result<Vec<ParamSyntax>, ParseError> {
    let mut parser = Parser::new(text)?;
    let mut params = Vec::new();
    while parser.peek() != Token::End {
        params.push(parser.param()?);
        if !parser.eat(',') {
            parser.end("\",\" or the end")?;
        }
    }
    Ok(params)
}

struct Parser<'a> {
    line: &'a str,
    tokens: Vec<Spanned<'a>>,
    at: usize,
}

impl<'a> Parser<'a> {
    fn new(line: &'a str) -> Result<Self, ParseError> {
        if line.len() > MAX_LINE {
            return Err(ParseError::new(1, "this line is longer than 64 KiB"));
        }
        Ok(Self {
            line,
            tokens: lexer::tokens(line)?,
            at: 0,
        })
    }

    fn spanned(&self, ahead: usize) -> Spanned<'a> {
        // The last token is the end, and nothing moves past it.
        self.tokens[(self.at + ahead).min(self.tokens.len() - 1)]
    }

    fn peek(&self) -> Token<'a> {
        self.spanned(0).token
    }

    fn peek_second(&self) -> Token<'a> {
        self.spanned(1).token
    }

    fn column(&self) -> usize {
        self.spanned(0).column
    }

    fn bump(&mut self) {
        if self.at + 1 < self.tokens.len() {
            self.at += 1;
        }
    }

    fn eat(&mut self, punct: char) -> bool {
        let found = self.peek() == Token::Punct(punct);
        if found {
            self.bump();
        }
        found
    }

    fn eat_word(&mut self, word: &str) -> bool {
        let found = self.peek() == Token::Ident(word);
        if found {
            self.bump();
        }
        found
    }

    fn expected(&self, what: &str) -> ParseError {
        let found = match self.peek() {
            Token::End => "the line ends".to_owned(),
            Token::Ident(text) | Token::Verbatim(text) | Token::Literal(text) => {
                format!("found {text:?}")
            }
            Token::Arrow => "found \"=>\"".to_owned(),
            Token::Colons => "found \"::\"".to_owned(),
            Token::Punct(c) => format!("found {:?}", c.to_string()),
        };
        ParseError::new(self.column(), format!("expected {what}, {found}"))
    }

    fn expect(&mut self, punct: char, what: &str) -> Result<(), ParseError> {
        if self.eat(punct) {
            Ok(())
        } else {
            Err(self.expected(what))
        }
    }

    fn end(&self, what: &str) -> Result<(), ParseError> {
        match self.peek() {
            Token::End => Ok(()),
            _ => Err(self.expected(what)),
        }
    }

    /// The end of the line, perhaps after a semicolon.
    fn line_end(&mut self) -> Result<(), ParseError> {
        self.eat(';');
        self.end("the end of the line")
    }

    fn name(&mut self, what: &str) -> Result<String, ParseError> {
        match self.peek() {
            Token::Ident(word) if is_keyword(word) => Err(self.expected(what)),
            Token::Ident(name) | Token::Verbatim(name) => {
                let name = name.to_owned();
                self.bump();
                Ok(name)
            }
            _ => Err(self.expected(what)),
        }
    }

    /// `[…]`, any number of them.
    fn attributes(&mut self) -> Result<(), ParseError> {
        while self.peek() == Token::Punct('[') {
            self.bump();
            self.skip_to(&[']'])?;
            self.expect(']', "\"]\"")?;
        }
        Ok(())
    }

    /// Skips up to one of `stops` or the end, over anything in brackets.
    fn skip_to(&mut self, stops: &[char]) -> Result<(), ParseError> {
        let mut open = Vec::new();
        loop {
            match self.peek() {
                Token::End if open.is_empty() => return Ok(()),
                Token::End => return Err(self.expected("a closing bracket")),
                Token::Punct(c) if open.is_empty() && stops.contains(&c) => return Ok(()),
                Token::Punct(c @ ('(' | '[' | '{')) => open.push(match c {
                    '(' => ')',
                    '[' => ']',
                    _ => '}',
                }),
                Token::Punct(c @ (')' | ']' | '}')) if open.pop() != Some(c) => {
                    return Err(self.expected("another bracket"));
                }
                _ => {}
            }
            self.bump();
        }
    }

    fn modifiers(&mut self) {
        loop {
            match self.peek() {
                Token::Ident(word) if MODIFIERS.contains(&word) => self.bump(),
                Token::Ident(word)
                    if CONTEXTUAL_MODIFIERS.contains(&word)
                        && matches!(self.peek_second(), Token::Ident(_) | Token::Verbatim(_)) =>
                {
                    self.bump();
                }
                _ => return,
            }
        }
    }

    fn line(&mut self) -> Result<Line, ParseError> {
        self.attributes()?;
        self.modifiers();
        if self.peek() == Token::End {
            return Err(self.expected("a method, an event or a property"));
        }
        if self.eat_word("event") {
            let ty = self.ty(0)?;
            let name = self.name("the event's name")?;
            if self.eat('{') {
                self.skip_to(&['}'])?;
                self.expect('}', "\"}\"")?;
            }
            self.line_end()?;
            return Ok(Line::Event { ty, name });
        }
        if self.peek() == Token::Ident("delegate") {
            return Err(ParseError::new(
                self.column(),
                "a delegate is no member: declare it among the contract's types",
            ));
        }
        let ty = self.ty(0)?;
        match self.peek() {
            Token::Punct('(') => {
                let (name, brackets) = name_of_method(&ty)?;
                self.method(None, name, brackets)
            }
            Token::Ident("this") => Err(self.expected(
                "a name: an indexer is called as get_Item(...) and set_Item(...), so write those",
            )),
            Token::Ident(_) | Token::Verbatim(_) => {
                let name = self.name("a name")?;
                let brackets = self.brackets()?;
                match self.peek() {
                    Token::Punct('(') => self.method(Some(ty), name, brackets),
                    _ if !brackets.is_empty() => Err(self.expected("\"(\"")),
                    Token::Punct('{') => self.property(ty, name),
                    Token::Arrow => Ok(Line::Property {
                        ty,
                        name,
                        get: true,
                        set: false,
                    }),
                    Token::Punct('=') => {
                        self.skip_to(&[';'])?;
                        self.line_end()?;
                        Ok(Line::Plain {
                            ty,
                            name,
                            semicolon: true,
                        })
                    }
                    Token::Punct(';') => {
                        self.line_end()?;
                        Ok(Line::Plain {
                            ty,
                            name,
                            semicolon: true,
                        })
                    }
                    Token::End => Ok(Line::Plain {
                        ty,
                        name,
                        semicolon: false,
                    }),
                    _ => Err(self.expected("\"(\" of a method's parameters")),
                }
            }
            Token::End => match name_of_method(&ty) {
                Ok((name, args)) => Ok(Line::Word { name, args }),
                Err(_) => Err(self.expected("a name")),
            },
            _ => Err(self.expected("a name")),
        }
    }

    /// Type parameters or type arguments of a method.
    fn brackets(&mut self) -> Result<Vec<TypeSyntax>, ParseError> {
        let mut brackets = Vec::new();
        if self.eat('<') {
            loop {
                self.attributes()?;
                brackets.push(self.ty(0)?);
                if !self.eat(',') {
                    break;
                }
            }
            self.expect('>', "\",\" or \">\" of the type parameters")?;
        }
        Ok(brackets)
    }

    fn method(
        &mut self,
        returns: Option<TypeSyntax>,
        name: String,
        brackets: Vec<TypeSyntax>,
    ) -> Result<Line, ParseError> {
        self.expect('(', "\"(\"")?;
        let mut params = Vec::new();
        if !self.eat(')') {
            loop {
                params.push(self.param()?);
                if !self.eat(',') {
                    break;
                }
            }
            self.expect(')', "\",\" or \")\" after the parameter")?;
        }
        let clauses = self.clauses()?;
        match self.peek() {
            // A body is ignored.
            Token::Arrow | Token::Punct('{') => {}
            _ => self.line_end()?,
        }
        Ok(Line::Method(MethodSyntax {
            returns,
            name,
            brackets,
            clauses,
            params,
        }))
    }

    /// `where T : struct, IFoo<int>` and `where T = int`, any number of them.
    fn clauses(&mut self) -> Result<Vec<WhereSyntax>, ParseError> {
        let mut clauses = Vec::new();
        while self.eat_word("where") {
            let column = self.column();
            let name = self.name("a type parameter")?;
            if self.eat('=') {
                clauses.push(WhereSyntax {
                    column,
                    name,
                    value_type: false,
                    argument: Some(self.ty(0)?),
                });
                continue;
            }
            self.expect(':', "\":\" of a constraint or \"=\" of a type argument")?;
            let mut value_type = false;
            loop {
                match self.peek() {
                    Token::End | Token::Arrow | Token::Punct('{' | ';') | Token::Ident("where") => {
                        break;
                    }
                    Token::Ident("struct" | "unmanaged") => value_type = true,
                    _ => {}
                }
                self.bump();
            }
            clauses.push(WhereSyntax {
                column,
                name,
                value_type,
                argument: None,
            });
        }
        Ok(clauses)
    }

    fn param(&mut self) -> Result<ParamSyntax, ParseError> {
        self.attributes()?;
        let mut by_ref = false;
        while let Token::Ident(word) = self.peek() {
            if !PARAM_MODIFIERS.contains(&word) {
                break;
            }
            // `scoped` alone is a type's name.
            if word == "scoped" && !matches!(self.peek_second(), Token::Ident(_)) {
                break;
            }
            by_ref |= matches!(word, "ref" | "out" | "in");
            self.bump();
        }
        let ty = self.ty(0)?;
        let name = match self.peek() {
            Token::Ident(_) | Token::Verbatim(_) => Some(self.name("a name")?),
            _ => None,
        };
        if self.eat('=') {
            self.skip_to(&[',', ')'])?;
        }
        Ok(ParamSyntax { ty, name, by_ref })
    }

    fn property(&mut self, ty: TypeSyntax, name: String) -> Result<Line, ParseError> {
        self.expect('{', "\"{\"")?;
        let (mut get, mut set) = (false, false);
        loop {
            self.attributes()?;
            match self.peek() {
                Token::Punct('}') => break,
                Token::End => return Err(self.expected("\"}\"")),
                Token::Ident("get") => get = true,
                Token::Ident("set" | "init") => set = true,
                // Accessors may have bodies, which are ignored.
                Token::Punct('{') => {
                    self.bump();
                    self.skip_to(&['}'])?;
                    if self.peek() == Token::End {
                        return Err(self.expected("\"}\""));
                    }
                }
                Token::Arrow => {
                    self.skip_to(&[';', '}'])?;
                    continue;
                }
                _ => {}
            }
            self.bump();
        }
        self.bump();
        if self.eat('=') {
            self.skip_to(&[';'])?;
        }
        self.line_end()?;
        if !get && !set {
            return Err(ParseError::new(
                ty.column,
                format!("the property {name} has neither get nor set"),
            ));
        }
        Ok(Line::Property { ty, name, get, set })
    }

    fn ty(&mut self, depth: usize) -> Result<TypeSyntax, ParseError> {
        let (column, start) = (self.column(), self.spanned(0).start);
        if depth >= MAX_TYPE_DEPTH {
            return Err(too_deep(column));
        }
        let node = if self.eat('(') {
            TypeNode::Tuple(self.tuple(depth, column)?)
        } else {
            self.type_name(depth)?
        };
        let mut ty = self.finish(column, start, node)?;
        loop {
            match self.peek() {
                Token::Punct('?') => {
                    self.bump();
                    ty = self.finish(column, start, TypeNode::Nullable(Box::new(ty)))?;
                }
                Token::Punct('[') => {
                    // C# writes the outer ranks first; a `?` ends such a group.
                    let mut ranks = Vec::new();
                    while self.peek() == Token::Punct('[') {
                        ranks.push(self.rank()?);
                    }
                    for rank in ranks.into_iter().rev() {
                        ty = self.finish(column, start, TypeNode::Array(Box::new(ty), rank))?;
                    }
                }
                Token::Punct('*') => {
                    return Err(ParseError::new(self.column(), "a pointer can not travel"));
                }
                _ => return Ok(ty),
            }
        }
    }

    fn finish(
        &self,
        column: usize,
        start: usize,
        node: TypeNode,
    ) -> Result<TypeSyntax, ParseError> {
        let depth = 1 + match &node {
            TypeNode::Name { segments, .. } => segments
                .iter()
                .flat_map(|s| &s.args)
                .map(|t| t.depth)
                .max()
                .unwrap_or_default(),
            TypeNode::Tuple(items) => items.iter().map(|t| t.depth).max().unwrap_or_default(),
            TypeNode::Nullable(inner) | TypeNode::Array(inner, _) => inner.depth,
        };
        if depth > MAX_TYPE_DEPTH {
            return Err(too_deep(column));
        }
        Ok(TypeSyntax {
            column,
            node,
            text: self.line[start..self.spanned(0).start]
                .trim_end()
                .to_owned(),
            depth,
        })
    }

    fn rank(&mut self) -> Result<u8, ParseError> {
        let column = self.column();
        self.expect('[', "\"[\"")?;
        let mut rank = 1_u8;
        while self.eat(',') {
            rank += 1;
            if rank > 32 {
                return Err(ParseError::new(
                    column,
                    "an array has at most 32 dimensions",
                ));
            }
        }
        self.expect(']', "\"]\" of an array")?;
        Ok(rank)
    }

    fn tuple(&mut self, depth: usize, column: usize) -> Result<Vec<TypeSyntax>, ParseError> {
        let mut items = Vec::new();
        loop {
            items.push(self.ty(depth + 1)?);
            if matches!(self.peek(), Token::Ident(_) | Token::Verbatim(_)) {
                self.bump();
            }
            if !self.eat(',') {
                break;
            }
        }
        self.expect(')', "\",\" or \")\" of the tuple")?;
        match items.len() {
            2..=MAX_TUPLE => Ok(items),
            1 => Err(ParseError::new(column, "a tuple has at least two items")),
            _ => Err(ParseError::new(
                column,
                format!("a tuple has at most {MAX_TUPLE} items"),
            )),
        }
    }

    fn type_name(&mut self, depth: usize) -> Result<TypeNode, ParseError> {
        let global = self.peek() == Token::Ident("global") && self.peek_second() == Token::Colons;
        if global {
            self.bump();
            self.bump();
        }
        let mut segments = Vec::new();
        let mut separator = '.';
        loop {
            let name = match self.peek() {
                Token::Ident(word) if TYPE_KEYWORDS.contains(&word) => {
                    self.bump();
                    word.to_owned()
                }
                _ => self.name("a type")?,
            };
            let args = if self.peek() == Token::Punct('<') {
                self.type_args(depth)?
            } else {
                Vec::new()
            };
            segments.push(Segment {
                separator,
                name,
                args,
            });
            separator = match self.peek() {
                Token::Punct(c @ ('.' | '+')) => c,
                _ => return Ok(TypeNode::Name { global, segments }),
            };
            self.bump();
        }
    }

    fn type_args(&mut self, depth: usize) -> Result<Vec<TypeSyntax>, ParseError> {
        self.expect('<', "\"<\"")?;
        let mut args = Vec::new();
        loop {
            args.push(self.ty(depth + 1)?);
            if !self.eat(',') {
                break;
            }
        }
        self.expect('>', "\",\" or \">\" of the type arguments")?;
        Ok(args)
    }
}

fn too_deep(column: usize) -> ParseError {
    ParseError::new(
        column,
        format!("a type is nested more than {MAX_TYPE_DEPTH} levels deep"),
    )
}

/// The name of a method whose return type was left out, which was read as a type.
fn name_of_method(ty: &TypeSyntax) -> Result<(String, Vec<TypeSyntax>), ParseError> {
    let TypeNode::Name {
        global: false,
        segments,
    } = &ty.node
    else {
        return Err(ParseError::new(
            ty.column,
            format!("expected a method's name before \"(\", found {:?}", ty.text),
        ));
    };
    let [segment] = segments.as_slice() else {
        return Err(ParseError::new(
            ty.column,
            format!(
                "expected a method's name without a type in front, found {:?}",
                ty.text
            ),
        ));
    };
    Ok((segment.name.clone(), segment.args.clone()))
}
