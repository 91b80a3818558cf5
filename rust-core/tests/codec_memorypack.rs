//! MemoryPack against a .NET peer's bytes.
#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use common::{Row, compact, decode, echo, encode, hex, rows, shape_rows, shapes, to_hex};
use witrpc::codec::Codec;
use witrpc::contract::{Contract, MemberDecl, TypeDecl};

const CODEC: Codec = Codec::MemoryPack;

fn check(contract: &Contract, row: &Row) {
    let what = format!("{} {}", row.ty, row.value());
    let blob = hex(&row.memorypack);
    if row.ty == "System.Object" {
        // Not packable: the peer writes nothing and reads null.
        let error = encode(contract, CODEC, &row.ty, row.value()).unwrap_err();
        assert_eq!(error, "MemoryPack can not hold an object");
        assert_eq!(
            decode(contract, CODEC, &row.ty, &blob).as_deref(),
            Ok("null")
        );
        return;
    }
    let encoded = encode(contract, CODEC, &row.ty, row.value());
    assert_eq!(
        encoded.map(|b| to_hex(&b)),
        Ok(row.memorypack.clone()),
        "{what}"
    );
    let shown = decode(contract, CODEC, &row.ty, &blob).unwrap_or_else(|e| panic!("{what}: {e}"));
    if row.reads_back.memorypack.as_deref() == Some("differs") {
        assert_eq!(shown, r#"{"Second":2,"First":"f","Hidden":0}"#);
        return;
    }
    let expected = if row.note() == Some("declared Base, runtime Derived") {
        r#"{"Id":1}"#.to_owned()
    } else {
        compact(row.value())
    };
    if row.ty.starts_with("Demo.Shapes.Derived") {
        // .NET wrote the members in another order than it shows them.
        assert_eq!(shown, r#"{"Extra":"e","Id":2}"#);
    } else {
        assert_eq!(shown, expected, "{what}");
    }
    // Padding is not looked at.
    let mut dirty = blob.clone();
    for at in &row.memorypack_padding {
        dirty[*at] = 0xA5;
    }
    assert_eq!(
        decode(contract, CODEC, &row.ty, &dirty).as_deref(),
        Ok(shown.as_str()),
        "{what}"
    );
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

/// Types beyond the vectors, with the bytes that MemoryPack 1.21.4 on .NET 10 makes of them.
fn more() -> Contract {
    Contract::builder("Demo.IMore")
        .declare(
            TypeDecl::structure("O.Label")
                .memorypack()
                .member("int X;")
                .member("string? Text;"),
        )
        .declare(
            TypeDecl::structure("O.Point")
                .memorypack()
                .member("int X;")
                .member("double Y;"),
        )
        .declare(
            TypeDecl::structure("O.Plain")
                .member("byte A;")
                .member("int B;"),
        )
        .declare(
            TypeDecl::structure("O.Ign")
                .memorypack()
                .member("byte A;")
                .member(MemberDecl::new("int B;").memorypack_ignore())
                .member("short C"),
        )
        .declare(
            TypeDecl::class("O.VT")
                .memorypack_version_tolerant()
                .member(MemberDecl::new("DateTimeOffset A").memorypack_order(0))
                .member(MemberDecl::new("int? B").memorypack_order(1))
                .member(MemberDecl::new("string? C").memorypack_order(4)),
        )
        .declare(
            TypeDecl::structure("O.VTS")
                .memorypack_version_tolerant()
                .member("int A")
                .member("string? C"),
        )
        .declare(
            TypeDecl::structure("O.GenS<T>")
                .memorypack()
                .member("T V")
                .member("int X"),
        )
        .declare(
            TypeDecl::class("O.B0")
                .memorypack()
                .member("int Z")
                .member("int A"),
        )
        .declare(
            TypeDecl::class("O.B1")
                .base("B0")
                .memorypack()
                .member("string? M"),
        )
        .declare(
            TypeDecl::class("O.Cls")
                .memorypack()
                .member("DateTimeOffset D")
                .member("Dictionary<byte, long> M")
                .member("(byte, int) T")
                .member("List<DateTimeOffset?> L")
                .member("Label? N")
                .member("(int, string) U")
                .member("Point? P"),
        )
        .declare(TypeDecl::class("O.Bare").member("int X"))
        .declare(
            TypeDecl::enumeration("O.E1")
                .underlying("short")
                .value("A", 1)
                .value("B", 2),
        )
        .build()
        .unwrap()
}

#[test]
fn more_types_have_the_bytes_of_the_peer() {
    let contract = more();
    let time = "\"2026-11-30T05:06:07+02:00\"";
    // A DateTimeOffset by its formatter, and as it is copied.
    let formatted = "80891ca49f4edf0800d088c310000000";
    let copied = "780000000000000080b993e08e4edf08";
    for (ty, json, blob) in [
        ("DateTimeOffset", "D", "F"),
        ("DateTimeOffset?", "D", "0100000000000000C"),
        ("DateTimeOffset[]", "[D]", "01000000C"),
        ("List<DateTimeOffset>", "[D]", "01000000C"),
        ("Stack<DateTimeOffset>", "[D]", "01000000C"),
        ("IEnumerable<DateTimeOffset>", "[D]", "01000000C"),
        ("IReadOnlyCollection<DateTimeOffset>", "[D]", "01000000C"),
        ("IReadOnlyList<DateTimeOffset>", "[D]", "01000000C"),
        ("ICollection<DateTimeOffset>", "[D]", "01000000C"),
        ("IList<DateTimeOffset>", "[D]", "01000000C"),
        ("ImmutableArray<DateTimeOffset>", "[D]", "01000000C"),
        ("HashSet<DateTimeOffset>", "[D]", "01000000F"),
        ("Queue<DateTimeOffset>", "[D]", "01000000F"),
        ("LinkedList<DateTimeOffset>", "[D]", "01000000F"),
        ("ISet<DateTimeOffset>", "[D]", "01000000F"),
        ("SortedSet<DateTimeOffset>", "[D]", "01000000F"),
        ("ReadOnlyCollection<DateTimeOffset>", "[D]", "01000000F"),
        ("ObservableCollection<DateTimeOffset>", "[D]", "01000000F"),
        ("ConcurrentQueue<DateTimeOffset>", "[D]", "01000000F"),
        ("ConcurrentStack<DateTimeOffset>", "[D]", "01000000F"),
        ("ImmutableList<DateTimeOffset>", "[D]", "01000000F"),
        ("ImmutableHashSet<DateTimeOffset>", "[D]", "01000000F"),
        ("IImmutableStack<DateTimeOffset>", "[D]", "01000000F"),
        (
            "HashSet<DateTimeOffset?>",
            "[D,null]",
            "020000000100000000000000C000000000000000000000000000000000000000000000000",
        ),
        (
            "List<DateTimeOffset?>",
            "[D,null]",
            "020000000100000000000000C000000000000000000000000000000000000000000000000",
        ),
        ("DateTimeOffset[,]", "[[D]]", "03010000000100000001000000C"),
        (
            "Dictionary<string, DateTimeOffset>",
            "{\"a\":D}",
            "01000000feffffff0100000061F",
        ),
        (
            "Dictionary<int, DateTimeOffset>",
            "{\"1\":D}",
            "010000000100000000000000C",
        ),
        (
            "Dictionary<DateTimeOffset, int>",
            "{D:1}",
            "01000000C0100000000000000",
        ),
        (
            "KeyValuePair<string, DateTimeOffset>",
            "{\"Key\":\"a\",\"Value\":D}",
            "feffffff0100000061F",
        ),
        (
            "KeyValuePair<int, DateTimeOffset>",
            "{\"Key\":1,\"Value\":D}",
            "0100000000000000C",
        ),
        (
            "Tuple<DateTimeOffset, int>",
            "{\"Item1\":D,\"Item2\":1}",
            "02F01000000",
        ),
        (
            "(DateTimeOffset, string)",
            "{\"Item1\":D,\"Item2\":\"a\"}",
            "Ffeffffff0100000061",
        ),
        (
            "(DateTimeOffset, int)",
            "{\"Item1\":D,\"Item2\":1}",
            "0100000000000000C",
        ),
        (
            "List<(DateTimeOffset, string)>",
            "[{\"Item1\":D,\"Item2\":\"a\"}]",
            "01000000Ffeffffff0100000061",
        ),
        (
            "Dictionary<string, List<DateTimeOffset>>",
            "{\"a\":[D]}",
            "01000000feffffff010000006101000000C",
        ),
        (
            "Dictionary<byte, long>",
            "{\"1\":2,\"3\":4}",
            "020000000100000000000000020000000000000003000000000000000400000000000000",
        ),
        (
            "SortedDictionary<byte, long>",
            "{\"1\":2}",
            "0100000001000000000000000200000000000000",
        ),
        (
            "O.Label?",
            "{\"X\":1,\"Text\":\"t\"}",
            "010201000000feffffff0100000074",
        ),
        (
            "List<O.Label?>",
            "[{\"X\":1,\"Text\":\"t\"},null]",
            "02000000010201000000feffffff0100000074ff",
        ),
        (
            "O.Point?",
            "{\"X\":1,\"Y\":2}",
            "010000000000000001000000000000000000000000000040",
        ),
        (
            "O.Ign",
            "{\"C\":3,\"A\":1,\"B\":2}",
            "010000000200000003000000",
        ),
        (
            "List<O.Plain>",
            "[{\"A\":1,\"B\":2}]",
            "010000000100000002000000",
        ),
        (
            "O.VT",
            "{\"A\":D,\"B\":5,\"C\":\"c\"}",
            "051008000009C0100000005000000feffffff0100000063",
        ),
        (
            "O.VTS",
            "{\"A\":1,\"C\":\"x\"}",
            "02040901000000feffffff0100000078",
        ),
        ("O.GenS<int>", "{\"V\":1,\"X\":2}", "020100000002000000"),
        (
            "O.GenS<int>[]",
            "[{\"V\":1,\"X\":2}]",
            "010000000100000002000000",
        ),
        (
            "O.GenS<string>",
            "{\"V\":\"a\",\"X\":2}",
            "02feffffff010000006102000000",
        ),
        (
            "O.B1",
            "{\"M\":\"m\",\"Z\":1,\"A\":2}",
            "030100000002000000feffffff010000006d",
        ),
        (
            "O.Cls",
            "{\"D\":D,\"M\":{\"1\":2},\"T\":{\"Item1\":1,\"Item2\":2},\"L\":[D,null],\"N\":{\"X\":1,\"Text\":null},\
             \"U\":{\"Item1\":1,\"Item2\":\"u\"},\"P\":null}",
            "07C0100000001000000000000000200000000000000020000000100000002000000\
             0100000000000000C000000000000000000000000000000000000000000000000\
             010201000000ffffffff01000000feffffff0100000075000000000000000000000000000000000000000000000000",
        ),
        (
            "int[,,]",
            "[[[1,2],[3,4]]]",
            "040100000002000000020000000400000001000000020000000300000004000000",
        ),
        (
            "string[,]",
            "[[\"a\",null]]",
            "03010000000200000002000000feffffff0100000061ffffffff",
        ),
        (
            "int[][,]",
            "[[[1]]]",
            "010000000301000000010000000100000001000000",
        ),
        (
            "List<int>[]",
            "[[1],null]",
            "020000000100000001000000ffffffff",
        ),
        (
            "(int, string)?",
            "{\"Item1\":1,\"Item2\":\"a\"}",
            "0101000000feffffff0100000061",
        ),
        (
            "(int, int)?",
            "{\"Item1\":1,\"Item2\":2}",
            "01000000000000000100000002000000",
        ),
        (
            "Uri[]",
            "[\"http://x/\",null]",
            "02000000f6ffffff09000000687474703a2f2f782fffffffff",
        ),
        ("Version", "\"1.2\"", "040100000002000000ffffffffffffffff"),
        (
            "List<Version>",
            "[\"1.2.3.4\",null]",
            "020000000401000000020000000300000004000000ff",
        ),
        ("O.E1[]", "[1]", "010000000100"),
        ("O.E1?", "2", "01000200"),
        (
            "Dictionary<O.E1, string>",
            "{\"A\":\"a\"}",
            "010000000100feffffff0100000061",
        ),
        ("List<byte>", "[1,2]", "020000000102"),
        ("Stack<byte>", "[1,2]", "020000000201"),
        ("Tuple<int>", "{\"Item1\":5}", "0105000000"),
        (
            "(int, int, int, int, int, int, int, string)",
            "{\"Item1\":1,\"Item2\":2,\"Item3\":3,\"Item4\":4,\"Item5\":5,\"Item6\":6,\"Item7\":7,\"Rest\":{\"Item1\":\"8\"}}",
            "01000000020000000300000004000000050000000600000007000000feffffff0100000038",
        ),
        (
            "Stack<string>",
            "[\"b\",\"a\"]",
            "02000000feffffff0100000061feffffff0100000062",
        ),
        (
            "ImmutableStack<string>",
            "[\"b\",\"a\"]",
            "02000000feffffff0100000061feffffff0100000062",
        ),
        (
            "UInt128?",
            "1",
            "0100000000000000000000000000000001000000000000000000000000000000",
        ),
        (
            "DateOnly?[]",
            "[\"0001-01-02\"]",
            "010000000100000001000000",
        ),
        ("char", "\"x\"", "7800"),
    ] {
        let blob = blob.replace('F', formatted).replace('C', copied);
        // Capital letters stand for the time; type names have none of them in the JSON here.
        let json = if json.contains("\"D\":") {
            json.replace(":D,", &format!(":{time},"))
                .replace("[D,", &format!("[{time},"))
        } else {
            json.replace("{D:", &format!("{{{time}:"))
                .replace('D', time)
        };
        assert_eq!(
            encode(&contract, CODEC, ty, &json).map(|b| to_hex(&b)),
            Ok(blob.clone()),
            "{ty}"
        );
        let shown = decode(&contract, CODEC, ty, &hex(&blob));
        if ty == "O.Ign" || ty == "O.B1" || ty == "O.GenS<int>[]" {
            assert!(shown.is_ok());
        } else {
            assert_eq!(shown.as_deref(), Ok(json.as_str()), "{ty} {blob}");
        }
    }
}

#[test]
fn structs_lie_as_the_runtime_lays_them() {
    // Offsets as a .NET 10 runtime on x64 has them.
    let contract = Contract::builder("Demo.IMore")
        .declare(
            TypeDecl::structure("O.T15")
                .memorypack()
                .member("byte A;")
                .member("byte B;")
                .member("byte C;"),
        )
        .declare(
            TypeDecl::structure("O.S10")
                .memorypack()
                .member("byte A;")
                .member("Int128 D;")
                .member("short X;"),
        )
        .declare(
            TypeDecl::structure("O.S6")
                .memorypack()
                .member("byte A;")
                .member("(byte, int) D;")
                .member("short X;"),
        )
        .declare(
            TypeDecl::structure("O.U1")
                .memorypack()
                .member("byte A;")
                .member("(byte, byte, byte) B;")
                .member("byte C;"),
        )
        .declare(
            TypeDecl::structure("O.U5")
                .memorypack()
                .member("byte A;")
                .member("(int, int, int) B;")
                .member("byte C;"),
        )
        .declare(
            TypeDecl::structure("O.S11")
                .memorypack()
                .member("byte A;")
                .member("Half D;")
                .member("char X;")
                .member("bool Z;")
                .member("long L;"),
        )
        .declare(TypeDecl::structure("O.Nothing").memorypack())
        .build()
        .unwrap();
    for (ty, json, blob) in [
        (
            "O.S10",
            "{\"A\":1,\"D\":2,\"X\":3}",
            "01 000000000000000000000000000000 02000000000000000000000000000000 0300 0000000000000000000000000000",
        ),
        (
            "O.S6",
            "{\"A\":1,\"D\":{\"Item1\":2,\"Item2\":3},\"X\":4}",
            "0100000000000000 0300000002000000 0400000000000000",
        ),
        (
            "O.U1",
            "{\"A\":1,\"B\":[2,3,4],\"C\":5}",
            "01000000 02030400 05000000",
        ),
        (
            "O.U5",
            "{\"A\":1,\"B\":[2,3,4],\"C\":5}",
            "0100000000000000 02000000030000000400000000000000 0500000000000000",
        ),
        (
            "O.S11",
            "{\"A\":1,\"D\":1,\"X\":\"a\",\"Z\":true,\"L\":2}",
            "0100 003c 6100 0100 0200000000000000",
        ),
        ("O.Nothing", "{}", "00"),
        (
            "(byte, DateTime, int)",
            "[1,\"0001-01-01T00:00:00.0000002\",3]",
            "03000000 01000000 0200000000000000",
        ),
        (
            "(byte, decimal, short)",
            "[1,2,3]",
            "0300 01 0000000000 00000000000000000200000000000000",
        ),
        (
            "(TimeSpan, byte, int)",
            "[\"00:00:00.0000001\",2,3]",
            "03000000 02000000 0100000000000000",
        ),
        (
            "(bool, Half, char)",
            "[true,1,\"a\"]",
            "6100 01 00 003c 0000",
        ),
        (
            "(DateOnly, byte, TimeOnly)",
            "[\"0001-01-02\",2,\"00:00:00.0000003\"]",
            "02000000 01000000 0300000000000000",
        ),
        (
            "(byte, int?, long, KeyValuePair<byte, short>, short)",
            "[1,2,3,{\"Key\":4,\"Value\":5},6]",
            "0300000000000000 0600 01 00 0100000002000000 04000500",
        ),
        (
            "((byte, int), byte)",
            "[[1,2],3]",
            "0300000000000000 0200000001000000",
        ),
        ("((byte, byte), byte)", "[[1,2],3]", "0300 0102"),
        (
            "(Int128, byte)",
            "[1,2]",
            "02000000000000000000000000000000 01000000000000000000000000000000",
        ),
        (
            "(TimeOnly, byte, O.T15)",
            "[\"00:00:00.0000001\",2,{\"A\":3,\"B\":4,\"C\":5}]",
            "0200000000000000 0100000000000000 0304050000000000",
        ),
        (
            "KeyValuePair<byte, (byte, byte)>",
            "{\"Key\":1,\"Value\":[2,3]}",
            "0100 0203",
        ),
        ("(byte, int)?", "[1,2]", "0100000000000000 0200000001000000"),
        (
            "KeyValuePair<byte, Guid>",
            "{\"Key\":1,\"Value\":\"00112233-4455-6677-8899-aabbccddeeff\"}",
            "01000000 33221100554477668899aabbccddeeff",
        ),
    ] {
        let blob = blob.replace(' ', "");
        let encoded = encode(&contract, CODEC, ty, json).map(|b| to_hex(&b));
        assert_eq!(encoded, Ok(blob.clone()), "{ty}");
        let shown = decode(&contract, CODEC, ty, &hex(&blob)).unwrap();
        let again = encode(&contract, CODEC, ty, &shown).map(|b| to_hex(&b));
        assert_eq!(again, Ok(blob), "{ty} {shown}");
    }
}

#[test]
fn nullable_results_come_in_two_forms() {
    let contract = more();
    for (ty, short, json) in [
        ("int?", "05000000", "5"),
        ("byte?", "07", "7"),
        ("bool?", "01", "true"),
        ("decimal?", "00000200000000009600000000000000", "1.50"),
        (
            "Guid?",
            "33221100554477668899aabbccddeeff",
            "\"00112233-4455-6677-8899-aabbccddeeff\"",
        ),
        (
            "DateTimeOffset?",
            "80891ca49f4edf0800d088c310000000",
            "\"2026-11-30T05:06:07+02:00\"",
        ),
        ("O.E1?", "0200", "2"),
        ("O.Label?", "0201000000ffffffff", "{\"X\":1,\"Text\":null}"),
        (
            "(int, string)?",
            "01000000ffffffff",
            "{\"Item1\":1,\"Item2\":null}",
        ),
    ] {
        let declared = encode(&contract, CODEC, ty, json).unwrap();
        assert_ne!(to_hex(&declared), short);
        for blob in [declared, hex(short)] {
            assert_eq!(
                decode(&contract, CODEC, ty, &blob).as_deref(),
                Ok(json),
                "{ty}"
            );
        }
    }
    for blob in ["", "0000000000000000", "00a5a5a5ffffffff"] {
        assert_eq!(
            decode(&contract, CODEC, "int?", &hex(blob)).as_deref(),
            Ok("null")
        );
    }
    assert_eq!(
        decode(&contract, CODEC, "O.Label?", &hex("ff")).as_deref(),
        Ok("null")
    );
}

#[test]
fn what_dotnet_reads_is_read() {
    let contract = more();
    for (ty, blob, json) in [
        ("int", "05000000ff", "5"),
        ("bool", "02", "true"),
        ("string", "010000006100", "\"a\""),
        ("string", "feffffff0000000061", "\"a\""),
        ("HashSet<int>", "020000000100000001000000", "[1,1]"),
        ("O.B0", "0105000000", "{\"Z\":5,\"A\":0}"),
        ("O.B0", "00", "{\"Z\":0,\"A\":0}"),
        ("O.B0", "ff", "null"),
        (
            "O.VT",
            "00",
            "{\"A\":\"0001-01-01T00:00:00+00:00\",\"B\":null,\"C\":null}",
        ),
        (
            "O.VTS",
            "03040404050000000000000009000000",
            "{\"A\":5,\"C\":\"\"}",
        ),
        ("O.VTS", "020009feffffff0100000061", "{\"A\":0,\"C\":\"a\"}"),
        ("O.VTS", "ff", "{\"A\":0,\"C\":null}"),
        ("O.E1", "6300", "99"),
        ("List<int>", "ffffffff", "null"),
        ("Tuple<int, string>", "ff", "null"),
        ("int?", "02000000ffffffff", "-1"),
        (
            "KeyValuePair<byte, long>",
            "01aaaaaaaaaaaaaa0200000000000000",
            "{\"Key\":1,\"Value\":2}",
        ),
        ("int[,]", "ff", "null"),
        ("int[,]", "03000000000300000000000000", "[]"),
        ("Dictionary<string, int>", "ffffffff", "null"),
        ("DateTime", "00000000000000c0", "\"0001-01-01T00:00:00\""),
        // An older runtime's offset, with old memory behind it.
        (
            "DateTimeOffset[]",
            "01000000c4ffa5a5a5a5a5a500c061df9149de08",
            "[\"2026-01-01T23:00:00-01:00\"]",
        ),
    ] {
        let shown = decode(&contract, CODEC, ty, &hex(blob));
        assert_eq!(shown.as_deref(), Ok(json), "{ty} {blob}");
    }
}

#[test]
fn what_dotnet_does_not_read_is_an_error() {
    let contract = more();
    for (ty, blob) in [
        ("int", "0500"),
        ("string", "feffffff0200000061"),
        ("string", "feffffff01000000ff"),
        ("string", "0100000000d8"),
        (
            "Dictionary<int, string>",
            "0200000001000000feffffff010000006101000000feffffff0100000062",
        ),
        ("Dictionary<string, int>", "01000000ffffffff01000000"),
        ("O.B0", "03050000000600000007000000"),
        ("O.B0", "fe"),
        ("O.VTS", "0200040000"),
        ("O.VTS", "0104050000"),
        ("O.Bare", "0105000000"),
        ("DateTime", "ffffffffffffffff"),
        ("DateOnly", "ffffffff"),
        ("TimeOnly", "ffffffffffffffff"),
        ("decimal", "00001d00000000009600000000000000"),
        ("DateTimeOffset", "00000000000000000100000000000000"),
        (
            "DateTimeOffset[]",
            "0100000000000000000000000000000000000080",
        ),
        ("Version", "0101000000"),
        ("Version", "0401000000ffffffffffffffffffffffff"),
        ("int[,]", "03010000000300000002000000010000000200000000"),
        ("int[,]", "0100000000"),
        ("Tuple<int, string>", "0101000000"),
        ("Tuple<int, string>", "0301000000ffffffff00000000"),
        ("List<int>", "ffffff7f"),
        ("List<string>", "ffffff7f"),
        ("List<int>", "feffffff"),
        ("Action", "00"),
        ("Demo.Unknown", "00"),
    ] {
        let blob = hex(blob);
        assert!(
            decode(&contract, CODEC, ty, &blob).is_err(),
            "{ty} {}",
            to_hex(&blob)
        );
    }
    for (ty, json, message) in [
        (
            "O.Bare",
            "{\"X\":1}",
            "O.Bare has no MemoryPack layout: add \"memorypack\" to it in the contract, as the C# type has [MemoryPackable]",
        ),
        (
            "O.Plain",
            "{\"A\":1}",
            "O.Plain has no MemoryPack layout: add \"memorypack\" to it in the contract, as the C# type has [MemoryPackable]",
        ),
        (
            "Demo.Unknown",
            "{}",
            "MemoryPack needs to know Demo.Unknown: declare the type in the contract",
        ),
        (
            "List<object>",
            "[5]",
            "[0]: MemoryPack can not hold an object",
        ),
    ] {
        assert_eq!(encode(&contract, CODEC, ty, json).unwrap_err(), message);
    }
    assert_eq!(
        decode(
            &contract,
            CODEC,
            "O.B1",
            &hex("030100000002000000feffffff0200000061")
        )
        .unwrap_err(),
        "M: a string says 2 UTF-16 units and has 1 (byte 13)"
    );
}

#[test]
fn depth_is_bounded() {
    let contract = shapes();
    let mut blob = vec![5, 1, 0, 0, 0];
    for _ in 0..2_000 {
        blob.extend_from_slice(&[1, 0, 0, 0, 5, 1, 0, 0, 0]);
    }
    let error = decode(&contract, CODEC, "Demo.Shapes.Tree", &blob).unwrap_err();
    assert!(
        error.contains("nested more than 256 levels deep"),
        "{error}"
    );
}

#[test]
fn what_doubles_again_and_again_ends() {
    let contract = Contract::builder("Demo.I")
        .declare(
            TypeDecl::structure("O.Twice<T>")
                .memorypack()
                .member("T A;")
                .member("T B;"),
        )
        .build()
        .unwrap();
    let ty = format!("{}int{}", "O.Twice<".repeat(30), ">".repeat(30));
    for codec in [CODEC, Codec::Json, Codec::MessagePack, Codec::Protobuf] {
        // What comes out does not matter, only that something does.
        let _ = decode(&contract, codec, &ty, b"{}");
        let _ = decode(
            &contract,
            codec,
            &format!("{ty}[]"),
            &[1, 0, 0, 0, 0xFF, 0xFF],
        );
    }
}

#[test]
fn deep_values_are_shown() {
    let contract = shapes();
    let leaf = hex("0501000000ffffffffffffffff")
        .into_iter()
        .chain([0; 40])
        .collect::<Vec<u8>>();
    let mut blob = leaf;
    for _ in 0..120 {
        let mut outer = hex("050200000001000000");
        outer.extend_from_slice(&blob);
        outer.extend_from_slice(&[0xFF; 4]);
        outer.extend_from_slice(&[0; 40]);
        blob = outer;
    }
    let shown = decode(&contract, CODEC, "Demo.Shapes.Tree", &blob).unwrap();
    assert_eq!(shown.matches("\"Children\":[").count(), 120);
    // On the wire of JSON the reader of .NET would give up.
    let ty = contract.type_from_text("Demo.Shapes.Tree").unwrap();
    let value = CODEC.decode(&blob, &ty, contract.types()).unwrap();
    let mut out = Vec::new();
    let error = Codec::Json.encode(&mut out, &value, &ty, contract.types());
    assert!(
        error
            .unwrap_err()
            .to_string()
            .ends_with("nested more than 64 levels deep")
    );
}
