//! Settings of a picker: what of a configuration is no plugin of a decision.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// What is no plugin of a decision, but of the picker around it.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct PickerSettings {
    /// How many endpoints are named for a request: `maxNumOfEndpoints` of the primary profile's picker.
    pub fallbacks: usize,
    /// Which bodies are parsed; the first that knows a path parses it.
    pub parsers: Vec<Parser>,
    /// Which steps of the workflow are decided, and what they are for.
    pub profiles: Profiles,
    /// How prompts become tokens, where the workflow has a `tokenize_preparer`.
    pub tokenizer: Tokenizer,
    /// How it is known what pods hold of prompts.
    pub prefix_cache: PrefixCache,
    /// The file that pods are read from, if not Kubernetes tells them.
    pub discovery: Option<FileDiscovery>,
    /// How engines are asked for their figures.
    pub metrics: MetricsScrape,
    /// The response headers that tell a client its session's pods, and how requests bring them back.
    pub session_tokens: Vec<SessionToken>,
    /// How long a session's binding lasts that is not used, where sessions are kept here.
    pub session_time_to_live: Option<Duration>,
    /// What makes the pool full. Without flow control, requests of a priority below 0 are refused then.
    pub saturation: Saturation,
    /// Whose requests share a band's room, with flow control.
    pub fairness: Fairness,
    /// Headers that name an agent's session: whose requests these are, where nothing else says so.
    pub agent_headers: Vec<String>,
}

/// A format of bodies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Parser {
    /// OpenAI's endpoints.
    OpenAi,
    /// Anthropic's messages.
    Anthropic,
    /// vLLM's own endpoints.
    VllmHttp,
    /// SGLang's own endpoints.
    SglangHttp,
    /// Any path: bodies are not looked at.
    Passthrough,
}

/// Which steps are decided.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Profiles {
    /// One.
    #[default]
    Single,
    /// One; the request goes to the pod's primary port, and a header names the one that was chosen.
    DataParallel {
        /// The port that requests go to.
        primary_port: u16,
    },
    /// Decode, and by conditions prefill and encode before it.
    Disaggregated {
        /// The step whose pod gets the request.
        decode: String,
        /// The step whose pod computes the prompt.
        prefill: Option<String>,
        /// The step whose pods encode images and the like.
        encode: Option<String>,
        /// The port that requests go to, with `pd-profile-handler` and data parallel pods.
        primary_port: Option<u16>,
    },
    /// One of several workflows, by a request's header.
    ByHeader {
        /// The header that names the profile, in lower case.
        header: String,
        /// The profile where there is no header: that of [`Translation::workflow`](super::Translation::workflow).
        default: String,
        /// Workflow documents by the profile's name.
        workflows: BTreeMap<String, String>,
    },
}

/// How prompts become tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Tokenizer {
    /// Four bytes are a token: [`EstimateTokenizer`](super::EstimateTokenizer).
    #[default]
    Estimate,
    /// A vLLM server renders prompts.
    Vllm {
        /// Its address.
        url: String,
        /// The model whose prompts are rendered.
        model: String,
        /// How long it may take.
        timeout: Duration,
    },
}

/// How it is known what pods hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PrefixCache {
    /// Nobody asks.
    #[default]
    None,
    /// By what was sent where. The index is fed by the workflow's `predict_recorder` alone.
    Approximate {
        /// Tokens in a block.
        block_tokens: u32,
        /// Blocks that a pod is guessed to keep.
        blocks_per_pod: usize,
    },
    /// By the engines' events.
    Precise {
        /// Tokens in a block.
        block_tokens: u32,
        /// The seed that llm-d's own hashes begin with; engines' events bring theirs.
        hash_seed: String,
        /// How events come.
        events: KvEvents,
    },
}

impl PrefixCache {
    /// Tokens in a block, if there are blocks.
    #[must_use]
    pub const fn block_tokens(&self) -> Option<u32> {
        match self {
            Self::None => None,
            Self::Approximate { block_tokens, .. } | Self::Precise { block_tokens, .. } => Some(*block_tokens),
        }
    }
}

/// How an engine's cache events come.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KvEvents {
    /// What topics begin with.
    pub topic_filter: String,
    /// The port of each pod that publishes events; none if pods are not connected to.
    pub socket_port: Option<u16>,
    /// The port of each pod that replays events.
    pub replay_port: Option<u16>,
    /// An address of the picker's own, to which engines publish.
    pub endpoint: Option<String>,
    /// `vllm` or `sglang`.
    pub engine: String,
}

impl Default for KvEvents {
    fn default() -> Self {
        let (topic_filter, engine) = ("kv@".to_owned(), "vllm".to_owned());
        Self { topic_filter, socket_port: Some(5557), replay_port: None, endpoint: None, engine }
    }
}

/// The file that pods are read from.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileDiscovery {
    /// Its path, as found.
    pub path: PathBuf,
    /// Whether it is read again when it changes.
    pub watch: bool,
}

/// How engines are asked for their figures.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MetricsScrape {
    /// `http` or `https`.
    pub scheme: String,
    /// The path.
    pub path: String,
    /// The port, if not the pod's own.
    pub port: Option<u16>,
    /// How often; the picker's own interval, unless given.
    pub interval: Option<Duration>,
    /// Whether any certificate is taken.
    pub insecure_skip_verify: bool,
    /// The pods' label that names their engine.
    pub engine_label: String,
    /// The engine of pods without it.
    pub default_engine: String,
    /// Metrics by the attribute that `metric_filter` and `metric_scorer` ask for.
    pub attributes: BTreeMap<String, String>,
    /// Whether nobody asks engines at all.
    pub disabled: bool,
}

impl Default for MetricsScrape {
    fn default() -> Self {
        Self {
            scheme: "http".to_owned(),
            path: "/metrics".to_owned(),
            port: None,
            interval: None,
            insecure_skip_verify: true,
            engine_label: "llm-d.ai/engine-type".to_owned(),
            default_engine: "vllm".to_owned(),
            attributes: BTreeMap::new(),
            disabled: false,
        }
    }
}

/// A session's pod, kept by the client.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionToken {
    /// The header, in lower case: its value is base64 of the pod's `namespace/name`.
    pub header: String,
    /// The step whose pod is meant; the primary one, unless given.
    pub step: Option<String>,
}

/// What makes the pool full.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Saturation {
    /// By engines' reports: the mean over pods of max(waiting / `waiting`, KV use / `kv_used`), full from 1 on.
    Utilization {
        /// Waiting requests that make a pod full.
        waiting: u32,
        /// The share of the KV cache in use that makes a pod full.
        kv_used: f64,
        /// How old a report may be.
        stale_after: Duration,
    },
    /// By what is in flight from here.
    Concurrency {
        /// Requests that make a pod full, if they count.
        requests: Option<u64>,
        /// Tokens that make a pod full, if they count.
        tokens: Option<u64>,
    },
}

impl Default for Saturation {
    fn default() -> Self {
        Self::Utilization { waiting: 5, kv_used: 0.8, stale_after: Duration::from_millis(200) }
    }
}

/// Whose requests share a band's room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fairness {
    /// Nobody's: all requests of a band have one key, and the oldest is first.
    #[default]
    GlobalStrict,
    /// Each flow's: a request's key is its fairness id.
    ByFlow,
    /// Each program's: a request's key is its program.
    ByProgram,
}
