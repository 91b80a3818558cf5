//! Generic methods and calls by name: the real binary against `witrpc serve --demo --composite`.

mod common;

use common::{run, serve};

const GENERIC: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../examples/demo-generic.witrpc.json"
);

#[test]
fn generic_methods_are_called_with_types() {
    let server = serve(&["--composite"]);
    for (line, arguments, expected) in [
        ("List<int> Twice<int>(int)", &["5"][..], "[5,5]"),
        (
            "List<T> Twice<T>(T v) where T = string",
            &["hello"],
            "[\"hello\",\"hello\"]",
        ),
        ("Task<Guid?> SameAsync<Guid?>(Guid?)", &["null"], "null"),
        (
            "string Pair<TA, TB>(TA a, TB b) where TA = int where TB = string",
            &["1", "b"],
            "\"Int32:1,String:b\"",
        ),
        ("int[] Arr<int>(int[])", &["[1,2]"], "[1,2]"),
        (
            "string Mixed<int>(Dictionary<string, int>)",
            &["{\"a\":1}"],
            "\"1 by Int32\"",
        ),
        ("string Over(List<int>)", &["[1]"], "\"plain\""),
        ("string Over<int>(List<int>)", &["[1]"], "\"generic Int32\""),
    ] {
        for form in ["weak", "strong"] {
            let mut words = vec![
                "call",
                &server.endpoint,
                "Demo.IGeneric",
                "--type-names",
                form,
                line,
            ];
            words.extend(arguments);
            let ended = run(words);
            assert_eq!(ended.stdout, format!("{expected}\n"), "{line}: {ended:?}");
        }
    }
    // With the contract the name is enough, and its types have short names.
    let person = "{\"Name\":\"Ann\",\"Age\":3,\"Favourite\":7}";
    let ended = run([
        "call",
        &server.endpoint,
        "Demo.IGeneric",
        "--contract",
        GENERIC,
        "Same<Person>",
        person,
    ]);
    assert_eq!(
        ended.stdout,
        "{\"Name\":\"Ann\",\"Age\":3,\"Favourite\":7,\"Home\":null,\"Tags\":null,\"Scores\":null,\"Photo\":null,\
         \"Born\":\"0001-01-01T00:00:00\",\"Height\":null}\n",
        "{ended:?}"
    );
}

#[test]
fn what_is_wrong_with_a_generic_call_is_said() {
    let server = serve(&["--composite"]);
    for (line, code, text) in [
        ("T Same<T>(T v)", 3, "no type is given for T of Same"),
        (
            "Preson Same<Preson>(Preson v)",
            3,
            "no type is given for Preson of Same",
        ),
        (
            "Demo.P Same<Demo.P>(Demo.P v)",
            3,
            "the assembly of Demo.P is not known",
        ),
        (
            "Same<int>",
            3,
            "expected the types of the parameters: Same<int>(...)",
        ),
        (
            "T Same<T>(T v) where U = int",
            3,
            "Same has no type parameter U",
        ),
        (
            "int Same<string>(int v)",
            9,
            "Method not found on any registered service",
        ),
    ] {
        let ended = run(["call", &server.endpoint, "Demo.IGeneric", line, "5"]);
        assert_eq!(ended.code, code, "{line}: {ended:?}");
        assert!(ended.stderr.contains(text), "{line}: {ended:?}");
    }
}

#[test]
fn ordinary_methods_go_by_name_where_asked_for() {
    let server = serve(&[]);
    for lookup in ["id", "id-or-name", "name"] {
        for form in ["weak", "strong"] {
            let call = |contract| {
                run([
                    "call",
                    &server.endpoint,
                    contract,
                    "--lookup",
                    lookup,
                    "--type-names",
                    form,
                    "int Add(int, int)",
                    "2",
                    "3",
                ])
            };
            assert_eq!(call("Demo.IEcho").stdout, "5\n", "{lookup} {form}");
            // Its ids are others.
            let base = call("Demo.IEchoBase");
            let expected = if lookup == "id" { ("", 9) } else { ("5\n", 0) };
            assert_eq!(
                (&*base.stdout, base.code),
                expected,
                "{lookup} {form}: {base:?}"
            );
        }
    }
    for option in ["--lookup", "--type-names"] {
        let ended = run([
            "call",
            &server.endpoint,
            "Demo.IEcho",
            option,
            "guess",
            "Ping()",
        ]);
        assert_eq!(ended.code, 2, "{ended:?}");
        assert!(ended.stderr.contains("\"guess\" is none of"), "{ended:?}");
    }
}
