use super::*;

fn at(seconds: u64) -> Time {
    Time::ZERO + Duration::from_secs(seconds)
}

fn call(principal: &str, id: u128) -> CallId {
    CallId {
        principal: principal.into(),
        invocation: Uuid::from_u128(id),
        numbered: None,
        repeated: false,
        elsewhere: false,
    }
}

fn numbered(number: u64, first_unfinished: u64) -> CallId {
    CallId {
        numbered: Some(Numbered {
            client: Uuid::from_u128(99),
            number,
            first_unfinished,
        }),
        ..call("p", u128::from(number))
    }
}

fn run(table: &mut Table<u32>, now: Time, call: &CallId) -> Ticket {
    match table.begin(now, call, 1, 0, true) {
        Admission::New(ticket) => ticket,
        other => panic!("{call:?} was {other:?}"),
    }
}

fn answer(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

fn table(change: impl FnOnce(&mut DedupOptions)) -> Table<u32> {
    let mut options = DedupOptions::default();
    change(&mut options);
    Table::new(options)
}

#[test]
fn a_twin_attaches_while_it_runs_and_gets_the_stored_answer_afterwards() {
    let mut table = table(|_| {});
    let ticket = run(&mut table, at(0), &call("p", 1));
    assert_eq!(
        table.begin(at(1), &call("p", 1), 1, 7, true),
        Admission::Attached
    );
    assert_eq!(
        table.begin(at(1), &call("p", 1), 1, 8, true),
        Admission::Attached
    );
    assert_eq!(table.finish(at(2), ticket, &answer("a")), [7, 8]);
    assert_eq!(
        table.begin(at(3), &call("p", 1), 1, 9, true),
        Admission::Replay(answer("a"))
    );
    let stats = table.stats();
    assert_eq!(
        (stats.running, stats.done, stats.attached, stats.replayed),
        (0, 1, 2, 1)
    );
}

#[test]
fn an_abandoned_call_is_as_if_it_had_never_come() {
    let mut table = table(|_| {});
    let ticket = run(&mut table, at(0), &numbered(5, 5));
    assert_eq!(
        table.begin(at(0), &numbered(5, 5), 1, 7, true),
        Admission::Attached
    );
    assert_eq!(table.abandon(ticket), [7]);
    assert_eq!(table.stats().running, 0);
    // Also with other arguments: nothing is left to compare with.
    let Admission::New(ticket) = table.begin(at(1), &numbered(5, 5), 2, 0, true) else {
        panic!("it was remembered");
    };
    table.finish(at(1), ticket, &answer("a"));
    assert_eq!(
        table.begin(at(2), &numbered(5, 5), 2, 0, true),
        Admission::Replay(answer("a"))
    );
}

#[test]
fn another_caller_is_another_call_and_another_request_is_an_error() {
    let mut table = table(|_| {});
    let ticket = run(&mut table, at(0), &call("p", 1));
    run(&mut table, at(0), &call("q", 1));
    assert_eq!(
        table.begin(at(0), &call("p", 1), 2, 0, true),
        Admission::Mismatch
    );
    table.finish(at(0), ticket, &answer("a"));
    assert_eq!(
        table.begin(at(0), &call("p", 1), 2, 0, true),
        Admission::Mismatch
    );
}

#[test]
fn an_answer_is_held_for_its_time_and_not_longer() {
    let mut table = table(|_| {});
    let ticket = run(&mut table, at(0), &call("p", 1));
    table.finish(at(100), ticket, &answer("a"));
    assert_eq!(
        table.begin(at(699), &call("p", 1), 1, 0, true),
        Admission::Replay(answer("a"))
    );
    run(&mut table, at(700), &call("p", 1));
}

#[test]
fn under_pressure_the_oldest_answer_goes_and_its_twin_never_runs() {
    let mut table = table(|o| o.max_records = 3);
    let running = run(&mut table, at(0), &call("p", 1));
    for id in [2, 3] {
        let ticket = run(&mut table, at(1), &call("p", id));
        table.finish(at(u64::try_from(id).unwrap()), ticket, &answer("a"));
    }
    run(&mut table, at(4), &call("p", 4));
    assert_eq!(
        table.begin(at(5), &call("p", 2), 1, 0, true),
        Admission::OutcomeUnknown
    );
    assert_eq!(
        table.begin(at(5), &call("p", 3), 1, 0, true),
        Admission::Replay(answer("a"))
    );
    run(&mut table, at(6), &call("p", 5));
    // 1, 4 and 5 run: nothing can be given up.
    assert_eq!(
        table.begin(at(7), &call("p", 6), 1, 0, true),
        Admission::Full
    );
    // A tombstone of another caller's call is nobody else's business.
    table.finish(at(8), running, &answer("a"));
    run(&mut table, at(9), &call("q", 2));
    assert_eq!(table.stats().evicted, 3);
}

#[test]
fn bytes_are_bounded_and_a_big_answer_is_not_kept() {
    let mut table = table(|o| {
        o.max_bytes = 100;
        o.max_answer = 60;
    });
    let big = Bytes::from(vec![0; 61]);
    let ticket = run(&mut table, at(0), &call("p", 1));
    table.finish(at(0), ticket, &big);
    assert_eq!(
        table.begin(at(0), &call("p", 1), 1, 0, true),
        Admission::OutcomeUnknown
    );
    for id in 2..10 {
        let ticket = run(&mut table, at(1), &call("p", id));
        table.finish(at(1), ticket, &big.slice(..60));
        assert!(table.stats().bytes <= 100);
    }
    assert_eq!(
        table.begin(at(1), &call("p", 9), 1, 0, true),
        Admission::Replay(big.slice(..60))
    );
    assert_eq!(
        table.begin(at(1), &call("p", 8), 1, 0, true),
        Admission::OutcomeUnknown
    );
}

#[test]
fn tombstones_fall_when_the_answer_would_have_and_when_there_are_too_many() {
    let mut table = table(|o| {
        o.max_records = 1;
        o.max_tombstones = 2;
    });
    for id in 1..=4 {
        let ticket = run(&mut table, at(0), &call("p", id));
        table.finish(at(0), ticket, &answer("a"));
    }
    assert_eq!(table.stats().tombstones, 2);
    assert_eq!(
        table.begin(at(1), &call("p", 3), 1, 0, true),
        Admission::OutcomeUnknown
    );
    assert_eq!(
        table.begin(at(1), &call("p", 2), 1, 0, true),
        Admission::OutcomeUnknown
    );
    assert_eq!(
        table.begin(at(599), &call("p", 3), 1, 0, true),
        Admission::OutcomeUnknown
    );
    run(&mut table, at(600), &call("p", 3));
}

#[test]
fn below_the_mark_answers_are_released_and_calls_never_run() {
    let mut table = table(|_| {});
    for number in 1..=3 {
        let ticket = run(&mut table, at(0), &numbered(number, 1));
        table.finish(at(0), ticket, &answer("a"));
    }
    assert_eq!(
        table.begin(at(1), &numbered(3, 3), 1, 0, true),
        Admission::Replay(answer("a"))
    );
    assert_eq!((table.stats().done, table.stats().released), (1, 2));
    assert_eq!(
        table.begin(at(1), &numbered(2, 1), 1, 0, true),
        Admission::OutcomeUnknown
    );
    // The mark never goes back.
    assert_eq!(
        table.begin(at(1), &numbered(1, 0), 1, 0, true),
        Admission::OutcomeUnknown
    );
}

#[test]
fn a_call_whose_client_gave_up_is_not_kept_when_it_ends() {
    let mut table = table(|_| {});
    let ticket = run(&mut table, at(0), &numbered(1, 1));
    run(&mut table, at(0), &numbered(2, 2));
    assert!(table.finish(at(1), ticket, &answer("a")).is_empty());
    assert_eq!((table.stats().running, table.stats().done), (1, 0));
    assert_eq!(
        table.begin(at(1), &numbered(1, 1), 1, 0, true),
        Admission::OutcomeUnknown
    );
}

#[test]
fn beyond_the_bound_of_clients_records_live_by_time() {
    let mut table = table(|o| o.max_clients = 0);
    let ticket = run(&mut table, at(0), &numbered(1, 1));
    table.finish(at(0), ticket, &answer("a"));
    assert_eq!(
        table.begin(at(1), &numbered(1, 5), 1, 0, true),
        Admission::Replay(answer("a"))
    );
}

#[test]
fn memory_stays_flat_over_a_million_numbered_calls() {
    let mut table = table(|_| {});
    for number in 1..=1_000_000 {
        let ticket = run(&mut table, at(0), &numbered(number, number));
        table.finish(at(0), ticket, &answer("a"));
    }
    let stats = table.stats();
    assert_eq!((stats.done, stats.tombstones), (1, 0));
    assert!(table.records.len() <= 2);
}

#[test]
fn while_tombstones_gave_way_a_repeated_call_that_is_not_known_never_runs() {
    for max_tombstones in [0, 2] {
        let mut table = table(|o| {
            o.max_records = 1;
            o.max_tombstones = max_tombstones;
            o.hold = Duration::from_secs(100);
        });
        for n in 0..5 {
            let ticket = run(&mut table, at(n), &call("p", u128::from(n)));
            table.finish(at(n), ticket, &answer("a"));
        }
        // Of the first one nothing is left; a new call with another id still runs.
        let again = CallId {
            repeated: true,
            ..call("p", 0)
        };
        assert_eq!(
            table.begin(at(6), &again, 1, 0, true),
            Admission::OutcomeUnknown,
            "with {max_tombstones} tombstones"
        );
        let ticket = run(&mut table, at(6), &call("p", 77));
        table.finish(at(6), ticket, &answer("a"));
        // Once its answer would have been let go of, its client does not ask any more.
        let late = CallId {
            repeated: true,
            ..call("p", 78)
        };
        run(&mut table, at(106), &late);
    }
}

#[test]
fn without_room_a_repetition_is_welcome_and_a_new_call_leaves_nothing() {
    let mut table = table(|_| {});
    let ticket = run(&mut table, at(0), &call("p", 1));
    assert_eq!(
        table.begin(at(0), &call("p", 1), 1, 7, false),
        Admission::Attached
    );
    table.finish(at(0), ticket, &answer("a"));
    assert_eq!(
        table.begin(at(0), &call("p", 1), 1, 7, false),
        Admission::Replay(answer("a"))
    );
    assert_eq!(
        table.begin(at(0), &call("p", 2), 1, 7, false),
        Admission::NoRoom
    );
    run(&mut table, at(0), &call("p", 2));
}

#[test]
fn a_place_of_a_silent_client_that_is_taken_over_harms_neither() {
    let mut table = table(|o| {
        o.max_clients = 1;
        o.hold = Duration::from_secs(10);
    });
    let of = |client: u128, number, first_unfinished| CallId {
        numbered: Some(Numbered {
            client: Uuid::from_u128(client),
            number,
            first_unfinished,
        }),
        ..call("p", client << 64 | u128::from(number))
    };
    // The first client gives its call up while it runs, and is not heard of any more.
    let given_up = run(&mut table, at(0), &of(1, 1, 1));
    let other = run(&mut table, at(0), &of(1, 2, 2));
    table.finish(at(0), other, &answer("b"));
    run(&mut table, at(1), &of(1, 3, 3));
    let ticket = run(&mut table, at(1), &of(1, 4, 4));
    table.finish(at(1), ticket, &answer("c"));
    table.begin(at(1), &of(1, 9, 9), 1, 0, false);
    // Its place goes to the second one, whose mark is low.
    let kept = run(&mut table, at(50), &of(2, 1, 1));
    table.finish(at(50), given_up, &answer("a"));
    table.finish(at(50), kept, &answer("k"));
    assert_eq!(
        table.begin(at(51), &of(2, 1, 1), 1, 0, true),
        Admission::Replay(answer("k"))
    );
    assert_eq!(table.stats().done, 1);
}

fn repeated(call: CallId) -> CallId {
    CallId {
        repeated: true,
        ..call
    }
}

#[test]
fn a_numbered_call_never_runs_again_however_late_it_is_repeated() {
    // By its time, and by pressure with tombstones that have had to give way.
    for max_records in [100, 1] {
        let mut table = table(|o| {
            o.max_records = max_records;
            o.max_tombstones = 1;
        });
        for number in 1..=4 {
            let ticket = run(&mut table, at(0), &numbered(number, 1));
            table.finish(at(0), ticket, &answer("a"));
        }
        let unknown = |table: &mut Table<u32>, call: &CallId| {
            let admission = table.begin(at(9_000), call, 1, 0, true);
            assert_eq!(admission, Admission::OutcomeUnknown, "{call:?}");
        };
        for number in 1..=4 {
            unknown(&mut table, &repeated(numbered(number, 1)));
            // A connection may have held the first attempt back.
            unknown(&mut table, &numbered(number, 1));
        }
        // One that never came is not taken for one of them.
        run(&mut table, at(9_000), &repeated(numbered(5, 1)));
    }
}

#[test]
fn a_client_that_had_to_make_room_is_not_believed_that_its_repeated_call_is_new() {
    let mut table = table(|o| o.max_clients = 1);
    let other = |number| CallId {
        numbered: Some(Numbered {
            client: Uuid::from_u128(1),
            number,
            first_unfinished: number,
        }),
        ..call("p", 1 << 64 | u128::from(number))
    };
    let ticket = run(&mut table, at(0), &numbered(7, 7));
    table.finish(at(0), ticket, &answer("a"));
    let ticket = run(&mut table, at(1_000), &other(1));
    table.finish(at(1_000), ticket, &answer("a"));
    // Beyond the bound.
    assert_eq!(
        table.begin(at(1_001), &repeated(numbered(7, 7)), 1, 0, true),
        Admission::OutcomeUnknown
    );
    // Back in the place of the other.
    assert_eq!(
        table.begin(at(2_000), &repeated(numbered(7, 7)), 1, 0, true),
        Admission::OutcomeUnknown
    );
    run(&mut table, at(2_000), &numbered(8, 7));
    assert_eq!(
        table.begin(at(2_000), &repeated(numbered(7, 7)), 1, 0, true),
        Admission::OutcomeUnknown
    );
    run(&mut table, at(2_000), &repeated(numbered(9, 7)));
}

#[test]
fn what_an_earlier_life_knew_is_answered_and_never_runs() {
    let mut table = table(|o| o.max_records = 2);
    table.restore(at(5), &numbered(1, 1), 1, Some(answer("a")));
    table.restore(at(5), &numbered(2, 1), 1, None);
    assert_eq!(
        table.begin(at(6), &repeated(numbered(1, 1)), 1, 0, true),
        Admission::Replay(answer("a"))
    );
    assert_eq!(
        table.begin(at(6), &repeated(numbered(2, 1)), 1, 0, true),
        Admission::OutcomeUnknown
    );
    assert_eq!(
        table.begin(at(6), &numbered(2, 1), 2, 0, true),
        Admission::Mismatch
    );
    // Beyond the bound the oldest gives way, as ever.
    table.restore(at(6), &numbered(3, 1), 1, Some(answer("c")));
    assert_eq!(table.stats().done, 2);
    assert_eq!(
        table.begin(at(6), &numbered(1, 1), 1, 0, true),
        Admission::OutcomeUnknown
    );
}

#[test]
fn a_call_whose_answer_is_lost_is_unknown_to_its_twins() {
    let mut table = table(|_| {});
    let ticket = run(&mut table, at(0), &call("p", 1));
    table.begin(at(0), &call("p", 1), 1, 7, true);
    assert_eq!(table.finish_unknown(at(1), ticket), [7]);
    assert_eq!(
        table.begin(at(2), &call("p", 1), 1, 0, true),
        Admission::OutcomeUnknown
    );
}

/// Brings a call into a state, lets an event happen and looks at what came of it: the reply, and
/// the state by what a twin is told.
fn happens(from: states::State, event: states::Event) -> (states::Reply, states::State) {
    use states::{Event, Reply, State};
    let is_numbered = event != Event::TimeOverUnnumbered;
    let call = match is_numbered {
        true => numbered(1, 1),
        false => call("p", 1),
    };
    let mut table = table(|o| {
        o.max_records = 2;
        o.max_answer = 10;
    });
    let mut now = at(0);
    let mut ticket = None;
    let mut other = run(&mut table, now, &super::tests::call("q", 9));
    if from != State::New {
        ticket = Some(run(&mut table, now, &call));
    }
    if let (State::Done | State::Forgotten, Some(ended)) = (from, ticket)
        && event != Event::End
    {
        table.finish(now, ended, &answer("a"));
    }
    if from == State::Forgotten {
        match event {
            Event::End => {
                table.begin(now, &numbered(9, 9), 1, 0, false);
            }
            _ => assert!(table.evict_oldest()),
        }
    }
    let begin = |table: &mut Table<u32>, now, digest, room| match table
        .begin(now, &call, digest, 7, room)
    {
        Admission::New(_) => Reply::Runs,
        Admission::Attached => Reply::Attached,
        Admission::Replay(bytes) => {
            assert_eq!(bytes, answer("a"));
            Reply::StoredAnswer
        }
        Admission::OutcomeUnknown => Reply::Unknown,
        Admission::Mismatch => Reply::Mismatch,
        Admission::Full | Admission::NoRoom => Reply::Refused,
    };
    if from == State::Running {
        assert_eq!(begin(&mut table, now, 1, true), Reply::Attached);
    }
    let reply = match event {
        Event::Call => begin(&mut table, now, 1, true),
        Event::CallWithoutRoom => begin(&mut table, now, 1, false),
        Event::OtherCall => begin(&mut table, now, 2, true),
        Event::End | Event::EndWithoutAnswer => {
            let text = match event {
                Event::End => "a",
                _ => "more than is kept",
            };
            let waiters = table.finish(now, ticket.take().unwrap(), &answer(text));
            assert_eq!(waiters, vec![7; usize::from(from == State::Running)]);
            Reply::AnswerToAll
        }
        Event::Refusal => {
            assert_eq!(table.abandon(ticket.take().unwrap()), [7]);
            Reply::Refused
        }
        Event::Pressure => {
            let full = from == State::Running;
            let pressed = table.begin(now, &super::tests::call("q", 10), 1, 0, true);
            assert_eq!(pressed == Admission::Full, full);
            if let Admission::New(ticket) = pressed {
                table.finish(now, std::mem::replace(&mut other, ticket), &answer("a"));
            }
            Reply::Nothing
        }
        Event::GivenUp => {
            table.begin(now, &numbered(9, 9), 1, 0, false);
            Reply::Nothing
        }
        Event::TimeOver | Event::TimeOverUnnumbered => {
            now = at(10_000);
            Reply::Nothing
        }
        Event::Crash => {
            table = Table::new(*table.options());
            Reply::Nothing
        }
        Event::CrashWithJournal => {
            let kept = (from == State::Done).then(|| answer("a"));
            table = Table::new(*table.options());
            table.restore(now, &call, 1, kept);
            Reply::Nothing
        }
    };
    let to = match begin(&mut table, now, 1, false) {
        Reply::Attached => State::Running,
        Reply::StoredAnswer => State::Done,
        Reply::Unknown => State::Forgotten,
        Reply::Refused => State::New,
        other => panic!("{other:?}"),
    };
    (reply, to)
}

#[test]
fn every_row_of_the_state_machine_is_what_the_table_does() {
    for row in states::TRANSITIONS {
        assert_eq!(happens(row.from, row.event), (row.reply, row.to), "{row:?}");
        assert_eq!(states::transition(row.from, row.event), Some(row));
    }
}

#[test]
fn a_call_that_may_have_run_elsewhere_is_unknown_unless_it_is_known_here() {
    let elsewhere = |call: CallId| CallId {
        elsewhere: true,
        ..repeated(call)
    };
    let mut table = table(|_| {});
    let ticket = run(&mut table, at(0), &numbered(1, 1));
    let mut begin = |call: &CallId| table.begin(at(1), call, 1, 0, true);
    assert_eq!(begin(&elsewhere(numbered(1, 1))), Admission::Attached);
    assert_eq!(begin(&elsewhere(numbered(2, 1))), Admission::OutcomeUnknown);
    assert_eq!(begin(&elsewhere(call("p", 3))), Admission::OutcomeUnknown);
    // It was only told so: it has not run here.
    assert!(matches!(begin(&numbered(2, 1)), Admission::New(_)));
    table.finish(at(2), ticket, &answer("a"));
    assert_eq!(
        table.begin(at(3), &elsewhere(numbered(1, 1)), 1, 0, true),
        Admission::Replay(answer("a"))
    );
}
