//! File descriptors: the process's limit (`RLIMIT_NOFILE`), raised at the start and shared out between clients and pods.
//!
//! The rule: connections of clients never take the last descriptors. What they get is bounded so that every request of theirs has
//! one for its pod; who comes beyond that waits to be accepted.

use std::fmt;

use super::config::{Config, Events, Limits};
use super::error::StartError;

/// Raises the process's soft limit to its hard one, and shares it out: the limits of the clients' listener, and of the internal one.
/// Where there are fewer descriptors than `limits.max_connections` asks for, it says so and makes do with what there is.
///
/// # Errors
///
/// When there are too few to serve anybody.
pub(super) fn share_out(config: &Config) -> Result<(Limits, Limits), StartError> {
    let Some(limit) = raise() else { return Ok((config.limits.clone(), config.limits.clone())) };
    let demand = Demand::of(config);
    let share = demand.share(limit)?;
    if share.clients < demand.connections {
        // One line, whoever else writes there.
        let shortage = Shortage { limit, share, demand }.to_string();
        tracing::warn!("{shortage}");
    }
    let of = |connections: u64| Limits {
        max_connections: usize::try_from(connections).unwrap_or(usize::MAX),
        ..config.limits.clone()
    };
    Ok((of(share.clients), of(share.internal)))
}

/// The process's limit after it was raised; `None` if there is none.
#[cfg(unix)]
fn raise() -> Option<u64> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let is_raised = current != maximum && setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).is_ok();
    // Some systems have a lower bound of their own that the hard limit does not tell.
    if is_raised { maximum } else { current }
}

#[cfg(not(unix))]
fn raise() -> Option<u64> {
    None
}

/// What a configuration asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Demand {
    /// `limits.max_connections`.
    connections: u64,
    /// `limits.max_requests`.
    requests: u64,
    /// Listeners, files, the runtime's own, health checks and event sources.
    fixed: u64,
    /// Listeners beside the clients'.
    others: u64,
}

/// Connections that each listener may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Share {
    clients: u64,
    internal: u64,
}

impl Demand {
    fn of(config: &Config) -> Self {
        let served = config.served();
        let pods = served.iter().flat_map(|served| served.pods);
        let of_pods: u64 = pods.map(|pod| if pod.events == Events::None { PER_POD } else { 2 * PER_POD }).sum();
        let listeners = [config.internal.listen.is_some(), config.event_sources.grpc.is_some()];
        Self {
            connections: config.limits.max_connections as u64,
            requests: config.limits.max_requests as u64,
            fixed: OWN.saturating_add(of_pods),
            others: listeners.into_iter().map(u64::from).sum(),
        }
    }

    /// What so many connections of clients take, those of their requests to pods included.
    fn taken(&self, clients: u64) -> u64 {
        clients.saturating_add(self.requests.min(clients).saturating_mul(PER_REQUEST))
    }

    /// Shares a limit out.
    fn share(&self, limit: u64) -> Result<Share, StartError> {
        // Operators and reporters are few, and must get through when clients are many.
        let internal = (limit / 8).clamp(MIN_CONNECTIONS, MAX_INTERNAL).min(self.connections);
        let kept = self.fixed.saturating_add(internal.saturating_mul(self.others));
        let least = MIN_CONNECTIONS.min(self.connections);
        let room = limit.saturating_sub(kept);
        // Either each of them has a request under way, or as many as there may be.
        let clients = (room / (1 + PER_REQUEST)).max(room.saturating_sub(self.requests.saturating_mul(PER_REQUEST)));
        if clients < least {
            return Err(StartError::Descriptors { limit, needed: kept.saturating_add(self.taken(least)) });
        }
        Ok(Share { clients: clients.min(self.connections), internal })
    }
}

/// There are fewer descriptors than were asked for.
struct Shortage {
    limit: u64,
    share: Share,
    demand: Demand,
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { limit, share, demand } = self;
        let kept = demand.fixed.saturating_add(share.internal.saturating_mul(demand.others));
        let needed = kept.saturating_add(demand.taken(demand.connections));
        write!(
            f,
            "limits.max_connections is {}, and the limit of open files is {limit}: {} connections of clients are accepted, \
             so that pods can be reached; raise the limit to {needed} (ulimit -n, LimitNOFILE) or lower the setting",
            demand.connections, share.clients
        )
    }
}

/// Connections to pods for a request under way: one for each of two legs, or one in use and one that is kept open.
const PER_REQUEST: u64 = 2;
/// Of a pod: a health check, and one to spare; as many again for events and their replay.
const PER_POD: u64 = 2;
/// Standard streams, listeners, the runtime, files, certificates, log and snapshot.
const OWN: u64 = 48;
/// Fewer are no use.
const MIN_CONNECTIONS: u64 = 16;
/// More are not wanted on the internal listener.
const MAX_INTERNAL: u64 = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    const DEMAND: Demand = Demand { connections: 16_384, requests: 4096, fixed: 60, others: 1 };

    #[test]
    fn clients_get_all_that_they_ask_for_where_it_is_there() {
        assert_eq!(DEMAND.share(65_536), Ok(Share { clients: 16_384, internal: 1024 }));
        assert_eq!(DEMAND.share(u64::MAX), Ok(Share { clients: 16_384, internal: 1024 }));
        assert_eq!(DEMAND.taken(16_384), 16_384 + 2 * 4096);
    }

    #[test]
    fn whatever_they_get_leaves_what_their_requests_take() {
        for demand in [DEMAND, Demand { others: 0, requests: 10, ..DEMAND }, Demand { connections: 3, ..DEMAND }] {
            let mut before = 0;
            for limit in 0..30_000 {
                match demand.share(limit) {
                    Ok(share) => {
                        let all = demand.taken(share.clients) + demand.fixed + share.internal * demand.others;
                        assert!(all <= limit, "{share:?} of {limit}");
                        let more = demand.taken(share.clients + 1) + demand.fixed + share.internal * demand.others;
                        assert!(share.clients == demand.connections || more > limit, "{share:?} of {limit}");
                        before = before.max(limit);
                    }
                    Err(error) => {
                        assert_eq!(before, 0, "more is never too few");
                        assert!(matches!(error, StartError::Descriptors { needed, .. } if needed > limit), "{error}");
                    }
                }
            }
        }
    }

    #[test]
    fn both_numbers_are_named() {
        let share = DEMAND.share(1024).unwrap();
        let said = Shortage { limit: 1024, share, demand: DEMAND }.to_string();
        for part in ["max_connections is 16384", "open files is 1024", &format!("{} connections", share.clients)] {
            assert!(said.contains(part), "{said}");
        }
        let error = DEMAND.share(64).unwrap_err();
        assert!(error.to_string().contains("64") && !error.is_configuration(), "{error}");
    }
}
