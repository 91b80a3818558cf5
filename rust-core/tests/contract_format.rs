//! The exchange form `*.witrpc.json` (`docs/contract-format.md`): reading, writing, errors.
#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use witrpc::contract::{
    Contract, Form, MemberDecl, MemberKind, MemoryPackLayout, MessagePackLayout, ProtobufFormat,
    RecordDef, Scalar, TypeDecl, TypeKind,
};

fn shapes() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/shapes.witrpc.json");
    std::fs::read_to_string(path).unwrap()
}

fn record<'a>(contract: &'a Contract, name: &str) -> &'a RecordDef {
    match contract.types().get(name).unwrap().kind() {
        TypeKind::Record(record) => record,
        _ => panic!("{name} is no record"),
    }
}

fn error(json: &str) -> String {
    Contract::from_json(json).unwrap_err().to_string()
}

/// The error of a contract with these types.
fn type_error(types: &str) -> String {
    error(&format!(
        "{{\"contract\": \"Demo.I\", \"types\": [{types}]}}"
    ))
}

#[test]
fn the_example_is_the_whole_contract_of_the_peer() {
    let contract = common::echo();
    assert_eq!(contract.name(), "Demo.IEcho");
    assert_eq!(contract.assembly(), Some("Demo.Contracts"));
    assert!(!contract.is_open());
    // 71 methods, one property and four events, as the vectors of ids have them.
    assert_eq!(contract.methods().len(), 74);
    assert_eq!(contract.events().len(), 4);
    let person = record(&contract, "Demo.Person");
    assert_eq!(person.members().len(), 9);
    assert_eq!(person.members()[4].ty().to_string(), "List<string>");
    assert!(matches!(person.memorypack(), MemoryPackLayout::Object(order) if order.len() == 9));
    assert_eq!(person.protobuf().unwrap().fields()[8].number(), 9);
    assert!(matches!(
        record(&contract, "Demo.ProgressArgs").memorypack(),
        MemoryPackLayout::None
    ));
}

#[test]
fn documents_come_back_as_they_were() {
    for text in [
        shapes(),
        std::fs::read_to_string(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../examples/demo-echo.witrpc.json"
        ))
        .unwrap(),
    ] {
        let contract = Contract::from_json(&text).unwrap();
        let written = contract.to_json();
        let expected: serde_json::Value = serde_json::from_str(&text).unwrap();
        let actual: serde_json::Value = serde_json::from_str(&written).unwrap();
        assert_eq!(actual, expected);
        assert_eq!(Contract::from_json(&written).unwrap().to_json(), written);
    }
}

#[test]
fn layouts_are_what_the_document_says() {
    let contract = Contract::from_json(&shapes()).unwrap();
    let layout = |name: &str| record(&contract, name);
    assert!(matches!(
        layout("Demo.Shapes.Tolerant").memorypack(),
        MemoryPackLayout::VersionTolerant(slots) if *slots == [Some(0), Some(1), None, Some(2)]
    ));
    assert!(matches!(
        layout("Demo.Shapes.Ordered").memorypack(),
        MemoryPackLayout::Object(order) if *order == [1, 0]
    ));
    let point = layout("Demo.Shapes.Point");
    assert_eq!(point.form(), Form::Struct);
    assert_eq!(point.members()[0].kind(), MemberKind::Field);
    assert!(point.json_members().is_empty());
    let shape = layout("Demo.Shapes.IShape");
    assert!(shape.is_abstract());
    match shape.memorypack() {
        MemoryPackLayout::Union(tags) => {
            let tags: Vec<(u16, String)> = tags
                .iter()
                .map(|(tag, ty)| (*tag, ty.to_string()))
                .collect();
            let expected = [
                (0, "Demo.Shapes.Circle"),
                (5, "Demo.Shapes.Square"),
                (300, "Demo.Shapes.Blob"),
            ];
            assert_eq!(tags, expected.map(|(tag, name)| (tag, name.to_owned())));
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(
        layout("Demo.Shapes.Named").messagepack(),
        MessagePackLayout::Map(names) if &*names[1].0 == "Count"
    ));
    let gaps = layout("Demo.Shapes.Gaps");
    assert!(matches!(
        gaps.messagepack(),
        MessagePackLayout::Array(slots) if slots[..4] == [Some(0), Some(2), Some(3), Some(1)]
    ));
    let fields = gaps.protobuf().unwrap().fields();
    let numbers: Vec<u32> = fields.iter().map(|f| f.number()).collect();
    assert_eq!(numbers, [1, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
    assert_eq!(fields[1].format(), ProtobufFormat::ZigZag);
    assert_eq!(fields[2].format(), ProtobufFormat::Fixed);
    assert!(fields[3].is_packed());
    let derived = layout("Demo.Shapes.Derived");
    let names: Vec<&str> = derived.members().iter().map(|m| m.name()).collect();
    assert_eq!(
        (names.as_slice(), derived.inherited()),
        (["Id", "Extra"].as_slice(), 1)
    );
    assert_eq!(
        derived.json_members(),
        [1, 0],
        "own members come first in JSON"
    );
    assert_eq!(
        derived.protobuf().unwrap().fields().len(),
        1,
        "own fields only"
    );
    match contract.types().get("Demo.Shapes.Small").unwrap().kind() {
        TypeKind::Enum(def) => assert_eq!(def.underlying(), Scalar::Byte),
        _ => panic!(),
    }
    assert_eq!(
        contract
            .types()
            .get("Demo.Shapes.Box`1")
            .unwrap()
            .generics(),
        ["T"]
    );
}

#[test]
fn a_builder_makes_the_same() {
    let contract = Contract::builder("Demo.IX")
        .assembly("Demo")
        .declare(
            TypeDecl::enumeration("Demo.E")
                .underlying("byte")
                .flags()
                .json_names()
                .value("A", 1),
        )
        .declare(
            TypeDecl::class("Demo.C")
                .assembly("Other")
                .memorypack_version_tolerant()
                .messagepack()
                .protobuf()
                .member(
                    MemberDecl::new("int A")
                        .memorypack_order(0)
                        .messagepack_key(0)
                        .protobuf_field(1)
                        .protobuf_zigzag(),
                )
                .member(
                    MemberDecl::new("int B")
                        .memorypack_ignore()
                        .messagepack_ignore()
                        .protobuf_ignore()
                        .json(false),
                )
                .member(
                    MemberDecl::new("int[] P")
                        .memorypack_order(1)
                        .messagepack_key(1)
                        .protobuf_field(2)
                        .protobuf_fixed()
                        .protobuf_packed()
                        .json_name("p"),
                ),
        )
        .declare(TypeDecl::class("Demo.D").base("C").member("int X"))
        .declare(
            TypeDecl::interface("Demo.I")
                .memorypack_union(&[(0, "C"), (300, "D")])
                .messagepack_union(&[(1, "C")]),
        )
        .declare(
            TypeDecl::class("Demo.B")
                .is_abstract()
                .protobuf_includes(&[(5, "C")]),
        )
        .declare(
            TypeDecl::structure("Demo.S")
                .memorypack()
                .messagepack_names()
                .member(MemberDecl::new("int X;").messagepack_name("x").json(true)),
        )
        .declare(TypeDecl::delegate("Demo.H", "int a"))
        .method("int Add(int a)")
        .event("H Happened")
        .build()
        .unwrap();
    let document = r#"{
        "contract": "Demo.IX",
        "assembly": "Demo",
        "methods": ["int Add(int a)"],
        "events": ["H Happened"],
        "types": [
            {"enum": "Demo.E", "of": "byte", "flags": true, "json": "names", "values": {"A": 1}},
            {
                "class": "Demo.C",
                "assembly": "Other",
                "memorypack": "version-tolerant",
                "messagepack": "keys",
                "protobuf": "fields",
                "members": [
                    {"member": "int A", "memorypack": 0, "messagepack": 0, "protobuf": 1, "format": "zigzag"},
                    {"member": "int B", "json": false, "memorypack": false, "messagepack": false, "protobuf": false},
                    {"member": "int[] P", "json": "p", "memorypack": 1, "messagepack": 1, "protobuf": 2,
                     "format": "fixed", "packed": true}
                ]
            },
            {"class": "Demo.D", "base": "C", "members": ["int X"]},
            {"interface": "Demo.I", "memorypack": {"0": "C", "300": "D"}, "messagepack": {"1": "C"}},
            {"class": "Demo.B", "abstract": true, "protobuf": {"5": "C"}},
            {"struct": "Demo.S", "memorypack": "object", "messagepack": "names",
             "members": [{"member": "int X;", "json": true, "messagepack": "x"}]},
            {"delegate": "Demo.H", "params": "int a"}
        ]
    }"#;
    let expected: serde_json::Value = serde_json::from_str(document).unwrap();
    let actual: serde_json::Value = serde_json::from_str(&contract.to_json()).unwrap();
    assert_eq!(actual, expected);
    assert!(Contract::from_json(document).is_ok());
    let point = record(&contract, "Demo.S");
    assert_eq!(point.members()[0].json_name(), Some("X"));
    let hidden = record(&contract, "Demo.C");
    assert_eq!(hidden.json_members(), [0, 2]);
    assert_eq!(hidden.members()[2].json_name(), Some("p"));
}

#[test]
fn what_the_form_does_not_know_is_named_with_its_place() {
    assert_eq!(
        error("{\n  \"contract\": \"Demo.I\",\n  \"metods\": []\n}"),
        "line 3 column 10: unknown field `metods`, expected one of `$schema`, `contract`, \
         `assembly`, `defaults`, `methods`, `events`, `types`"
    );
    for (json, message) in [
        ("{}", "line 1 column 2: missing field `contract`"),
        (
            "5",
            "line 1 column 1: invalid type: integer `5`, expected struct Document",
        ),
        ("{\"contract\": 5}", "line 1 column 14: invalid type"),
        (
            "{\"contract\": \"Demo.I\"} x",
            "line 1 column 24: trailing characters",
        ),
        (
            "{\"contract\": \"Demo.I\", \"defaults\": {\"memory\": 1}}",
            "line 1 column 44: unknown field `memory`",
        ),
        (
            "{\"contract\": \"Demo.I\", \"contract\": \"Demo.J\"}",
            "line 1 column 33: duplicate field `contract`",
        ),
    ] {
        assert!(error(json).starts_with(message), "{json}: {}", error(json));
    }
    for (types, message) in [
        (
            "{\"class\": \"Demo.C\", \"member\": []}",
            "line 1 column 61: unknown field `member`",
        ),
        (
            "{\"class\": \"Demo.C\", \"members\": [{\"member\": \"int X\", \"keys\": 1}]}",
            "line 1 column 91: unknown field `keys`",
        ),
        (
            "{\"class\": \"Demo.C\", \"members\": [true]}",
            "line 1 column 69: invalid type: boolean `true`, expected a line such as \"string Name\"",
        ),
        (
            "{\"enum\": \"Demo.E\", \"values\": {\"A\": \"x\"}}",
            "line 1 column 69: invalid number",
        ),
    ] {
        assert!(
            type_error(types).starts_with(message),
            "{types}: {}",
            type_error(types)
        );
    }
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    for (types, message) in [
        (
            "{}",
            "types[0]: a type has exactly one of \"enum\", \"class\", \"struct\", \"interface\" and \"delegate\", with its name",
        ),
        (
            "{\"class\": \"Demo.C\", \"enum\": \"Demo.C\"}",
            "types[0]: a type has exactly one of",
        ),
        (
            "{\"class\": \"Demo.C\"}, {\"class\": \"Demo.C\"}",
            "types[1] \"Demo.C\": Demo.C is declared twice",
        ),
        (
            "{\"class\": \"Demo.\"}",
            "types[0] \"Demo.\": column 6: expected a type, the line ends",
        ),
        (
            "{\"class\": \"int[]\"}",
            "types[0] \"int[]\": \"int[]\" is not the name of a type",
        ),
        (
            "{\"class\": \"Demo.Box<int[]>\"}",
            "types[0] \"Demo.Box<int[]>\": column 10: expected the name of a type parameter",
        ),
        (
            "{\"enum\": \"Demo.E<T>\"}",
            "types[0] \"Demo.E<T>\": an enum has no type parameters",
        ),
        (
            "{\"enum\": \"Demo.E\", \"members\": []}",
            "types[0] \"Demo.E\": \"members\" is not for enum types",
        ),
        (
            "{\"class\": \"Demo.C\", \"values\": {}}",
            "types[0] \"Demo.C\": \"values\" is not for class types",
        ),
        (
            "{\"enum\": \"Demo.E\", \"of\": \"string\"}",
            "types[0] \"Demo.E\": an enum is \"of\" an integer type such as \"byte\", not of \"string\"",
        ),
        (
            "{\"enum\": \"Demo.E\", \"of\": \"byte\", \"values\": {\"A\": 256}}",
            "types[0] \"Demo.E\": A is 256, which is no byte",
        ),
        (
            "{\"enum\": \"Demo.E\", \"values\": {\"A\": 1, \"A\": 2}}",
            "types[0] \"Demo.E\": the value A is there twice",
        ),
        (
            "{\"enum\": \"Demo.E\", \"json\": \"x\"}",
            "types[0] \"Demo.E\": \"json\" of an enum is \"names\" or left out, not \"x\"",
        ),
        (
            "{\"class\": \"Demo.C\", \"members\": [\"string\"]}",
            "types[0] \"Demo.C\" members[0]: \"string\" is not a member: write its type and its name, such as \"int Age\"",
        ),
        (
            "{\"class\": \"Demo.C\", \"members\": [\"Nope X\"]}",
            "types[0] \"Demo.C\" members[0]: column 1: Nope is neither",
        ),
        (
            "{\"class\": \"Demo.C\", \"members\": [\"int X\", \"string X\"]}",
            "types[0] \"Demo.C\": the member X is there twice",
        ),
        (
            "{\"class\": \"Demo.C\", \"members\": [{\"member\": \"int X\", \"json\": \"Y\"}, \"string Y\"]}",
            "types[0] \"Demo.C\": two members are called \"Y\" in JSON",
        ),
        (
            "{\"class\": \"Demo.C\", \"members\": [{\"member\": \"int X\", \"json\": 5}]}",
            "types[0] \"Demo.C\" members[0]: \"json\" is a name, true or false, not 5",
        ),
        (
            "{\"class\": \"Demo.C\", \"base\": \"Nope\"}",
            "types[0] \"Demo.C\" base: column 1: Nope is neither",
        ),
        (
            "{\"class\": \"Demo.C\", \"base\": \"string\"}",
            "types[0] \"Demo.C\": the base string is not a class that the contract declares",
        ),
        (
            "{\"class\": \"Demo.C\", \"base\": \"I\"}, {\"interface\": \"Demo.I\"}",
            "types[0] \"Demo.C\": the base Demo.I is not a class",
        ),
        (
            "{\"class\": \"Demo.C\", \"base\": \"D\"}, {\"class\": \"Demo.D\", \"base\": \"C\"}",
            "types[0] \"Demo.C\": its bases go round in a circle",
        ),
        (
            "{\"class\": \"Demo.C\", \"memorypack\": \"x\"}",
            "types[0] \"Demo.C\": \"memorypack\" is \"object\"",
        ),
        (
            "{\"class\": \"Demo.C\", \"messagepack\": true}",
            "types[0] \"Demo.C\": \"messagepack\" is \"keys\"",
        ),
        (
            "{\"class\": \"Demo.C\", \"protobuf\": 1}",
            "types[0] \"Demo.C\": \"protobuf\" is \"fields\"",
        ),
        (
            "{\"class\": \"Demo.C\", \"memorypack\": {\"x\": \"C\"}}",
            "types[0] \"Demo.C\": memorypack \"x\": a tag is a number",
        ),
        (
            "{\"class\": \"Demo.C\", \"memorypack\": {\"70000\": \"C\"}}",
            "types[0] \"Demo.C\": memorypack \"70000\": a tag is a number",
        ),
        (
            "{\"class\": \"Demo.C\", \"memorypack\": {\"1\": \"Nope\"}}",
            "types[0] \"Demo.C\": memorypack \"1\": column 1: Nope is neither",
        ),
        (
            "{\"class\": \"Demo.C\", \"memorypack\": {\"1\": 5}}",
            "types[0] \"Demo.C\": memorypack \"1\": expected the name of a type, found 5",
        ),
        (
            "{\"class\": \"Demo.C\", \"memorypack\": {\"1\": \"int\"}}",
            "types[0] \"Demo.C\": memorypack \"1\": the contract does not declare int",
        ),
        (
            "{\"class\": \"Demo.C\", \"messagepack\": \"keys\", \"members\": [{\"member\": \"int X\", \"messagepack\": 1}, \"int Y\"]}",
            "types[0] \"Demo.C\": some members have a messagepack number and Y has none",
        ),
        (
            "{\"class\": \"Demo.C\", \"messagepack\": \"keys\", \"members\": [{\"member\": \"int X\", \"messagepack\": 1}, {\"member\": \"int Y\", \"messagepack\": 1}]}",
            "types[0] \"Demo.C\" members[1]: the messagepack number 1 is taken",
        ),
        (
            "{\"class\": \"Demo.C\", \"messagepack\": \"keys\", \"members\": [{\"member\": \"int X\", \"messagepack\": 99999}]}",
            "types[0] \"Demo.C\" members[0]: \"messagepack\" is a number from 0 to 4095, or false, not 99999",
        ),
        (
            "{\"class\": \"Demo.C\", \"messagepack\": \"names\", \"members\": [{\"member\": \"int X\", \"messagepack\": \"Y\"}, \"int Y\"]}",
            "types[0] \"Demo.C\" members[1]: the MessagePack name \"Y\" is taken",
        ),
        (
            "{\"class\": \"Demo.C\", \"memorypack\": \"version-tolerant\", \"members\": [{\"member\": \"int X\", \"memorypack\": 249}]}",
            "types[0] \"Demo.C\" members[0]: \"memorypack\" is a number from 0 to 248, or false, not 249",
        ),
        (
            "{\"class\": \"Demo.C\", \"protobuf\": \"fields\", \"members\": [{\"member\": \"int X\", \"protobuf\": 0}]}",
            "types[0] \"Demo.C\" members[0]: \"protobuf\" is a field number from 1 to 536870911, or false, not 0",
        ),
        (
            "{\"class\": \"Demo.C\", \"protobuf\": \"fields\", \"members\": [{\"member\": \"int X\", \"protobuf\": 4}, {\"member\": \"int Y\", \"protobuf\": 4}]}",
            "types[0] \"Demo.C\" members[1]: the field number 4 is taken",
        ),
        (
            "{\"class\": \"Demo.C\", \"protobuf\": {\"1\": \"C\"}, \"members\": [\"int X\"]}",
            "types[0] \"Demo.C\" members[0]: the field number 1 is taken",
        ),
        (
            "{\"class\": \"Demo.C\", \"protobuf\": {\"0\": \"C\"}}",
            "types[0] \"Demo.C\": 0 is no field number",
        ),
        (
            "{\"class\": \"Demo.C\", \"protobuf\": \"fields\", \"members\": [{\"member\": \"int X\", \"format\": \"x\"}]}",
            "types[0] \"Demo.C\" members[0]: \"format\" is \"zigzag\" or \"fixed\", not \"x\"",
        ),
        (
            "{\"struct\": \"Demo.S\", \"members\": [\"S? X\"]}",
            "types[0] \"Demo.S\": the struct Demo.S contains itself",
        ),
        (
            "{\"struct\": \"Demo.S\", \"members\": [\"(int, T) X\"]}, {\"struct\": \"Demo.T\", \"members\": [\"KeyValuePair<int, S> Y\"]}",
            "types[0] \"Demo.S\": the struct Demo.S contains itself",
        ),
        (
            "{\"delegate\": \"Demo.H\", \"params\": \"int a b\"}",
            "types[0] \"Demo.H\" params: column 7: expected \",\" or the end, found \"b\"",
        ),
    ] {
        let actual = type_error(types);
        assert!(actual.starts_with(message), "{types}\n  {actual}");
    }
    for (part, message) in [
        (
            "\"methods\": [\"int Add(Nope a)\"]",
            "methods[0] \"int Add(Nope a)\": column 9: Nope is neither",
        ),
        (
            "\"methods\": [\"int Add(int a)\", \"Add(int)\"]",
            "methods[1] \"Add(int)\": Add is listed twice",
        ),
        (
            "\"methods\": [\"int Add(int[] a)\", \"Add(int[,] a)\"]",
            "methods[1] \"Add(int[,] a)\": it has the same id as int Add(int[] a)",
        ),
        (
            "\"methods\": [\"event Action X\"]",
            "methods[0] \"event Action X\": column 1: X is an event: list it among the events",
        ),
        (
            "\"methods\": [\"Add\"]",
            "methods[0] \"Add\": column 1: expected a method such as",
        ),
        (
            "\"events\": [\"int Add(int a)\"]",
            "events[0] \"int Add(int a)\": column 1: expected an event such as",
        ),
        (
            "\"events\": [\"Action X\", \"Action<int> X\"]",
            "events[1] \"Action<int> X\": X is listed twice",
        ),
        (
            "\"events\": [\"int X\"]",
            "events[0] \"int X\": column 1: int is no known delegate",
        ),
    ] {
        let actual = error(&format!("{{\"contract\": \"Demo.I\", {part}}}"));
        assert!(actual.starts_with(message), "{part}\n  {actual}");
    }
}

#[test]
fn defaults_are_for_types_with_values_of_their_own() {
    let contract = Contract::from_json(
        r#"{"contract": "Demo.I", "defaults": {"memorypack": "object", "protobuf": "fields"}, "types": [
            {"class": "Demo.A", "members": ["int X"]},
            {"class": "Demo.B", "memorypack": false},
            {"class": "Demo.C", "abstract": true},
            {"interface": "Demo.D"}]}"#,
    )
    .unwrap();
    let packable =
        |name: &str| !matches!(record(&contract, name).memorypack(), MemoryPackLayout::None);
    assert!(
        packable("Demo.A") && !packable("Demo.B") && !packable("Demo.C") && !packable("Demo.D")
    );
    assert!(record(&contract, "Demo.B").protobuf().is_some());
}

#[test]
fn generic_bases_give_closed_members() {
    let contract = Contract::from_json(
        r#"{"contract": "Demo.I", "types": [
            {"class": "Demo.A<T>", "members": ["T? Value", "List<T> Many"]},
            {"class": "Demo.B<U>", "base": "A<U[]>", "members": ["U Own"]},
            {"class": "Demo.C", "base": "B<int>", "members": ["string X"]}]}"#,
    )
    .unwrap();
    let members: Vec<String> = record(&contract, "Demo.C")
        .members()
        .iter()
        .map(|m| format!("{} {}", m.ty(), m.name()))
        .collect();
    assert_eq!(
        members,
        ["int[] Value", "List<int[]> Many", "int Own", "string X"]
    );
    assert_eq!(record(&contract, "Demo.C").json_members(), [3, 2, 0, 1]);
}

#[test]
fn structs_that_double_again_and_again_are_refused_in_time() {
    let mut types = vec!["{\"struct\": \"Demo.S0\", \"members\": [\"int A\"]}".to_owned()];
    for i in 1..60 {
        types.push(format!(
            "{{\"struct\": \"Demo.S{i}\", \"members\": [\"S{j} A\", \"S{j} B\"]}}",
            j = i - 1
        ));
    }
    assert!(type_error(&types.join(",")).contains("has more than 4096 fields"));
}

#[test]
fn generic_types_that_grow_without_end_are_refused() {
    assert_eq!(
        type_error("{\"class\": \"Demo.Node<T>\", \"members\": [\"Node<List<T>>? Next\"]}"),
        "types[0] \"Demo.Node<T>\": Demo.Node`1 leads to itself through Demo.Node<List<!0>> with ever \
         longer type arguments"
    );
    assert!(
        type_error(
            "{\"class\": \"Demo.A<T>\", \"members\": [\"List<B<(T, T)>> X\"]}, \
             {\"class\": \"Demo.B<T>\", \"members\": [\"A<T> Y\"]}"
        )
        .contains("ever longer")
    );
    for types in [
        "{\"class\": \"Demo.Node<T>\", \"members\": [\"Node<T>? Next\", \"List<Node<T>> More\"]}",
        "{\"class\": \"Demo.A<T>\", \"members\": [\"B<List<T>> X\"]}, {\"class\": \"Demo.B<T>\", \"members\": [\"T Y\"]}",
        "{\"class\": \"Demo.Tree\", \"members\": [\"Dictionary<string, List<Tree>> X\"]}",
    ] {
        let json = format!("{{\"contract\": \"Demo.I\", \"types\": [{types}]}}");
        Contract::from_json(&json).unwrap();
    }
}

#[test]
fn every_example_of_the_documentation_is_accepted() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/contract-format.md");
    let text = std::fs::read_to_string(path).unwrap();
    let mut seen = 0;
    for block in text.split("```json").skip(1) {
        let block = block.split("```").next().unwrap();
        for value in serde_json::Deserializer::from_str(block).into_iter::<serde_json::Value>() {
            let value = value.unwrap();
            let document = if value.get("contract").is_some() {
                value.to_string()
            } else {
                // With the types that it names.
                let own = value.to_string();
                let others = ["Circle", "Square", "Derived"]
                    .map(|name| format!("{{\"class\": \"Demo.{name}\"}}"))
                    .join(",");
                format!("{{\"contract\": \"Demo.I\", \"types\": [{own},{others}]}}")
            };
            Contract::from_json(&document).unwrap_or_else(|e| panic!("{document}\n{e}"));
            seen += 1;
        }
    }
    assert_eq!(seen, 6);
}
