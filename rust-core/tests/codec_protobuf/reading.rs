//! What a reader of protobuf takes and what it refuses, as protobuf-net does.

use super::common::{decode, encode, hex, to_hex};
use super::{CODEC, more};

#[test]
fn what_dotnet_reads_is_read() {
    let contract = more();
    for (ty, blob, json) in [
        ("int", "1005", "0"),
        ("int", "08ffffffff0f", "-1"),
        ("int", "0d05000000", "5"),
        ("int", "090500000000000000", "5"),
        ("int", "09ffffffffffffffff", "-1"),
        ("int", "08050806", "6"),
        ("int", "088000", "0"),
        ("uint", "08ffffffffffffffffff01", "4294967295"),
        ("long", "0dffffffff", "-1"),
        ("ulong", "0dffffffff", "4294967295"),
        ("ulong", "08ffffffffffffffffff01", "18446744073709551615"),
        ("sbyte", "0dffffffff", "-1"),
        ("char", "0d41000000", "\"A\""),
        ("bool", "0802", "true"),
        ("bool", "0d01000000", "true"),
        ("DateOnly", "0d01000000", "\"0001-01-02\""),
        ("double", "0d0000c03f", "1.5"),
        ("float", "09000000000000f83f", "1.5"),
        ("double", "1005", "0"),
        ("string", "1005", "\"\""),
        ("string", "0a01610a0162", "\"b\""),
        ("byte[]", "0a01010a0102", "\"AQI=\""),
        ("byte[]", "1005", "\"\""),
        ("List<int>", "0a020102", "[1,2]"),
        ("List<int>", "08010a0202030804", "[1,2,3,4]"),
        ("List<int>", "1005", "[]"),
        ("List<int>", "0a00", "[]"),
        ("List<sbyte>", "0a0bffffffffffffffffff0105", "[-1,5]"),
        ("List<double>", "0a08000000000000f83f", "[1.5]"),
        ("List<float>", "0a040000c03f", "[1.5]"),
        ("List<bool>", "0a0100", "[false]"),
        ("List<O.E1>", "0a020102", "[1,2]"),
        ("List<DateTime>", "0a00", "[\"1970-01-01T00:00:00\"]"),
        ("List<O.PB>", "", "null"),
        ("Dictionary<string, int>", "0a00", "{\"\":0}"),
        (
            "Dictionary<string, int>",
            "0a050a016110010a050a01621002 0a050a01611003",
            "{\"a\":3,\"b\":2}",
        ),
        ("Dictionary<string, int>", "1005", "{}"),
        ("Dictionary<string, List<int>>", "0a030a0161", "{\"a\":[]}"),
        (
            "Dictionary<string, Guid>",
            "0a030a0161",
            "{\"a\":\"00000000-0000-0000-0000-000000000000\"}",
        ),
        (
            "Dictionary<string, DateTime>",
            "0a030a0161",
            "{\"a\":\"0001-01-01T00:00:00\"}",
        ),
        (
            "Dictionary<string, Dictionary<string, int>>",
            "0a030a0161",
            "{\"a\":{}}",
        ),
        (
            "Dictionary<string, Tuple<int, int>>",
            "0a030a0161",
            "{\"a\":{\"Item1\":0,\"Item2\":0}}",
        ),
        (
            "Dictionary<string, O.Label>",
            "0a030a0161",
            "{\"a\":{\"X\":0,\"Text\":null}}",
        ),
        ("Guid", "0a00", "\"00000000-0000-0000-0000-000000000000\""),
        (
            "Guid",
            "0a09093322110055447766",
            "\"00112233-4455-6677-0000-000000000000\"",
        ),
        ("Guid", "1005", "\"00000000-0000-0000-0000-000000000000\""),
        ("decimal", "0a0418043805", "0.00"),
        ("decimal", "0a021838", "0.0000000000000000000000000000"),
        ("DateTime", "0a00", "\"1970-01-01T00:00:00\""),
        ("DateTime", "0a0408011001", "\"1969-12-31T23:00:00\""),
        (
            "DateTime",
            "0a060802100f1801",
            "\"9999-12-31T23:59:59.9999999\"",
        ),
        ("DateTime", "1005", "\"0001-01-01T00:00:00\""),
        ("DateTime?", "1005", "\"0001-01-01T00:00:00\""),
        ("int?", "1005", "0"),
        ("TimeSpan", "0a0408031005", "\"-00:00:00.0000002\""),
        ("O.E1", "0863", "99"),
        ("O.E1", "08ffffffffffffffffff01", "-1"),
        ("O.Point", "", "{\"X\":0,\"Y\":0}"),
        ("O.Point", "090500000000000000", "{\"X\":5,\"Y\":0}"),
        (
            "Tuple<int, string>",
            "120161",
            "{\"Item1\":0,\"Item2\":\"a\"}",
        ),
        (
            "(string, List<int>)",
            "12020102",
            "{\"Item1\":null,\"Item2\":[1,2]}",
        ),
        ("Uri", "0a00", "null"),
        (
            "O.BaseP",
            "0801 5203 0a0165",
            "{\"$type\":\"O.D1\",\"X\":\"e\",\"Id\":1,\"Z\":null}",
        ),
        (
            "O.BaseP",
            "5a000801",
            "{\"$type\":\"O.D2\",\"Id\":1,\"Z\":null}",
        ),
        (
            "O.HoldB",
            "0a00",
            "{\"B\":{\"Id\":0,\"Z\":null},\"L\":null,\"D\":null}",
        ),
        // Unknown fields, and groups inside groups.
        (
            "O.Label",
            "f80f01 9a0f0161 0805 fb0ffb0f0801fc0ffc0f",
            "{\"X\":5,\"Text\":null}",
        ),
        // Parts of one message are merged.
        (
            "O.HoldB",
            "0a0452020a00 0a020805",
            "{\"B\":{\"$type\":\"O.D1\",\"X\":\"\",\"Id\":5,\"Z\":null},\"L\":null,\"D\":null}",
        ),
        // A format is what is written; all others are read.
        (
            "O.Fmt",
            "0d05000000 1005 1a020104 2001",
            "{\"A\":5,\"B\":5,\"C\":[-1,2],\"D\":[1],\"E\":null,\"F\":null,\"G\":0,\"H\":null,\"I\":0,\"J\":null,\"K\":0,\"L\":0,\"M\":0,\"O\":null,\"P\":null}",
        ),
    ] {
        let blob = hex(&blob.replace(' ', ""));
        assert_eq!(
            decode(&contract, CODEC, ty, &blob).as_deref(),
            Ok(json),
            "{ty} {}",
            to_hex(&blob)
        );
    }
}

#[test]
fn what_dotnet_does_not_read_is_an_error() {
    let contract = more();
    for (ty, blob) in [
        ("int", "0a0105"),
        ("int", "0880808080808080808001"),
        ("int", "090000000001000000"),
        ("int", "08"),
        ("int", "08ffffffffffffffffffff01"),
        ("int", "00"),
        ("int", "07"),
        ("int", "0d050000"),
        ("byte", "088002"),
        ("sbyte", "08ff01"),
        ("short", "08808004"),
        ("char", "08808004"),
        ("bool", "0880808080808080808001"),
        ("bool", "0a00"),
        ("double", "0801"),
        ("string", "0801"),
        ("string", "0a01ff"),
        ("string", "0a05"),
        ("string", "0affffffff0f"),
        ("List<int>", "0aff01"),
        ("List<int>", "0a0180"),
        ("List<DateOnly>", "0a020102"),
        ("List<List<int>>", "0a020801"),
        ("Guid", "08"),
        ("Guid", "0a0a0801"),
        ("Guid", "0a020801"),
        ("decimal", "0a02183a"),
        ("decimal", "0a0810ffffffffffff7f"),
        ("decimal", "0a030900"),
        ("DateTime", "0a0408011009"),
        ("DateTime", "0a040804100f"),
        ("DateTime", "0a080880808080808001 1003"),
        ("TimeSpan", "0a0a08ffffffffffffff7f1000"),
        ("DateOnly", "08ffffffffffffffffff01"),
        ("TimeOnly", "08ffffffffffffffffff01"),
        ("O.E1", "0880808080f8ffffffff01"),
        ("O.Point", "1101"),
        ("O.Label", "ff0f"),
        ("O.Label", "fb0ffb0f0801fc0f"),
        ("O.Label", "fc0f"),
        ("O.Label", "0b08010c14"),
        ("O.D1", "0801"),
        ("O.D1", "5a00"),
        ("O.HoldB", "1a020801"),
        ("O.HoldB", "0805"),
        ("Dictionary<string, string>", "0a050a01611005"),
        ("Dictionary<string, int>", "0805"),
        ("object", "0805"),
        ("Version", "0a0161"),
        ("Half", "0801"),
        ("Int128", "0801"),
        ("O.Bare", "0801"),
        ("Demo.Unknown", "0801"),
    ] {
        let blob = hex(&blob.replace(' ', ""));
        assert!(
            decode(&contract, CODEC, ty, &blob).is_err(),
            "{ty} {}",
            to_hex(&blob)
        );
    }
    for (ty, json, message) in [
        (
            "List<string>",
            "[\"a\",null]",
            "[1]: protobuf has no form for null in a list",
        ),
        (
            "List<List<int>>",
            "[[1]]",
            "[0]: protobuf has no form for a List<int> inside a list",
        ),
        ("int[,]", "[[1]]", "protobuf can not hold an int[,]"),
        ("Version", "\"1.2\"", "protobuf can not hold a Version"),
        (
            "O.Bare",
            "{\"X\":1}",
            "O.Bare has no protobuf fields: add \"protobuf\" to it in the contract, as the C# type has [ProtoContract]",
        ),
        (
            "O.FixedTime",
            "{\"N\":\"2026-01-02\"}",
            "N: a DateTime of another format than the default is not supported",
        ),
        (
            "O.Plain0",
            "{\"$type\":\"O.NoInc\",\"W\":1,\"Q\":2}",
            "O.Plain0 does not include O.NoInc",
        ),
    ] {
        assert_eq!(
            encode(&contract, CODEC, ty, json).unwrap_err(),
            message,
            "{ty} {json}"
        );
    }
    assert_eq!(
        decode(&contract, CODEC, "O.HoldB", &hex("0a0452020a05")).unwrap_err(),
        "B: 5 bytes expected, 0 left (byte 6)"
    );
}
