//! The grammar of method lines (`docs/method-lines.md`): what is accepted, what it means, and what
//! the errors say.
#![allow(clippy::unwrap_used, clippy::panic)]

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use witrpc::contract::{Contract, Scalar, Type, TypeDecl};

fn open() -> Contract {
    Contract::open("Demo.IEcho").unwrap()
}

fn declared() -> Contract {
    Contract::builder("Demo.IEcho")
        .assembly("Demo.Contracts")
        .declare(TypeDecl::enumeration("Demo.Color").value("Red", 0))
        .declare(TypeDecl::structure("Demo.Point").member("int X;"))
        .declare(TypeDecl::class("Demo.Person").member("string? Name"))
        .declare(TypeDecl::class("Demo.Outer+Arg").member("int X"))
        .declare(TypeDecl::class("Demo.Box<T>").member("T? Value"))
        .declare(TypeDecl::class("Demo.Outer<A>+Inner<B>"))
        .declare(TypeDecl::class("A.Twin"))
        .declare(TypeDecl::class("B.Twin"))
        .declare(TypeDecl::delegate(
            "Demo.Handler<T>",
            "int percent, T? note",
        ))
        .build()
        .unwrap()
}

/// Parameter types of a line, by stable name.
fn params(contract: &Contract, line: &str) -> Vec<String> {
    contract
        .method(line)
        .unwrap_or_else(|e| panic!("{line}: {e}"))
        .params()
        .iter()
        .map(|param| param.ty().stable_name().unwrap())
        .collect()
}

fn error(contract: &Contract, line: &str) -> String {
    contract.method(line).unwrap_err().to_string()
}

#[test]
fn blanks_names_modifiers_attributes_defaults_and_bodies_do_not_matter() {
    let id = open().method("int Add(int a, int b)").unwrap().method_id();
    for line in [
        "Add(int,int)",
        "  int\tAdd ( int , int ) ;  ",
        "public int Add(int a, int b);",
        "public static async Task<int> Add(int a = 5, int b = (3 + 4) * 2);",
        "[Obsolete(\"a ] b\")] [X] public abstract int Add([In] int a, [Opt] params int b);",
        "int Add(this int a, scoped int b) => a + b;",
        "int Add(int a, int b) { return a + b; }",
        "System.Int32 Add(System.Int32 a, global::System.Int32 b)",
        "int Add(int @int, int @class)",
        "int /* sum */ Add(int a, // first\n int b)",
        "long Add(Int32 a, Int32 b)",
        "ref readonly int Add(int a, int b)",
        "int Add(int a, int b = '\\'')",
        "unsafe extern int Add(int a, int b = -1)",
        "partial int Add(int a, int b);",
    ] {
        assert_eq!(open().method(line).unwrap().method_id(), id, "{line}");
    }
}

#[test]
fn a_line_comes_back_in_one_form() {
    let contract = declared();
    for (line, form) in [
        ("public int Add(Int32 a,int b=5);", "int Add(int a, int b)"),
        ("Add(int,int)", "Add(int, int)"),
        ("Task<Person?> Find(Guid id)", "Demo.Person Find(Guid id)"),
        ("Task Delay(int ms)", "void Delay(int ms)"),
        ("T? Same<T>(T? v)", "T Same<T>(T v)"),
        (
            "T? Same<T>(T? v) where T : struct",
            "Nullable<T> Same<T>(Nullable<T> v)",
        ),
        ("int[][,] Grid(int[,][] x)", "int[][,] Grid(int[,][] x)"),
        (
            "void Out(out int x, ref Person? p)",
            "void Out(ref int x, ref Demo.Person p)",
        ),
        (
            "Outer<int>.Inner<string> X()",
            "Demo.Outer<int>+Inner<string> X()",
        ),
        ("(int a, string b) Pair()", "ValueTuple<int, string> Pair()"),
        ("Color? C(Point? p)", "Demo.Color? C(Demo.Point? p)"),
        ("ValueTask<int> Val()", "ValueTask<int> Val()"),
        (
            "IList Old(System.Collections.IList x)",
            "System.Collections.IList Old(System.Collections.IList x)",
        ),
    ] {
        let method = contract
            .method(line)
            .unwrap_or_else(|e| panic!("{line}: {e}"));
        assert_eq!(method.to_string(), form);
        let again = contract
            .method(form)
            .unwrap_or_else(|e| panic!("{form}: {e}"));
        assert_eq!(again.method_id(), method.method_id());
    }
}

#[test]
fn types_have_stable_names() {
    for (text, name) in [
        ("nint", "System.IntPtr"),
        ("dynamic", "System.Object"),
        ("Half", "System.Half"),
        ("UInt128", "System.UInt128"),
        ("DateTimeOffset?", "System.Nullable<System.DateTimeOffset>"),
        ("Nullable<int>", "System.Nullable<System.Int32>"),
        ("string?", "System.String"),
        ("int?[]?", "System.Nullable<System.Int32>[]"),
        ("int[,][]", "System.Int32[][]"),
        (
            "List<int>?",
            "System.Collections.Generic.List<System.Int32>",
        ),
        (
            "KeyValuePair<int,int>?",
            "System.Nullable<System.Collections.Generic.KeyValuePair<System.Int32,System.Int32>>",
        ),
        (
            "(int, string)?",
            "System.Nullable<System.ValueTuple<System.Int32,System.String>>",
        ),
        ("CancellationToken", "System.Threading.CancellationToken"),
        ("Task", "System.Threading.Tasks.Task"),
        (
            "ImmutableArray<int>?",
            "System.Nullable<System.Collections.Immutable.ImmutableArray<System.Int32>>",
        ),
        (
            "ConcurrentDictionary<string, Demo.X>",
            "System.Collections.Concurrent.ConcurrentDictionary<System.String,Demo.X>",
        ),
        ("Demo.Outer+Inner", "Demo.Outer+Inner"),
        ("Demo.Box<int>", "Demo.Box<System.Int32>"),
        ("Demo.Outer<int>+Inner", "Demo.Outer<System.Int32>"),
        ("global::Rootless", "Rootless"),
        (
            "(int, int, int, int, int, int, int, string, bool)",
            "System.ValueTuple<System.Int32,System.Int32,System.Int32,System.Int32,System.Int32,\
             System.Int32,System.Int32,System.ValueTuple<System.String,System.Boolean>>",
        ),
        ("Exception", "System.Exception"),
        ("EventHandler", "System.EventHandler"),
    ] {
        let ty = open()
            .type_from_text(text)
            .unwrap_or_else(|e| panic!("{text}: {e}"));
        assert_eq!(ty.stable_name().unwrap(), name, "{text}");
    }
}

#[test]
fn declared_types_have_short_names() {
    let contract = declared();
    assert_eq!(
        params(
            &contract,
            "X(Color, Color?, Person?, Demo.Person, Arg, Outer.Arg, Outer+Arg, Box<int>)"
        ),
        [
            "Demo.Color",
            "System.Nullable<Demo.Color>",
            "Demo.Person",
            "Demo.Person",
            "Demo.Outer+Arg",
            "Demo.Outer+Arg",
            "Demo.Outer+Arg",
            "Demo.Box<System.Int32>",
        ]
    );
    assert_eq!(
        error(&contract, "X(Twin t)"),
        "column 3: Twin can mean A.Twin or B.Twin: write it in full"
    );
    assert_eq!(
        params(&contract, "X(A.Twin t, B.Twin? u)"),
        ["A.Twin", "B.Twin"]
    );
}

#[test]
fn a_question_mark_needs_knowledge_except_where_no_id_depends_on_it() {
    let message = "column 8: nothing is known of Demo.X, so Demo.X? can mean two types: write \
                   Nullable<Demo.X> if it is a struct or an enum, Demo.X if it is a class";
    assert_eq!(
        error(&open(), "int Add(Demo.X? x)"),
        message.replace("column 8", "column 9")
    );
    assert_eq!(
        error(&open(), "A(List<Demo.X?> x)").split(':').next(),
        Some("column 8")
    );
    let lenient = open().method("Task<Demo.X?> Find(Guid id)").unwrap();
    assert_eq!(lenient.returns().to_string(), "Demo.X?");
    assert_eq!(
        lenient.returns().stable_name().unwrap_err().to_string(),
        "nothing is known of Demo.X?: declare the type in the contract"
    );
    assert_eq!(
        lenient.method_id(),
        open().method("Find(Guid)").unwrap().method_id()
    );
    let event = open().event("event Action<Demo.X?, int> Changed").unwrap();
    assert_eq!(event.args()[0].ty().to_string(), "Demo.X?");
    // A property's setter has it as a parameter.
    assert!(open().property("Demo.X? P { get; }").is_ok());
    assert!(open().property("Demo.X? P { get; set; }").is_err());
    let generic = open().method("T? Same<T>(T? v)").unwrap();
    assert_eq!(generic.params()[0].ty(), &Type::Parameter(0));
    let generic = open()
        .method("T? Same<T>(T? v) where T : unmanaged, IFoo<T>")
        .unwrap();
    assert!(matches!(generic.params()[0].ty(), Type::Nullable(_)));
}

#[test]
fn by_reference_parameters_have_an_ampersand() {
    assert_eq!(
        params(
            &open(),
            "void A(ref int a, out string b, in Demo.X[] c, ref readonly Guid d)"
        ),
        [
            "System.Int32&",
            "System.String&",
            "Demo.X[]&",
            "System.Guid&"
        ]
    );
    let method = open().method("void A(ref List<int> a)").unwrap();
    assert_eq!(
        method.method_id(),
        0,
        "the .NET name depends on the runtime"
    );
    assert_eq!(
        method.param_type_names().unwrap()[0].qualified(),
        "System.Collections.Generic.List`1[[System.Int32, System.Private.CoreLib]]&, \
         System.Private.CoreLib"
    );
}

#[test]
fn tasks_are_what_they_hold_and_value_tasks_are_not() {
    let returns = |line: &str| open().method(line).unwrap().returns().clone();
    assert_eq!(returns("void A()"), Type::Void);
    assert_eq!(returns("Task A()"), Type::Void);
    assert_eq!(returns("Task? A()"), Type::Void);
    assert_eq!(returns("Task<int> A()"), Type::Scalar(Scalar::Int32));
    assert_eq!(
        returns("System.Threading.Tasks.Task<int>? A()"),
        Type::Scalar(Scalar::Int32)
    );
    assert_eq!(returns("ValueTask<int> A()").to_string(), "ValueTask<int>");
    assert_eq!(returns("A()"), Type::Untyped);
}

#[test]
fn events_have_the_arguments_of_their_delegate() {
    let contract = declared();
    let args = |line: &str| -> Vec<String> {
        let event = contract
            .event(line)
            .unwrap_or_else(|e| panic!("{line}: {e}"));
        event
            .args()
            .iter()
            .map(|arg| match arg.name() {
                Some(name) => format!("{} {name}", arg.ty()),
                None => arg.ty().to_string(),
            })
            .collect()
    };
    assert_eq!(args("event Action<int> Progress"), ["int"]);
    assert_eq!(
        args("public event Action<Person?, string?>? P;"),
        ["Demo.Person", "string"]
    );
    assert!(args("event Action Nothing;").is_empty());
    assert_eq!(args("event Func<int, bool, string> Ask"), ["int", "bool"]);
    assert_eq!(
        args("EventHandler Changed"),
        ["object sender", "EventArgs e"]
    );
    assert_eq!(
        args("event EventHandler<Demo.Args> Changed { add; remove; }"),
        ["object sender", "Demo.Args e"]
    );
    assert_eq!(
        args("event Handler<string> H"),
        ["int percent", "string note"]
    );
    assert_eq!(
        contract
            .event("event Demo.Unknown H")
            .unwrap_err()
            .to_string(),
        "column 7: Demo.Unknown is no known delegate: write Action<...> with the types of its \
         arguments, EventHandler or EventHandler<...>, or declare the delegate"
    );
    let event = contract.event("event Action<int?, Color> P").unwrap();
    let names: Vec<String> = event
        .arg_type_names()
        .unwrap()
        .iter()
        .map(|n| n.qualified())
        .collect();
    assert_eq!(
        names,
        [
            "System.Int32, System.Private.CoreLib",
            "Demo.Color, Demo.Contracts"
        ]
    );
}

#[test]
fn properties_are_two_methods() {
    let lines = |line: &str| -> Vec<String> {
        open()
            .property(line)
            .unwrap()
            .iter()
            .map(ToString::to_string)
            .collect()
    };
    assert_eq!(
        lines("public string Name { get; private set; } = \"x\";"),
        ["string get_Name()", "void set_Name(string value)"]
    );
    assert_eq!(lines("int X { get => 5; }"), ["int get_X()"]);
    assert_eq!(lines("int X => 5;"), ["int get_X()"]);
    assert_eq!(
        lines("int X { [A] get { return 5; } init; }"),
        ["int get_X()", "void set_X(int value)"]
    );
    assert_eq!(
        error(&open(), "string Name { get; set; }"),
        "column 1: Name is a property: its methods are get_Name() and set_Name(...)"
    );
}

#[test]
fn names_on_the_wire_have_the_assembly_of_each_type() {
    let contract = declared();
    for (text, name) in [
        ("Uri", "System.Uri, System.Private.Uri"),
        (
            "SortedDictionary<int, Uri>",
            "System.Collections.Generic.SortedDictionary`2[[System.Int32, System.Private.CoreLib],[System.Uri, System.Private.Uri]], System.Collections",
        ),
        (
            "Queue<int[]>",
            "System.Collections.Generic.Queue`1[[System.Int32[], System.Private.CoreLib]], System.Private.CoreLib",
        ),
        (
            "ObservableCollection<int>",
            "System.Collections.ObjectModel.ObservableCollection`1[[System.Int32, System.Private.CoreLib]], System.ObjectModel",
        ),
        (
            "ReadOnlyCollection<int>",
            "System.Collections.ObjectModel.ReadOnlyCollection`1[[System.Int32, System.Private.CoreLib]], System.Private.CoreLib",
        ),
        (
            "ConcurrentDictionary<int, int>",
            "System.Collections.Concurrent.ConcurrentDictionary`2[[System.Int32, System.Private.CoreLib],[System.Int32, System.Private.CoreLib]], System.Collections.Concurrent",
        ),
        (
            "ImmutableList<Color>",
            "System.Collections.Immutable.ImmutableList`1[[Demo.Color, Demo.Contracts]], System.Collections.Immutable",
        ),
        ("int[,][]", "System.Int32[][,], System.Private.CoreLib"),
        (
            "Demo.Outer<int>+Inner<Demo.X>",
            "Demo.Outer`1+Inner`1[[System.Int32, System.Private.CoreLib],[Demo.X, Demo.Contracts]], Demo.Contracts",
        ),
        (
            "(int, string)",
            "System.ValueTuple`2[[System.Int32, System.Private.CoreLib],[System.String, System.Private.CoreLib]], System.Private.CoreLib",
        ),
        ("object", "System.Object, System.Private.CoreLib"),
    ] {
        let ty = contract.type_from_text(text).unwrap();
        let wire = ty.wire_name(contract.types()).unwrap().qualified();
        assert_eq!(wire, name, "{text}");
        assert_eq!(contract.type_from_wire(&wire).unwrap(), ty, "{text}");
        // The same with what .NET adds to full names.
        let full = wire.replace(
            ", System.Private.CoreLib",
            ", System.Private.CoreLib, Version=10.0.0.0, Culture=neutral, PublicKeyToken=7cec85d7bea7798e",
        );
        assert_eq!(contract.type_from_wire(&full).unwrap(), ty, "{text}");
    }
    assert_eq!(
        contract.type_from_wire("System.Int32").unwrap(),
        Type::Scalar(Scalar::Int32)
    );
    assert_eq!(
        contract
            .type_from_wire("System.Collections.Generic.List`1[System.Int32]")
            .unwrap()
            .to_string(),
        "List<int>"
    );
    let foreign = contract.type_from_text("System.Unheard.Of").unwrap();
    assert!(foreign.wire_name(contract.types()).is_err());
    for bad in [
        "",
        ",",
        "A[",
        "A[[B]",
        "A[[B]]]",
        "A*",
        "[A]",
        "A`1[[B, x",
        "A[,",
    ] {
        assert!(contract.type_from_wire(bad).is_err(), "{bad}");
    }
    let deep = "A`1[".repeat(100_000);
    assert!(contract.type_from_wire(&deep).is_err());
}

#[test]
fn a_listing_contract_knows_its_methods() {
    let contract = Contract::builder("Demo.IEcho")
        .method("int Add(int a, int b)")
        .method("int Over(int a)")
        .method("int Over(string a)")
        .method("T Same<T>(T v)")
        .method("int[] Arr<T>(T[] v, Dictionary<string, T> d)")
        .event("Action<int> Progress")
        .build()
        .unwrap();
    assert_eq!(
        contract.method("Add").unwrap().to_string(),
        "int Add(int a, int b)"
    );
    assert_eq!(
        contract.method("Add(int,int)").unwrap().to_string(),
        "int Add(int a, int b)"
    );
    assert_eq!(
        contract.method("U Same<U>(U x)").unwrap().to_string(),
        "T Same<T>(T v)"
    );
    assert_eq!(
        error(&contract, "Over"),
        "column 1: Over has 2 overloads, write one of: int Over(int a); int Over(string a)"
    );
    assert_eq!(
        error(&contract, "Ad"),
        "column 1: Demo.IEcho has no method Ad"
    );
    assert_eq!(
        error(&contract, "Add(int)"),
        "column 1: Demo.IEcho has no method Add(int), but it has int Add(int a, int b)"
    );
    assert_eq!(
        contract.event("Progress").unwrap().to_string(),
        "event Action<int> Progress"
    );
    assert!(contract.event("event Action<string> Progress").is_err());
    assert!(contract.event("Prog").is_err());
    assert_eq!(
        error(&open(), "Add"),
        "column 4: expected the types of the parameters: Add(...)"
    );

    let id = contract.methods()[0].method_id();
    assert_eq!(contract.by_id(id).unwrap().name(), "Add");
    assert!(contract.by_id(1).is_none());
    assert_eq!(contract.overloads("Over").len(), 2);
    let int = Type::Scalar(Scalar::Int32);
    let string = Type::Scalar(Scalar::String);
    let find = |name: &str, params: &[Type], generics: &[Type]| {
        contract
            .by_signature(name, params, generics)
            .map(|m| m.to_string())
    };
    assert_eq!(
        find("add", &[int.clone(), int.clone()], &[]).as_deref(),
        Some("int Add(int a, int b)")
    );
    assert_eq!(
        find("Over", std::slice::from_ref(&string), &[]).as_deref(),
        Some("int Over(string a)")
    );
    assert_eq!(find("Over", &[], &[]), None);
    assert_eq!(
        find(
            "Same",
            std::slice::from_ref(&int),
            std::slice::from_ref(&int)
        )
        .as_deref(),
        Some("int Same<int>(int v)")
    );
    assert_eq!(
        find(
            "Same",
            std::slice::from_ref(&int),
            std::slice::from_ref(&string)
        ),
        None
    );
    let arrays = contract.type_from_text("int[]").unwrap();
    let map = contract.type_from_text("Dictionary<string, int>").unwrap();
    assert!(find("Arr", &[arrays, map], std::slice::from_ref(&int)).is_some());
}

#[test]
fn errors_say_where_and_what() {
    for (line, message) in [
        (
            "",
            "column 1: expected a method, an event or a property, the line ends",
        ),
        ("int Add(int a,)", "column 15: expected a type, found \")\""),
        (
            "int Add(int a int b)",
            "column 15: expected \",\" or \")\" after the parameter, found \"int\"",
        ),
        (
            "int Add(int a",
            "column 14: expected \",\" or \")\" after the parameter, the line ends",
        ),
        (
            "int Add)",
            "column 8: expected \"(\" of a method's parameters, found \")\"",
        ),
        (
            "int Add(int a) int",
            "column 16: expected the end of the line, found \"int\"",
        ),
        ("int Add(void a)", "column 9: void is a return type only"),
        ("int Add(int* a)", "column 12: a pointer can not travel"),
        ("int Add(int?? a)", "column 9: int?? is nullable twice"),
        (
            "int Add(Nullable<string> a)",
            "column 9: string is no value type: write string without Nullable",
        ),
        (
            "int Add((int) a)",
            "column 9: a tuple has at least two items",
        ),
        (
            "int Add(List<int, int> a)",
            "column 9: List has another number of type arguments",
        ),
        (
            "int Add(Guid<int> a)",
            "column 9: Guid<int> is neither a known framework type nor declared by the contract: write it with its namespace, such as My.Namespace.Guid<int>",
        ),
        (
            "int Add(Exception<int> a)",
            "column 9: Exception has no type arguments",
        ),
        (
            "int Add(Person p)",
            "column 9: Person is neither a known framework type nor declared by the contract: write it with its namespace, such as My.Namespace.Person",
        ),
        (
            "event Action<int> Progress",
            "column 1: Progress is an event, expected a method",
        ),
        (
            "Demo.Add(int a)",
            "column 1: expected a method's name without a type in front, found \"Demo.Add\"",
        ),
        (
            "(int, int)(int a)",
            "column 1: expected a method's name before \"(\", found \"(int, int)\"",
        ),
        (
            "Echo<int, T>(T a)",
            "column 11: T is neither a known framework type nor declared by the contract: write it with its namespace, such as My.Namespace.T",
        ),
        (
            "Echo<int, Demo.>(int a)",
            "column 16: expected a type, found \">\"",
        ),
        ("Echo<void>(int a)", "column 6: void is a return type only"),
        (
            "T Echo<T>(T a) where U = int",
            "column 22: Echo has no type parameter U",
        ),
        (
            "T Echo<T>(T a) where T = int where T = long",
            "column 36: T is given twice",
        ),
        (
            "T Echo<T, U>(T a, U b) where T = int",
            "column 11: U is not given: add \"where U = ...\"",
        ),
        (
            "T Echo<T>(T a) where T : struct where T = string",
            "column 1: T of Echo is a value type, and string is none",
        ),
        (
            "T Echo<T>(T a) where T = void",
            "column 26: void is a return type only",
        ),
        (
            "T Echo<T>(T a) where T int",
            "column 24: expected \":\" of a constraint or \"=\" of a type argument, found \"int\"",
        ),
        (
            "Echo<int>",
            "column 10: expected the types of the parameters: Echo<int>(...)",
        ),
        (
            "int Add(int a, string class)",
            "column 23: expected a name, found \"class\"",
        ),
        (
            "int Add(class x)",
            "column 9: expected a type, found \"class\"",
        ),
        (
            "int this[int i] { get; }",
            "column 5: expected a name: an indexer is called as get_Item(...) and set_Item(...), so write those, found \"this\"",
        ),
        ("int Add(int a = \"x)", "column 17: this literal has no end"),
        ("int Add(/* a)", "column 9: this comment has no end"),
        (
            "[Obsolete int Add()",
            "column 20: expected \"]\", the line ends",
        ),
        (
            "delegate int Add(int a)",
            "column 1: a delegate is no member: declare it among the contract's types",
        ),
        (
            "T Echo<T, T>(T v)",
            "column 1: there are two type parameters T",
        ),
        (
            "int Ädd(ärger x)",
            "column 9: ärger is neither a known framework type nor declared by the contract: write it with its namespace, such as My.Namespace.ärger",
        ),
    ] {
        assert_eq!(error(&open(), line), message, "{line}");
    }
    for name in [
        "",
        "Demo.",
        "(int, int)",
        "int[]",
        "Demo.IRepo<",
        "Demo.IRepo<Nope>",
    ] {
        assert!(Contract::open(name).is_err(), "{name}");
    }
    assert_eq!(
        Contract::open("Demo.IRepo<Nope>").unwrap_err().place(),
        "contract"
    );
}

#[test]
fn depth_and_length_are_bounded() {
    let contract = open();
    for line in [
        format!("A({}int{})", "List<".repeat(10_000), ">".repeat(10_000)),
        format!("A({}int, int{})", "(".repeat(10_000), ")".repeat(10_000)),
        format!("A(int{})", "[]".repeat(10_000)),
        format!("A(int{})", "[".repeat(10_000)),
        format!("A(int[{}])", ",".repeat(40)),
        format!("A(({}int))", "int, ".repeat(100)),
        "A(".to_owned() + &"int, ".repeat(20_000),
        "[".repeat(30_000),
    ] {
        assert!(contract.method(&line).is_err());
    }
    let deep = format!("A({}int{})", "List<".repeat(31), ">".repeat(31));
    assert!(contract.method(&deep).is_ok());
}

#[test]
fn garbage_never_panics() {
    const LINES: [&str; 11] = [
        "[ A ( 5 ) ] public int Add ( int a , ref string b = \"x\" ) ;",
        "Task < List < Demo.Person ? > > Find < T , U > ( T ? id , U [] more ) where T : struct",
        "event Action < int ? , ( Color a , Person b ) > Progress",
        "string Name { get ; set ; } = \"x\" ;",
        "Box < Outer . Arg > Wrap ( global::Demo.X + Y < int > @class , in Nullable < Guid > g )",
        "Dictionary < string , int [] [,] > Map ( params KeyValuePair < int , Uri > [] x )",
        "System.Collections.Generic.List`1[[System.Int32, System.Private.CoreLib]], X",
        "Echo ( Color ? , Point ? , Twin )",
        "B Wrap < A , B > ( Dictionary < A , B [] > d ) where A = int where B = List < Person >",
        "Box < int > Wrap < int , Person > ( int a , Person [] b )",
        "Guid Wrap < Guid > ( Guid a ) where Guid : class",
    ];
    const WORDS: [&str; 26] = [
        "int", "List", "<", ">", "(", ")", "[", "]", ",", "?", ".", "+", "event", "where", "{",
        "}", "=>", "/*", "\"", "'", "@", "é", "*", "void", "=", "T",
    ];
    let contracts = [open(), declared()];
    let mut rng = StdRng::seed_from_u64(7);
    let mut accepted = 0;
    for _ in 0..60_000 {
        let line = LINES[rng.random_range(0..LINES.len())];
        let mut words: Vec<&str> = line.split(' ').collect();
        for _ in 0..rng.random_range(0..4) {
            let at = rng.random_range(0..words.len());
            match rng.random_range(0..4) {
                0 if words.len() > 1 => drop(words.remove(at)),
                1 => words.insert(at, WORDS[rng.random_range(0..WORDS.len())]),
                2 => words[at] = WORDS[rng.random_range(0..WORDS.len())],
                _ => {
                    let other = rng.random_range(0..words.len());
                    words.swap(at, other);
                }
            }
        }
        let line = words.join(if rng.random() { " " } else { "" });
        for contract in &contracts {
            if let Ok(method) = contract.method(&line) {
                accepted += 1;
                // What is accepted has a form that means the same.
                let form = method.to_string();
                let again = contract
                    .method(&form)
                    .unwrap_or_else(|e| panic!("{line:?} gave {form:?}: {e}"));
                assert_eq!(again.method_id(), method.method_id(), "{line:?}");
                assert_eq!(again.generic_args(), method.generic_args(), "{line:?}");
                assert_eq!(again.is_open(), method.is_open(), "{line:?}");
            }
            let _ = contract.event(&line);
            let _ = contract.property(&line);
            let _ = contract.type_from_text(&line);
            let _ = contract.type_from_wire(&line);
        }
    }
    assert!(
        accepted > 2_000,
        "the fuzz reaches what is accepted: {accepted}"
    );
    for _ in 0..20_000 {
        let bytes: Vec<u8> = (0..rng.random_range(0..40)).map(|_| rng.random()).collect();
        let line = String::from_utf8_lossy(&bytes);
        let _ = contracts[1].method(&line);
        let _ = contracts[1].type_from_wire(&line);
    }
}
