//! How a client is: what health checks report, without input or output; and the deep check, which makes
//! a round trip.

use std::time::{Duration, Instant};

use super::Client;
use crate::error::{Error, ErrorCode};
use crate::resilience::engine::State;

/// The verdict. The numbers never change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum HealthStatus {
    /// Connected, initialized and authorised.
    Healthy = 0,
    /// Reconnecting: calls wait for the link.
    Degraded = 1,
    /// Failed, disconnected, or without an answer to a deep check.
    Unhealthy = 2,
}

impl HealthStatus {
    /// The name, as .NET's health checks spell it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Healthy => "Healthy",
            Self::Degraded => "Degraded",
            Self::Unhealthy => "Unhealthy",
        }
    }
}

/// A health report: the data of WitRPC's own check, and what it has not.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Health {
    /// The verdict.
    pub status: HealthStatus,
    /// What the client is called; empty if it has no name.
    pub client_name: String,
    /// The server has answered the client's introduction on the present link.
    pub is_initialized: bool,
    /// The server has accepted the token on the present link.
    pub is_authorized: bool,
    /// State of the connection.
    pub connection_state: State,
    /// How long ago the server gave its last sign of life; `None` without a link.
    pub silence: Option<Duration>,
    /// Of a deep check its round trip, else that of the last ping; `None` without a link, and without
    /// pings (with a .NET server).
    pub round_trip: Option<Duration>,
    /// Calls on their way now.
    pub in_flight: usize,
    /// Calls that wait for the link or for room now.
    pub queued: usize,
    /// Reconnections that succeeded.
    pub reconnects: u64,
    /// Why the last link or attempt to connect failed, or the deep check did.
    pub last_error: Option<Error>,
}

impl Client {
    /// What the client is called; empty if it has no name.
    pub fn name(&self) -> &str {
        self.0.driver.name()
    }

    /// How the client is, as far as it knows itself: nothing is sent.
    pub fn health(&self) -> Health {
        let silence = self.silence();
        self.0.driver.with_engine(|engine| {
            let (state, stats) = (engine.state(), engine.stats());
            let is_authorized = state == State::Connected;
            Health {
                status: match state {
                    State::Connected => HealthStatus::Healthy,
                    State::Reconnecting => HealthStatus::Degraded,
                    State::Disconnected | State::Failed => HealthStatus::Unhealthy,
                },
                client_name: self.name().to_owned(),
                is_initialized: engine.is_initialized(),
                is_authorized,
                connection_state: state,
                silence,
                round_trip: stats.round_trip,
                in_flight: stats.in_flight,
                queued: stats.queued,
                reconnects: stats.reconnects,
                last_error: engine.last_failure().cloned(),
            }
        })
    }

    /// The deep check: [`health`](Self::health), and a [round trip](Self::probe) if the client is
    /// connected. Unhealthy without an answer within `limit`, unless that says nothing: a .NET server
    /// answers a connection's calls one after the other, so that with others in flight it is no
    /// verdict.
    pub async fn check_health(&self, limit: Duration) -> Health {
        let before = self.health();
        if before.connection_state != State::Connected {
            return before;
        }
        let others = before.in_flight;
        let sent = Instant::now();
        let probed = self.probe(limit).await;
        let took = sent.elapsed();
        let mut health = self.health();
        match probed {
            Ok(()) => health.round_trip = Some(took),
            Err(error) if error.code() == ErrorCode::Timeout && others > 0 => {}
            Err(error) => {
                if health.status == HealthStatus::Healthy {
                    health.status = HealthStatus::Unhealthy;
                }
                health.last_error = Some(error);
            }
        }
        health
    }
}
