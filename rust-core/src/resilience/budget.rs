//! A retry budget: what keeps retries from multiplying an overload.
//!
//! Over a sliding window every call earns a share of a retry, a reserve is always there, and each
//! retry costs one. Balances are kept in milli-retries by slots of one second.

use std::time::Duration;

use crate::time::Time;

const SLOTS: usize = 10;
const SLOT: Duration = Duration::from_secs(1);
const RETRY: i64 = 1000;

/// How many retries are allowed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BudgetOptions {
    /// Retries that are allowed every second, however few calls there are. Default 10.
    pub reserve_per_second: u32,
    /// Retries allowed on top for every hundred calls of the last 10 s. Default 20.
    pub percent: u32,
}

impl Default for BudgetOptions {
    fn default() -> Self {
        Self {
            reserve_per_second: 10,
            percent: 20,
        }
    }
}

/// The budget of one client.
#[derive(Debug, Clone)]
pub struct Budget {
    options: BudgetOptions,
    slots: [i64; SLOTS],
    /// Number of the second that the newest slot stands for.
    second: u64,
}

impl Budget {
    /// A full budget.
    pub fn new(options: BudgetOptions) -> Self {
        Self {
            options,
            slots: [0; SLOTS],
            second: 0,
        }
    }

    /// A call was made for the first time.
    pub fn deposit(&mut self, now: Time) {
        let earned = i64::from(self.options.percent) * RETRY / 100;
        *self.slot(now) += earned;
    }

    /// Pays for one retry; false if there is nothing left.
    pub fn withdraw(&mut self, now: Time) -> bool {
        self.slot(now);
        let reserve = i64::from(self.options.reserve_per_second) * SLOTS as i64 * RETRY;
        let balance = self.slots.iter().sum::<i64>() + reserve;
        let affordable = balance >= RETRY;
        if affordable {
            *self.slot(now) -= RETRY;
        }
        affordable
    }

    /// The slot of this second; those that fell out of the window are emptied.
    fn slot(&mut self, now: Time) -> &mut i64 {
        let second = now.since_origin().as_nanos() as u64 / SLOT.as_nanos() as u64;
        let passed = second.saturating_sub(self.second).min(SLOTS as u64);
        for n in 1..=passed {
            self.slots[((second - passed + n) % SLOTS as u64) as usize] = 0;
        }
        self.second = self.second.max(second);
        &mut self.slots[(self.second % SLOTS as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    fn drain(budget: &mut Budget, now: Time) -> u32 {
        (0..).take_while(|_| budget.withdraw(now)).count() as u32
    }

    #[test]
    fn the_reserve_is_ten_a_second_over_ten_seconds() {
        let mut budget = Budget::new(BudgetOptions::default());
        assert_eq!(drain(&mut budget, at(100)), 100);
        assert_eq!(drain(&mut budget, at(105)), 0);
        // What was spent 10 s ago no longer counts.
        assert_eq!(drain(&mut budget, at(110)), 100);
    }

    #[test]
    fn calls_earn_a_fifth_of_a_retry_for_ten_seconds() {
        let mut budget = Budget::new(BudgetOptions {
            reserve_per_second: 0,
            percent: 20,
        });
        assert_eq!(drain(&mut budget, at(0)), 0);
        for _ in 0..50 {
            budget.deposit(at(0));
        }
        assert!(budget.withdraw(at(9)));
        assert_eq!(drain(&mut budget, at(9)), 9);
        for _ in 0..50 {
            budget.deposit(at(20));
        }
        assert_eq!(drain(&mut budget, at(31)), 0);
    }
}
