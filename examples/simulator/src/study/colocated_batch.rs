//! Colocated batch: batch throughput beside online traffic, and what it costs online latency.
//!
//! The batch is synthetic RAG traffic, planned for the fleet as a whole and restarted when it is done. It is admitted with a
//! fixed concurrency ("no rule"), by the stock admission rule's cautious defaults, and by its bounds for these costs; on engines that serve first come, first served, and on engines
//! that prioritize online requests.

use std::fmt::{self, Write};
use std::num::NonZeroU32;

use kv_index::BlockHash;
use pointsman_lab::trace::Trace;
use pointsman_lab::trace::synthetic::Synthetic;
use routing_core::batch::{BatchConfig, BatchPlanner, ColdCaches};
use routing_plugins::CostModel;
use routing_plugins::load::BatchAdmission;

use super::{median, run_tasks, ttft_p50, ttft_p99};
use crate::SimulateError;
use crate::colocated_batch::{AdmissionMode, ColocatedBatch, ColocatedBatchResult};
use crate::config::SimConfig;
use crate::offline_batch::planned::{pods, requests};
use crate::online_serving::{simulate, simulate_colocated};
use crate::options::Options;
use crate::policy::{DEFAULT, Policy};
use crate::prepared_trace::PreparedTrace;
use crate::results::PolicyResult;
use crate::workload::Workload;

/// Runs the experiment, with the default policy unless others are named.
pub(crate) fn run(options: &Options) -> Result<String, SimulateError> {
    let (workloads, policies) = (Workload::all(options)?, options.policies_or([DEFAULT])?);
    let mut tasks = Vec::new();
    for workload in &workloads {
        for policy in &policies {
            for &load in &options.load {
                tasks.extend(options.seeds().map(|seed| (workload, policy, load, seed)));
            }
        }
    }
    let work = |&(workload, policy, load, seed): &(&Workload, &Policy, f64, u64)| compare(workload, policy, load, seed);
    let results = run_tasks(&tasks, options, work)?;
    let mut text = String::from(HEAD);
    let seeds = options.seeds().count();
    for (tasks, results) in tasks.chunks(seeds).zip(results.chunks(seeds)) {
        let Some(&(workload, policy, load, _)) = tasks.first() else { continue };
        // Writing to a string does not fail.
        let _ = write_rows(&mut text, &format!("{} | {load}% | `{}`", workload.name, policy.name), results);
    }
    Ok(text)
}

/// The results of one seed.
struct SeedResult {
    alone: PolicyResult,
    /// Tokens a second of the batch with the fleet to itself.
    offline: f64,
    variants: Vec<(&'static str, PolicyResult, ColocatedBatchResult)>,
}

fn compare(workload: &Workload, policy: &Policy, load: f64, seed: u64) -> Result<SeedResult, SimulateError> {
    let (trace, config) = workload.at_load(load, seed);
    let mut first = config.clone();
    first.pods.iter_mut().for_each(|(engine, _)| engine.priority_scheduling = true);
    let no_trace = Trace::new(trace.block, Vec::new());
    let (online, idle) = (PreparedTrace::new(&trace), PreparedTrace::new(&no_trace));
    let batch = planned(&online, trace.block, &config, seed)?;
    let alone_batch = planned(&idle, trace.block, &config, seed)?;
    let whole = (&alone_batch, AdmissionMode::FixedConcurrency(OFFLINE_IN_FLIGHT));
    let (_, offline) = simulate_colocated(policy, &idle, &config, whole, Some(OFFLINE_US))?;
    let alone = simulate(policy, &online, &config, &mut |_| {})?;
    let mut variants = Vec::new();
    let by_costs = BatchAdmission::by_costs(&config.costs);
    for (name, rule, config) in [
        ("no rule", AdmissionMode::FixedConcurrency(NAIVE_IN_FLIGHT), &config),
        ("no rule, online first", AdmissionMode::FixedConcurrency(NAIVE_IN_FLIGHT), &first),
        ("cautious", AdmissionMode::Admission(BatchAdmission::default()), &config),
        ("by costs", AdmissionMode::Admission(by_costs), &config),
        ("by costs, online first", AdmissionMode::Admission(by_costs), &first),
        ("by costs, unseen", AdmissionMode::HiddenAdmission(by_costs), &config),
    ] {
        let (mut result, batch_result) = simulate_colocated(policy, &online, config, (&batch, rule), None)?;
        result.series.clear();
        variants.push((name, result, batch_result));
    }
    Ok(SeedResult { alone, offline: offline.rate(), variants })
}

/// A batch planned for a fleet, behind the prompts of online traffic.
fn planned(
    online: &PreparedTrace<'_>,
    block: usize,
    config: &SimConfig,
    seed: u64,
) -> Result<ColocatedBatch, SimulateError> {
    let trace = Synthetic::Rag.trace(BATCH, seed ^ 0xBA7C);
    let mut chains = online.with_answers.clone();
    let first = chains.len() as u32;
    for request in &trace.requests {
        let ids = in_blocks(request.whole_blocks(trace.block), trace.block, block);
        // Apart from those of the online requests.
        chains.push(ids.map(|id| BlockHash::new((id + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0xBA7C_BA7C)));
    }
    let lengths: Vec<_> = trace.requests.iter().map(|request| (request.input, request.output)).collect();
    let block_tokens = NonZeroU32::new(block as u32).unwrap_or(NonZeroU32::MIN);
    let planner = BatchPlanner::new(BatchConfig::new((&CostModel::default()).into()).block_tokens(block_tokens));
    let requests = requests(&chains, first, lengths.iter().copied());
    let plan = planner.plan(&requests, &pods(config)?, &mut ColdCaches)?;
    let queues = plan.pods.iter().map(|pod| pod.requests().collect()).collect();
    Ok(ColocatedBatch { chains, first, lengths, queues })
}

/// Converts the ids of a prompt's blocks to another block size. A block is identified by the one of the other size that
/// its last token is in: that says all that was before.
fn in_blocks(ids: &[u64], from: usize, to: usize) -> impl Iterator<Item = u64> {
    // How many may end in one of the other size: each has an id of its own.
    let parts = from.div_ceil(to);
    (1..=ids.len() * from / to).map(move |at| ids[(at * to - 1) / from] * parts as u64 + (at % parts) as u64)
}

const HEAD: &str = "\
| trace | load | policy | batch | TTFT p50 | p99 | against alone | of the seeds, from to | between tokens p99 | against alone \
| hits | batch tokens/s | of an idle fleet's |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|\n";

fn write_rows(text: &mut String, cell: &str, done: &[SeedResult]) -> fmt::Result {
    let between = |result: &PolicyResult| result.between.quantile(0.99).unwrap_or(0.0) / 1e3;
    let of = |figure: &dyn Fn(&SeedResult) -> f64| median(done.iter().map(figure));
    writeln!(
        text,
        "| {cell} | none | {:.3} s | {:.2} s | | | {:.0} ms | | {:.1}% | | |",
        of(&|one| ttft_p50(&one.alone)),
        of(&|one| ttft_p99(&one.alone)),
        of(&|one| between(&one.alone)),
        of(&|one| one.alone.hit_rate() * 100.0),
    )?;
    for (at, (name, ..)) in done.first().into_iter().flat_map(|one| one.variants.iter().enumerate()) {
        let online = |one: &SeedResult, figure: &dyn Fn(&PolicyResult) -> f64| figure(&one.variants[at].1);
        let slower = |one: &SeedResult| online(one, &ttft_p99) / ttft_p99(&one.alone).max(f64::MIN_POSITIVE);
        let ratios = || done.iter().map(slower);
        writeln!(
            text,
            "| {cell} | {name} | {:.3} s | {:.2} s | {:.3} | {:.3} to {:.3} | {:.0} ms | {:.2} | {:.1}% | {:.0} | {:.1}% |",
            of(&|one| online(one, &ttft_p50)),
            of(&|one| online(one, &ttft_p99)),
            median(ratios()),
            ratios().fold(f64::MAX, f64::min),
            ratios().fold(0.0, f64::max),
            of(&|one| online(one, &between)),
            of(&|one| online(one, &between) / between(&one.alone).max(f64::MIN_POSITIVE)),
            of(&|one| online(one, &PolicyResult::hit_rate) * 100.0),
            of(&|one| one.variants[at].2.rate()),
            of(&|one| one.variants[at].2.rate() / one.offline.max(f64::MIN_POSITIVE) * 100.0),
        )?;
    }
    Ok(())
}

/// Requests of the batch: several times what the caches of a fleet hold, so that beginning over finds nothing.
const BATCH: usize = 64_000;
/// At once on each pod, with no rule: the default of batch runners.
const NAIVE_IN_FLIGHT: u32 = 64;
/// At once on each pod, with the fleet to itself: what an engine runs at most.
const OFFLINE_IN_FLIGHT: u32 = 256;
/// Virtual µs for which the batch has the fleet to itself.
const OFFLINE_US: u64 = 300_000_000;

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn ids_of_other_blocks_stand_for_as_many_tokens_and_share_as_many() {
        let trace = Synthetic::Rag.trace(2_000, 3);
        // Tokens in whole blocks of a size, and the share of them that an earlier prompt had.
        let told = |to: usize| {
            let (mut seen, mut tokens, mut known) = (HashSet::new(), 0, 0);
            for request in &trace.requests {
                for id in in_blocks(request.whole_blocks(trace.block), trace.block, to) {
                    tokens += to;
                    known += if seen.insert(id) { 0 } else { to };
                }
            }
            (tokens as f64, known as f64 / tokens as f64)
        };
        let (tokens, known) = told(trace.block);
        for to in [16, 48, 96, 128, 512] {
            let (other_tokens, other_known) = told(to);
            let rest = (trace.requests.len() * to.max(trace.block)) as f64;
            assert!(other_tokens <= tokens && other_tokens >= tokens - rest, "{to}: {other_tokens} of {tokens}");
            assert!((other_known - known).abs() < 0.05, "{to}: {other_known} instead of {known}");
        }
    }

    #[test]
    fn prompts_have_the_same_blocks_as_far_as_they_are_the_same() {
        let ids = |ids: &[u64], to: usize| in_blocks(ids, 64, to).collect::<Vec<_>>();
        assert_eq!(ids(&[1, 2, 3, 4, 5], 128), [2, 4], "the last of each whole group");
        assert!(ids(&[1, 2], 512).is_empty(), "no whole block");
        assert_eq!(ids(&[7], 64), [7]);
        let (one, other) = (ids(&[1, 2, 3], 16), ids(&[1, 2, 9], 16));
        assert_eq!((one.len(), &one[..8], one[8..] == other[8..]), (12, &other[..8], false));
        assert_eq!(one.iter().collect::<HashSet<_>>().len(), 12);
    }

    #[test]
    fn a_fleet_that_cannot_be_planned_for_is_told() {
        let no_trace = Trace::new(512, Vec::new());
        let config = SimConfig::mixed(0, 1_000_000, 512);
        let planned = planned(&PreparedTrace::new(&no_trace), 512, &config, 1);
        assert!(matches!(planned, Err(SimulateError::Plan(_))), "{planned:?}");
    }
}
