//! Randomness that no other process has.
//!
//! Owns where it comes from: a generator of the operating system or of one that knows of forks. A
//! generator in the memory of the process would go on alike in both halves of a fork, and two clients
//! in two workers would give their calls the same ids: the server would take one for a repetition of
//! the other.

/// Random bytes, for seeds and ids.
pub(crate) fn bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    match aws_lc_rs::rand::fill(&mut bytes) {
        Ok(()) => bytes,
        // It has no reason to fail; if it does, this is random, too.
        Err(_) => rand::random(),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn no_two_draws_are_alike() {
        assert_ne!(super::bytes::<16>(), super::bytes::<16>());
    }
}
