//! Calls of one connection that have arrived and wait for others of it to end.
//!
//! Reading goes on while they wait, within a bound of bytes, so that a cancellation or a ping behind
//! them is heard.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use uuid::Uuid;

use crate::wire::Request;
use crate::wire::extension::Extension;

/// A request and the moment when its caller gives up.
pub(super) struct Arrived {
    /// Id of the message, which the answer repeats.
    pub(super) id: Uuid,
    pub(super) request: Request,
    /// What a libwitrpc client has added.
    pub(super) fields: Extension,
    pub(super) deadline: Option<Instant>,
    /// Bytes of the message.
    size: usize,
}

impl Arrived {
    pub(super) fn new(id: Uuid, request: Request, size: usize) -> Self {
        let fields = request.extension.as_deref().and_then(Extension::decode);
        let fields = fields.unwrap_or_default();
        let remaining = fields.remaining_ms.map(u64::from);
        Self {
            id,
            request,
            deadline: remaining.map(|ms| Instant::now() + Duration::from_millis(ms)),
            fields,
            size,
        }
    }

    /// Its caller has given up.
    pub(super) fn is_over(&self) -> bool {
        self.deadline
            .is_some_and(|deadline| Instant::now() >= deadline)
    }
}

/// See the [module](self).
#[derive(Default)]
pub(super) struct Inbox {
    waiting: VecDeque<Arrived>,
    bytes: usize,
}

impl Inbox {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Bytes that wait.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn push(&mut self, call: Arrived) {
        self.bytes += call.size;
        self.waiting.push_back(call);
    }

    pub(super) fn pop(&mut self) -> Option<Arrived> {
        let call = self.waiting.pop_front()?;
        self.bytes -= call.size;
        Some(call)
    }

    /// Takes a call back before it has begun. False if it does not wait here.
    pub(super) fn cancel(&mut self, id: Uuid) -> bool {
        let Some(at) = self.waiting.iter().position(|call| call.id == id) else {
            return false;
        };
        if let Some(call) = self.waiting.remove(at) {
            self.bytes -= call.size;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_wait_in_order_and_what_is_taken_back_is_gone() {
        let mut inbox = Inbox::default();
        for n in 1..=3 {
            inbox.push(Arrived::new(Uuid::from_u128(n), Request::default(), 100));
        }
        assert_eq!(inbox.bytes(), 300);
        assert!(inbox.cancel(Uuid::from_u128(2)));
        assert!(!inbox.cancel(Uuid::from_u128(2)));
        assert_eq!(inbox.pop().unwrap().id, Uuid::from_u128(1));
        assert_eq!(inbox.pop().unwrap().id, Uuid::from_u128(3));
        assert!(inbox.pop().is_none());
        assert_eq!((inbox.bytes(), inbox.is_empty()), (0, true));
    }
}
