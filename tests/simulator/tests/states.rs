//! The state machine of a call is one table: in the docs, in the code, and in the model, which follows
//! the code's. That the code does what its table says is tested beside it.

use witrpc::resilience::dedup::states::TRANSITIONS;

fn documented() -> Vec<[String; 4]> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/exactly-once.md");
    let text = std::fs::read_to_string(path).expect("docs/exactly-once.md");
    let rows = text
        .lines()
        .skip_while(|line| !line.starts_with("| state | what happens |"))
        .skip(2)
        .take_while(|line| line.starts_with('|'));
    rows.map(|line| {
        let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
        let cells = <[&str; 4]>::try_from(cells).expect("four columns");
        cells.map(str::to_owned)
    })
    .collect()
}

#[test]
fn the_docs_show_the_state_machine_of_the_code() {
    let code: Vec<_> = TRANSITIONS
        .iter()
        .map(|row| {
            [
                row.from.to_string(),
                row.event.to_string(),
                row.reply.to_string(),
                row.to.to_string(),
            ]
        })
        .collect();
    for row in &code {
        println!("| {} |", row.join(" | "));
    }
    assert_eq!(documented(), code);
}
