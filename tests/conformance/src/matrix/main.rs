//! The matrix: {TCP, TLS, WebSocket, pipe} × codec × {plain, encrypted} × {without a token, with one} ×
//! {weak, strong} type names × {we are the client, we are the server}, against the live .NET peer.
//!
//!   witrpc-matrix [WORD...]   only the cells whose names hold all words, as `tls memorypack`
//!
//! Prints a table with the number of checks of each cell, what failed, and `N passed, M failed`, counted
//! in cells; stderr shows how far it is. wss:// is there where we are the server: the peer's server has none.

mod cell;
mod client;
mod server;
mod values;

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::time::Instant;

use cell::{CODECS, Cell, Role, Security, Transport};
use witrpc_conformance::peer::Peer;

/// Cells at the same time: the peer's processes take their time to start.
const WORKERS: usize = 4;

fn main() {
    let begun = Instant::now();
    let words: Vec<String> = std::env::args().skip(1).collect();
    let Some(peer) = Peer::find() else {
        println!("0 passed, 0 failed");
        return;
    };
    let wanted = |cell: &Cell| words.iter().all(|word| cell.name().contains(word.as_str()));
    let cells: Vec<Cell> = Cell::all().into_iter().filter(wanted).collect();
    let queue: Mutex<VecDeque<Cell>> = Mutex::new(cells.iter().copied().collect());
    let results = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                loop {
                    let next = queue.lock().expect("no panic inside").pop_front();
                    let Some(cell) = next else { return };
                    let run = AssertUnwindSafe(|| match cell.role {
                        Role::Client => client::run(peer, cell),
                        Role::Server => server::run(peer, cell),
                    });
                    let result = catch_unwind(run).unwrap_or_else(|_| Err("it panicked".into()));
                    eprintln!(
                        "{:>6.1?} {} {}",
                        begun.elapsed(),
                        if result.is_ok() { "ok" } else { "FAILED" },
                        cell.name()
                    );
                    results
                        .lock()
                        .expect("no panic inside")
                        .push((cell, result));
                }
            });
        }
    });
    let results = results.into_inner().expect("no panic inside");
    print(&results);
    let failed: Vec<_> = results.iter().filter(|(_, r)| r.is_err()).collect();
    for (cell, result) in &failed {
        if let Err(why) = result {
            println!("FAILED {}: {why}", cell.name());
        }
    }
    let checks: usize = results.iter().filter_map(|(_, r)| r.as_ref().ok()).sum();
    println!("{checks} checks in {:.0?}", begun.elapsed());
    println!(
        "{} passed, {} failed",
        results.len() - failed.len(),
        failed.len()
    );
    std::process::exit(i32::from(!failed.is_empty()));
}

/// The table: a line for transport, codec and role, a column for security and form of type names.
fn print(results: &[(Cell, Result<usize, String>)]) {
    print!("{:<10} {:<12} {:<10}", "transport", "codec", "we are the");
    for security in Security::ALL {
        print!(" | {:<15}", security.name());
    }
    print!("\n{:<34}", "");
    for _ in Security::ALL {
        print!(" | {:<7} {:<7}", "weak", "strong");
    }
    println!();
    for transport in Transport::ALL {
        for codec in CODECS {
            for role in [Role::Client, Role::Server] {
                let line: Vec<_> = results
                    .iter()
                    .filter(|(cell, _)| {
                        (cell.transport, cell.codec, cell.role) == (transport, codec, role)
                    })
                    .collect();
                if line.is_empty() {
                    continue;
                }
                print!(
                    "{:<10} {:<12} {:<10}",
                    transport.name(),
                    codec.name(),
                    role.name()
                );
                for security in Security::ALL {
                    print!(" |");
                    for strong in [false, true] {
                        let found = line
                            .iter()
                            .find(|(cell, _)| (cell.security, cell.strong) == (security, strong));
                        let text = match found {
                            Some((_, Ok(checks))) => format!("{checks} ok"),
                            Some((_, Err(_))) => "FAILED".to_owned(),
                            None => "-".to_owned(),
                        };
                        print!(" {text:<7}");
                    }
                }
                println!();
            }
        }
    }
}
