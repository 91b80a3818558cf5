//! The queue that events wait in where they are not taken at once: bounded, in order, and with a
//! policy for what does not fit.
//!
//! Owns the bounds and the counting. What an item is and who takes it is for clients and servers to
//! say.

use std::collections::VecDeque;

use crate::error::{Error, Result};

/// What happens to events that come faster than they are taken, once the queue is full.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Overflow {
    /// The events that have waited longest are dropped, and counted: what is taken is recent.
    #[default]
    DropOldest,
    /// The event that has just come is dropped, and counted: what is taken has no gap until the
    /// queue was full.
    DropNewest,
    /// The connection is dropped, so that both ends know that something is missing.
    Disconnect,
}

/// Bounds of a queue of events, and what happens beyond them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EventQueueOptions {
    /// Events that may wait. At least 1.
    pub max_events: usize,
    /// Bytes of arguments that may wait. A single event may be larger.
    pub max_bytes: usize,
    /// What happens to those that do not fit.
    pub overflow: Overflow,
}

impl EventQueueOptions {
    /// The default of a client's subscriptions: 65,536 events and 64 MiB, the oldest are dropped. (As
    /// many as NATS keeps; with far fewer a busy machine drops events before a quick handler has its
    /// turn.)
    pub fn client() -> Self {
        Self {
            max_events: 65_536,
            max_bytes: 64 * 1024 * 1024,
            overflow: Overflow::DropOldest,
        }
    }

    /// The default of a server's connections: 65,536 events and 16 MiB, beyond which the connection
    /// is closed: a client that reconnects knows that it has missed something.
    pub fn server() -> Self {
        Self {
            max_events: 65_536,
            max_bytes: 16 * 1024 * 1024,
            overflow: Overflow::Disconnect,
        }
    }

    pub(crate) fn check(&self) -> Result<()> {
        if self.max_events == 0 || self.max_bytes == 0 {
            return Err(Error::invalid_argument(
                "a queue of events needs room for at least 1 event and 1 byte",
            ));
        }
        Ok(())
    }
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct EventQueue<T> {
    options: EventQueueOptions,
    waiting: VecDeque<(T, usize)>,
    bytes: usize,
    dropped: u64,
}

/// What became of an item.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Push<T> {
    /// It waits.
    Queued,
    /// It waits in the place of these, the oldest ones.
    Instead(Vec<T>),
    /// It was dropped.
    Dropped,
    /// It was dropped, and the connection is to be, too.
    Disconnect,
}

impl<T> EventQueue<T> {
    pub(crate) fn new(options: EventQueueOptions) -> Self {
        Self {
            options,
            waiting: VecDeque::new(),
            bytes: 0,
            dropped: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// How many were dropped so far.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// True if an item of `size` bytes would wait in nobody's place.
    pub(crate) fn has_room(&self, size: usize) -> bool {
        let fits = self.len() < self.options.max_events
            && self.bytes.saturating_add(size) <= self.options.max_bytes;
        fits || self.waiting.is_empty()
    }

    pub(crate) fn push(&mut self, item: T, size: usize) -> Push<T> {
        let mut displaced = Vec::new();
        while !self.has_room(size) {
            match self.options.overflow {
                Overflow::DropOldest => displaced.extend(self.pop()),
                Overflow::DropNewest => {
                    self.dropped += 1;
                    return Push::Dropped;
                }
                Overflow::Disconnect => {
                    self.dropped += 1;
                    return Push::Disconnect;
                }
            }
        }
        self.waiting.push_back((item, size));
        self.bytes += size;
        self.dropped += displaced.len() as u64;
        if displaced.is_empty() {
            Push::Queued
        } else {
            Push::Instead(displaced)
        }
    }

    pub(crate) fn front(&self) -> Option<&T> {
        self.waiting.front().map(|(item, _)| item)
    }

    pub(crate) fn pop(&mut self) -> Option<T> {
        let (item, size) = self.waiting.pop_front()?;
        self.bytes -= size;
        if self.waiting.is_empty() && self.waiting.capacity() > 64 {
            // A burst that is over holds no memory.
            self.waiting = VecDeque::new();
        }
        Some(item)
    }

    /// Takes everything; it does not count as dropped.
    pub(crate) fn take_all(&mut self) -> Vec<T> {
        self.bytes = 0;
        let waiting = std::mem::take(&mut self.waiting);
        waiting.into_iter().map(|(item, _)| item).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(max_events: usize, max_bytes: usize, overflow: Overflow) -> EventQueue<u32> {
        EventQueue::new(EventQueueOptions {
            max_events,
            max_bytes,
            overflow,
        })
    }

    fn all(queue: &mut EventQueue<u32>) -> Vec<u32> {
        std::iter::from_fn(|| queue.pop()).collect()
    }

    #[test]
    fn the_oldest_make_room() {
        let mut queue = queue(3, 100, Overflow::DropOldest);
        for n in 0..3 {
            assert_eq!(queue.push(n, 10), Push::Queued);
        }
        assert_eq!(queue.push(3, 10), Push::Instead(vec![0]));
        // By bytes several may have to go.
        assert_eq!(queue.push(4, 85), Push::Instead(vec![1, 2]));
        assert_eq!((queue.dropped(), queue.bytes), (3, 95));
        assert_eq!(all(&mut queue), [3, 4]);
        assert_eq!(queue.bytes, 0);
    }

    #[test]
    fn the_newest_are_dropped() {
        let mut queue = queue(2, 100, Overflow::DropNewest);
        assert_eq!(queue.push(0, 10), Push::Queued);
        assert_eq!(queue.push(1, 91), Push::Dropped);
        assert_eq!(queue.push(2, 90), Push::Queued);
        assert_eq!(queue.push(3, 0), Push::Dropped);
        assert_eq!(queue.dropped(), 2);
        assert_eq!(all(&mut queue), [0, 2]);
    }

    #[test]
    fn the_connection_is_to_be_dropped() {
        let mut queue = queue(1, 100, Overflow::Disconnect);
        assert_eq!(queue.push(0, 1), Push::Queued);
        assert_eq!(queue.push(1, 1), Push::Disconnect);
        assert_eq!((queue.dropped(), queue.len()), (1, 1));
    }

    #[test]
    fn one_event_larger_than_the_bound_passes_alone() {
        for overflow in [
            Overflow::DropOldest,
            Overflow::DropNewest,
            Overflow::Disconnect,
        ] {
            let mut queue = queue(8, 100, overflow);
            assert_eq!(queue.push(0, 1000), Push::Queued, "{overflow:?}");
            assert!(!queue.has_room(1));
            assert_eq!(queue.pop(), Some(0));
            assert_eq!(queue.push(1, 1), Push::Queued);
        }
    }

    #[test]
    fn a_queue_without_room_is_refused() {
        for (max_events, max_bytes) in [(0, 1), (1, 0)] {
            let options = EventQueueOptions {
                max_events,
                max_bytes,
                overflow: Overflow::DropOldest,
            };
            assert!(options.check().is_err());
        }
        assert!(EventQueueOptions::client().check().is_ok());
        assert!(EventQueueOptions::server().check().is_ok());
    }
}
