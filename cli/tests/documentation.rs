//! `docs/command-line.md` says what the command does.

mod common;

use common::run;

fn page() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/command-line.md");
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn every_option_is_on_the_page_and_no_other() {
    let page = page();
    let mut known = Vec::new();
    for command in ["call", "listen", "serve"] {
        let help = run([command, "--help"]).stdout;
        for word in help.split(|c: char| c.is_whitespace() || matches!(c, ',' | ':' | ';' | '[')) {
            if let Some(name) = word.strip_prefix("--").filter(|name| !name.is_empty()) {
                known.push(
                    name.trim_matches(|c: char| !c.is_ascii_lowercase())
                        .to_owned(),
                );
            }
        }
    }
    assert!(known.len() > 30);
    for option in known
        .iter()
        .filter(|o| !["help", "verbose"].contains(&o.as_str()))
    {
        assert!(
            page.contains(&format!("--{option}")),
            "--{option} is not on the page"
        );
    }
    for mention in page.split("`--").skip(1) {
        let name: String = mention
            .chars()
            .take_while(|c| c.is_ascii_lowercase() || *c == '-')
            .collect();
        assert!(
            name.is_empty() || known.contains(&name),
            "--{name} does not exist"
        );
    }
}

#[test]
fn every_exit_code_is_on_the_page() {
    let page = page();
    let help = run(["--help"]).stdout;
    let table = help.split("Exit codes:\n").nth(1).unwrap();
    assert_eq!(table.lines().count(), 15);
    for line in table.lines() {
        let code = line.split_whitespace().next().unwrap();
        assert!(page.contains(&format!("\n| {code} | ")), "code {code}");
    }
}
