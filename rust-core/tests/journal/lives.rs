//! What a journal knows in its next life.

use std::time::Duration;

use witrpc::server::store::{CallStore, Claim, StoredCall};

use crate::fixture::{Directory, call, numbered, repeated, replay};

#[tokio::test]
async fn every_state_of_a_call_outlives_a_kill_as_the_table_of_states_says() {
    let directory = Directory::new();
    let before = directory.open().await;
    before.run(&call(1), "one").await;
    let running = before.claim(&call(2)).await;
    let refused = before.claim(&call(3)).await;
    before.journal.abandon(&call(3), refused).await.unwrap();
    let unkept = before.claim(&call(4)).await;
    before.journal.finish(&call(4), unkept, None).await.unwrap();
    before.run(&numbered(1, 1), "first").await;
    before.run(&numbered(2, 1), "second").await;
    before.claim(&numbered(3, 3)).await;

    let killed = directory.copy();
    let after = killed.open().await;
    assert_eq!(after.epoch, before.epoch);
    assert_eq!(after.begin(&call(1)).await, replay("one"));
    assert_eq!(after.begin(&call(2)).await, Claim::OutcomeUnknown);
    assert!(matches!(after.begin(&call(3)).await, Claim::Run(_)));
    assert_eq!(after.begin(&call(4)).await, Claim::OutcomeUnknown);
    for id in [1, 2, 4] {
        let other = StoredCall {
            digest: [8; 16],
            ..call(id)
        };
        assert_eq!(after.begin(&other).await, Claim::Mismatch, "{id}");
    }
    // Below the mark that the third one stated.
    for number in [1, 2] {
        let given_up = repeated(numbered(number, 1));
        assert_eq!(after.begin(&given_up).await, Claim::OutcomeUnknown);
    }
    let running_then = repeated(numbered(3, 3));
    assert_eq!(after.begin(&running_then).await, Claim::OutcomeUnknown);
    // Its first attempt never came.
    let lost = repeated(numbered(4, 3));
    assert!(matches!(after.begin(&lost).await, Claim::Run(_)));
    // The life before goes on, and knows nothing of that.
    before.finish(&call(2), running, "two").await;
    assert_eq!(before.begin(&call(2)).await, replay("two"));
}

#[tokio::test]
async fn lives_follow_on_each_other_and_their_files_do_not_pile_up() {
    let directory = Directory::new();
    for life in 0..20 {
        let opened = directory.open().await;
        for earlier in 0..life {
            assert_eq!(opened.begin(&call(earlier)).await, replay("x"), "{life}");
        }
        opened.run(&call(life), "x").await;
        opened.close().await;
        let names = directory.names();
        assert!(names.len() <= 3, "{names:?}");
    }
}

#[tokio::test]
async fn a_numbered_call_whose_time_is_over_stays_known_and_others_do_not() {
    let directory = Directory::new();
    let no_time = |options: &mut witrpc::resilience::dedup::DedupOptions| {
        options.hold = Duration::ZERO;
    };
    let opened = directory.open_with(no_time).await.unwrap();
    opened.run(&numbered(1, 1), "one").await;
    opened.run(&call(1), "one").await;
    // This one is running when the process is killed.
    opened.claim(&numbered(2, 1)).await;
    opened.close().await;
    for _ in 0..3 {
        let opened = directory.open_with(no_time).await.unwrap();
        for number in [1, 2] {
            for call in [numbered(number, 1), repeated(numbered(number, 1))] {
                assert_eq!(opened.begin(&call).await, Claim::OutcomeUnknown, "{call:?}");
            }
        }
        opened.run(&call(1), "one").await;
        opened.close().await;
    }
}

#[tokio::test]
async fn what_was_not_executed_runs_and_what_was_answered_does_not() {
    let not_executed = |call: StoredCall| StoredCall {
        not_executed: true,
        ..call
    };
    let directory = Directory::new();
    let opened = directory.open().await;
    opened.claim(&call(1)).await;
    opened.run(&call(2), "two").await;
    opened.close().await;
    let opened = directory.open().await;
    assert_eq!(opened.begin(&not_executed(call(2))).await, replay("two"));
    let other = StoredCall {
        digest: [8; 16],
        ..not_executed(call(1))
    };
    assert_eq!(opened.begin(&other).await, Claim::Mismatch);
    assert_eq!(opened.begin(&call(1)).await, Claim::OutcomeUnknown);
    let fence = opened.claim(&not_executed(call(1))).await;
    opened.finish(&call(1), fence, "one").await;
    opened.close().await;
    assert_eq!(directory.open().await.begin(&call(1)).await, replay("one"));
}

#[tokio::test]
async fn a_fence_ends_one_call_once() {
    let directory = Directory::new();
    let opened = directory.open().await;
    let fence = opened.claim(&call(1)).await;
    opened.finish(&call(1), fence, "one").await;
    let answer = "other".into();
    for _ in 0..2 {
        let again = opened.journal.finish(&call(1), fence, Some(&answer)).await;
        assert!(again.is_err());
        assert!(opened.journal.abandon(&call(1), fence).await.is_err());
    }
    assert_eq!(opened.begin(&call(1)).await, replay("one"));
}

#[tokio::test]
async fn the_directory_stays_small_and_what_is_evicted_is_still_known() {
    let directory = Directory::new();
    let few = |options: &mut witrpc::resilience::dedup::DedupOptions| {
        options.max_records = 300;
        options.max_tombstones = 100_000;
    };
    let opened = std::sync::Arc::new(directory.open_with(few).await.unwrap());
    let answer = "x".repeat(2_000);
    let mut largest = 0;
    for round in 0..60_u128 {
        let calls = (0..100).map(|n| {
            let (opened, answer) = (opened.clone(), answer.clone());
            tokio::spawn(async move { opened.run(&call(round * 100 + n), &answer).await })
        });
        for run in calls.collect::<Vec<_>>() {
            run.await.unwrap();
        }
        largest = largest.max(directory.size());
    }
    // 12 MB of answers were written, of which 0.6 MB are known.
    assert!(largest < 8 << 20, "{largest}");
    opened.journal.close().await;
    let opened = directory.open_with(few).await.unwrap();
    assert_eq!(opened.begin(&call(5_999)).await, replay(&answer));
    for id in [0, 1_000, 5_000] {
        assert_eq!(opened.begin(&call(id)).await, Claim::OutcomeUnknown, "{id}");
    }
    assert!(directory.size() < 5 << 20);
}

#[tokio::test]
async fn a_second_server_is_refused_until_the_first_one_is_gone() {
    let directory = Directory::new();
    let first = directory.open().await;
    let error = directory.error().await;
    assert!(error.contains("is in use by another server"), "{error}");
    assert!(error.contains(directory.0.to_str().unwrap()), "{error}");
    assert!(first.journal.open().await.is_err());
    first.run(&call(1), "one").await;
    // Dropped, not closed: the next one waits for it.
    drop(first);
    let second = directory.open().await;
    assert_eq!(second.begin(&call(1)).await, replay("one"));
    second.journal.close().await;
    let closed = second.journal.begin(&call(2)).await.unwrap_err();
    assert_eq!(closed.to_string(), "the journal is closed");
}

#[cfg(unix)]
#[tokio::test]
async fn files_are_for_their_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let directory = Directory::new();
    let opened = directory.open().await;
    opened.run(&call(1), "one").await;
    opened.close().await;
    directory.open().await.close().await;
    for name in directory.names() {
        let mode = std::fs::metadata(directory.0.join(&name)).unwrap();
        assert_eq!(mode.permissions().mode() & 0o777, 0o600, "{name}");
    }
}
