//! `include/witrpc.h` is what cbindgen makes of the sources, with the version since when each item is
//! there, which `ffi/since.txt` remembers. `make header` writes both anew.

use std::collections::BTreeMap;
use std::path::Path;

/// Name of an item, and the version that it came with.
type Since = BTreeMap<String, String>;

#[test]
fn the_committed_header_is_the_generated_one() {
    let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    let header = crate_dir.join("../include/witrpc.h");
    let list = crate_dir.join("since.txt");
    let config = cbindgen::Config::from_file(crate_dir.join("cbindgen.toml")).unwrap();
    let mut generated = Vec::new();
    cbindgen::Builder::new()
        .with_crate(crate_dir)
        .with_config(config)
        .generate()
        .unwrap()
        .write(&mut generated);
    let remembered = read(&std::fs::read_to_string(&list).unwrap_or_default());
    let (generated, since) = with_versions(&String::from_utf8(generated).unwrap(), &remembered);
    if std::env::var_os("WITRPC_UPDATE_HEADER").is_some() {
        std::fs::write(&header, &generated).unwrap();
        std::fs::write(&list, write(&since)).unwrap();
    }
    let committed = std::fs::read_to_string(&header).unwrap_or_default();
    assert!(
        committed == generated,
        "include/witrpc.h is not up to date: run `make header`"
    );
    let committed = std::fs::read_to_string(&list).unwrap_or_default();
    assert!(
        committed == write(&since),
        "ffi/since.txt is not up to date: run `make header`"
    );
}

fn read(list: &str) -> Since {
    let pairs = list.lines().filter_map(|line| line.split_once(' '));
    pairs
        .map(|(name, version)| (name.into(), version.into()))
        .collect()
}

fn write(since: &Since) -> String {
    since
        .iter()
        .map(|(name, version)| format!("{name} {version}\n"))
        .collect()
}

/// The header with the version of each item at the end of its comment, and the versions of all items.
/// What is not remembered is new in this version. A member says it if it is younger than what it is a
/// member of.
fn with_versions(header: &str, remembered: &Since) -> (String, Since) {
    let lines: Vec<&str> = header.lines().collect();
    let (mut out, mut since) = (String::new(), Since::new());
    let mut owner = String::new();
    // Where the comment before this line begins.
    let mut comment = None;
    for (i, line) in lines.iter().enumerate() {
        let text = line.trim_start();
        if text.starts_with("/**") {
            comment = Some(i);
        }
        if !text.ends_with("*/") {
            out += line;
            out += "\n";
            continue;
        }
        let is_member = comment.is_some_and(|begin: usize| lines[begin].starts_with(' '));
        let after = lines[i + 1..].join("\n");
        let name = comment.take().and_then(|_| name_of(&after));
        let Some(name) = name else {
            out += line;
            out += "\n";
            continue;
        };
        let key = match is_member {
            // Those of enums are names of their own; those of structs are not.
            true if name.starts_with("WITRPC_") => name,
            true => format!("{owner}.{name}"),
            false => {
                owner.clone_from(&name);
                name
            }
        };
        let version = remembered.get(&key).cloned();
        let version = version.unwrap_or_else(|| env!("CARGO_PKG_VERSION").to_owned());
        let is_told = !is_member || since.get(&owner) != Some(&version);
        let body = line.strip_suffix("*/").unwrap_or(line);
        if !is_told {
            out += line;
        } else if text == "*/" {
            let indent = &line[..line.len() - text.len()];
            out += &format!("{indent}*\n{indent}* @since {version}\n{line}");
        } else {
            out += &format!("{body}@since {version} */");
        }
        out += "\n";
        since.insert(key, version);
    }
    (out, since)
}

/// What the declaration at the start of `text` declares.
fn name_of(text: &str) -> Option<String> {
    let text = text.trim_start();
    let is_ident = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let ident = |s: &str| s.chars().take_while(|c| is_ident(*c)).collect::<String>();
    for before in ["#define ", "typedef struct ", "enum "] {
        if let Some(rest) = text.strip_prefix(before) {
            return Some(ident(rest));
        }
    }
    // The comment of the file itself.
    if text.starts_with('#') {
        return None;
    }
    let end = text.find([';', ',', '=']).unwrap_or(text.len());
    let (head, rest) = text[..end].split_once('(').unwrap_or((&text[..end], ""));
    let name = match rest.strip_prefix('*') {
        Some(pointer_to_function) => ident(pointer_to_function),
        None => ident(head.trim_end().rsplit(|c| !is_ident(c)).next()?),
    };
    (!name.is_empty()).then_some(name)
}

#[test]
fn declarations_have_names() {
    assert_eq!(name_of("#ifndef WITRPC_H\n"), None);
    for (text, name) in [
        ("#define WITRPC_X 1\n", "WITRPC_X"),
        ("#define WITRPC_F() \\\n  1\n", "WITRPC_F"),
        ("enum witrpc_e\n#if 1\n", "witrpc_e"),
        ("typedef struct witrpc_s witrpc_s;", "witrpc_s"),
        ("WITRPC_OK = 0,", "WITRPC_OK"),
        ("size_t struct_size;", "struct_size"),
        ("const uint8_t *data;", "data"),
        (
            "int32_t witrpc_f(const struct witrpc_s *s, void (*destroy)(void *user_data));",
            "witrpc_f",
        ),
        (
            "typedef void (*witrpc_done)(void *user_data, int32_t status);",
            "witrpc_done",
        ),
        (
            "void (*on_event)(void *user_data, const struct witrpc_error *error);",
            "on_event",
        ),
        ("struct witrpc_s *witrpc_g(void);", "witrpc_g"),
        ("const char *witrpc_h(void);", "witrpc_h"),
    ] {
        assert_eq!(name_of(text).as_deref(), Some(name), "{text}");
    }
}
