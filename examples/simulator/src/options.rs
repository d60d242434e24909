//! What `simulate` is told on its command line.
//!
//! | module | idea |
//! |---|---|
//! | [`check`](Options::check) | values that make no sense, told by their flag |
//! | [`command`](Options::command) | the command that makes a run again |

mod check;
mod command;

use std::collections::HashSet;
use std::iter;
use std::path::{Path, PathBuf};

use clap::{Parser, ValueEnum};
use pointsman_lab::trace::Trace;
use pointsman_lab::trace::made::Made;
use routing_core::Role;

use crate::SimulateError;
use crate::config::SimConfig;
use crate::engine::EngineConfig;
use pointsman_engine_sim::cost::CostModel;

/// Simulates routing rules on real or made-up traffic, in virtual time.
///
/// Requests are routed by the real index, profiles and load tracker to modelled pods. Nothing waits: an hour of traffic
/// takes a second. Without any option it makes up the traffic of a chat, finds how much of it 16 pods take, and compares
/// all policies at 80% of that.
#[derive(Clone, Debug, Parser)]
#[command(name = "simulate", after_help = EXAMPLES)]
#[non_exhaustive]
pub struct Options {
    /// A trace: Mooncake's JSONL or one with `session_id`s, gzipped or not.
    #[arg(long, value_name = "FILE", conflicts_with = "made")]
    pub trace: Vec<PathBuf>,
    /// Traffic to make up, where there is no trace: conversation, chat, rag, agents, or mixed:SHARE of long cold prompts.
    #[arg(long, value_name = "KIND", default_value = "conversation")]
    pub made: Vec<Made>,
    /// Requests to make up; of a trace, at least so many by repeating it with other conversations.
    #[arg(long, default_value_t = 12_000)]
    pub requests: usize,
    /// Share of the fleet's capacity at which requests come, in percent.
    #[arg(long, value_name = "PERCENT", default_value = "80", value_delimiter = ',', conflicts_with = "rate")]
    pub load: Vec<f64>,
    /// Requests a second, instead of a share of the capacity; 0 for the trace's own times.
    #[arg(long)]
    pub rate: Option<f64>,
    /// Pods.
    #[arg(long, default_value_t = 16)]
    pub pods: usize,
    /// How many of them prefill only; the others then decode.
    #[arg(long, default_value_t = 0)]
    pub prefill_pods: usize,
    /// Tokens that a pod's GPU memory has room for.
    #[arg(long, default_value_t = 1_000_000)]
    pub kv_tokens: usize,
    /// Tokens that a pod's host memory has room for, beside it.
    #[arg(long, default_value_t = 0)]
    pub host_tokens: usize,
    /// Measured costs of another machine or model, as JSON; one H200 with an 8B model, unless given.
    #[arg(long, value_name = "FILE")]
    pub costs: Option<PathBuf>,
    /// Milliseconds until a pod's event reaches the index.
    #[arg(long, value_name = "MS", default_value_t = 1.0)]
    pub delay: f64,
    /// Events that are lost, in percent.
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0)]
    pub loss: f64,
    /// Policies to run on the same arrivals, by name or as files; all that suit the fleet, unless given.
    #[arg(long, value_name = "A,B,C", value_delimiter = ',')]
    pub compare: Vec<String>,
    /// A weight to vary: POLICY:SCORER=1,2,4, or a parameter: POLICY:PLUGIN.PARAMETER=1,2,4.
    #[arg(long, value_name = "WHAT")]
    pub sweep: Option<String>,
    /// What chance begins with.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Seeds to run each policy with: one comparison pools them, studies tell the median.
    #[arg(long, default_value_t = 1)]
    pub seeds: u64,
    /// Writes report.html, report.json, table.md and plots into this folder; into one below it for each traffic and load,
    /// where there are several.
    #[arg(long, value_name = "FOLDER")]
    pub out: Option<PathBuf>,
    /// Names all policies, says what each one does, and ends.
    #[arg(long)]
    pub list: bool,
    /// A whole study, as Markdown on standard output, instead of one comparison.
    #[arg(long, value_enum)]
    pub study: Option<Study>,
    /// Runs at once; as many as there are cores, unless given.
    #[arg(long)]
    pub jobs: Option<usize>,
}

const EXAMPLES: &str = "Examples:
  simulate --out report                                    all policies, with a page to look at
  simulate --compare cache_aware,lmetric,llm_d --load 60,80,95 --seeds 3
  simulate --trace traffic.jsonl.gz --rate 0 --pods 8      a trace at its own times
  simulate --sweep cache_aware:cache=1,2,4,8               a scorer's weight, varied
  simulate --sweep cache_aware:load.form.limit.limit=8,32  a plugin's parameter, varied";

/// The studies of `docs/routing-quality.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[expect(clippy::exhaustive_enums, reason = "one for each part of the document")]
pub enum Study {
    /// Every policy on every trace at each load: is the default ever beaten?
    Quality,
    /// The same with events that are late or lost.
    Events,
    /// Prefill and decode on pods of their own, against mixed pods.
    Split,
    /// The trace as one batch: planned, in order of arrival, at random, by the best profile.
    Batch,
    /// A batch in the gaps of online traffic.
    Together,
}

impl Options {
    /// The traffic: a name that no other has, and requests at times of their own.
    ///
    /// # Errors
    ///
    /// When a file cannot be read.
    pub fn traffic(&self) -> Result<Vec<(String, Trace)>, SimulateError> {
        let mut names = HashSet::new();
        if self.trace.is_empty() {
            let make = |made: &Made| (told_apart(&mut names, made.to_string()), made.trace(self.requests, self.seed));
            return Ok(self.made.iter().map(make).collect());
        }
        let open = |path: &PathBuf| {
            let name = file_name(path);
            let trace = Trace::open(path).map_err(|error| SimulateError::Trace(path.display().to_string(), error))?;
            let copies = self.requests.div_ceil(trace.requests.len().max(1)).max(1);
            let trace = if copies > 1 { trace.repeated(copies, self.seed) } else { trace };
            Ok((told_apart(&mut names, name.split('.').next().unwrap_or_default().to_owned()), trace))
        };
        self.trace.iter().map(open).collect()
    }

    /// The fleet for traffic in blocks of this size.
    ///
    /// # Errors
    ///
    /// When the costs cannot be read, or no pod would answer.
    pub fn fleet(&self, block: usize) -> Result<SimConfig, SimulateError> {
        self.check()?;
        if self.kv_tokens < block {
            let wrong = format!("{} tokens have no room for a block of {block}", self.kv_tokens);
            return Err(SimulateError::flag("kv-tokens", wrong));
        }
        let mut config = SimConfig::mixed(self.pods, self.kv_tokens, block);
        for (engine, _) in &mut config.pods {
            *engine = EngineConfig { host_blocks: self.host_tokens / block, ..*engine };
        }
        if let Some(path) = &self.costs {
            let named = path.display().to_string();
            let text = std::fs::read_to_string(path).map_err(|error| SimulateError::File(named.clone(), error))?;
            config.costs = CostModel::from_json(&text).map_err(|error| SimulateError::Costs(named, error))?;
        }
        config.event_delay_us = (self.delay * 1e3) as u64;
        config.event_loss = self.loss / 100.0;
        config.seed = self.seed;
        Ok(if self.prefill_pods > 0 { config.split(self.prefill_pods) } else { config })
    }

    /// Runs at once.
    #[must_use]
    pub fn at_once(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        self.jobs.unwrap_or_else(cores)
    }

    /// Whether a fleet has pods of one role only.
    #[must_use]
    pub fn is_split(config: &SimConfig) -> bool {
        config.pods.iter().any(|(_, role)| *role != Role::Both)
    }
}

/// A name that none before it has: the second `chat` is `chat-2`.
pub(super) fn told_apart(names: &mut HashSet<String>, name: String) -> String {
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
        let told = ["a", "a", "b", "a-2", "a"].map(|name| told_apart(&mut names, name.to_owned()));
        assert_eq!(told, ["a", "a-2", "b", "a-2-2", "a-3"]);
        let options = Options::parse_from(["simulate", "--made", "chat", "--made", "chat", "--requests", "5"]);
        let traffic = options.traffic().unwrap();
        assert_eq!(traffic.iter().map(|(name, _)| &**name).collect::<Vec<_>>(), ["chat", "chat-2"]);
    }
}
