//! How many connections there are from where.
//!
//! An address is an IPv4 address, or the first half of an IPv6 address: whoever has one of those has
//! the whole network behind it. Connections over pipes are nobody's: the permissions of the socket
//! file limit them.

use std::collections::HashMap;
use std::net::IpAddr;

use crate::transport::PeerAddr;

#[derive(Debug, Clone, Copy, Default)]
struct Count {
    all: usize,
    /// Those that are not authorised.
    strangers: usize,
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Addresses(HashMap<IpAddr, Count>);

impl Addresses {
    /// True if one more connection from there is within the limits (0 = none).
    pub(super) fn have_room(&self, peer: PeerAddr, all: usize, strangers: usize) -> bool {
        let Some(count) = key(peer).and_then(|key| self.0.get(&key)) else {
            return true;
        };
        (all == 0 || count.all < all) && (strangers == 0 || count.strangers < strangers)
    }

    pub(super) fn came(&mut self, peer: PeerAddr) {
        if let Some(key) = key(peer) {
            let count = self.0.entry(key).or_default();
            count.all += 1;
            count.strangers += 1;
        }
    }

    pub(super) fn authorized(&mut self, peer: PeerAddr) {
        if let Some(count) = key(peer).and_then(|key| self.0.get_mut(&key)) {
            count.strangers -= 1;
        }
    }

    pub(super) fn left(&mut self, peer: PeerAddr, was_authorized: bool) {
        let Some(key) = key(peer) else { return };
        if let Some(count) = self.0.get_mut(&key) {
            count.all -= 1;
            if !was_authorized {
                count.strangers -= 1;
            }
            if count.all == 0 {
                self.0.remove(&key);
            }
        }
    }
}

fn key(peer: PeerAddr) -> Option<IpAddr> {
    let PeerAddr::Ip(address) = peer else {
        return None;
    };
    Some(match address.ip().to_canonical() {
        IpAddr::V6(ip) => {
            let network = ip.to_bits() & !u128::from(u64::MAX);
            IpAddr::V6(network.into())
        }
        ip => ip,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(text: &str) -> PeerAddr {
        PeerAddr::Ip(text.parse().unwrap())
    }

    #[test]
    fn connections_are_counted_by_address_and_strangers_apart() {
        let mut addresses = Addresses::default();
        let one = peer("10.0.0.1:1");
        addresses.came(one);
        addresses.came(peer("10.0.0.1:2"));
        assert!(!addresses.have_room(one, 2, 0));
        assert!(!addresses.have_room(peer("[::ffff:10.0.0.1]:3"), 0, 2));
        assert!(addresses.have_room(one, 3, 3) && addresses.have_room(one, 0, 0));
        assert!(addresses.have_room(peer("10.0.0.2:1"), 1, 1));
        addresses.authorized(one);
        assert!(addresses.have_room(one, 0, 2));
        assert!(!addresses.have_room(one, 2, 2));
        addresses.left(one, true);
        assert!(addresses.have_room(one, 2, 2));
        addresses.left(one, false);
        assert!(addresses.0.is_empty());
    }

    #[test]
    fn a_whole_ipv6_network_is_one_address_and_pipes_are_not_counted() {
        let mut addresses = Addresses::default();
        addresses.came(peer("[2001:db8::1]:1"));
        assert!(!addresses.have_room(peer("[2001:db8::ffff:2]:1"), 1, 0));
        assert!(addresses.have_room(peer("[2001:db8:0:1::1]:1"), 1, 0));
        addresses.came(PeerAddr::Local);
        assert!(addresses.have_room(PeerAddr::Local, 1, 1));
        addresses.left(PeerAddr::Local, false);
    }
}
