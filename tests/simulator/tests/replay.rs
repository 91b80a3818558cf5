//! A seed is the same life for ever, on any thread.

use witrpc_simulator::plan::Plan;
use witrpc_simulator::runs::{outcome, run};

#[test]
fn a_seed_is_the_same_life_again() {
    let mut longest = 0;
    for seed in 1000..1100 {
        let first = outcome(Plan::new(seed), None, true);
        let second = std::thread::spawn(move || outcome(Plan::new(seed), None, true))
            .join()
            .expect("no panic gets here");
        assert_eq!(first.trace, second.trace, "seed {seed}");
        assert_eq!((first.events, first.hits), (second.events, second.hits));
        longest = longest.max(first.trace.len());
    }
    assert!(longest > 100, "traces of at most {longest} lines");
}

#[test]
fn lives_of_several_threads_are_counted_once() {
    let (one, two) = (run(1, 300, 1, 1), run(1, 300, 2, 1));
    assert!(one.failures.is_empty(), "{}", one.failures[0]);
    assert_eq!((one.lives, one.events), (300, two.events));
    assert_eq!(one.hits, two.hits);
    assert!(one.fewest >= 20);
}
