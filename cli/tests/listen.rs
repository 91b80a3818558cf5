//! `witrpc listen`.

mod common;

use std::io::{BufRead, BufReader};

use common::{Running, call, run, serve, vacant};

const PROGRESS: &str = "event Action<int> Progress";

/// A listener, and its notes up to the one that it listens.
fn listen(endpoint: &str, args: &[&str]) -> (Running, BufReader<std::process::ChildStderr>) {
    let mut listener = Running::start([&["listen", endpoint, "Demo.IEcho"], args].concat());
    let mut notes = BufReader::new(listener.child.stderr.take().unwrap());
    wait_for_note(&mut notes, "listening at");
    (listener, notes)
}

fn wait_for_note(notes: &mut impl BufRead, what: &str) {
    let mut line = String::new();
    while !line.contains(what) {
        line.clear();
        assert!(notes.read_line(&mut line).unwrap() > 0, "no note {what}");
    }
}

#[test]
fn events_are_json_lines() {
    let server = serve(&[]);
    let (listener, _notes) = listen(
        &server.endpoint,
        &[
            PROGRESS,
            "Action<Demo.Person, string> PersonChanged",
            "--count",
            "4",
        ],
    );
    for args in [&["void RaiseMany(int)", "3"][..], &["void RaiseNull()"]] {
        assert_eq!(call(&server.endpoint, args).code, 0);
    }
    let ended = listener.ended();
    assert_eq!(ended.code, 0);
    let lines: Vec<_> = ended.stdout.lines().collect();
    assert_eq!(
        lines,
        [
            "{\"event\":\"Progress\",\"args\":[0]}",
            "{\"event\":\"Progress\",\"args\":[1]}",
            "{\"event\":\"Progress\",\"args\":[2]}",
            "{\"event\":\"PersonChanged\",\"args\":[null,null]}",
        ]
    );
}

#[test]
fn events_of_several_kinds_keep_their_order() {
    let server = serve(&[]);
    let (listener, _notes) = listen(
        &server.endpoint,
        &[
            "event Action<Demo.Person, string> PersonChanged",
            "event Action Nothing",
            PROGRESS,
            "--count",
            "60",
        ],
    );
    for n in 0..20 {
        for args in [
            &["void RaiseProgress(int)", &n.to_string()][..],
            &["void RaiseNothing()"],
            &["void RaiseNull()"],
        ] {
            assert_eq!(call(&server.endpoint, args).code, 0);
        }
    }
    let ended = listener.ended();
    let expected: Vec<_> = (0..20)
        .flat_map(|n| {
            [
                format!("{{\"event\":\"Progress\",\"args\":[{n}]}}"),
                "{\"event\":\"Nothing\",\"args\":[]}".to_owned(),
                "{\"event\":\"PersonChanged\",\"args\":[null,null]}".to_owned(),
            ]
        })
        .collect();
    assert_eq!(ended.stdout.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn what_a_slow_output_loses_is_counted() {
    const RAISED: usize = 20_000;
    let server = serve(&[]);
    let (mut listener, notes) = listen(&server.endpoint, &[PROGRESS, "--queue", "100"]);
    // Nobody reads what it prints meanwhile: more than fits into a pipe and the queue.
    let raised = call(
        &server.endpoint,
        &["void RaiseMany(int)", &RAISED.to_string()],
    );
    assert_eq!(raised.code, 0);
    let stdout = listener.child.stdout.take().unwrap();
    let mut seen: Vec<usize> = Vec::new();
    for line in BufReader::new(stdout).lines().map_while(Result::ok) {
        let number = line
            .strip_prefix("{\"event\":\"Progress\",\"args\":[")
            .unwrap();
        seen.push(number.trim_end_matches("]}").parse().unwrap());
        if seen.last() == Some(&(RAISED - 1)) {
            listener.signal("INT");
        }
    }
    assert!(seen.is_sorted_by(|a, b| a < b), "out of order");
    let lost = notes
        .lines()
        .map_while(Result::ok)
        .filter_map(|note| {
            let count = note.split_once("too slow: ")?.1.split_once(" events")?.0;
            count.parse::<usize>().ok()
        })
        .last();
    assert_eq!(seen.len() + lost.unwrap(), RAISED);
}

#[test]
fn it_comes_back_after_an_outage() {
    let server = serve(&[]);
    let (listener, mut notes) = listen(
        &server.endpoint,
        &[
            PROGRESS,
            "--count",
            "2",
            "--reconnect",
            "initial_delay=20ms",
        ],
    );
    assert_eq!(
        call(&server.endpoint, &["void RaiseProgress(int)", "1"]).code,
        0
    );
    let endpoint = server.endpoint.clone();
    drop(server);
    wait_for_note(&mut notes, "reconnecting: attempt 1 in 20");
    let server = common::serve_at(&endpoint, &[]);
    wait_for_note(&mut notes, "connected again");
    assert_eq!(
        call(&server.endpoint, &["void RaiseProgress(int)", "2"]).code,
        0
    );
    let ended = listener.ended();
    assert_eq!(ended.code, 0);
    assert_eq!(ended.stdout.lines().count(), 2);
}

#[test]
fn it_ends_with_the_reason() {
    let ended = run([
        "listen",
        &vacant(),
        "Demo.IEcho",
        PROGRESS,
        "--reconnect=off",
    ]);
    assert_eq!(ended.code, 4, "{ended:?}");
    let ended = run(["listen", &vacant(), "Demo.IEcho", "Progress"]);
    assert_eq!(ended.code, 3, "{ended:?}");
    assert!(ended.stderr.contains("event \"Progress\""), "{ended:?}");

    let server = serve(&[]);
    let (listener, mut notes) = listen(&server.endpoint, &[PROGRESS, "--reconnect=off"]);
    drop(server);
    wait_for_note(&mut notes, "the connection was lost");
    assert_eq!(listener.ended().code, 4);

    let server = serve(&[]);
    let (listener, _notes) = listen(&server.endpoint, &[PROGRESS]);
    listener.signal("INT");
    assert_eq!(listener.ended().code, 130);
}
