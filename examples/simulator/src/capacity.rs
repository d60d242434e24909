//! How many requests a second a fleet can take.
//!
//! The greatest rate at which nine in ten requests have their first token within five times what it takes on a fleet that
//! is nearly idle, by a rule of others' making ([`REFERENCE`]): beyond it queues grow for as long as traffic comes, and no
//! rule is judged by a yardstick of its own.
//!
//! Where requests wait for others, queues do not grow without end and first tokens may stay quick although pods answer no
//! more than they can: then the fleet takes what it answers in a second once answers fall behind what is asked for.
//!
//! Traffic that is over before the fleet is busy says nothing about it: a hundred conversations that begin at once are no
//! load for sixteen pods, however fast they are said to come. The rule that must never break: what is answered in a second
//! counts only if twice the traffic would not be answered faster. Where it would, [`fill`] repeats the traffic with other
//! conversations.

use pointsman_lab::trace::Trace;

use crate::SimulateError;
use crate::config::SimConfig;
use crate::online::{Load, simulate};
use crate::policy::Policy;

/// The rule by which capacity is told.
pub const REFERENCE: &str = "lmetric";

/// Traffic that fills a fleet.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Filled {
    /// The traffic, with its copies.
    pub trace: Trace,
    /// How many times it was there in the end: 1 if once was enough.
    pub copies: usize,
    /// Requests a second of it that the fleet just takes.
    pub capacity: f64,
}

/// Traffic, repeated until it fills the fleet, and how much of it that takes; `probed` is called after every run.
///
/// It is repeated up to [`MOST_REQUESTS`].
///
/// # Errors
///
/// As [`capacity`].
pub fn fill(trace: &Trace, config: &SimConfig, probed: &mut dyn FnMut()) -> Result<Filled, SimulateError> {
    let mut search = Search { policy: Policy::find(REFERENCE)?, config, probed };
    let (mut repeated, mut copies) = (trace.clone(), 1);
    loop {
        let answered = match search.run(&repeated)? {
            Found::Taken(capacity) => return Ok(Filled { trace: repeated, copies, capacity }),
            Found::Behind(answered) => answered,
        };
        let requests = repeated.requests.len();
        let more = trace.clone().repeated(copies * 2, config.seed);
        if !search.is_faster(&more, answered)? {
            return Ok(Filled { trace: repeated, copies, capacity: answered });
        }
        if requests == 0 || requests * 2 > MOST_REQUESTS {
            return Err(SimulateError::TooFew { requests, pods: config.pods.len() });
        }
        (repeated, copies) = (more, copies * 2);
    }
}

/// Requests a second that a fleet just takes of such traffic, within 2%. Of more than [`MOST_REQUESTS`] it tries the first.
///
/// # Errors
///
/// As [`simulate`]; when no pod has room for any request; and when the traffic is too little to tell.
pub fn capacity(trace: &Trace, config: &SimConfig) -> Result<f64, SimulateError> {
    let mut search = Search { policy: Policy::find(REFERENCE)?, config, probed: &mut || {} };
    let too_few = SimulateError::TooFew { requests: trace.requests.len(), pods: config.pods.len() };
    match search.run(trace)? {
        Found::Taken(rate) => Ok(rate),
        Found::Behind(answered) if search.is_faster(&trace.clone().repeated(2, config.seed), answered)? => Err(too_few),
        Found::Behind(answered) => Ok(answered),
    }
}

struct Search<'s> {
    policy: Policy,
    config: &'s SimConfig,
    probed: &'s mut dyn FnMut(),
}

/// What a search found, in requests a second.
enum Found {
    /// Beyond it first tokens take too long.
    Taken(f64),
    /// First tokens stay quick, but no more than this is answered.
    Behind(f64),
}

impl Search<'_> {
    fn run(&mut self, trace: &Trace) -> Result<Found, SimulateError> {
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
                return Ok(Found::Behind(best));
            }
            (low, high) = (high, high * 2.0);
        }
        while high / low > 1.02 {
            let middle = (low * high).sqrt();
            let (p90, answered) = self.probe(trace, middle)?;
            if p90 <= most { (low, best) = (middle, answered.max(best)) } else { high = middle }
        }
        // What comes of conversations is less than what is asked for as soon as answers take longer.
        Ok(if trace.is_closed() && best < low { Found::Behind(best) } else { Found::Taken(low) })
    }

    /// µs until nine in ten have their first token, and requests answered in a second.
    fn probe(&mut self, trace: &Trace, rate: f64) -> Result<(f64, f64), SimulateError> {
        let part = trace.requests.len().min(MOST_REQUESTS);
        let trace = trace.clone().take(part).at_rate(rate, self.config.seed);
        let outcome = simulate(&self.policy, &Load::new(&trace), self.config, &mut |_| {})?;
        (self.probed)();
        let none = || SimulateError::flag("kv-tokens", "no pod has room for any request of the traffic");
        Ok((outcome.ttft.quantile(0.9).ok_or_else(none)?, outcome.throughput()))
    }

    /// Whether more is answered in a second of this than was of half of it: the fleet was not busy.
    fn is_faster(&mut self, twice: &Trace, answered: f64) -> Result<bool, SimulateError> {
        Ok(self.probe(twice, answered * 4.0)?.1 > answered * FASTER)
    }
}

/// Requests a second at which a pod is nearly idle.
const IDLE_PER_POD: f64 = 0.01;

/// Share of a rate below which answers have fallen behind.
const KEPT_UP: f64 = 0.5;

/// Twice the traffic on busy pods is answered a little faster, since the end, when few are left, is shorter against it.
const FASTER: f64 = 1.2;

/// Requests that capacity is told by at most.
pub const MOST_REQUESTS: usize = 100_000;

#[cfg(test)]
mod tests {
    use pointsman_lab::trace::made::Made;
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
    fn a_handful_of_conversations_is_repeated_until_it_fills_the_fleet() {
        let trace = conversations(4, 3);
        let config = config(2, trace.block);
        let told = capacity(&trace, &config).unwrap_err();
        assert!(matches!(told, SimulateError::TooFew { requests: 12, pods: 2 }), "{told}");
        let mut probes = 0;
        let filled = fill(&trace, &config, &mut || probes += 1).unwrap();
        assert!(filled.copies > 1 && probes > 5, "{} copies", filled.copies);
        assert_eq!(filled.trace.requests.len(), 12 * filled.copies);
        // It is what is answered when all come at once or less, and first tokens are as quick as they should be.
        let policy = Policy::find(REFERENCE).unwrap();
        let at = |rate: f64| {
            let trace = filled.trace.clone().at_rate(rate, config.seed);
            let outcome = simulate(&policy, &Load::new(&trace), &config, &mut |_| {}).unwrap();
            (outcome.ttft.quantile(0.9).unwrap(), outcome.throughput())
        };
        let (idle, within, most) = (at(0.02).0, at(filled.capacity).0, at(1e6).1);
        assert!(within <= 5.0 * idle, "{within} µs for {idle} on an idle fleet");
        assert!(filled.capacity <= 1.1 * most, "{} of {most}", filled.capacity);
    }

    #[test]
    fn traffic_that_no_pod_has_room_for_is_told() {
        let trace = Made::Conversation.trace(20, 3);
        let error = capacity(&trace, &SimConfig::mixed(1, trace.block, trace.block)).unwrap_err();
        assert!(error.to_string().starts_with("--kv-tokens: "), "{error}");
        let nothing = Trace::new(512, Vec::new());
        assert!(fill(&nothing, &config(1, 512), &mut || {}).is_err());
    }
}
