//! Scorers of load.

use std::time::Duration;

use routing_plugins::score::{KvUtilizationScorer, LeastLoadParameters, LeastLoadScorer, LoadFigure, LoadForm};
use routing_plugins::{Fraction, Positive};

use super::expect::expect;
use super::setup::Setup;
use crate::case::Case;
use crate::read::{counts, figures, known_case, number, signed};

fn least(case: &Case, setup: &Setup, parameters: LeastLoadParameters) -> Result<(), String> {
    expect(case, &setup.scores(move |d| LeastLoadScorer::declare(d, parameters))?)
}

pub(crate) fn queue(case: &Case) -> Result<(), String> {
    known_case(case, &[], &["waiting_queue"])?;
    let waiting = counts(&case.input["waiting_queue"])?;
    let setup = Setup::new(waiting.len()).loads(&waiting, |waiting, load| load.waiting = *waiting);
    least(case, &setup, LeastLoadParameters::default().by(LoadFigure::Waiting))
}

/// An endpoint without the figure is a pod without a report.
pub(crate) fn multicluster_queue(case: &Case) -> Result<(), String> {
    known_case(case, &[], &["queue"])?;
    let reported = figures(&case.input["queue"])?;
    let waiting = counts(&case.input["queue"])?;
    let both: Vec<_> = reported.iter().map(Option::is_some).zip(waiting).collect();
    let setup = Setup::new(both.len()).loads(&both, |(reported, waiting), load| {
        (load.age, load.waiting) = (reported.then_some(Duration::ZERO), *waiting);
    });
    let by = LoadFigure::Waiting;
    least(case, &setup, LeastLoadParameters::default().by(by).only_reported(true))
}

pub(crate) fn running(case: &Case) -> Result<(), String> {
    known_case(case, &[], &["running_requests"])?;
    let running = counts(&case.input["running_requests"])?;
    let setup = Setup::new(running.len()).loads(&running, |running, load| load.running = *running);
    least(case, &setup, LeastLoadParameters::default().by(LoadFigure::Running))
}

pub(crate) fn load_aware(case: &Case) -> Result<(), String> {
    known_case(case, &["threshold"], &["waiting_queue"])?;
    let threshold = number(&case.params, "threshold")?.unwrap_or(128.0);
    let limit = Positive::new(threshold).or(Positive::new(128.0)).ok_or("no threshold")?;
    let waiting = counts(&case.input["waiting_queue"])?;
    let setup = Setup::new(waiting.len()).loads(&waiting, |waiting, load| load.waiting = *waiting);
    let form = LoadForm::Limit { limit, best: Fraction::new(0.5).ok_or("a half")? };
    least(case, &setup, LeastLoadParameters::default().by(LoadFigure::Waiting).form(form))
}

/// What the request has uncached on a pod is made by what the pod holds of the prompt, in blocks of one token.
pub(crate) fn token_load(case: &Case) -> Result<(), String> {
    known_case(case, &["queueThresholdTokens"], &["inflight_tokens", "uncached_request_tokens"])?;
    let in_flight = counts(&case.input["inflight_tokens"])?;
    let uncached = match case.input.get("uncached_request_tokens") {
        Some(uncached) => counts(uncached)?,
        None => vec![0; in_flight.len()],
    };
    if uncached.len() != in_flight.len() {
        return Err("unknown: lists of different lengths".into());
    }
    let prompt = uncached.iter().max().copied().unwrap_or_default();
    let setup = Setup::new(in_flight.len()).prompt(prompt as usize, 1);
    for (pod, uncached) in uncached.iter().enumerate() {
        setup.hold(pod, (prompt - uncached) as usize);
    }
    let setup = setup.loads(&in_flight, |tokens, load| load.in_flight.uncached_tokens = u64::from(*tokens));
    let threshold = number(&case.params, "queueThresholdTokens")?.unwrap_or(4_194_304.0);
    // What is not above 0 is their default.
    let limit = Positive::new(threshold).or(Positive::new(4_194_304.0)).ok_or("no threshold")?;
    let form = LoadForm::Limit { limit, best: Fraction::ONE };
    let by = LoadFigure::UncachedTokens;
    least(case, &setup, LeastLoadParameters::default().by(by).form(form).with_request(true).only_reported(false))
}

/// Parameters out of range are passed over there, and cannot be had here.
pub(crate) fn active_requests(case: &Case) -> Result<(), String> {
    // A timeout of theirs counts no more, whatever it is.
    known_case(case, &["idleThreshold", "maxBusyScore", "requestTimeout"], &["active"])?;
    let idle = signed(&case.params, "idleThreshold")?.and_then(|idle| u32::try_from(idle).ok()).unwrap_or_default();
    let busy = number(&case.params, "maxBusyScore")?.and_then(|busy| Fraction::try_from(busy).ok());
    let active = counts(&case.input["active"])?;
    let setup = Setup::new(active.len()).loads(&active, |active, load| load.in_flight.requests = *active);
    let form = LoadForm::Idle { idle, busy: busy.unwrap_or(Fraction::ONE) };
    least(case, &setup, LeastLoadParameters::default().by(LoadFigure::InFlight).form(form))
}

pub(crate) fn kv_utilization(case: &Case) -> Result<(), String> {
    known_case(case, &[], &["kv_cache_usage"])?;
    let used = figures(&case.input["kv_cache_usage"])?;
    let setup = Setup::new(used.len());
    let setup = setup.loads(&used, |used, load| load.kv_used = used.unwrap_or_default() as f32);
    expect(case, &setup.scores(KvUtilizationScorer::declare)?)
}
