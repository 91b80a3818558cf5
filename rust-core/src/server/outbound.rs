//! What waits for a client that does not read as fast as it is written to: answers and events, in
//! one order, events within the bounds of a queue.
//!
//! Owns the order and the bounds. What waits here is not encrypted and not framed yet: whatever is
//! dropped was never counted by the seal of the connection.

use std::collections::VecDeque;

use bytes::Bytes;
use uuid::Uuid;

use crate::event_queue::{EventQueue, EventQueueOptions, Push};
use crate::session::ServerSession;

/// How many bytes of frames are made in advance of the network, and no longer to be dropped then.
const AHEAD: usize = 64 * 1024;

/// See the [module](self).
pub(super) struct Outbound {
    /// Encoded requests, the same for all clients, with their place in the order.
    events: EventQueue<(u64, Bytes)>,
    answers: VecDeque<(u64, Uuid, Bytes)>,
    answer_bytes: usize,
    next: u64,
}

/// Whether an event finds its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Room {
    /// Straight into the session.
    Open,
    /// It has to wait.
    Queue,
    /// It has to wait, in the place of another or not at all.
    Full,
}

impl Outbound {
    pub(super) fn new(options: EventQueueOptions) -> Self {
        Self {
            events: EventQueue::new(options),
            answers: VecDeque::new(),
            answer_bytes: 0,
            next: 0,
        }
    }

    /// Where an event of `size` bytes goes, with `ahead` bytes of frames that the network has not
    /// taken.
    pub(super) fn room(&self, size: usize, ahead: usize) -> Room {
        if self.is_empty() && ahead < AHEAD {
            Room::Open
        } else if self.events.has_room(size) {
            Room::Queue
        } else {
            Room::Full
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.answers.is_empty() && self.events.len() == 0
    }

    /// Bytes of answers that wait.
    pub(super) fn answer_bytes(&self) -> usize {
        self.answer_bytes
    }

    /// Events that wait.
    pub(super) fn events(&self) -> usize {
        self.events.len()
    }

    /// Events dropped so far.
    pub(super) fn dropped(&self) -> u64 {
        self.events.dropped()
    }

    /// Has an event wait. False if the connection is to be dropped.
    pub(super) fn push_event(&mut self, event: Bytes) -> bool {
        let (place, size) = (self.place(), event.len());
        !matches!(self.events.push((place, event), size), Push::Disconnect)
    }

    /// Has an answer wait.
    pub(super) fn push_answer(&mut self, id: Uuid, answer: Bytes) {
        let place = self.place();
        self.answer_bytes += answer.len();
        self.answers.push_back((place, id, answer));
    }

    fn place(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Moves into the session what is next, until enough is ahead of the network.
    pub(super) fn refill(&mut self, session: &mut ServerSession) {
        while session.pending_output() < AHEAD {
            let event = self.events.front().map(|(place, _)| *place);
            let answer = self.answers.front().map(|(place, ..)| *place);
            match (event, answer) {
                (Some(event), answer) if answer.is_none_or(|answer| event < answer) => {
                    if let Some((_, event)) = self.events.pop() {
                        session.event(&event);
                    }
                }
                (_, Some(_)) => {
                    if let Some((_, id, answer)) = self.answers.pop_front() {
                        self.answer_bytes -= answer.len();
                        session.respond(id, &answer);
                    }
                }
                _ => return,
            }
        }
    }

    /// Lets go of everything.
    pub(super) fn clear(&mut self) {
        self.events.take_all();
        self.answers.clear();
        self.answer_bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event_queue::Overflow;
    use crate::wire::{Envelope, Kind, frame};

    fn outbound(max_events: usize, overflow: Overflow) -> Outbound {
        Outbound::new(EventQueueOptions {
            max_events,
            max_bytes: 1 << 20,
            overflow,
        })
    }

    /// What a session has to send: the text of events, `#` of answers.
    fn sent(outbound: &mut Outbound, session: &mut ServerSession) -> Vec<String> {
        let mut texts = Vec::new();
        loop {
            outbound.refill(session);
            let mut bytes = session.take_output();
            if bytes.is_empty() {
                return texts;
            }
            while let Some(body) = frame::split(&mut bytes, 1 << 20).unwrap() {
                let Envelope { kind, data, .. } = Envelope::take(body).unwrap().unwrap();
                let data = String::from_utf8(data.unwrap().to_vec()).unwrap();
                let text = data.trim_start_matches('.').to_owned();
                texts.push(if kind == Kind::CALLBACK {
                    text
                } else {
                    format!("#{text}")
                });
            }
        }
    }

    #[test]
    fn answers_and_events_keep_their_order_and_only_events_are_dropped() {
        for (overflow, expected) in [
            (
                Overflow::DropOldest,
                ["#a", "2", "#b", "3", "#c"].as_slice(),
            ),
            (Overflow::DropNewest, &["0", "#a", "1", "#b", "#c"]),
        ] {
            let (mut outbound, mut session) =
                (outbound(2, overflow), ServerSession::new(Uuid::nil()));
            for (event, answer) in [("0", "a"), ("1", ""), ("2", "b"), ("3", "c")] {
                assert!(outbound.push_event(event.into()));
                if !answer.is_empty() {
                    outbound.push_answer(Uuid::nil(), answer.into());
                }
            }
            assert_eq!((outbound.dropped(), outbound.answer_bytes()), (2, 3));
            assert_eq!(sent(&mut outbound, &mut session), expected, "{overflow:?}");
            assert!(outbound.is_empty());
            assert_eq!(outbound.answer_bytes(), 0);
        }
    }

    #[test]
    fn no_more_is_made_in_advance_than_the_network_can_soon_take() {
        let mut outbound = outbound(100, Overflow::Disconnect);
        let mut session = ServerSession::new(Uuid::nil());
        for n in 0..100 {
            assert!(outbound.push_event(format!("{n:.>10000}").into()));
        }
        assert!(!outbound.push_event("one too many".into()));
        outbound.refill(&mut session);
        assert!((AHEAD..AHEAD + 10_100).contains(&session.pending_output()));
        assert_eq!(outbound.events(), 100 - 7);
        assert_eq!(outbound.room(1, AHEAD), Room::Queue);
        let expected: Vec<_> = (0..100).map(|n: u32| n.to_string()).collect();
        assert_eq!(sent(&mut outbound, &mut session), expected);
        assert_eq!(outbound.room(1, AHEAD - 1), Room::Open);
        assert_eq!(outbound.room(1, AHEAD), Room::Queue);
    }
}
