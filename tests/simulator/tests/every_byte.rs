//! The first connection of a life breaks before and after every one of its bytes, each way.

use witrpc_simulator::fault::Fault;
use witrpc_simulator::plan::{Plan, Planned};
use witrpc_simulator::runs::outcome;

/// A life of one client, with its own ups and downs left out.
fn plan(seed: u64, fault: Fault) -> Plan {
    let mut plan = Plan::new(seed);
    let planned = Planned {
        at: 0,
        client: 0,
        fault,
    };
    plan.faults = vec![(0, planned)];
    plan
}

fn every_byte(fault: fn(u64) -> Fault, at_least: u64) {
    let mut seeds = (1..).filter(|seed| {
        let plan = Plan::new(*seed);
        plan.clients.len() == 1 && !plan.server.is_encrypted
    });
    for _ in 0..2 {
        let Some(seed) = seeds.next() else { return };
        let mut bytes = 0;
        loop {
            let lived = outcome(plan(seed, fault(bytes)), None, false);
            assert_eq!(lived.violations, [""; 0], "seed {seed}, byte {bytes}");
            if lived.breaks == 0 {
                break;
            }
            bytes += 1;
        }
        println!("seed {seed}: {bytes} bytes");
        assert!(bytes >= at_least, "only {bytes} bytes in life {seed}");
    }
}

#[test]
fn a_connection_may_break_at_every_byte_of_what_a_client_sends() {
    every_byte(Fault::CutUp, 200);
}

#[test]
fn a_connection_may_break_at_every_byte_of_what_a_server_sends() {
    every_byte(Fault::CutDown, 100);
}
