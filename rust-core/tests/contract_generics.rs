//! Generic methods in method lines (`docs/method-lines.md`): open and closed lines, what they mean,
//! what they cover, and what can be a type argument.
#![allow(clippy::unwrap_used, clippy::panic)]

use witrpc::contract::{Contract, Type, TypeDecl};

fn open() -> Contract {
    Contract::open("Demo.IEcho").unwrap()
}

fn declared() -> Contract {
    Contract::builder("Demo.IEcho")
        .assembly("Demo.Contracts")
        .declare(TypeDecl::class("Demo.Person").member("string? Name"))
        .declare(TypeDecl::class("Demo.Box<T>").member("T? Value"))
        .build()
        .unwrap()
}

fn error(contract: &Contract, line: &str) -> String {
    contract.method(line).unwrap_err().to_string()
}

#[test]
fn generic_methods_travel_by_name_with_closed_types() {
    let contract = declared();
    let echo = contract
        .method("Task<Box<T>> Wrap<T, U>(T value, List<U> more, string name)")
        .unwrap();
    assert_eq!((echo.method_id(), echo.is_open()), (0, true));
    assert!(echo.param_type_names().is_err());
    let closed = echo.instantiate_named(&["int?", "Person"]).unwrap();
    assert_eq!(
        closed.to_string(),
        "Demo.Box<int?> Wrap<int?, Demo.Person>(int? value, List<Demo.Person> more, string name)"
    );
    let names = |names: Vec<witrpc::contract::TypeName>| -> Vec<String> {
        names.iter().map(|n| n.qualified()).collect()
    };
    assert_eq!(
        names(closed.generic_arg_names().unwrap()),
        [
            "System.Nullable`1[[System.Int32, System.Private.CoreLib]], System.Private.CoreLib",
            "Demo.Person, Demo.Contracts"
        ]
    );
    assert_eq!(
        names(closed.param_type_names().unwrap()),
        [
            "System.Nullable`1[[System.Int32, System.Private.CoreLib]], System.Private.CoreLib",
            "System.Collections.Generic.List`1[[Demo.Person, Demo.Contracts]], System.Private.CoreLib",
            "System.String, System.Private.CoreLib"
        ]
    );
    assert_eq!(
        echo.instantiate_named(&["int"]).unwrap_err().to_string(),
        "Wrap has 2 type parameters and got 1 type arguments"
    );
    assert_eq!(
        echo.instantiate_named(&["int", "Nope"])
            .unwrap_err()
            .to_string(),
        "type argument \"Nope\": column 1: Nope is neither a known framework type nor declared by \
         the contract: write it with its namespace, such as My.Namespace.Nope"
    );
    let constrained = contract.method("T? A<T>(T? v) where T : struct").unwrap();
    assert!(constrained.instantiate_named(&["string"]).is_err());
}

#[test]
fn a_line_can_give_type_arguments() {
    for (line, closed) in [
        ("int Echo<int>(int value)", "int Echo<int>(int value)"),
        ("Echo<int>(int)", "Echo<int>(int)"),
        (
            "T Echo<T>(T value) where T = int",
            "int Echo<int>(int value)",
        ),
        (
            "public Task<T?> Echo<T>(T? v, List<T[]> w) where T : struct where T = Guid;",
            "Guid? Echo<Guid>(Guid? v, List<Guid[]> w)",
        ),
        (
            "Pair<TA, TB>(TA a, Dictionary<string, TB> b) where TB = (int, string) where TA = int?",
            "Pair<int?, ValueTuple<int, string>>(int? a, Dictionary<string, ValueTuple<int, string>> b)",
        ),
        // A word that is a type is an argument, unless the line says otherwise.
        ("Guid Echo<Guid>(Guid value)", "Guid Echo<Guid>(Guid value)"),
        ("Echo<Person>(Person p)", "Echo<Demo.Person>(Demo.Person p)"),
        (
            "Version Echo<Version>(Version v) where Version = int",
            "int Echo<int>(int v)",
        ),
        (
            "Demo.Other Echo<Demo.Other>(Demo.Other v)",
            "Demo.Other Echo<Demo.Other>(Demo.Other v)",
        ),
        ("Make<List<int[]>>()", "Make<List<int[]>>()"),
    ] {
        let method = declared().method(line).unwrap();
        assert_eq!(method.to_string(), closed, "{line}");
        assert_eq!((method.method_id(), method.is_open()), (0, false));
        assert!(method.is_generic());
        assert_eq!(method.generic_arity(), method.generic_args().len());
        method.check_closed().unwrap();
        // What is shown can be read again.
        assert_eq!(
            declared().method(closed).unwrap().to_string(),
            closed,
            "{line}"
        );
    }
    let named_like_a_type = "Guid Echo<Guid>(Guid v) where Guid : notnull";
    let open = declared().method(named_like_a_type).unwrap();
    assert!(open.is_open());
    assert_eq!(open.to_string(), named_like_a_type);
    let open = declared().method("Preson Echo<Preson>(Preson p)").unwrap();
    assert!(open.is_open());
    assert_eq!(
        open.check_closed().unwrap_err().to_string(),
        "no type is given for Preson of Echo: write types instead of type parameters, as in int \
         Echo<int>(int value), or add \"where Preson = int\"; a type that the contract does not declare \
         is written with its namespace"
    );
}

#[test]
fn a_listing_contract_knows_which_generic_method_is_meant() {
    let contract = Contract::builder("Demo.IGeneric")
        .method("T Same<T>(T v)")
        .method("string Over(List<int> x)")
        .method("string Over<T>(List<T> x)")
        .method("string Over<T>(T[] x)")
        .method("string Twin<A, B>(A a)")
        .method("string Twin<A, B>(B b)")
        .method("T? Struct<T>(T? v) where T : struct")
        .build()
        .unwrap();
    for (line, closed) in [
        ("Same<int>", "int Same<int>(int v)"),
        ("Same<int>(int)", "int Same<int>(int v)"),
        (
            "U Same<U>(U x) where U = int[]",
            "int[] Same<int[]>(int[] v)",
        ),
        ("Over(List<int>)", "string Over(List<int> x)"),
        ("Over<int>(List<int>)", "string Over<int>(List<int> x)"),
        ("Over<int>(int[])", "string Over<int>(int[] x)"),
        ("Twin<int, string>(int)", "string Twin<int, string>(int a)"),
        ("Struct<int>", "int? Struct<int>(int? v)"),
    ] {
        assert_eq!(contract.method(line).unwrap().to_string(), closed, "{line}");
    }
    for (line, message) in [
        (
            "Over<int>",
            "column 1: Over<int> has 2 overloads, write one of: string Over<int>(List<int> x); \
             string Over<int>(int[] x)",
        ),
        (
            "Same<int, int>",
            "column 1: Demo.IGeneric has no method Same<int, int>, but it has T Same<T>(T v)",
        ),
        (
            "Same<int>(string)",
            "column 1: Demo.IGeneric has no method Same<int>(string), but it has T Same<T>(T v)",
        ),
        (
            "Twin<int, int>(int)",
            "column 1: with these type arguments there are several methods Twin<int, int>(int), which \
             no server can tell apart: string Twin<A, B>(A a); string Twin<A, B>(B b)",
        ),
        (
            "Struct<string>",
            "column 1: T of Struct is a value type, and string is none",
        ),
        (
            "Struct<int?>",
            "column 1: T of Struct is a value type, and int? is none",
        ),
        (
            "Same<T>",
            "column 6: T is neither a known framework type nor declared by the contract: write it \
             with its namespace, such as My.Namespace.T",
        ),
    ] {
        assert_eq!(error(&contract, line), message, "{line}");
    }
    let listed = Contract::builder("Demo.IGeneric")
        .method("int Same<int>(int v)")
        .build()
        .unwrap_err();
    assert_eq!(
        listed.to_string(),
        "methods[0] \"int Same<int>(int v)\": column 1: int Same<int>(int v) has type arguments: a \
         contract lists the open method, with type parameters such as T"
    );
}

#[test]
fn what_can_not_be_a_type_is_refused() {
    let method = open().method("int A<T>(List<Nullable<T>> v)").unwrap();
    assert!(method.instantiate_named(&["int"]).is_ok());
    assert_eq!(
        method
            .instantiate_named(&["string"])
            .unwrap_err()
            .to_string(),
        "Nullable<string>: string is no value type"
    );
    assert!(method.instantiate_named(&["int?"]).is_err());
    // What is deep enough with its argument only.
    let lists = |n: usize, of: &str| format!("{}{of}{}", "List<".repeat(n), ">".repeat(n));
    let deep = open().method(&format!("int A<T>({} v)", lists(20, "T")));
    let deep = deep.unwrap();
    assert!(deep.instantiate_named(&[&lists(11, "int")]).is_ok());
    assert_eq!(
        deep.instantiate_named(&[&lists(12, "int")])
            .unwrap_err()
            .to_string(),
        "with these type arguments a type is nested more than 32 levels deep"
    );
    // What only a foreign peer would send.
    let contract = open();
    let same = contract.method("T A<T>(T v)").unwrap();
    for name in [
        "System.Void",
        "System.Int32&",
        "System.Collections.Generic.List`1[[System.Void]]",
    ] {
        let ty = contract.type_from_wire(name).unwrap();
        let error = same.instantiate(&[ty]).unwrap_err().to_string();
        assert!(error.ends_with("is no type argument"), "{name}: {error}");
    }
}

#[test]
fn a_type_name_with_another_number_of_arguments_is_not_the_declared_type() {
    let contract = declared();
    for name in [
        "Demo.Box`1, Demo.Contracts",
        "Demo.Person[[System.Int32, System.Private.CoreLib]], Demo.Contracts",
    ] {
        let ty = contract.type_from_wire(name).unwrap();
        assert!(matches!(ty, Type::Named(_)), "{name}: {ty:?}");
    }
}

#[test]
fn a_method_covers_its_calls() {
    let contract = declared();
    let covers = |a: &str, b: &str| {
        let (a, b) = (contract.method(a).unwrap(), contract.method(b).unwrap());
        a.covers(&b)
    };
    assert!(covers("int Add(int a, int b)", "Add(int, int)"));
    assert!(!covers("Add(int, int)", "Add(int, long)"));
    assert!(!covers("Add(int[])", "Add(int[,])"));
    assert!(covers("T Echo<T>(T v)", "U Echo<U>(U x)"));
    assert!(covers("T Echo<T>(T v)", "Echo<int>(int)"));
    assert!(!covers("T Echo<T>(T v)", "Echo<int>(string)"));
    assert!(!covers("T Echo<T>(T v)", "Echo(int)"));
    assert!(covers("Echo<int>(int)", "T Echo<T>(T v) where T = int"));
    assert!(!covers("Echo<int>(int)", "T Echo<T>(T v)"));
    let other = Contract::open("Demo.IOther").unwrap();
    let same = other.method("Add(int, int)").unwrap();
    assert!(!contract.method("Add(int, int)").unwrap().covers(&same));
}
