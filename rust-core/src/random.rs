//! Randomness that no two processes share: from the operating system, each time.
//!
//! The generator of a thread is copied by a fork, and then parent and child draw the same numbers. What
//! tells clients, calls and server starts from each other must not come from it.

use rand::rngs::SysRng;
use rand::{Rng, TryRng};

/// So many random bytes.
pub(crate) fn bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    if SysRng.try_fill_bytes(&mut bytes).is_err() {
        // A system without randomness of its own: better a copy than none.
        rand::rng().fill_bytes(&mut bytes);
    }
    bytes
}

#[cfg(test)]
mod tests {
    #[test]
    fn no_two_draws_are_alike() {
        assert_ne!(super::bytes::<16>(), super::bytes::<16>());
    }
}
