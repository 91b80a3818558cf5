//! The JSON codec and the text form against a .NET peer's bytes, and everything that must fail.
#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use common::{Row, echo, encode, hex, rows, shape_rows, shapes};
use witrpc::codec::{Codec, Dialect, RawJson, Value};
use witrpc::contract::Contract;

/// Reads text by a type, and gives it back as text.
fn text(contract: &Contract, ty: &str, json: &str) -> Result<String, String> {
    let ty = contract.type_from_text(ty).unwrap();
    let value = Value::from_json(json, &ty, contract.types()).map_err(|e| e.to_string())?;
    value
        .to_json(&ty, contract.types(), Dialect::Text)
        .map_err(|e| e.to_string())
}

/// Reads a blob by a type, and gives it as text.
fn wire(contract: &Contract, ty: &str, blob: &[u8]) -> Result<String, String> {
    let ty = contract.type_from_text(ty).unwrap();
    let value = Codec::Json
        .decode(blob, &ty, contract.types())
        .map_err(|e| e.to_string())?;
    value
        .to_json(&ty, contract.types(), Dialect::Text)
        .map_err(|e| e.to_string())
}

fn encoded(contract: &Contract, ty: &str, json: &str) -> Result<String, String> {
    let ty = contract.type_from_text(ty).unwrap();
    let value = Value::from_json(json, &ty, contract.types()).map_err(|e| e.to_string())?;
    let mut out = Vec::new();
    Codec::Json
        .encode(&mut out, &value, &ty, contract.types())
        .map_err(|e| e.to_string())?;
    Ok(String::from_utf8(out).unwrap())
}

fn check(contract: &Contract, row: &Row) {
    let what = format!("{} {}", row.ty, row.value());
    let ty = contract.type_from_text(&row.ty).unwrap();
    let value = Value::from_json(row.value(), &ty, contract.types()).unwrap();
    let blob = hex(&row.json);
    if row.note() == Some("not expressible in JSON") {
        let mut out = Vec::new();
        let error = Codec::Json.encode(&mut out, &value, &ty, contract.types());
        assert!(
            error.unwrap_err().to_string().contains("not finite"),
            "{what}"
        );
        return;
    }
    if !row.decode_only() {
        let mut out = Vec::new();
        Codec::Json
            .encode(&mut out, &value, &ty, contract.types())
            .unwrap_or_else(|e| panic!("{what}: {e}"));
        assert_eq!(
            String::from_utf8(out).unwrap(),
            String::from_utf8(blob.clone()).unwrap(),
            "{what}"
        );
    }
    let decoded = Codec::Json
        .decode(&blob, &ty, contract.types())
        .unwrap_or_else(|e| panic!("{what}: {e}"));
    if row.ty.starts_with("System.ValueTuple") {
        // .NET's JSON loses the items.
        assert_eq!(decoded, Value::List(vec![Value::Int(0), Value::Null]));
        return;
    }
    assert_eq!(decoded, value, "{what}");
    let shown = decoded
        .to_json(&ty, contract.types(), Dialect::Text)
        .unwrap();
    assert_eq!(
        shown,
        RawJson::parse(row.value()).unwrap().as_str(),
        "{what}"
    );
}

#[test]
fn values_are_those_of_the_peer() {
    let contract = echo();
    let rows = rows("values.json");
    assert_eq!(rows.len(), 140);
    rows.iter().for_each(|row| check(&contract, row));
}

#[test]
fn random_values_are_those_of_the_peer() {
    let contract = echo();
    let rows = rows("values-random.json");
    assert_eq!(rows.len(), 210);
    rows.iter().for_each(|row| check(&contract, row));
}

#[test]
fn shapes_are_those_of_the_peer() {
    let contract = shapes();
    for row in shape_rows() {
        let what = format!("{} {}", row.ty, row.value());
        let encoded = encode(&contract, Codec::Json, &row.ty, row.value());
        if row.ty == "int[,]" {
            assert_eq!(
                encoded.unwrap_err(),
                "JSON has no form for multi-dimensional arrays"
            );
            continue;
        }
        let blob = hex(&row.json);
        assert_eq!(encoded.as_deref(), Ok(blob.as_slice()), "{what}");
        // Fields and the items of value tuples are lost on the wire, so what comes back is
        // compared after one round.
        let ty = contract.type_from_text(&row.ty).unwrap();
        let value = Codec::Json.decode(&blob, &ty, contract.types()).unwrap();
        if row.ty.contains("IShape") {
            // The concrete type is not on the wire: the JSON itself is what there is.
            let shown = value.to_json(&ty, contract.types(), Dialect::Text).unwrap();
            assert_eq!(shown.as_bytes(), blob);
            continue;
        }
        let mut again = Vec::new();
        Codec::Json
            .encode(&mut again, &value, &ty, contract.types())
            .unwrap_or_else(|e| panic!("{what}: {e}"));
        assert_eq!(again, blob, "{what}");
        if !what.contains("Point")
            && !what.contains("Label")
            && !what.contains("Tree")
            && !what.contains("ValueTuple")
            && row.note().is_none()
        {
            let shown = value.to_json(&ty, contract.types(), Dialect::Text).unwrap();
            assert_eq!(
                shown,
                String::from_utf8(unescaped(&blob)).unwrap(),
                "{what}"
            );
        }
    }
}

/// The JSON of a blob as text shows it.
fn unescaped(blob: &[u8]) -> Vec<u8> {
    RawJson::parse(std::str::from_utf8(blob).unwrap())
        .unwrap()
        .as_str()
        .as_bytes()
        .to_vec()
}

#[test]
fn the_reader_is_as_strict_as_dotnets() {
    let contract = echo();
    for (ty, json) in [
        ("int", "5.0"),
        ("int", "1e1"),
        ("int", "+5"),
        ("int", "05"),
        ("int", "00"),
        ("int", "2147483648"),
        ("int", "-2147483649"),
        ("int", "5 x"),
        ("int", "\"5\""),
        ("int", "null"),
        ("int", ""),
        ("int", "  "),
        ("int", "\u{FEFF}5"),
        ("int", "5,"),
        ("int", "5/*x*/"),
        ("int", "--5"),
        ("int", "-"),
        ("uint", "-0"),
        ("uint", "-1"),
        ("byte", "256"),
        ("sbyte", "-129"),
        ("ulong", "18446744073709551616"),
        ("Int128", "170141183460469231731687303715884105728"),
        ("UInt128", "340282366920938463463374607431768211456"),
        ("UInt128", "-1"),
        ("double", "1."),
        ("double", ".5"),
        ("double", "0.5e"),
        ("double", "1e+"),
        ("double", "01"),
        ("double", "NaN"),
        ("double", "\"nan\""),
        ("double", "\"1.5\""),
        ("Half", "65520"),
        ("Half", "1e9"),
        ("decimal", "1e29"),
        ("decimal", "79228162514264337593543950335.5"),
        ("decimal", "\"NaN\""),
        ("decimal", "\"1.5\""),
        ("char", "\"\""),
        ("char", "\"ab\""),
        ("char", "\"\\ud83d\""),
        ("char", "\"😀\""),
        ("char", "5"),
        ("string", "\"\\ud83d\""),
        ("string", "\"\\ude00\\ud83d\""),
        ("string", "\"\\ud83dx\""),
        ("string", "\"\\ud83d\\u0041\""),
        ("string", "'a'"),
        ("string", "\"a\nb\""),
        ("string", "\"\t\""),
        ("string", "\"\\x\""),
        ("string", "\"\\u12\""),
        ("string", "\"\\u+123\""),
        ("string", "\"a"),
        ("string", "\"a\\"),
        ("string", "5"),
        ("string", "true"),
        ("bool", "True"),
        ("bool", "1"),
        ("bool", "\"true\""),
        ("bool", "tru"),
        ("bool", "truex"),
        ("byte[]", "[1,2]"),
        ("byte[]", "\"AQI\""),
        ("byte[]", "\"AR==\""),
        ("byte[]", "\"A-_=\""),
        ("Guid", "\"00112233445566778899aabbccddeeff\""),
        ("Guid", "\"{00112233-4455-6677-8899-aabbccddeeff}\""),
        ("Guid", "\" 00112233-4455-6677-8899-aabbccddeeff\""),
        ("Guid", "\"00112233-4455-6677-8899-aabbccddeefg\""),
        ("DateTime", "\"2026-11-30 05:06:07\""),
        ("DateTime", "5"),
        ("DateTimeOffset", "\"2026-11-30T05:06:07-14:01\""),
        ("TimeSpan", "\"24:00:00\""),
        ("DateOnly", "\"2026-1-30\""),
        ("TimeOnly", "\"24:00:00\""),
        ("Version", "\"1\""),
        ("Uri", "\"http://\""),
        ("Uri", "5"),
        ("Color", "\"Blue\""),
        ("Color", "1.0"),
        ("Color", "2147483648"),
        ("Color", "null"),
        ("List<int>", "[1,]"),
        ("List<int>", "[,1]"),
        ("List<int>", "[1 2]"),
        ("List<int>", "[1"),
        ("List<int>", "[1}"),
        ("List<int>", "{}"),
        ("List<int>", "\"x\""),
        ("List<int>", "[1,null]"),
        ("List<int>", "[1]]"),
        ("Dictionary<int, string>", "{\"x\":null}"),
        ("Dictionary<int, string>", "{\"1.0\":null}"),
        ("Dictionary<int, string>", "{\" 1\":null}"),
        ("Dictionary<int, string>", "{1:null}"),
        ("Dictionary<int, string>", "{\"1\":null,}"),
        ("Dictionary<int, string>", "{\"1\" null}"),
        ("Dictionary<int, string>", "[]"),
        ("Dictionary<Color, int>", "{\"Pink\":1}"),
        ("KeyValuePair<string, int>", "null"),
        ("KeyValuePair<string, int>", "5"),
        ("(int, string)", "null"),
        ("Demo.Person", "[]"),
        ("Demo.Person", "{\"Age\":\"x\"}"),
        ("Demo.Person", "{\"Age\":1,\"Nope\":[}"),
        ("object", "nul"),
        ("object", "01"),
        ("object", "-"),
        ("object", "[1,]"),
        ("object", "{\"a\":1,}"),
        ("object", "{\"a\"}"),
        ("object", "\"\\ud83d\""),
        ("object", "[1][2]"),
        ("object", "// x\n5"),
    ] {
        assert!(
            wire(&contract, ty, json.as_bytes()).is_err() || json.is_empty(),
            "{ty} {json}"
        );
        if json != "[1,2]" {
            assert!(text(&contract, ty, json).is_err(), "text: {ty} {json}");
        }
    }
    assert_eq!(
        wire(&contract, "string", b"\"\xff\"").unwrap_err(),
        "not UTF-8 (byte 1)"
    );
    assert!(wire(&contract, "int", &[0xEF, 0xBB, 0xBF, b'5']).is_err());
}

#[test]
fn what_dotnet_reads_is_read() {
    let contract = echo();
    for (ty, json, shown) in [
        ("int", " \t\r\n5 ", "5"),
        ("int", "-0", "0"),
        (
            "Int128",
            "-170141183460469231731687303715884105728",
            "-170141183460469231731687303715884105728",
        ),
        (
            "UInt128",
            "340282366920938463463374607431768211455",
            "340282366920938463463374607431768211455",
        ),
        ("Half", "3.14159", "3.14"),
        ("Half", "65504", "65500"),
        ("Half", "1e-8", "0"),
        ("float", "16777217", "16777216"),
        ("double", "1E5", "100000"),
        ("double", "-0", "-0"),
        ("decimal", "1e2", "100"),
        ("decimal", "1.10", "1.10"),
        ("string", "\"\\/\\u00e9\\u00E9é\"", "\"/ééé\""),
        ("string", "\"\\u0041\\n\"", "\"A\\n\""),
        ("char", "\"\\u0041\"", "\"A\""),
        ("byte[]", "\" AQ ID\"", "\"AQID\""),
        ("byte[]", "\"\\u0041QID\"", "\"AQID\""),
        (
            "Guid",
            "\"00112233-4455-6677-8899-AABBCCDDEEFF\"",
            "\"00112233-4455-6677-8899-aabbccddeeff\"",
        ),
        (
            "DateTime",
            "\"\\u0032026-11-30T05:06Z\"",
            "\"2026-11-30T05:06:00Z\"",
        ),
        (
            "DateTime",
            "\"2026-11-30T05:06:07+02:00\"",
            "\"2026-11-30T03:06:07Z\"",
        ),
        (
            "DateTimeOffset",
            "\"2026-11-30T05:06:07\"",
            "\"2026-11-30T05:06:07+00:00\"",
        ),
        ("TimeSpan", "\"5\"", "\"5.00:00:00\""),
        ("TimeOnly", "\"1:02:03\"", "\"01:02:03\""),
        ("Version", "\"01.2\"", "\"1.2\""),
        ("Uri", "\"a b\"", "\"a b\""),
        ("Color", "99", "99"),
        ("Color?", "null", "null"),
        ("int?", "5", "5"),
        ("List<int>", "[ 1 , 2 ]", "[1,2]"),
        ("List<byte>", "[1,2]", "[1,2]"),
        ("List<int>", "null", "null"),
        (
            "Dictionary<int, string>",
            "{\"1\":\"a\",\"2\":\"b\",\"01\":\"c\",\"+2\":\"d\"}",
            "{\"1\":\"c\",\"2\":\"d\"}",
        ),
        (
            "Dictionary<Color, int>",
            "{\"blue\":1,\"1\":2,\"55\":3,\" Red\":4}",
            "{\"Blue\":1,\"Green\":2,\"55\":3,\"Red\":4}",
        ),
        ("Dictionary<bool, int>", "{\"TRUE\":1}", "{\"True\":1}"),
        ("Dictionary<double, int>", "{\"1e5\":1}", "{\"100000\":1}"),
        ("Dictionary<decimal, int>", "{\"1.50\":1}", "{\"1.50\":1}"),
        (
            "Dictionary<DateTimeOffset, int>",
            "{\"2026-11-30T05:06:07Z\":1}",
            "{\"2026-11-30T05:06:07+00:00\":1}",
        ),
        ("Dictionary<char, int>", "{\"é\":1}", "{\"é\":1}"),
        (
            "KeyValuePair<string, int>",
            "{\"Value\":1,\"X\":[2],\"Key\":\"a\",\"Key\":\"b\"}",
            "{\"Key\":\"b\",\"Value\":1}",
        ),
        (
            "KeyValuePair<string, int>",
            "{\"key\":\"a\"}",
            "{\"Key\":null,\"Value\":0}",
        ),
        (
            "Tuple<int, string>",
            "{\"item1\":2}",
            "{\"Item1\":0,\"Item2\":null}",
        ),
        ("Tuple<int, string>", "null", "null"),
        (
            "Demo.Address",
            "{\"zip\":5,\"Zip\":1,\"Zip\":2,\"Other\":{\"a\":[true,null,\"x\"]}}",
            "{\"Street\":null,\"Zip\":2}",
        ),
        (
            "object",
            " { \"b\" : [ 1.50 , 1e5 , -0 ] , \"b\" : \"\\u00e9\\/\\u000b\" } ",
            "{\"b\":[1.50,1e5,-0],\"b\":\"é/\\u000B\"}",
        ),
        ("object", "null", "null"),
        ("Demo.Undeclared", "{\"a\":1}", "{\"a\":1}"),
    ] {
        let shown = Ok(shown.to_owned());
        assert_eq!(wire(&contract, ty, json.as_bytes()), shown, "{ty} {json}");
        assert_eq!(text(&contract, ty, json), shown, "text: {ty} {json}");
    }
    // Too large is infinite, which has a text but no JSON.
    assert_eq!(
        wire(&contract, "double", b"1e999").as_deref(),
        Ok("\"Infinity\"")
    );
    assert_eq!(
        wire(&contract, "float", b"-1e39").as_deref(),
        Ok("\"-Infinity\"")
    );
}

#[test]
fn depth_is_bounded_without_recursion() {
    let contract = echo();
    let nested = |n: usize| "[".repeat(n) + &"]".repeat(n);
    assert!(wire(&contract, "object", nested(64).as_bytes()).is_ok());
    assert_eq!(
        wire(&contract, "object", nested(65).as_bytes()).unwrap_err(),
        "nested more than 64 levels deep (byte 64)"
    );
    assert!(wire(&contract, "object", "[".repeat(1_000_000).as_bytes()).is_err());
    assert!(
        wire(
            &contract,
            "Demo.Address",
            ("{\"x\":".to_owned() + &nested(64) + "}").as_bytes()
        )
        .is_err()
    );
    assert!(
        wire(
            &contract,
            "Demo.Address",
            ("{\"x\":".to_owned() + &nested(63) + "}").as_bytes()
        )
        .is_ok()
    );
}

#[test]
fn the_wire_is_escaped_as_dotnet_escapes() {
    let contract = echo();
    for (ty, json, wire) in [
        (
            "Dictionary<DateTimeOffset, int>",
            "{\"2026-11-30T05:06:07Z\":1}",
            "{\"2026-11-30T05:06:07+00:00\":1}",
        ),
        (
            "string",
            "\"\\u0085\\u2028\\u200b\\u00ad€\\u007f~\"",
            "\"\\u0085\\u2028\\u200B\\u00AD\\u20AC\\u007F~\"",
        ),
        (
            "string",
            "\"=;?@[]{}|^!#$%()*,-./:\"",
            "\"=;?@[]{}|^!#$%()*,-./:\"",
        ),
        (
            "object",
            "\"<é\\/\\u000b\\b😀\"",
            "\"\\u003C\\u00E9/\\u000B\\b\\uD83D\\uDE00\"",
        ),
        (
            "object",
            "{\"é\" : [1e5, {\"<\":\"\\\"\"}]}",
            "{\"\\u00E9\":[1e5,{\"\\u003C\":\"\\u0022\"}]}",
        ),
        ("Dictionary<char, int>", "{\"<\":1}", "{\"\\u003C\":1}"),
        (
            "Uri",
            "\"http://EXAMPLE.test:80/a/../b é\"",
            "\"http://EXAMPLE.test:80/a/../b \\u00E9\"",
        ),
        ("(int, string)", "{\"Item1\":1,\"Item2\":\"x\"}", "{}"),
        ("(int, string)", "[1,\"x\"]", "{}"),
        (
            "Tuple<int, string>",
            "[1,\"x\"]",
            "{\"Item1\":1,\"Item2\":\"x\"}",
        ),
        ("List<byte>", "[1,2]", "[1,2]"),
        (
            "DateTime",
            "\"2026-11-30T05:06:07.10\"",
            "\"2026-11-30T05:06:07.1\"",
        ),
        ("TimeSpan", "\"1.2:3:4.005\"", "\"1.02:03:04.0050000\""),
    ] {
        assert_eq!(
            encoded(&contract, ty, json).as_deref(),
            Ok(wire),
            "{ty} {json}"
        );
    }
    for (ty, json) in [
        ("double", "\"NaN\""),
        ("float", "\"-Infinity\""),
        ("Half", "\"NaN\""),
        ("Dictionary<double, int>", "{\"NaN\":1}"),
        ("int[,]", "[[1],[2]]"),
    ] {
        assert!(encoded(&contract, ty, json).is_err(), "{ty} {json}");
        assert_eq!(text(&contract, ty, json).as_deref(), Ok(json));
    }
}

#[test]
fn errors_say_where_and_what() {
    let contract = echo();
    for (ty, json, message) in [
        ("int", "\"x\"", "a string where an int is expected (byte 0)"),
        ("int", "5.0", "5.0 is no integer (byte 0)"),
        ("byte", " 256", "256 is out of the range of byte (byte 1)"),
        ("DateTime", "\"2026-13-01\"", "not an ISO date (byte 1)"),
        (
            "Color",
            "\"Blue\"",
            "the enum Demo.Color travels as a number: write 7 (byte 0)",
        ),
        (
            "Demo.Person",
            "{\"Home\":{\"Zip\":true}}",
            "Home.Zip: a bool where an int is expected (byte 15)",
        ),
        (
            "List<Demo.Person>",
            "[{},{\"Scores\":{\"a b\":null}}]",
            "[1].Scores[\"a b\"]: null where an int is expected (byte 21)",
        ),
        (
            "Dictionary<int, List<int>>",
            "{\"1\":[5,x]}",
            "[\"1\"][1]: not JSON (byte 8)",
        ),
        ("byte[]", "\"AQI\"", "not base64 (byte 1)"),
        ("List<int>", "[1,2", "expected \",\" or \"]\" (byte 4)"),
        (
            "decimal",
            "1e29",
            "1e29: beyond the range of decimal (byte 0)",
        ),
        (
            "double",
            "\"x\"",
            "a string where a double is expected (only \"NaN\", \"Infinity\" and \"-Infinity\" are) (byte 0)",
        ),
        (
            "(int, int)",
            "[1]",
            "1 items where ValueTuple<int, int> has 2 (byte 0)",
        ),
        (
            "int[,]",
            "[[1,2],[3]]",
            "[1]: a row of 1 items beside one of 2 (byte 7)",
        ),
    ] {
        assert_eq!(
            text(&contract, ty, json).unwrap_err(),
            message,
            "{ty} {json}"
        );
    }
}

#[test]
fn values_of_the_wrong_kind_are_not_written() {
    let contract = echo();
    let ty = |text: &str| contract.type_from_text(text).unwrap();
    let error = |value: Value, of: &str| {
        let mut out = vec![7];
        let error = Codec::Json.encode(&mut out, &value, &ty(of), contract.types());
        assert_eq!(out, [7], "nothing is left behind");
        error.unwrap_err().to_string()
    };
    assert_eq!(error(Value::Null, "int"), "null where an int is expected");
    assert_eq!(
        error(Value::from("x"), "int"),
        "a string where an int is expected"
    );
    assert_eq!(
        error(Value::from(300), "byte"),
        "300 is out of the range of byte"
    );
    assert_eq!(
        error(Value::from(vec![Value::Null]), "List<int>"),
        "[0]: null where an int is expected"
    );
    assert_eq!(
        error(Value::Char(0xD83D), "char"),
        "half of a surrogate pair has no form in JSON"
    );
    assert_eq!(
        error(Value::List(vec![]), "Demo.Person"),
        "a list where a Demo.Person is expected"
    );
    assert_eq!(
        error(Value::Version([1, -1, -1, -1]), "Version"),
        "a version has two to four numbers"
    );
    let object = witrpc::codec::Object {
        type_name: None,
        members: vec![("Zipp".into(), Value::Int(1))],
    };
    assert_eq!(
        error(Value::Object(Box::new(object)), "Demo.Address"),
        "there is no member \"Zipp\""
    );
    // Numbers that fit are taken.
    let mut out = Vec::new();
    Codec::Json
        .encode(&mut out, &Value::from(5), &ty("double"), contract.types())
        .unwrap();
    Codec::Json
        .encode(&mut out, &Value::from(0.1), &ty("float"), contract.types())
        .unwrap();
    Codec::Json
        .encode(&mut out, &Value::from(5), &ty("decimal?"), contract.types())
        .unwrap();
    Codec::Json
        .encode(
            &mut out,
            &Value::Json(RawJson::parse("[ 1 ]").unwrap()),
            &ty("List<int>"),
            contract.types(),
        )
        .unwrap();
    assert_eq!(out, b"50.15[1]");
    assert_eq!(
        error(Value::Json(RawJson::parse("[1.5]").unwrap()), "List<int>"),
        "[0]: 1.5 is no integer (byte 1)"
    );
}

#[test]
fn an_empty_blob_is_null_and_an_error_where_null_is_none() {
    let contract = echo();
    assert_eq!(wire(&contract, "string", b"").as_deref(), Ok("null"));
    assert_eq!(wire(&contract, "int?", b"").as_deref(), Ok("null"));
    assert_eq!(
        wire(&contract, "double", b"").unwrap_err(),
        "nothing where a double is expected: the sender had no form for its value, or gave none"
    );
    assert_eq!(encoded(&contract, "string", "null").as_deref(), Ok(""));
}
