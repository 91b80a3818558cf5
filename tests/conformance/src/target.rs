//! A server under test: ours, or the .NET peer, on which a test proves that it expects the right
//! thing.

use crate::own::Own;
use crate::peer::{Peer, PeerServer};
use crate::raw::{Next, Raw, shown};

pub enum Target {
    Own(Own),
    Peer(PeerServer),
}

impl Target {
    /// Our server, and the peer where there is one, with this token.
    pub fn all(token: &str) -> Vec<Self> {
        let mut all = vec![Self::Own(Own::with(|builder| builder.token(token)))];
        if let Some(peer) = Peer::find() {
            let args: &[&str] = if token.is_empty() {
                &[]
            } else {
                &["--token", token]
            };
            all.push(Self::Peer(peer.serve(args)));
        }
        all
    }

    pub fn port(&self) -> u16 {
        match self {
            Self::Own(own) => own.port,
            Self::Peer(peer) => peer.port,
        }
    }

    pub fn is_ours(&self) -> bool {
        matches!(self, Self::Own(_))
    }

    pub fn name(&self) -> &'static str {
        match self {
            Self::Own(_) => "our server",
            Self::Peer(_) => "the peer",
        }
    }

    /// Nothing more comes. Ours ends in order, so that what was sent before is delivered; the peer,
    /// unlike the reference, resets where unread bytes are left.
    pub fn expect_end(&self, raw: &mut Raw, what: &str) {
        match (self, raw.receive()) {
            (_, Next::End) | (Self::Peer(_), Next::Reset) => {}
            (_, next) => panic!("{}: {what}: {}", self.name(), shown(&next)),
        }
    }
}
