//! What is to happen, in order: by time, and at the same time in the order in which it was planned.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

#[derive(Debug)]
struct Due<T> {
    at: u64,
    order: u64,
    event: T,
}

impl<T> PartialEq for Due<T> {
    fn eq(&self, other: &Self) -> bool {
        self.order == other.order
    }
}

impl<T> Eq for Due<T> {}

impl<T> PartialOrd for Due<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Due<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

/// See the [module](self).
#[derive(Debug)]
pub struct Queue<T> {
    heap: BinaryHeap<Reverse<Due<T>>>,
    order: u64,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self {
            heap: BinaryHeap::new(),
            order: 0,
        }
    }
}

impl<T> Queue<T> {
    /// Plans something.
    pub fn push(&mut self, at: u64, event: T) {
        self.order += 1;
        self.heap.push(Reverse(Due {
            at,
            order: self.order,
            event,
        }));
    }

    /// When the next thing happens.
    pub fn next(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse(due)| due.at)
    }

    /// How many things are to happen.
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// True if nothing is.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// The next thing that happens.
    pub fn pop(&mut self) -> Option<(u64, T)> {
        let Reverse(due) = self.heap.pop()?;
        Some((due.at, due.event))
    }
}
