//! `witrpc serve --demo`: starting, stopping, limits, faults.

mod common;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use common::{Running, call, json, run, scratch, serve, serve_at};

/// A connection that says nothing, and what comes of it.
fn silent(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(common::WATCHDOG)).unwrap();
    stream
}

#[test]
fn a_signal_lets_running_calls_finish() {
    for signal in ["INT", "TERM"] {
        let server = serve(&[]);
        let running = Running::start([
            "call",
            &server.endpoint,
            "Demo.IEcho",
            "int SlowAsync(int,int)",
            "500",
            "7",
        ]);
        server.wait_for("SlowAsync");
        server.process.signal(signal);
        let ended = running.ended();
        assert_eq!((ended.code, &*ended.stdout), (0, "7\n"), "{ended:?}");
        let mut server = server;
        assert_eq!(server.process.wait().code(), Some(0));
        assert_eq!(call(&server.endpoint, &["string Ping()"]).code, 4);
    }
}

#[test]
fn a_second_signal_ends_it_at_once() {
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        let mut server = serve(&[]);
        let running = Running::start([
            "call",
            &server.endpoint,
            "Demo.IEcho",
            "Task DelayAsync(int)",
            "-1",
        ]);
        server.wait_for("DelayAsync");
        let begun = Instant::now();
        server.process.signal(signal);
        // It has understood the first one when it no longer listens.
        while TcpStream::connect(("127.0.0.1", server.port())).is_ok() {
            std::thread::yield_now();
        }
        server.process.signal(signal);
        assert_eq!(server.process.wait().code(), Some(code));
        assert!(begun.elapsed() < Duration::from_secs(5));
        assert_eq!(running.ended().code, 6);
    }
}

#[test]
fn what_can_not_be_served_is_told() {
    let server = serve(&[]);
    let ended = run(["serve", "--demo", &server.endpoint]);
    assert_eq!(ended.code, 4, "{ended:?}");
    let expected = format!("witrpc: can't listen on {}: ", server.endpoint);
    assert!(
        ended.stderr.starts_with(&expected) && ended.stderr.contains("in use"),
        "{ended:?}"
    );
    let ended = run(["serve", "--demo", "tcp://127.0.0.1"]);
    assert_eq!(ended.code, 3, "{ended:?}");
    let ended = run([
        "serve",
        "--demo",
        "tcp://127.0.0.1:0",
        "--trace",
        "/no/such/dir/file",
    ]);
    assert_eq!(ended.code, 3, "{ended:?}");
    assert!(
        ended
            .stderr
            .contains("can't open the trace file /no/such/dir/file")
    );
}

#[test]
fn it_listens_on_several_endpoints() {
    let mut server = Running::start(["serve", "--demo", "tcp://127.0.0.1:0", "tcp://*:0"]);
    let mut stdout = std::io::BufReader::new(server.child.stdout.take().unwrap());
    for host in ["tcp://127.0.0.1:", "tcp://*:"] {
        let mut line = String::new();
        std::io::BufRead::read_line(&mut stdout, &mut line).unwrap();
        let port = line
            .trim_end()
            .strip_prefix(&format!("listening {host}"))
            .unwrap();
        assert_eq!(
            call(&format!("tcp://127.0.0.1:{port}"), &["string Ping()"]).code,
            0
        );
    }
}

#[test]
fn one_client_too_many_is_closed_at_once() {
    let server = serve(&["--max-clients", "1"]);
    let first = silent(server.port());
    assert_eq!(silent(server.port()).read(&mut [0; 8]).unwrap(), 0);
    assert_eq!(call(&server.endpoint, &["string Ping()"]).code, 4);
    drop(first);
    let begun = Instant::now();
    while call(&server.endpoint, &["string Ping()"]).code != 0 {
        assert!(begun.elapsed() < common::WATCHDOG);
    }
}

#[test]
fn a_silent_client_is_closed_after_the_handshake_timeout() {
    let server = serve(&["--handshake-timeout", "200ms"]);
    let begun = Instant::now();
    assert_eq!(silent(server.port()).read(&mut [0; 8]).unwrap(), 0);
    assert!(begun.elapsed() >= Duration::from_millis(200));
    let patient = serve(&["--handshake-timeout", "0"]);
    let mut stream = silent(patient.port());
    stream
        .set_read_timeout(Some(Duration::from_millis(300)))
        .unwrap();
    assert!(stream.read(&mut [0; 8]).is_err());
    stream.write_all(&[0; 4]).unwrap();
}

#[test]
fn calls_of_one_connection_run_side_by_side_or_in_order() {
    let count_while_waiting = |args: &[&str]| {
        let server = serve(args);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let client = witrpc::client::Client::builder(&server.endpoint)
                .build()
                .unwrap();
            client.connect().await.unwrap();
            let echo = client.service("Demo.IEcho").unwrap();
            let slow = echo
                .call::<i32>("int SlowAsync(int,int)", (300, 1))
                .into_future();
            let quick = echo.call::<i32>("int CountUp(int)", (1,)).into_future();
            let begun = Instant::now();
            quick.await.unwrap();
            let waited = begun.elapsed();
            slow.await.unwrap();
            waited
        })
    };
    assert!(count_while_waiting(&["--ordered"]) >= Duration::from_millis(290));
    assert!(count_while_waiting(&[]) < Duration::from_millis(290));
}

#[test]
fn it_can_serve_a_second_contract() {
    let args = ["Demo.Outer+IInner", "int Run(Demo.Outer+Arg)", "{\"X\":7}"];
    let server = serve(&["--composite"]);
    let ended = run([&["call", &server.endpoint][..], &args].concat());
    assert_eq!((ended.code, &*ended.stdout), (0, "7\n"), "{ended:?}");
    let ended = call(&server.endpoint, &["int Nope()"]);
    assert!(
        ended
            .stderr
            .contains("Method not found on any registered service, method name: Nope")
    );
    assert_eq!(server.executed(), ["Run"]);
    let server = serve(&[]);
    let ended = run([&["call", &server.endpoint][..], &args].concat());
    assert_eq!(ended.code, 9, "{ended:?}");
}

#[test]
fn the_trace_is_appended_to() {
    let file = scratch("kept");
    std::fs::write(&file, "before\n").unwrap();
    let mut server = Running::start([
        "serve",
        "--demo",
        "tcp://127.0.0.1:0",
        "--trace",
        file.to_str().unwrap(),
    ]);
    let mut stdout = std::io::BufReader::new(server.child.stdout.take().unwrap());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut stdout, &mut line).unwrap();
    let endpoint = line.trim_end().strip_prefix("listening ").unwrap();
    let id = "00112233-4455-6677-8899-aabbccddeeff";
    let args = ["int CountUp(int)", "1", "--invocation-id", id];
    assert_eq!(call(endpoint, &args).code, 0);
    assert_eq!(call(endpoint, &args).code, 0);
    let text = std::fs::read_to_string(&file).unwrap();
    assert_eq!(text, format!("before\nexec CountUp {id}\n"));
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn exit_after_ends_the_process_and_leaves_the_call_unanswered() {
    let mut server = serve(&["--exit-after", "2"]);
    assert_eq!(call(&server.endpoint, &["int CountUp(int)", "1"]).code, 0);
    assert_eq!(call(&server.endpoint, &["int CountUp(int)", "1"]).code, 6);
    assert_eq!(server.process.wait().code(), Some(137));
    assert_eq!(server.executed(), ["CountUp"; 2]);
}

#[test]
fn close_every_meets_each_nth_call() {
    let server = serve(&["--close-every", "3"]);
    let fast = "--reconnect=initial_delay=5ms,max_delay=5ms,stable_after=0";
    let args = [
        "int CountUp(int)",
        "1",
        "--repeat",
        "8",
        "--retry",
        fast,
        "--json",
    ];
    let ended = call(&server.endpoint, &args);
    assert_eq!(ended.code, 0, "{ended:?}");
    let results: Vec<_> = ended
        .stdout
        .split_inclusive('\n')
        .map(|line| json(line)["result"].as_i64().unwrap())
        .collect();
    assert_eq!(results, (1..=8).collect::<Vec<_>>());
    assert_eq!(server.executed().len(), 8);
}

#[test]
fn a_restarted_server_serves_on() {
    let mut server = serve(&["--exit-after", "1"]);
    assert_eq!(call(&server.endpoint, &["int CountUp(int)", "1"]).code, 6);
    server.process.wait();
    let again = serve_at(&server.endpoint, &[]);
    assert_eq!(
        call(&again.endpoint, &["int CountUp(int)", "1"]).stdout,
        "1\n"
    );
}
