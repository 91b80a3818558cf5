//! Files that were cut off while they were written, and files that were damaged: the first is passed over, the second never.

use std::fs;

use witrpc::server::store::Claim;

use crate::fixture::{Directory, call, numbered, repeated, replay};

/// Where the zeros begin that are room for more.
fn end(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1
}

#[tokio::test]
async fn a_kill_at_every_byte_of_a_write_loses_what_nobody_was_told_and_nothing_else() {
    let directory = Directory::new();
    let opened = directory.open().await;
    opened.run(&numbered(1, 1), "one").await;
    let fence = opened.claim(&numbered(2, 1)).await;
    let start = end(&fs::read(directory.log()).unwrap());
    opened.finish(&numbered(2, 1), fence, "two").await;
    let whole = fs::read(directory.log()).unwrap();
    for cut in start..=end(&whole) {
        let killed = directory.copy();
        let mut bytes = whole.clone();
        bytes[cut..].fill(0);
        fs::write(killed.log(), &bytes).unwrap();
        let after = killed.open().await;
        assert_eq!(after.begin(&numbered(1, 1)).await, replay("one"), "{cut}");
        let second = after.begin(&repeated(numbered(2, 1))).await;
        match cut == end(&whole) {
            true => assert_eq!(second, replay("two")),
            false => assert_eq!(second, Claim::OutcomeUnknown, "{cut}"),
        }
        // It is no reason to distrust others.
        let fresh = after.begin(&repeated(numbered(3, 1))).await;
        assert!(matches!(fresh, Claim::Run(_)), "{cut}");
        after.close().await;
        let again = killed.open().await;
        assert_eq!(again.begin(&numbered(1, 1)).await, replay("one"), "{cut}");
    }
}

#[tokio::test]
async fn a_damaged_end_is_given_up_and_repetitions_that_are_not_found_never_run() {
    let directory = Directory::new();
    let opened = directory.open().await;
    opened.run(&numbered(1, 1), "one").await;
    let start = end(&fs::read(directory.log()).unwrap());
    opened.claim(&numbered(2, 1)).await;
    let whole = fs::read(directory.log()).unwrap();
    let damages = (start..end(&whole)).step_by(7).flat_map(|at| {
        let mut flipped = whole.clone();
        flipped[at] ^= 0x20;
        // The file was cut: room was made for a whole write, so that is not what a kill leaves.
        let cut = whole[..at + 1].to_vec();
        [(at, flipped), (at, cut)]
    });
    for (at, bytes) in damages {
        if bytes.len() == end(&whole) {
            continue;
        }
        let damaged = directory.copy();
        fs::write(damaged.log(), &bytes).unwrap();
        // It stays so over further lives, while answers would be held.
        for _ in 0..3 {
            let after = damaged.open().await;
            assert_eq!(after.epoch, opened.epoch);
            assert_eq!(after.begin(&numbered(1, 1)).await, replay("one"), "{at}");
            let lost = after.begin(&repeated(numbered(2, 1))).await;
            assert_eq!(lost, Claim::OutcomeUnknown, "{at}");
            after.close().await;
        }
        let after = damaged.open().await;
        let fresh = after.begin(&numbered(9, 1)).await;
        assert!(matches!(fresh, Claim::Run(_)), "{at}");
    }
}

#[tokio::test]
async fn damage_before_the_end_stops_the_start_and_changes_nothing() {
    let directory = Directory::new();
    let opened = directory.open().await;
    opened.run(&call(1), "one").await;
    let first = end(&fs::read(directory.log()).unwrap());
    opened.run(&call(2), "two").await;
    let whole = fs::read(directory.log()).unwrap();
    for at in 0..first {
        let damaged = directory.copy();
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        fs::write(damaged.log(), &bytes).unwrap();
        let (error, log) = (damaged.error().await, damaged.log());
        assert!(error.contains(log.to_str().unwrap()), "{at}: {error}");
        assert!(
            error.contains("damaged") || error.contains("format"),
            "{error}"
        );
        assert_eq!(fs::read(log).unwrap(), bytes);
        assert_eq!(damaged.names(), directory.names());
    }
}

#[tokio::test]
async fn a_damaged_missing_or_strange_file_is_named() {
    let directory = Directory::new();
    let opened = directory.open().await;
    opened.run(&call(1), "one").await;
    opened.close().await;
    directory.open().await.close().await;
    assert_eq!(
        directory.names(),
        ["0000000000000001.snapshot", "0000000000000002.log", "lock"]
    );
    let snapshot = fs::read(directory.0.join("0000000000000001.snapshot")).unwrap();
    for at in 0..snapshot.len() {
        let damaged = directory.copy();
        let path = damaged.0.join("0000000000000001.snapshot");
        let mut bytes = snapshot.clone();
        bytes[at] ^= 1;
        fs::write(&path, &bytes).unwrap();
        let error = damaged.error().await;
        assert!(error.contains("0000000000000001.snapshot"), "{at}: {error}");
        fs::write(&path, &snapshot[..at]).unwrap();
        let error = damaged.error().await;
        assert!(error.contains("0000000000000001.snapshot"), "{at}: {error}");
    }

    let missing = directory.copy();
    fs::remove_file(missing.log()).unwrap();
    let error = missing.error().await;
    assert!(error.contains("0000000000000002.log is missing"), "{error}");

    let missing = directory.copy();
    fs::remove_file(missing.0.join("0000000000000001.snapshot")).unwrap();
    let error = missing.error().await;
    assert!(error.contains("0000000000000001.log is missing"), "{error}");

    let strange = directory.copy();
    fs::write(strange.0.join("notes.txt"), "mine").unwrap();
    let error = strange.error().await;
    assert!(
        error.contains("\"notes.txt\", which is no file of a journal"),
        "{error}"
    );

    // The same name, another journal.
    let other = Directory::new();
    other.open().await.close().await;
    other.open().await.close().await;
    let mixed = directory.copy();
    fs::copy(other.log(), mixed.log()).unwrap();
    let error = mixed.error().await;
    assert!(error.contains("is not from this journal"), "{error}");

    let mut newer = fs::read(directory.log()).unwrap();
    newer[8] = 2;
    fs::write(directory.log(), newer).unwrap();
    let error = directory.error().await;
    assert!(
        error.contains("is of format 2, and this release reads format 1"),
        "{error}"
    );
}

#[tokio::test]
async fn what_a_killed_rotation_leaves_is_cleared_away() {
    let directory = Directory::new();
    let opened = directory.open().await;
    opened.run(&call(1), "one").await;
    opened.close().await;
    let old = directory.copy();
    directory.open().await.close().await;
    // The snapshot is there, and what it makes superfluous as well; and files that were begun.
    fs::copy(old.log(), directory.0.join("0000000000000001.log")).unwrap();
    fs::write(directory.0.join("00000000000000030.unfinished"), "x").unwrap();
    fs::write(directory.0.join("00000000000000021.unfinished"), "x").unwrap();
    let opened = directory.open().await;
    assert_eq!(opened.begin(&call(1)).await, replay("one"));
    opened.close().await;
    assert_eq!(
        directory.names(),
        ["0000000000000002.snapshot", "0000000000000003.log", "lock"]
    );
    // The new log is there, the snapshot is not yet.
    fs::remove_file(directory.0.join("0000000000000002.snapshot")).unwrap();
    fs::remove_file(directory.log()).unwrap();
    fs::copy(old.log(), directory.0.join("0000000000000001.log")).unwrap();
    let opened = directory.open().await;
    assert_eq!(opened.begin(&call(1)).await, replay("one"));
}
