//! Command line of `simulate`.
//!
//! | module | content |
//! |---|---|
//! | [`check`](Options::check) | validation, with the flag in every error |
//! | [`command`](Options::command) | the command that reproduces a run |

mod check;
mod command;

use std::collections::HashSet;
use std::iter;
use std::path::{Path, PathBuf};

use clap::{Parser, ValueEnum};
use pointsman_engine_sim::scheduler::EngineConfig;
use pointsman_lab::trace::Trace;
use pointsman_lab::trace::synthetic::Synthetic;
use routing_plugins::flow::FlowDocument;
use routing_plugins::{CostModel, Fit, FitError, Measurements, Products};

use crate::SimulateError;
use crate::config::{SimConfig, Slo};
use crate::policy::Policy;

/// Simulates routing policies on recorded or synthetic traffic, in virtual time.
///
/// The real index, profiles and load tracker route requests to modelled pods. An hour of traffic takes a second. By default it
/// generates conversation traffic, searches the capacity of 16 pods, and compares all policies at 80% of it.
#[derive(Clone, Debug, Parser)]
#[command(name = "simulate", after_help = EXAMPLES)]
pub(crate) struct Options {
    /// Trace file: Mooncake JSONL or JSONL with `session_id`s, optionally gzipped; repeatable.
    #[arg(long, value_name = "FILE", conflicts_with = "synthetic")]
    pub(crate) trace: Vec<PathBuf>,
    /// Synthetic traffic: conversation, chat, rag, agents, shared_prompts, documents, fan_out, coding_agents, bursts, or mixed:SHARE
    /// with a share of long cold prompts, 0.5 if left out; repeatable.
    #[arg(long, value_name = "KIND", default_value = "conversation")]
    pub(crate) synthetic: Vec<Synthetic>,
    /// Synthetic requests; a trace is repeated with other conversations until it has at least so many.
    #[arg(long, default_value_t = 12_000)]
    pub(crate) requests: usize,
    /// Load in percent of the fleet's capacity.
    #[arg(long, value_name = "PERCENT", default_value = "80", value_delimiter = ',', conflicts_with = "rate")]
    pub(crate) load: Vec<f64>,
    /// Requests per second instead of a load; 0 for the trace's own arrival times.
    #[arg(long, conflicts_with = "study")]
    pub(crate) rate: Option<f64>,
    /// Pods of the fleet.
    #[arg(long, default_value_t = 16)]
    pub(crate) pods: usize,
    /// Prefill-only pods; the others are then decode-only.
    #[arg(long, default_value_t = 0)]
    pub(crate) prefill_pods: usize,
    /// KV cache of pods in GPU memory, in tokens, over and over: `1000000,500000` gives every second pod half of it.
    #[arg(long, value_name = "A,B,C", default_value = "1000000", value_delimiter = ',')]
    pub(crate) kv_tokens: Vec<usize>,
    /// KV cache of a pod in host memory, in tokens.
    #[arg(long, default_value_t = 0)]
    pub(crate) host_tokens: usize,
    /// Tokens of one step of a pod at most, as vLLM's `--max-num-batched-tokens`.
    #[arg(long, value_name = "N", default_value_t = EngineConfig::default().step_tokens)]
    pub(crate) step_tokens: usize,
    /// Requests that a pod runs at once at most, as vLLM's `--max-num-seqs`.
    #[arg(long, value_name = "N", default_value_t = EngineConfig::default().max_running)]
    pub(crate) max_running: usize,
    /// Cost table of another GPU or model, as JSON; one H200 with an 8B model and fused kernels by default.
    #[arg(long, value_name = "FILE")]
    pub(crate) costs: Option<PathBuf>,
    /// Speeds of pods against the cost table, over and over: `1,0.5` makes every second pod half as fast.
    #[arg(long, value_name = "A,B,C", default_value = "1", value_delimiter = ',')]
    pub(crate) speeds: Vec<f64>,
    /// How many times faster than that pods decode, over and over: `--speeds 1,0.5 --decode-speeds 1,3` has every second pod prefill at
    /// half the speed and decode at one and a half.
    #[arg(long, value_name = "A,B,C", default_value = "1", value_delimiter = ',')]
    pub(crate) decode_speeds: Vec<f64>,
    /// Time after which a pod is replaced, in seconds: the oldest takes no more requests, and one with an empty cache comes.
    #[arg(long, value_name = "SECONDS")]
    pub(crate) churn: Option<f64>,
    /// Gateways that share the traffic. Each knows the load that it sent itself, and what engines report.
    #[arg(long, default_value_t = 1)]
    pub(crate) gateways: usize,
    /// Time between two summaries that gateways tell each other of what they have in flight, in milliseconds; what they decide they tell at once
    /// then, and both come as late as cache events. 0 for gateways that tell each other nothing.
    #[arg(long, value_name = "MS", default_value_t = 0.0)]
    pub(crate) share_every: f64,
    /// Time between two load reports of a pod, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 1_000.0)]
    pub(crate) report_every: f64,
    /// Gaps between requests by a gamma distribution of this shape instead of the traffic's own: 1 is Poisson, less is burstier.
    #[arg(long, value_name = "SHAPE")]
    pub(crate) burstiness: Option<f64>,
    /// Time to the first token of a good answer, in milliseconds; twice the cold prefill of its prompt, where that is more.
    #[arg(long, value_name = "MS", default_value_t = 1_000.0)]
    pub(crate) slo_ttft: f64,
    /// Time per output token of a good answer, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 50.0)]
    pub(crate) slo_tpot: f64,
    /// Delay of cache events, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 1.0)]
    pub(crate) event_delay: f64,
    /// Lost cache events, in percent.
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0)]
    pub(crate) event_loss: f64,
    /// Flow control before the router: a document with bands, limits and saturation detectors, as YAML.
    #[arg(long, value_name = "FILE")]
    pub(crate) flow: Option<PathBuf>,
    /// Policies to compare on the same arrivals, by name or file; all that fit the fleet by default.
    #[arg(long, value_name = "A,B,C", value_delimiter = ',')]
    pub(crate) compare: Vec<String>,
    /// Parameter sweep: POLICY:SCORER=1,2,4 for a weight, POLICY:PLUGIN.PARAMETER=1,2,4 for a parameter.
    #[arg(long, value_name = "SWEEP")]
    pub(crate) sweep: Option<String>,
    /// Seed of the pseudorandom generators.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Seeds per policy: a comparison merges them, studies show the median.
    #[arg(long, default_value_t = 1)]
    pub(crate) seeds: u64,
    /// Folder for report.html, report.json, table.md and plots; one subfolder per traffic and load if there are several.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) out: Option<PathBuf>,
    /// Lists all policies with a description.
    #[arg(long)]
    pub(crate) list: bool,
    /// Runs an experiment of docs/routing-quality.md, docs/flow-control.md or docs/programs.md and prints it as Markdown.
    #[arg(long, value_enum)]
    pub(crate) study: Option<Study>,
    /// Programs under way at a time for each pod, in the study of programs.
    #[arg(long, default_value_t = 32)]
    pub(crate) programs: usize,
    /// Contexts of all programs against the caches of all pods, in the study of programs.
    #[arg(long, value_name = "A,B,C", default_value = "0.8,1.2,2,3", value_delimiter = ',')]
    pub(crate) contexts: Vec<f64>,
    /// Simulations in parallel; one per core by default.
    #[arg(long)]
    pub(crate) jobs: Option<usize>,
}

const EXAMPLES: &str = "Examples:
  simulate --out report                                    all policies, with an HTML report
  simulate --compare cache_aware,lmetric,llm_d --load 60,80,95 --seeds 3
  simulate --trace traffic.jsonl.gz --rate 0 --pods 8      a trace at its own arrival times
  simulate --sweep cache_aware:cache=1,2,4,8               sweep of a scorer's weight
  simulate --sweep cache_aware:load.form.limit.limit=8,32  sweep of a plugin's parameter";

/// The experiments of `docs/routing-quality.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Study {
    /// Every policy on every trace at each load.
    Quality,
    /// The same with events that are late or lost.
    EventLoss,
    /// Prefill/decode disaggregation, against mixed pods: for shares of long cold prompts, or the kinds of traffic that are named.
    Disaggregation,
    /// The trace as one offline batch: planned, in order of arrival, at random, or routed online.
    OfflineBatch,
    /// A batch beside online traffic.
    ColocatedBatch,
    /// Overload, a noisy tenant and priorities, with flow control and without.
    FlowControl,
    /// Agents' programs whose contexts are more than the fleet's cache, or less.
    Programs,
    /// The time of agents' programs under overload, by the order in which requests wait.
    ProgramOrder,
}

impl Options {
    /// The traffic: traces under unique names, at their own arrival times.
    pub(crate) fn traffic(&self) -> Result<Vec<(String, Trace)>, SimulateError> {
        let mut names = HashSet::new();
        if self.trace.is_empty() {
            let make =
                |kind: &Synthetic| (unique_name(&mut names, kind.to_string()), kind.trace(self.requests, self.seed));
            return Ok(self.synthetic.iter().map(make).collect());
        }
        let open = |path: &PathBuf| {
            let name = file_name(path);
            let trace = Trace::open(path).map_err(|error| SimulateError::Trace(path.display().to_string(), error))?;
            let copies = self.requests.div_ceil(trace.requests.len().max(1)).max(1);
            let trace = if copies > 1 { trace.repeated(copies, self.seed) } else { trace };
            Ok((unique_name(&mut names, name.split('.').next().unwrap_or_default().to_owned()), trace))
        };
        self.trace.iter().map(open).collect()
    }

    /// The fleet for traffic in blocks of this size.
    pub(crate) fn fleet(&self, block: usize) -> Result<SimConfig, SimulateError> {
        self.check()?;
        if let Some(tokens) = self.kv_tokens.iter().find(|tokens| **tokens < block) {
            let wrong = format!("{tokens} tokens have no room for a block of {block}");
            return Err(SimulateError::flag("kv-tokens", wrong));
        }
        let mut config = SimConfig::mixed(self.pods, 0, block);
        let speeds = self.speeds.iter().cycle().zip(self.decode_speeds.iter().cycle());
        for ((engine, _), ((&speed, &decode_speed), &kv_tokens)) in
            config.pods.iter_mut().zip(speeds.zip(self.kv_tokens.iter().cycle()))
        {
            let (blocks, host_blocks) = (kv_tokens / block, self.host_tokens / block);
            let (step_tokens, max_running) = (self.step_tokens, self.max_running);
            *engine = EngineConfig { blocks, host_blocks, step_tokens, max_running, speed, decode_speed, ..*engine };
        }
        config.churn_us = self.churn.map(|seconds| (seconds * 1e6) as u64);
        if let Some(path) = &self.costs {
            let named = path.display().to_string();
            let text = std::fs::read_to_string(path).map_err(|error| SimulateError::File(named.clone(), error))?;
            let table = serde_json::from_str(&text).map_err(|error| SimulateError::Costs(named.clone(), error))?;
            config.costs = best_fit(&table).map_err(|error| SimulateError::Fit(named, error))?;
        }
        config.event_delay_us = (self.event_delay * 1e3) as u64;
        config.event_loss = self.event_loss / 100.0;
        config.report_every_us = (self.report_every * 1e3) as u64;
        config.gateways = self.gateways;
        config.share_every_us = Some((self.share_every * 1e3) as u64).filter(|us| *us > 0);
        config.slo = Slo { ttft_us: (self.slo_ttft * 1e3) as u64, per_token_us: (self.slo_tpot * 1e3) as u64 };
        config.seed = self.seed;
        config.flow = self.flow_document()?;
        Ok(if self.prefill_pods > 0 { config.disaggregated(self.prefill_pods) } else { config })
    }

    /// Flow control, if it is given.
    pub(crate) fn flow_document(&self) -> Result<Option<FlowDocument>, SimulateError> {
        let Some(path) = &self.flow else { return Ok(None) };
        let named = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|error| SimulateError::File(named.clone(), error))?;
        let document: FlowDocument =
            serde_yaml_ng::from_str(&text).map_err(|error| SimulateError::flag("flow", format!("{named}: {error}")))?;
        document.config().check().map_err(|error| SimulateError::flag("flow", format!("{named}: {error}")))?;
        Ok(Some(document))
    }

    /// The policies to compare, or these if none is named.
    pub(crate) fn policies_or<'n>(
        &self,
        defaults: impl IntoIterator<Item = &'n str>,
    ) -> Result<Vec<Policy>, SimulateError> {
        match &self.compare[..] {
            [] => defaults.into_iter().map(Policy::find).collect(),
            names => names.iter().map(|name| Policy::find(name.trim())).collect(),
        }
    }

    /// The seeds to run with.
    pub(crate) fn seeds(&self) -> impl Iterator<Item = u64> + use<> {
        self.seed..self.seed + self.seeds.max(1)
    }

    /// Simulations at once.
    pub(crate) fn parallelism(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        self.jobs.unwrap_or_else(cores)
    }
}

/// The cost model of either form that is closer to the measurements.
fn best_fit(table: &Measurements) -> Result<CostModel, FitError> {
    let error = |fit: &Fit| fit.prefill_error.mean + fit.decode_error.mean;
    let (additive, roofline) = (CostModel::fit(table, Products::Additive)?, CostModel::fit(table, Products::Roofline)?);
    Ok(if error(&roofline) < error(&additive) { roofline } else { additive }.model)
}

/// A name that none before it has: the second `chat` is `chat-2`.
pub(crate) fn unique_name(names: &mut HashSet<String>, name: String) -> String {
    let numbered = (2..).map(|number| format!("{name}-{number}"));
    let free = iter::once(name.clone()).chain(numbered).find(|name| !names.contains(name)).unwrap_or(name);
    names.insert(free.clone());
    free
}

/// A file's name without its folders.
fn file_name(path: &Path) -> String {
    path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_there_already_get_a_number() {
        let mut names = HashSet::new();
        let told = ["a", "a", "b", "a-2", "a"].map(|name| unique_name(&mut names, name.to_owned()));
        assert_eq!(told, ["a", "a-2", "b", "a-2-2", "a-3"]);
        let options =
            Options::parse_from(["simulate", "--synthetic", "chat", "--synthetic", "chat", "--requests", "5"]);
        let traffic = options.traffic().unwrap();
        assert_eq!(traffic.iter().map(|(name, _)| &**name).collect::<Vec<_>>(), ["chat", "chat-2"]);
    }
}
