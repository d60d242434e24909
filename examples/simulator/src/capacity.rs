//! Capacity search: the request rate that saturates a fleet.
//!
//! Capacity is the highest rate at which TTFT p90 stays within five times its value on a nearly idle fleet, under a
//! [`REFERENCE`] policy published by others, so that no policy of this project sets its own yardstick. Beyond it queues grow for as
//! long as traffic comes. In a closed loop queues are bounded and TTFT may stay short at any rate: there capacity is the throughput
//! at which answers fall behind arrivals.
//!
//! Invariant: a throughput counts only if twice the traffic is not answered faster. Traffic that ends before the fleet is busy says
//! nothing about it, so [`saturate`] repeats it with other conversations.

use pointsman_lab::trace::Trace;

use crate::SimulateError;
use crate::config::SimConfig;
use crate::online_serving::simulate;
use crate::policy::Policy;
use crate::prepared_trace::PreparedTrace;

/// The policy that capacity is defined by.
pub(crate) const REFERENCE: &str = "lmetric";

/// Traffic that saturates a fleet, and its capacity.
#[derive(Clone, Debug)]
pub(crate) struct SaturatingTrace {
    /// The traffic, with its copies.
    pub(crate) trace: Trace,
    /// How many copies there are; 1 if the traffic was enough.
    pub(crate) copies: usize,
    /// The fleet's capacity in requests a second.
    pub(crate) capacity: f64,
}

/// Repeats traffic until it saturates the fleet, up to [`MOST_REQUESTS`], and finds the capacity; `probed` is called after
/// every simulation.
pub(crate) fn saturate(
    trace: &Trace,
    config: &SimConfig,
    probed: &mut dyn FnMut(),
) -> Result<SaturatingTrace, SimulateError> {
    let mut search = Search { policy: Policy::find(REFERENCE)?, config, probed };
    let (mut repeated, mut copies) = (trace.clone(), 1);
    loop {
        let requests = repeated.requests.len();
        let more = trace.clone().repeated(copies * 2, config.seed);
        if let Some(capacity) = search.capacity(&repeated, &more)? {
            return Ok(SaturatingTrace { trace: repeated, copies, capacity });
        }
        if requests == 0 || requests * 2 > MOST_REQUESTS {
            return Err(SimulateError::TooFew { requests, pods: config.pods.len() });
        }
        (repeated, copies) = (more, copies * 2);
    }
}

/// Requests a second that a fleet just takes of such traffic, within 2%. Of more than [`MOST_REQUESTS`] it tries the first.
pub(crate) fn capacity(trace: &Trace, config: &SimConfig) -> Result<f64, SimulateError> {
    let mut search = Search { policy: Policy::find(REFERENCE)?, config, probed: &mut || {} };
    let capacity = search.capacity(trace, &trace.clone().repeated(2, config.seed))?;
    capacity.ok_or(SimulateError::TooFew { requests: trace.requests.len(), pods: config.pods.len() })
}

struct Search<'s> {
    policy: Policy,
    config: &'s SimConfig,
    probed: &'s mut dyn FnMut(),
}

/// What bounds the capacity, in requests a second.
enum CapacityLimit {
    /// Beyond it TTFT is too long.
    Ttft(f64),
    /// TTFT stays short, but no more than this is answered.
    Throughput(f64),
}

impl Search<'_> {
    /// The capacity; none if twice the traffic is answered faster, so that the fleet was not busy.
    fn capacity(&mut self, trace: &Trace, twice: &Trace) -> Result<Option<f64>, SimulateError> {
        Ok(match self.run(trace)? {
            CapacityLimit::Ttft(rate) => Some(rate),
            CapacityLimit::Throughput(answered) => {
                let more = self.probe(twice, answered * 4.0)?.1;
                (more <= answered * FASTER).then_some(answered)
            }
        })
    }

    fn run(&mut self, trace: &Trace) -> Result<CapacityLimit, SimulateError> {
        let mut low = IDLE_PER_POD * self.config.pods.len() as f64;
        let (idle, mut best) = self.probe(trace, low)?;
        let most = 5.0 * idle;
        let mut high = low * 2.0;
        loop {
            let (p90, answered) = self.probe(trace, high)?;
            best = answered.max(best);
            if p90 > most {
                break;
            }
            if answered < KEPT_UP * high {
                return Ok(CapacityLimit::Throughput(best));
            }
            (low, high) = (high, high * 2.0);
        }
        while high / low > 1.02 {
            let middle = (low * high).sqrt();
            let (p90, answered) = self.probe(trace, middle)?;
            if p90 <= most { (low, best) = (middle, answered.max(best)) } else { high = middle }
        }
        // What comes of conversations is less than what is asked for as soon as answers take longer.
        Ok(if trace.is_closed() && best < low { CapacityLimit::Throughput(best) } else { CapacityLimit::Ttft(low) })
    }

    /// TTFT p90 in µs, and throughput in requests a second.
    fn probe(&mut self, trace: &Trace, rate: f64) -> Result<(f64, f64), SimulateError> {
        let part = trace.requests.len().min(MOST_REQUESTS);
        let trace = trace.clone().take(part).at_rate(rate, self.config.seed);
        let result = simulate(&self.policy, &PreparedTrace::new(&trace), self.config, &mut |_| {})?;
        (self.probed)();
        let none = || SimulateError::flag("kv-tokens", "no pod has room for any request of the traffic");
        Ok((result.ttft.quantile(0.9).ok_or_else(none)?, result.throughput()))
    }
}

/// Requests a second at which a pod is nearly idle.
const IDLE_PER_POD: f64 = 0.01;

/// Share of a rate below which answers have fallen behind.
const KEPT_UP: f64 = 0.5;

/// Twice the traffic on busy pods is answered a little faster, since the end, when few are left, is shorter against it.
const FASTER: f64 = 1.2;

/// Most requests of a search.
pub(crate) const MOST_REQUESTS: usize = 100_000;

#[cfg(test)]
mod tests {
    use pointsman_lab::trace::synthetic::Synthetic;
    use pointsman_lab::trace::{Request, Start};

    use super::*;

    fn config(pods: usize, block: usize) -> SimConfig {
        SimConfig::mixed(pods, 200_000, block)
    }

    /// Conversations of so many turns of 2,000 tokens with short answers, so that debug builds are quick.
    fn conversations(count: u32, turns: u32) -> Trace {
        let turn = |at: u32| {
            let (session, start) = (at / turns, Start::At(u64::from(at / turns) * 1_000_000));
            let start = if at.is_multiple_of(turns) { start } else { Start::After(at - 1, 1_000_000) };
            Request { start, session, input: 2_000, output: 8, ids: (0..3).map(|id| u64::from(at * 3 + id)).collect() }
        };
        Trace::new(512, (0..count * turns).map(turn).collect())
    }

    #[test]
    fn more_pods_take_more() {
        let trace = conversations(120, 1);
        let of = |pods| capacity(&trace, &config(pods, trace.block)).unwrap();
        let (one, two) = (of(1), of(2));
        assert!(two > 1.4 * one && two < 3.0 * one, "{one} and {two}");
    }

    #[test]
    fn a_handful_of_conversations_is_repeated_until_it_saturates_the_fleet() {
        let trace = conversations(4, 3);
        let config = config(2, trace.block);
        let error = capacity(&trace, &config).unwrap_err();
        assert!(matches!(error, SimulateError::TooFew { requests: 12, pods: 2 }), "{error}");
        let mut probes = 0;
        let saturating = saturate(&trace, &config, &mut || probes += 1).unwrap();
        assert!(saturating.copies > 1 && probes > 5, "{} copies", saturating.copies);
        assert_eq!(saturating.trace.requests.len(), 12 * saturating.copies);
        // It is what is answered when all come at once or less, and first tokens are as quick as they should be.
        let policy = Policy::find(REFERENCE).unwrap();
        let at = |rate: f64| {
            let trace = saturating.trace.clone().at_rate(rate, config.seed);
            let result = simulate(&policy, &PreparedTrace::new(&trace), &config, &mut |_| {}).unwrap();
            (result.ttft.quantile(0.9).unwrap(), result.throughput())
        };
        let (idle, within, most) = (at(0.02).0, at(saturating.capacity).0, at(1e6).1);
        assert!(within <= 5.0 * idle, "{within} µs for {idle} on an idle fleet");
        assert!(saturating.capacity <= 1.1 * most, "{} of {most}", saturating.capacity);
    }

    #[test]
    fn traffic_that_no_pod_has_room_for_is_an_error() {
        let trace = Synthetic::Conversation.trace(20, 3);
        let error = capacity(&trace, &SimConfig::mixed(1, trace.block, trace.block)).unwrap_err();
        assert!(error.to_string().starts_with("--kv-tokens: "), "{error}");
        let nothing = Trace::new(512, Vec::new());
        assert!(saturate(&nothing, &config(1, 512), &mut || {}).is_err());
    }
}
