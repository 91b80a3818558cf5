//! Plants defects, one at a time, and has the simulator find every one.
#![cfg(debug_assertions)]

use witrpc::mutant::{Mutant, plant};
use witrpc_simulator::plan::Plan;
use witrpc_simulator::runs::{outcome, shrink};
use witrpc_simulator::world::PlantedHere;

/// Lives until a defect must have been found.
const ENOUGH: u64 = 6000;

/// The defect is found, and what is left of the life that it was found in is small and the same
/// again.
fn is_found(core: Option<Mutant>, here: Option<PlantedHere>) {
    plant(core);
    let found = (1..=ENOUGH).find(|seed| {
        let lived = outcome(Plan::new(*seed), here, false);
        !lived.violations.is_empty()
    });
    let Some(seed) = found else {
        plant(None);
        panic!("{core:?}{here:?} was not found in {ENOUGH} lives");
    };
    let failure = shrink(Plan::new(seed), here);
    let again = || {
        let plan = Plan::new(seed).keep(&failure.faults, &failure.steps);
        outcome(plan, here, true)
    };
    let (first, second) = (again(), again());
    plant(None);
    let sound = outcome(Plan::new(seed), None, false);
    println!(
        "{core:?}{here:?}: life {seed}, {} of {} faults, {} steps: {}",
        failure.faults.len(),
        Plan::new(seed).faults.len(),
        failure.steps.len(),
        failure.violations[0]
    );
    assert_eq!(first.trace, second.trace, "a life is the same again");
    assert_eq!(first.violations, failure.violations);
    assert_eq!(
        sound.violations, [""; 0],
        "without the defect nothing is wrong"
    );
    let text = failure.to_string();
    assert!(
        text.contains(&format!("make simulate N=1 SEED={seed} FAULTS=")),
        "{text}"
    );
}

macro_rules! defects {
    ($($name:ident: $core:expr, $here:expr;)*) => {
        $(#[test] fn $name() { is_found($core, $here); })*
    };
}

defects! {
    the_answer_is_stored_after_it_is_sent: None, Some(PlantedHere::SentBeforeStored);
    running_is_evicted_under_pressure: Some(Mutant::RunningEvicted), None;
    a_twin_of_running_is_refused: Some(Mutant::TwinRefused), None;
    the_key_leaves_out_the_principal: Some(Mutant::KeyWithoutPrincipal), None;
    the_argument_digest_is_ignored: Some(Mutant::DigestIgnored), None;
    the_first_unfinished_mark_is_one_too_high: Some(Mutant::MarkTooHigh), None;
    a_call_whose_time_is_over_is_new_again: Some(Mutant::TimeForgotten), None;
    the_epoch_is_not_compared: Some(Mutant::EpochNotCompared), None;
    a_late_answer_goes_to_whoever_has_its_place: Some(Mutant::SerialNotCompared), None;
    a_completion_is_delivered_twice: None, Some(PlantedHere::CompletedTwice);
    the_attempts_are_not_reset_at_an_authorised_link: Some(Mutant::AttemptsNotReset), None;
    the_journal_acknowledges_before_the_write_is_durable: None, Some(PlantedHere::AcknowledgedEarly);
}
