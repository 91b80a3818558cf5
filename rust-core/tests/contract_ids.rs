//! Stable names, contract ids and method ids against those of a .NET peer, from C# lines.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::HashSet;

use serde::Deserialize;
use witrpc::contract::{Contract, TypeDecl, stable_id};

#[derive(Deserialize)]
struct Ids {
    types: Vec<TypeRow>,
    methods: Vec<MethodRow>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TypeRow {
    stable_name: String,
    contract_id: i64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MethodRow {
    contract: String,
    method: String,
    parameters: Vec<String>,
    method_id: i64,
}

fn ids() -> Ids {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/vectors/ids.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// The types of `ids.json`, in its order, as C# writes them.
const TYPES: [&str; 22] = [
    "Demo.IEcho",
    "Demo.IRepo<string>",
    "Demo.IRepo<List<Person>>",
    "Demo.Outer+IInner",
    "Demo.Outer+Arg",
    "int",
    "int?",
    "int[]",
    "int[][]",
    "int[,]",
    "List<int?>",
    "Dictionary<string, List<int[]>>",
    "(int count, string name)",
    "Tuple<int, Guid>",
    "object",
    "void",
    "Task<int>",
    "Demo.Person",
    "Color",
    "IEnumerable<KeyValuePair<string, object?>>",
    "Func<int, string>",
    "EventHandler<Demo.ProgressArgs>",
];

/// The members of `Demo.IEcho` as its C# source has them, in the order of `ids.json`.
const ECHO: &str = "
    string Ping();
    string? Echo(string? text);
    int Add(int a, int b);
    int AddOne(int a);
    long Big(long value);
    uint UInt(uint value);
    ulong ULong(ulong value);
    short Short(short value);
    ushort UShort(ushort value);
    byte Byte(byte value);
    sbyte SByte(sbyte value);
    bool Not(bool value);
    char Letter(char value);
    float Single(float value);
    double Double(double value);
    decimal Money(decimal value);
    Guid Id(Guid value);
    DateTime When(DateTime value);
    DateTimeOffset Offset(DateTimeOffset value);
    DateTimeOffset? MaybeOffset(DateTimeOffset? value);
    TimeSpan Span(TimeSpan value);
    DateOnly Day(DateOnly value);
    TimeOnly Clock(TimeOnly value);
    Uri? Link(Uri? value);
    Version? Ver(Version? value);
    Color Paint(Color value);
    Color? MaybePaint(Color? value);
    int? Maybe(int? value);
    Guid? MaybeId(Guid? value);
    bool? MaybeBool(bool? value);
    long? MaybeLong(long? value);
    double? MaybeDouble(double? value);
    decimal? MaybeMoney(decimal? value);
    DateTime? MaybeWhen(DateTime? value);
    byte[] Blob(byte[] value);
    int[] Ints(int[] value);
    string?[] Strings(string?[] value);
    double[] Doubles(double[] value);
    byte[][] Jagged(byte[][] value);
    List<int>? Find(List<int>? value);
    List<string>? Names(List<string>? value);
    HashSet<int>? Set(HashSet<int>? value);
    IReadOnlyList<int>? ReadOnly(IReadOnlyList<int>? value);
    IEnumerable<int>? Many(IEnumerable<int>? value);
    Dictionary<string, List<int>>? Map(Dictionary<string, List<int>>? value);
    Dictionary<int, string>? ByNumber(Dictionary<int, string>? value);
    KeyValuePair<string, int> Kvp(KeyValuePair<string, int> value);
    (int, string) Pair((int, string) value);
    Tuple<int, string>? Tup(Tuple<int, string>? value);
    Person? Describe(Person? value);
    List<Person>? People(List<Person>? value);
    Person[] PeopleArray(Person[] value);
    object? Anything(object? value);
    Task<string?> EchoAsync(string? text);
    Task<int> SlowAsync(int milliseconds, int result);
    int Slow(int milliseconds, int result);
    Task DelayAsync(int milliseconds);
    void Fire(string text);
    int Count();
    int CountUp(int by);
    string Fail(string message);
    Task<string> FailAsync(string message);
    Task FailTaskAsync(string message);
    string Name { get; set; }
    void RaiseProgress(int percent);
    void RaiseChanged(int percent, string note);
    void RaisePerson(Person person);
    void RaiseNothing();
    void RaiseMany(int count);
    void RaiseNull();
    int Overload(int a);
    int Overload(string a);
    string Overload(int a, string b);
";

const ECHO_EVENTS: [&str; 4] = [
    "event Action<int> Progress;",
    "event EventHandler<ProgressArgs> Changed;",
    "event Action<Person?, string?> PersonChanged;",
    "event Action Nothing;",
];

fn echo() -> Contract {
    let mut builder = Contract::builder("Demo.IEcho")
        .assembly("Demo.Contracts")
        .declare(TypeDecl::enumeration("Demo.Color"))
        .declare(TypeDecl::class("Demo.Person"))
        .declare(TypeDecl::class("Demo.ProgressArgs"));
    for line in ECHO.lines().map(str::trim).filter(|line| !line.is_empty()) {
        builder = builder.method(line);
    }
    for line in ECHO_EVENTS {
        builder = builder.event(line);
    }
    builder.build().unwrap()
}

#[test]
fn every_type_has_the_stable_name_and_id_of_the_peer() {
    let contract = echo();
    let rows = ids().types;
    assert_eq!(rows.len(), TYPES.len());
    for (row, text) in rows.iter().zip(TYPES) {
        let name = match text {
            // A return type only, so not a type that stands alone.
            "void" => contract
                .method("void Fire(string text)")
                .unwrap()
                .returns()
                .stable_name(),
            _ => contract.type_from_text(text).unwrap().stable_name(),
        };
        assert_eq!(name.unwrap(), row.stable_name, "{text}");
        assert_eq!(stable_id(&row.stable_name), row.contract_id, "{text}");
    }
}

#[test]
fn contracts_have_the_ids_of_the_peer() {
    let rows = ids().types;
    for (name, stable) in [
        ("Demo.IEcho", "Demo.IEcho"),
        ("Demo.IRepo<string>", "Demo.IRepo<System.String>"),
        ("Demo.IRepo<System.String>", "Demo.IRepo<System.String>"),
        (
            "Demo.IRepo<List<Demo.Person>>",
            "Demo.IRepo<System.Collections.Generic.List<Demo.Person>>",
        ),
        ("Demo.Outer+IInner", "Demo.Outer+IInner"),
    ] {
        let contract = Contract::open(name).unwrap();
        assert_eq!(contract.name(), stable);
        let row = rows.iter().find(|row| row.stable_name == stable).unwrap();
        assert_eq!(contract.id(), row.contract_id);
    }
}

#[test]
fn every_method_has_the_id_of_the_peer() {
    let contract = echo();
    let mut seen = HashSet::new();
    let rows = ids().methods;
    let listed: Vec<_> = contract.methods().iter().collect();
    let mut at = 0;
    for row in rows.iter().filter(|row| row.contract == "Demo.IEcho") {
        let method = contract.by_id(row.method_id);
        let method = method.unwrap_or_else(|| panic!("no method {} has its id", row.method));
        assert_eq!(method.name(), row.method);
        let names: Vec<String> = method
            .params()
            .iter()
            .map(|param| param.ty().stable_name().unwrap())
            .collect();
        assert_eq!(names, row.parameters, "{}", row.method);
        assert!(seen.insert(row.method_id));
        let accessor = row.method.starts_with("add_") || row.method.starts_with("remove_");
        assert_eq!(method.is_event_accessor(), accessor, "{}", row.method);
        if !accessor {
            assert_eq!(listed[at].to_string(), method.to_string());
            at += 1;
        }
        // A request without an id finds it by name and types.
        let types: Vec<_> = method.params().iter().map(|p| p.ty().clone()).collect();
        let name = row.method.to_uppercase();
        let found = contract.by_signature(&name, &types, &[]).unwrap();
        assert_eq!(found.method_id(), row.method_id, "{}", row.method);
    }
    assert_eq!(at, listed.len(), "every listed method has a row");
    assert_eq!(contract.event_accessors().len(), 8);
    for (contract, line) in [
        ("Demo.IRepo<string>", "void Put(string value)"),
        ("Demo.IRepo<string>", "string? Get()"),
        ("Demo.Outer+IInner", "int Run(Demo.Outer+Arg arg)"),
    ] {
        let method = Contract::open(contract).unwrap().method(line).unwrap();
        let row = rows
            .iter()
            .find(|row| row.contract == method.contract_name() && row.method == method.name())
            .unwrap();
        assert_eq!(method.method_id(), row.method_id, "{line}");
    }
    assert_eq!(seen.len() + 3, rows.len(), "every row was looked at");
}

#[test]
fn an_open_contract_gives_the_same_ids_without_declarations() {
    let contract = Contract::open("Demo.IEcho").unwrap();
    let rows = ids().methods;
    let id = |name: &str| {
        rows.iter()
            .find(|row| row.contract == "Demo.IEcho" && row.method == name)
            .unwrap()
            .method_id
    };
    for (line, name) in [
        ("Describe(Demo.Person)", "Describe"),
        ("Demo.Person? Describe(Demo.Person value);", "Describe"),
        (
            "Nullable<Demo.Color> MaybePaint(Nullable<Demo.Color>)",
            "MaybePaint",
        ),
        ("Pair((int, string))", "Pair"),
        (
            "Pair(System.ValueTuple<System.Int32, System.String> p)",
            "Pair",
        ),
        (
            "void add_Changed(EventHandler<Demo.ProgressArgs> value)",
            "add_Changed",
        ),
        (
            "remove_PersonChanged(Action<Demo.Person, string>)",
            "remove_PersonChanged",
        ),
        ("add_Nothing(Action)", "add_Nothing"),
        ("get_Name()", "get_Name"),
    ] {
        assert_eq!(
            contract.method(line).unwrap().method_id(),
            id(name),
            "{line}"
        );
    }
    let accessors = contract.property("string Name { get; set; }").unwrap();
    assert_eq!(accessors[0].method_id(), id("get_Name"));
    assert_eq!(accessors[1].method_id(), id("set_Name"));
}
