//! protobuf against a .NET peer's bytes.
#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "../common/mod.rs"]
mod common;
mod reading;

use common::{Row, compact, decode, echo, encode, hex, rows, shape_rows, shapes, to_hex};
use witrpc::codec::Codec;
use witrpc::contract::{Contract, MemberDecl, TypeDecl};

const CODEC: Codec = Codec::Protobuf;

fn check(contract: &Contract, row: &Row) {
    let what = format!("{} {}", row.ty, row.value());
    let blob = hex(&row.protobuf);
    if row.decode_only() {
        // The peer reads an object as null; here that is an error.
        assert_eq!(
            decode(contract, CODEC, &row.ty, &blob).unwrap_err(),
            "protobuf can not hold an object"
        );
        return;
    }
    let json = match row.note() {
        Some("declared Base, runtime Derived") => {
            r#"{"$type":"Demo.Shapes.Derived","Extra":"e","Id":1}"#
        }
        _ => row.value(),
    };
    let encoded = encode(contract, CODEC, &row.ty, json).map(|b| to_hex(&b));
    let null_or_lost = matches!(row.reads_back.protobuf.as_deref(), None | Some("null"));
    if let Err(error) = &encoded
        && blob.is_empty()
        && null_or_lost
    {
        // The peer wrote nothing, because it can not, and reads null.
        assert!(
            ["can not hold", "has no form for", "has no protobuf fields"]
                .iter()
                .any(|words| error.contains(words)),
            "{what}: {error}"
        );
        return;
    }
    assert_eq!(encoded, Ok(row.protobuf.clone()), "{what}");
    let shown = decode(contract, CODEC, &row.ty, &blob).unwrap_or_else(|e| panic!("{what}: {e}"));
    let expected = match row.reads_back.protobuf.as_deref() {
        // The kind of a time, the offset and what is below a millisecond are lost.
        Some("differs") => lost(json, &row.ty),
        // An empty list, an object with nothing to write.
        None | Some("null") if blob.is_empty() => "null".into(),
        _ => compact(json),
    };
    assert_eq!(shown, expected, "{what}");
}

/// What is left of a value.
fn lost(json: &str, ty: &str) -> String {
    let json = compact(json);
    if ty.contains("Dictionary<Demo.Color") {
        return json.replace("null,\"Red\"", "{\"Street\":null,\"Zip\":0},\"Red\"");
    }
    if ty.ends_with("Tree") {
        return json.replace("\"Children\":[]", "\"Children\":null");
    }
    let mut out = String::new();
    for (i, part) in json.split('"').enumerate() {
        if i > 0 {
            out.push('"');
        }
        let time = part.is_ascii()
            && part.len() >= 19
            && part.as_bytes()[10] == b'T'
            && part[..4].parse::<u32>().is_ok();
        if !time {
            out.push_str(part);
        } else if part[19..].contains(['+', '-']) {
            out.push_str(&utc(part));
        } else {
            out.push_str(part.trim_end_matches('Z'));
        }
    }
    // An empty list of an object.
    out.replace("\"Tags\":[]", "\"Tags\":null")
        .replace("\"Scores\":{}", "\"Scores\":null")
}

/// A time with its offset as UTC, in milliseconds.
fn utc(time: &str) -> String {
    let contract = Contract::open("Demo.I").unwrap();
    // A DateTime with an offset becomes UTC.
    let ty = contract.type_from_text("DateTime").unwrap();
    let value =
        witrpc::codec::Value::from_json(&format!("\"{time}\""), &ty, contract.types()).unwrap();
    let text = value
        .to_json(&ty, contract.types(), witrpc::codec::Dialect::Text)
        .unwrap();
    let text = text.trim_matches('"').trim_end_matches('Z');
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
    let milliseconds = &fraction[..fraction.len().min(3)];
    match milliseconds.trim_end_matches('0') {
        "" => format!("{seconds}+00:00"),
        some => format!("{seconds}.{some}+00:00"),
    }
}

#[test]
fn values_are_those_of_the_peer() {
    let contract = echo();
    rows("values.json")
        .iter()
        .for_each(|row| check(&contract, row));
    rows("values-random.json")
        .iter()
        .for_each(|row| check(&contract, row));
}

#[test]
fn shapes_are_those_of_the_peer() {
    let contract = shapes();
    shape_rows().iter().for_each(|row| check(&contract, row));
}

/// Types beyond the vectors, with the bytes that protobuf-net 3.4.40 on .NET 10 makes of them.
fn more() -> Contract {
    Contract::builder("Demo.IMore")
        .declare(
            TypeDecl::structure("O.Label")
                .protobuf()
                .member("int X;")
                .member("string? Text;"),
        )
        .declare(
            TypeDecl::structure("O.Point")
                .protobuf()
                .member("int X;")
                .member("double Y;"),
        )
        .declare(
            TypeDecl::class("O.PB")
                .protobuf()
                .member(MemberDecl::new("byte[]? B").protobuf_field(1))
                .member(MemberDecl::new("string? S").protobuf_field(2))
                .member(MemberDecl::new("int[]? I").protobuf_field(3))
                .member(MemberDecl::new("List<string>? L").protobuf_field(4))
                .member(MemberDecl::new("char C").protobuf_field(5))
                .member(MemberDecl::new("Guid G").protobuf_field(6))
                .member(MemberDecl::new("decimal? D").protobuf_field(7))
                .member(MemberDecl::new("Dictionary<string, string>? M").protobuf_field(8))
                .member(MemberDecl::new("E3 E").protobuf_field(9))
                .member(MemberDecl::new("DateTime? T").protobuf_field(10))
                .member(MemberDecl::new("PB? Next").protobuf_field(11))
                .member(MemberDecl::new("Uri? U").protobuf_field(12))
                .member(MemberDecl::new("float F").protobuf_field(13))
                .member(MemberDecl::new("bool Bo").protobuf_field(14))
                .member(MemberDecl::new("List<E1>? Es").protobuf_field(15))
                .member(MemberDecl::new("double Db").protobuf_field(16))
                .member(MemberDecl::new("sbyte Sb").protobuf_field(17))
                .member(MemberDecl::new("KeyValuePair<int, string>? Kv").protobuf_field(18))
                .member(MemberDecl::new("List<PB>? Ps").protobuf_field(19))
                .member(MemberDecl::new("decimal Dm").protobuf_field(27))
                .member(MemberDecl::new("DateTimeOffset? Dto").protobuf_field(33))
                .member(MemberDecl::new("Guid? Gn").protobuf_field(34))
                .member(MemberDecl::new("E1? En").protobuf_field(35))
                .member("int NotThere"),
        )
        .declare(
            TypeDecl::class("O.Always")
                .protobuf()
                .member("DateOnly A")
                .member("TimeOnly B")
                .member("(int, int) C")
                .member("KeyValuePair<int, string> D")
                .member("DateTime E"),
        )
        .declare(
            TypeDecl::class("O.Fmt")
                .protobuf()
                .member(MemberDecl::new("long A").protobuf_zigzag())
                .member(MemberDecl::new("int B").protobuf_fixed())
                .member(MemberDecl::new("List<int>? C").protobuf_zigzag())
                .member(
                    MemberDecl::new("int[]? D")
                        .protobuf_fixed()
                        .protobuf_packed(),
                )
                .member(MemberDecl::new("double[]? E").protobuf_packed())
                .member(MemberDecl::new("List<bool>? F").protobuf_packed())
                .member(MemberDecl::new("short G").protobuf_fixed())
                .member(MemberDecl::new("int? H").protobuf_zigzag())
                .member(MemberDecl::new("ulong I").protobuf_fixed())
                .member(MemberDecl::new("List<E1>? J").protobuf_packed())
                .member(MemberDecl::new("E1 K").protobuf_zigzag())
                .member(MemberDecl::new("byte L").protobuf_fixed())
                .member(MemberDecl::new("sbyte M").protobuf_zigzag())
                .member(MemberDecl::new("List<string>? O").protobuf_packed())
                .member(
                    MemberDecl::new("List<long>? P")
                        .protobuf_packed()
                        .protobuf_zigzag(),
                ),
        )
        .declare(
            TypeDecl::class("O.FixedTime")
                .protobuf()
                .member(MemberDecl::new("DateTime N").protobuf_fixed()),
        )
        .declare(
            TypeDecl::class("O.BaseP")
                .protobuf_includes(&[(10, "D1"), (11, "D2")])
                .member(MemberDecl::new("int Id").protobuf_field(1))
                .member(MemberDecl::new("string? Z").protobuf_field(20)),
        )
        .declare(
            TypeDecl::class("O.D1")
                .base("BaseP")
                .protobuf_includes(&[(5, "D11")])
                .member("string? X"),
        )
        .declare(
            TypeDecl::class("O.D11")
                .base("D1")
                .protobuf()
                .member("int Y"),
        )
        .declare(TypeDecl::class("O.D2").base("BaseP").protobuf())
        .declare(TypeDecl::class("O.Plain0").protobuf().member("int W"))
        .declare(
            TypeDecl::class("O.NoInc")
                .base("Plain0")
                .protobuf()
                .member("int Q"),
        )
        .declare(
            TypeDecl::class("O.HoldB")
                .protobuf()
                .member("BaseP? B")
                .member("List<BaseP>? L")
                .member("D1? D"),
        )
        .declare(TypeDecl::class("O.Bare").member("int X"))
        .declare(
            TypeDecl::enumeration("O.E1")
                .underlying("short")
                .value("A", 1)
                .value("B", 2),
        )
        .declare(
            TypeDecl::enumeration("O.E2")
                .underlying("ulong")
                .value("Big", 1 << 63),
        )
        .declare(
            TypeDecl::enumeration("O.E3")
                .underlying("sbyte")
                .value("N", -1)
                .value("Z", 0),
        )
        .build()
        .unwrap()
}

#[test]
fn more_types_have_the_bytes_of_the_peer() {
    let contract = more();
    // Each is read back as it was, or as what is shown last.
    for (ty, json, blob, back) in [
        ("List<int?>", "[1]", "0801", ""),
        ("List<double>", "[1.5]", "09000000000000f83f", ""),
        ("O.E3", "-1", "08ffffffffffffffffff01", ""),
        ("O.E3[]", "[-1]", "08ffffffffffffffffff01", ""),
        ("O.E2", "9223372036854775808", "0880808080808080808001", ""),
        (
            "List<DateTime>",
            "[\"0001-01-01T00:00:00\"]",
            "0a040801100f",
            "",
        ),
        ("List<decimal>", "[0]", "0a00", ""),
        (
            "List<O.Point>",
            "[{\"X\":0,\"Y\":0},{\"X\":1,\"Y\":0}]",
            "0a000a020801",
            "",
        ),
        ("O.Point", "{\"X\":0,\"Y\":0}", "", ""),
        ("O.Point?", "{\"X\":0,\"Y\":0}", "", "null"),
        ("(int, int)", "{\"Item1\":0,\"Item2\":0}", "08001000", ""),
        ("(int, string)", "{\"Item1\":0,\"Item2\":null}", "0800", ""),
        (
            "(int, string)",
            "{\"Item1\":0,\"Item2\":\"\"}",
            "08001200",
            "",
        ),
        (
            "(string, string)",
            "{\"Item1\":null,\"Item2\":null}",
            "",
            "",
        ),
        (
            "KeyValuePair<string, int>",
            "{\"Key\":\"\",\"Value\":0}",
            "0a001000",
            "",
        ),
        (
            "KeyValuePair<string, List<int>>",
            "{\"Key\":\"a\",\"Value\":[1,2]}",
            "0a016110011002",
            "",
        ),
        (
            "(int, List<int>)",
            "{\"Item1\":1,\"Item2\":[]}",
            "0801",
            "{\"Item1\":1,\"Item2\":null}",
        ),
        (
            "(DateTime, decimal, Guid)",
            "{\"Item1\":\"0001-01-01T00:00:00\",\"Item2\":1.5,\"Item3\":\"00000000-0000-0000-0000-000000000000\"}",
            "0a040801100f1204080f18021a00",
            "",
        ),
        (
            "(TimeSpan, DateTime)",
            "{\"Item1\":\"00:00:00\",\"Item2\":\"1970-01-01T00:00:00\"}",
            "0a001200",
            "",
        ),
        (
            "(bool, char, double)",
            "{\"Item1\":false,\"Item2\":\"a\",\"Item3\":0}",
            "08001061190000000000000000",
            "",
        ),
        ("(int?, int?)", "{\"Item1\":null,\"Item2\":0}", "1000", ""),
        (
            "(O.E3, O.E3)",
            "{\"Item1\":0,\"Item2\":-1}",
            "080010ffffffffffffffffff01",
            "",
        ),
        (
            "Tuple<byte[], byte[]>",
            "{\"Item1\":\"\",\"Item2\":\"AQ==\"}",
            "0a00120101",
            "",
        ),
        (
            "(int, int, int, int, int, int, int, int)",
            "{\"Item1\":1,\"Item2\":2,\"Item3\":3,\"Item4\":4,\"Item5\":5,\"Item6\":6,\"Item7\":7,\"Rest\":{\"Item1\":8}}",
            "080110021803200428053006380742020808",
            "",
        ),
        (
            "List<(int, int)>",
            "[{\"Item1\":1,\"Item2\":2}]",
            "0a0408011002",
            "",
        ),
        (
            "(Dictionary<string, int>, int)",
            "{\"Item1\":{\"a\":1},\"Item2\":1}",
            "0a050a016110011001",
            "",
        ),
        (
            "(O.Point, int)",
            "{\"Item1\":{\"X\":0,\"Y\":0},\"Item2\":1}",
            "0a001001",
            "",
        ),
        (
            "(DateTimeOffset, DateOnly)",
            "{\"Item1\":\"0001-01-01T00:00:00+00:00\",\"Item2\":\"0001-01-01\"}",
            "0a0b0880d0cceeceeff1ffff011000",
            "",
        ),
        (
            "Dictionary<string, int>",
            "{\"\":0,\"b\":1}",
            "0a020a000a050a01621001",
            "",
        ),
        (
            "Dictionary<int, string>",
            "{\"0\":null,\"1\":\"\"}",
            "0a000a0408011200",
            "{\"0\":\"\",\"1\":\"\"}",
        ),
        ("Dictionary<int, double>", "{\"1\":0}", "0a020801", ""),
        (
            "Dictionary<int, DateTime>",
            "{\"0\":\"0001-01-01T00:00:00\"}",
            "0a0612040801100f",
            "",
        ),
        (
            "Dictionary<int, DateTime>",
            "{\"0\":\"1970-01-01T00:00:00\"}",
            "0a021200",
            "",
        ),
        (
            "Dictionary<Guid, decimal>",
            "{\"00000000-0000-0000-0000-000000000000\":0}",
            "0a040a001200",
            "",
        ),
        (
            "Dictionary<O.E3, O.E3>",
            "{\"Z\":-1}",
            "0a0d080010ffffffffffffffffff01",
            "",
        ),
        (
            "Dictionary<bool, char>",
            "{\"False\":\"a\"}",
            "0a021061",
            "",
        ),
        (
            "Dictionary<string, byte[]>",
            "{\"a\":\"\",\"b\":null}",
            "0a050a016112000a030a0162",
            "{\"a\":\"\",\"b\":\"\"}",
        ),
        (
            "Dictionary<string, List<string>>",
            "{\"a\":[\"x\",\"y\"],\"b\":[],\"c\":null}",
            "0a090a01611201781201790a030a01620a030a0163",
            "{\"a\":[\"x\",\"y\"],\"b\":[],\"c\":[]}",
        ),
        (
            "Dictionary<string, O.Point>",
            "{\"a\":{\"X\":0,\"Y\":0}}",
            "0a050a01611200",
            "",
        ),
        (
            "Dictionary<string, List<double>>",
            "{\"a\":[1.5,2.5]}",
            "0a150a01611210000000000000f83f0000000000000440",
            "",
        ),
        (
            "Dictionary<string, List<bool>>",
            "{\"a\":[true]}",
            "0a050a01611001",
            "",
        ),
        (
            "Dictionary<string, Dictionary<string, int>>",
            "{\"a\":{\"b\":1}}",
            "0a0a0a016112050a01621001",
            "",
        ),
        (
            "Dictionary<DateOnly, TimeOnly>",
            "{\"0001-01-01\":\"00:00:00\"}",
            "0a00",
            "",
        ),
        (
            "Dictionary<double, Uri>",
            "{\"0\":\"http://x\"}",
            "0a0a1208687474703a2f2f78",
            "",
        ),
        (
            "Dictionary<TimeSpan, TimeSpan>",
            "{\"00:00:00\":\"00:00:00\"}",
            "0a040a001200",
            "",
        ),
        (
            "Dictionary<string, (int, int)>",
            "{\"a\":{\"Item1\":0,\"Item2\":0}}",
            "0a090a0161120408001000",
            "",
        ),
        (
            "Dictionary<string, List<O.E1>>",
            "{\"a\":[1,2],\"b\":[]}",
            "0a070a0161120201020a050a01621200",
            "",
        ),
        (
            "Dictionary<string, List<byte>>",
            "{\"a\":[1,2]}",
            "0a070a016112020102",
            "",
        ),
        (
            "Dictionary<string, List<DateTime>>",
            "{\"a\":[\"0001-01-01T00:00:00\"],\"b\":[]}",
            "0a090a016112040801100f0a030a0162",
            "",
        ),
        (
            "Dictionary<string, List<char>>",
            "{\"a\":[\"x\",\"y\"]}",
            "0a070a016112027879",
            "",
        ),
        (
            "Dictionary<string, List<long>>",
            "{\"a\":[-1,0]}",
            "0a100a0161120bffffffffffffffffff0100",
            "",
        ),
        (
            "Dictionary<string, List<DateOnly>>",
            "{\"a\":[\"0001-01-01\",\"0001-01-02\"]}",
            "0a070a016110001001",
            "",
        ),
        (
            "Dictionary<string, decimal?>",
            "{\"a\":0,\"b\":null}",
            "0a050a016112000a030a0162",
            "",
        ),
        (
            "Dictionary<string, O.E1?>",
            "{\"a\":0,\"b\":null}",
            "0a050a016110000a030a0162",
            "",
        ),
        ("List<byte>", "[1,2]", "08010802", ""),
        ("Stack<int>", "[2,1]", "08020801", ""),
        ("ImmutableArray<int>", "[1]", "0801", ""),
        (
            "TimeSpan",
            "\"-10675199.02:48:05.4775808\"",
            "0a040801100f",
            "",
        ),
        ("TimeSpan", "\"3.00:00:00\"", "0a020806", ""),
        ("TimeSpan", "\"1.01:00:00\"", "0a0408321001", ""),
        ("TimeSpan", "\"-01:30:00\"", "0a0508b3011002", ""),
        ("TimeSpan", "\"00:00:00.0000001\"", "0a0408021005", ""),
        ("TimeSpan", "\"00:00:00.0010000\"", "0a0408021004", ""),
        ("DateTime", "\"1969-12-31T00:00:00\"", "0a020801", ""),
        ("DateOnly", "\"0001-01-01\"", "0800", ""),
        ("DateOnly[]", "[\"0001-01-02\"]", "0801", ""),
        ("TimeOnly?", "\"00:00:00.0000001\"", "0801", ""),
        (
            "DateTimeOffset",
            "\"0001-01-01T00:00:00+00:00\"",
            "0880d0cceeceeff1ffff01",
            "",
        ),
        (
            "O.BaseP",
            "{\"$type\":\"O.D1\",\"X\":\"x\",\"Id\":1,\"Z\":\"z\"}",
            "52030a01780801a201017a",
            "",
        ),
        (
            "O.D1",
            "{\"X\":\"x\",\"Id\":1,\"Z\":null}",
            "52030a01780801",
            "",
        ),
        (
            "O.BaseP",
            "{\"$type\":\"O.D11\",\"Y\":5,\"X\":\"x\",\"Id\":1,\"Z\":null}",
            "52072a0208050a01780801",
            "",
        ),
        (
            "O.D11",
            "{\"Y\":5,\"X\":\"x\",\"Id\":1,\"Z\":null}",
            "52072a0208050a01780801",
            "",
        ),
        ("O.D1", "{\"X\":null,\"Id\":0,\"Z\":null}", "5200", ""),
        ("O.D2", "{\"Id\":0,\"Z\":null}", "5a00", ""),
        ("O.NoInc", "{\"Q\":2,\"W\":1}", "0802", "{\"Q\":2,\"W\":0}"),
        (
            "O.HoldB",
            "{\"B\":{\"$type\":\"O.D1\",\"X\":\"x\",\"Id\":1,\"Z\":null},\"L\":[{\"$type\":\"O.D2\",\"Id\":3,\"Z\":null},{\"Id\":4,\"Z\":null}],\"D\":{\"X\":null,\"Id\":9,\"Z\":null}}",
            "0a0752030a0178080112045a000803120208041a0452000809",
            "",
        ),
        (
            "O.Fmt",
            "{\"A\":-1,\"B\":-1,\"C\":[-1,2],\"D\":[1,2],\"E\":[1.5],\"F\":[true],\"G\":-1,\"H\":0,\"I\":5,\"J\":[1,2],\"K\":2,\"L\":7,\"M\":-2,\"O\":[\"a\"],\"P\":[-1,-2]}",
            "080115ffffffff180118042208010000000200000029000000000000f83f30013dffffffff4000490500000000000000500150025802650700000068037201617a020103",
            "",
        ),
        (
            "O.Fmt",
            "{\"A\":0,\"B\":0,\"C\":[],\"D\":[],\"E\":[],\"F\":[true,false],\"G\":0,\"H\":null,\"I\":0,\"J\":null,\"K\":0,\"L\":0,\"M\":0,\"O\":null,\"P\":null}",
            "22002a0032020100",
            "{\"A\":0,\"B\":0,\"C\":null,\"D\":[],\"E\":[],\"F\":[true,false],\"G\":0,\"H\":null,\"I\":0,\"J\":null,\"K\":0,\"L\":0,\"M\":0,\"O\":null,\"P\":null}",
        ),
        (
            "O.Always",
            "{\"A\":\"0001-01-01\",\"B\":\"00:00:00\",\"C\":{\"Item1\":0,\"Item2\":0},\"D\":{\"Key\":0,\"Value\":null},\"E\":\"0001-01-01T00:00:00\"}",
            "080010001a0408001000220208002a040801100f",
            "",
        ),
    ] {
        let encoded = encode(&contract, CODEC, ty, json).map(|b| to_hex(&b));
        assert_eq!(encoded, Ok(blob.to_owned()), "{ty} {json}");
        let back = if back.is_empty() { json } else { back };
        assert_eq!(
            decode(&contract, CODEC, ty, &hex(blob)).as_deref(),
            Ok(back),
            "{ty} {blob}"
        );
    }
}

#[test]
fn members_are_left_out_as_the_peer_leaves_them_out() {
    let contract = more();
    for (json, blob) in [
        ("{}", ""),
        (
            "{\"B\":\"\",\"S\":\"\",\"I\":[],\"L\":[],\"D\":0,\"M\":{},\"E\":-1,\"U\":\"http://x/\"}",
            "0a0012003a0048ffffffffffffffffff016209687474703a2f2f782f",
        ),
        ("{\"Next\":{}}", "5a00"),
        (
            "{\"F\":0,\"Bo\":true,\"Es\":[1],\"Db\":-0,\"Sb\":-1}",
            "700178018801ffffffffffffffffff01",
        ),
        ("{\"F\":-0.0}", ""),
        ("{\"Ps\":[{}]}", "9a0100"),
        ("{\"D\":1.50}", "3a050896011804"),
        ("{\"Dm\":0.00}", ""),
        ("{\"U\":\"\"}", "6200"),
        ("{\"C\":\"x\",\"E\":0}", "2878"),
        (
            "{\"Gn\":\"00000000-0000-0000-0000-000000000000\",\"En\":0}",
            "920200980200",
        ),
        ("{\"M\":{\"\":\"\",\"a\":null}}", "42040a00120042030a0161"),
        ("{\"Kv\":{\"Key\":1,\"Value\":null}}", "9201020801"),
        ("{\"NotThere\":5}", ""),
    ] {
        let encoded = encode(&contract, CODEC, "O.PB", json).map(|b| to_hex(&b));
        assert_eq!(encoded, Ok(blob.to_owned()), "{json}");
    }
}

#[test]
fn two_zeros_that_the_peer_would_lose_are_written() {
    let contract = more();
    for (ty, json, blob) in [
        ("DateTimeOffset", "\"1970-01-01T00:00:00+00:00\"", "0800"),
        ("DateTimeOffset?", "\"1970-01-01T00:00:00+00:00\"", "0800"),
        (
            "List<DateTimeOffset>",
            "[\"1970-01-01T00:00:00+00:00\"]",
            "0a020800",
        ),
        (
            "(DateTimeOffset, int)",
            "{\"Item1\":\"1970-01-01T00:00:00+00:00\",\"Item2\":1}",
            "0a0208001001",
        ),
        (
            "Dictionary<string, int?>",
            "{\"a\":0,\"b\":null}",
            "0a050a016110000a030a0162",
        ),
        (
            "Dictionary<string, bool?>",
            "{\"a\":false,\"b\":true}",
            "0a050a016110000a050a01621001",
        ),
    ] {
        let encoded = encode(&contract, CODEC, ty, json).map(|b| to_hex(&b));
        assert_eq!(encoded, Ok(blob.to_owned()), "{ty} {json}");
        assert_eq!(
            decode(&contract, CODEC, ty, &hex(blob)).as_deref(),
            Ok(json)
        );
    }
    // What a peer writes for the epoch.
    for (ty, blob, json) in [
        ("DateTimeOffset", "", "\"1970-01-01T00:00:00+00:00\""),
        (
            "List<DateTimeOffset>",
            "0a00",
            "[\"1970-01-01T00:00:00+00:00\"]",
        ),
    ] {
        assert_eq!(
            decode(&contract, CODEC, ty, &hex(blob)).as_deref(),
            Ok(json)
        );
    }
}

#[test]
fn depth_is_bounded() {
    let contract = more();
    let mut blob = Vec::new();
    for _ in 0..2_000 {
        let mut outer = vec![0x5A];
        let mut length = blob.len();
        while length >= 0x80 {
            outer.push(length as u8 | 0x80);
            length >>= 7;
        }
        outer.push(length as u8);
        outer.extend_from_slice(&blob);
        blob = outer;
    }
    let error = decode(&contract, CODEC, "O.PB", &blob).unwrap_err();
    assert!(
        error.contains("nested more than 256 levels deep"),
        "{error}"
    );
    // Groups are skipped without recursion.
    let groups = vec![0x0B; 100_000];
    assert!(decode(&contract, CODEC, "O.Label", &groups).is_err());
}
