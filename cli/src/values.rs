//! From the words of a command line to the arguments of a call.

use std::io::Read;
use std::path::Path;

use witrpc::codec::{Codec, RawJson};
use witrpc::contract::{Method, Param, Scalar, Type, TypeKind, Types};
use witrpc::wire::Arguments;

use crate::failure::Failure;

/// Encodes the arguments, given as words or as a file with a JSON array.
pub(crate) fn arguments(
    method: &Method,
    words: &[String],
    file: Option<&Path>,
    codec: Codec,
) -> Result<Arguments, Failure> {
    let json = match (file, words) {
        (Some(file), _) => read(file)?,
        (None, [dash]) if dash == "-" => read(Path::new("-"))?,
        (None, words) => array(method, words)?,
    };
    let blobs = method.encode_args_json(codec, &json);
    let blobs = blobs.map_err(|e| Failure::argument(e.to_string()))?;
    Ok(Arguments::from_blobs(&blobs))
}

fn read(file: &Path) -> Result<String, Failure> {
    let mut text = String::new();
    if file == Path::new("-") {
        std::io::stdin()
            .lock()
            .read_to_string(&mut text)
            .map_err(|e| Failure::argument(format!("can't read the arguments from stdin: {e}")))?;
    } else {
        text = std::fs::read_to_string(file).map_err(|e| {
            Failure::argument(format!(
                "can't read the arguments from {}: {e}",
                file.display()
            ))
        })?;
    }
    Ok(text)
}

/// The JSON array that the words stand for.
fn array(method: &Method, words: &[String]) -> Result<String, Failure> {
    let params = method.params();
    if words.len() != params.len() {
        let s = if params.len() == 1 { "" } else { "s" };
        return Err(Failure::argument(format!(
            "{method} takes {} argument{s} and got {}",
            params.len(),
            words.len()
        )));
    }
    let mut json = String::from("[");
    for (i, (word, param)) in words.iter().zip(params).enumerate() {
        if i > 0 {
            json.push(',');
        }
        let value = value(word, param.ty(), method.types());
        json.push_str(&value.map_err(|what| Failure::argument(placed(i, param, &what)))?);
    }
    json.push(']');
    Ok(json)
}

fn placed(index: usize, param: &Param, what: &str) -> String {
    match param.name() {
        Some(name) => format!("argument {} \"{name}\": {what}", index + 1),
        None => format!("argument {}: {what}", index + 1),
    }
}

/// One word as JSON.
fn value(word: &str, ty: &Type, types: &Types) -> Result<String, String> {
    let is_text = is_text(ty, types);
    match RawJson::parse(word) {
        Ok(_) if is_text == Text::Only && is_number_or_bool(word) => Err(format!(
            "{word} is a JSON {}, but {ty} takes text: write '{}'",
            if word.trim().starts_with(['t', 'f']) {
                "boolean"
            } else {
                "number"
            },
            quoted(word),
        )),
        Ok(_) => Ok(word.to_owned()),
        Err(_) if is_text != Text::No && !word.starts_with(['"', '[', '{']) => Ok(quoted(word)),
        Err(error) if word.starts_with(['"', '[', '{']) => {
            Err(format!("it begins like JSON and is none: {error}"))
        }
        Err(_) => Err(format!(
            "\"{word}\" is no JSON value, and {ty} takes no text"
        )),
    }
}

fn quoted(word: &str) -> String {
    serde_json::Value::from(word).to_string()
}

fn is_number_or_bool(json: &str) -> bool {
    json.trim()
        .starts_with(|c: char| c.is_ascii_digit() || matches!(c, '-' | 't' | 'f'))
}

/// Whether the JSON of a type is a string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Text {
    No,
    /// For some values: the name of an enum's member, `NaN`. The codec says whether it likes it.
    Sometimes,
    Only,
}

fn is_text(ty: &Type, types: &Types) -> Text {
    match ty {
        Type::Nullable(inner) | Type::ByRef(inner) => is_text(inner, types),
        Type::Scalar(Scalar::Half | Scalar::Single | Scalar::Double) => Text::Sometimes,
        Type::Scalar(
            Scalar::String
            | Scalar::Char
            | Scalar::Guid
            | Scalar::DateTime
            | Scalar::DateTimeOffset
            | Scalar::TimeSpan
            | Scalar::DateOnly
            | Scalar::TimeOnly
            | Scalar::Uri
            | Scalar::Version,
        ) => Text::Only,
        Type::Array(item, 1) if **item == Type::Scalar(Scalar::Byte) => Text::Only,
        Type::Declared(declared) => match types.definition(declared).map(|d| d.kind()) {
            Some(TypeKind::Enum(_)) => Text::Sometimes,
            _ => Text::No,
        },
        _ => Text::No,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo;

    fn json(line: &str, words: &[&str]) -> Result<String, String> {
        let method = demo::contract().method(line).unwrap();
        let words: Vec<String> = words.iter().map(|w| (*w).to_owned()).collect();
        let blobs = array(&method, &words).map_err(|e| e.line())?;
        let blobs = method
            .encode_args_json(Codec::Json, &blobs)
            .map_err(|e| e.to_string())?;
        let blobs: Vec<_> = blobs
            .iter()
            .map(|b| String::from_utf8(b.to_vec()).unwrap())
            .collect();
        Ok(blobs.join(" "))
    }

    #[test]
    fn a_word_that_is_no_json_is_text_where_text_fits() {
        for (method, word, expected) in [
            ("Echo", "hello", "\"hello\""),
            ("Echo", "\"hello\"", "\"hello\""),
            ("Echo", "", "\"\""),
            ("Echo", "a \"b\"", "\"a \\u0022b\\u0022\""),
            ("Echo", "null", ""),
            ("Letter", "x", "\"x\""),
            ("When", "2026-11-30", "\"2026-11-30T00:00:00\""),
            (
                "Offset",
                "2026-01-01T00:00:00-03:30",
                "\"2026-01-01T00:00:00-03:30\"",
            ),
            ("Span", "-01:00:00", "\"-01:00:00\""),
            ("Day", "2026-11-30", "\"2026-11-30\""),
            ("Clock", "05:06", "\"05:06:00\""),
            ("Link", "http://h/p", "\"http://h/p\""),
            ("Ver", "1.2.3", "\"1.2.3\""),
            (
                "MaybeId",
                "00112233-4455-6677-8899-AABBCCDDEEFF",
                "\"00112233-4455-6677-8899-aabbccddeeff\"",
            ),
            ("Blob", "AQID", "\"AQID\""),
            ("Money", "1.50", "1.50"),
            ("Double", "1e400", "Infinity"),
            ("Anything", " [1, 1.0e5]", "[1,1.0e5]"),
        ] {
            let got = json(method, &[word]);
            if method == "Double" {
                // .NET's JSON has no infinity.
                assert!(got.is_err(), "{got:?}");
            } else {
                assert_eq!(got.as_deref(), Ok(expected), "{method} {word}");
            }
        }
        assert_eq!(
            json("int Add(int, int)", &["2", " 3 "]).as_deref(),
            Ok("2 3")
        );
    }

    #[test]
    fn what_does_not_fit_says_where_and_what_to_write() {
        for (method, words, what) in [
            (
                "Add",
                &["2"][..],
                "Add(int a, int b) takes 2 arguments and got 1",
            ),
            ("AddOne", &[], "takes 1 argument and got 0"),
            (
                "Add",
                &["2", "two"],
                "argument 2 \"b\": \"two\" is no JSON value, and int takes no text",
            ),
            ("Add", &["2", "3.0"], "argument 2 \"b\": 3.0 is no integer"),
            (
                "Echo",
                &["123"],
                "argument 1 \"text\": 123 is a JSON number, but string takes text: write '\"123\"'",
            ),
            ("Ver", &["1.2"], "Version takes text: write '\"1.2\"'"),
            ("Echo", &["true"], "a JSON boolean"),
            (
                "Echo",
                &["\"abc"],
                "argument 1 \"text\": it begins like JSON and is none",
            ),
            (
                "When",
                &["tomorrow"],
                "argument 1 \"value\": not an ISO date",
            ),
            ("Id", &["123-45"], "not a Guid"),
            ("Paint", &["Blue"], "travels as a number: write 7"),
            ("Anything", &["boxed"], "object takes no text"),
        ] {
            let error = json(method, words).unwrap_err();
            assert!(error.contains(what), "{method} {words:?}: {error}");
        }
    }
}
