//! llm-d's plugin types: what each is there, and what becomes of it here.

use Part::*;

/// What becomes of a plugin type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TypeSupport {
    /// It has a counterpart, or is a setting of the picker.
    Translated,
    /// It is translated, but the program does not run what it becomes.
    TranslatedAlone,
    /// A warning says that it does nothing here: decisions go on without it, as llm-d's would.
    Ignored,
    /// Decisions would be others without it: a configuration that has it is refused.
    Refused,
}

/// Every plugin type that llm-d registers, by name, and what becomes of it.
pub fn plugin_types() -> impl Iterator<Item = (&'static str, TypeSupport)> {
    TYPES.iter().map(|plugin| (plugin.name, plugin.support.into()))
}

/// A plugin type of llm-d.
#[derive(Debug)]
pub(super) struct PluginType {
    pub(super) name: &'static str,
    /// What it is to llm-d; a plugin may be several things.
    pub(super) parts: &'static [Part],
    pub(super) support: Support,
    /// What to write instead, if llm-d says that it is deprecated.
    pub(super) replaced_by: Option<&'static str>,
}

/// What a plugin is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Filter,
    Scorer,
    Picker,
    Handler,
    Decider,
    Producer,
    Parser,
    Source,
    Extractor,
    Discovery,
    Fairness,
    Ordering,
    UsageLimit,
    Detector,
    Other,
}

/// What becomes of a type here.
#[derive(Clone, Copy, Debug)]
pub(super) enum Support {
    Translated,
    TranslatedAlone,
    /// Why decisions can do without, and the parameters that llm-d takes.
    Ignored(&'static str, &'static [&'static str]),
    /// Why they cannot, or what comes nearest.
    Refused(&'static str),
}

impl From<Support> for TypeSupport {
    fn from(support: Support) -> Self {
        match support {
            Support::Translated => Self::Translated,
            Support::TranslatedAlone => Self::TranslatedAlone,
            Support::Ignored(..) => Self::Ignored,
            Support::Refused(_) => Self::Refused,
        }
    }
}

impl PluginType {
    /// A type by its name.
    pub(super) fn find(name: &str) -> Option<&'static Self> {
        TYPES.iter().find(|plugin| plugin.name == name)
    }

    pub(super) fn is(&self, part: Part) -> bool {
        self.parts.contains(&part)
    }

    /// Whether it may stand in a profile that is filled with all there is.
    pub(super) fn is_of_profiles(&self) -> bool {
        self.is(Filter) || self.is(Scorer) || self.is(Picker)
    }

    const fn replaced_by(self, name: &'static str) -> Self {
        Self { replaced_by: Some(name), ..self }
    }
}

const fn translated(name: &'static str, parts: &'static [Part]) -> PluginType {
    PluginType { name, parts, support: Support::Translated, replaced_by: None }
}

const fn ignored(
    name: &'static str,
    parts: &'static [Part],
    why: &'static str,
    parameters: &'static [&'static str],
) -> PluginType {
    PluginType { name, parts, support: Support::Ignored(why, parameters), replaced_by: None }
}

const fn refused(name: &'static str, parts: &'static [Part], why: &'static str) -> PluginType {
    PluginType { name, parts, support: Support::Refused(why), replaced_by: None }
}

pub(super) const TYPES: &[PluginType] = &[
    translated("label-selector-filter", &[Filter]),
    translated("by-label-selector", &[Filter]).replaced_by("label-selector-filter"),
    translated("by-label", &[Filter]).replaced_by("label-selector-filter"),
    translated("decode-filter", &[Filter]),
    translated("prefill-filter", &[Filter]),
    translated("encode-filter", &[Filter]),
    translated("endpoint-attribute-filter", &[Filter]),
    translated("utilization-filter", &[Filter]),
    translated("prefix-cache-affinity-filter", &[Filter]),
    translated("topology-affinity-filter", &[Filter]),
    translated("session-affinity-filter", &[Filter]),
    translated("utilization-detector", &[Filter, Detector]),
    translated("concurrency-detector", &[Filter, Detector]),
    ignored(
        "slo-headroom-tier-filter",
        &[Filter],
        "pods that miss their targets are not removed: `latency-scorer` gives them 0 while another meets its own",
        &["epsilonExploreNeg", "latencyPredictionInfoProducerName"],
    ),
    refused(
        "header-based-testing-filter",
        &[Filter],
        "it is for conformance tests; the option `--allow-test-selection` comes nearest",
    ),
    refused(
        "multicluster-session-affinity-filter",
        &[Filter],
        "there is one pool of pods here; `session-affinity-filter` comes nearest",
    ),
    translated("queue-scorer", &[Scorer]),
    translated("running-requests-size-scorer", &[Scorer]),
    translated("kv-cache-utilization-scorer", &[Scorer]),
    translated("load-aware-scorer", &[Scorer]),
    translated("lora-affinity-scorer", &[Scorer]),
    translated("token-load-scorer", &[Scorer]),
    translated("active-request-scorer", &[Scorer]),
    translated("prefix-cache-scorer", &[Scorer]),
    translated("precise-prefix-cache-scorer", &[Scorer, Producer]),
    translated("no-hit-lru-scorer", &[Scorer]),
    translated("context-length-aware", &[Filter, Scorer]),
    translated("latency-scorer", &[Scorer]),
    translated("session-affinity-scorer", &[Scorer]),
    translated("header-label-affinity-scorer", &[Scorer]),
    translated("endpoint-attribute-scorer", &[Scorer]),
    translated("topology-affinity-scorer", &[Scorer]),
    ignored(
        "mm-embeddings-cache-scorer",
        &[Scorer],
        "what encoders cache is not indexed: it scores 0 for every pod",
        &["producerName"],
    ),
    refused("multicluster-queue-scorer", &[Scorer], "there is one pool of pods here; `queue-scorer` comes nearest"),
    refused(
        "multicluster-kv-cache-utilization-scorer",
        &[Scorer],
        "there is one pool of pods here; `kv-cache-utilization-scorer` comes nearest",
    ),
    refused(
        "multicluster-prefix-cache-scorer",
        &[Scorer],
        "there is one pool of pods here; `prefix-cache-scorer` comes nearest",
    ),
    translated("max-score-picker", &[Picker]),
    translated("random-picker", &[Picker]),
    translated("weighted-random-picker", &[Picker]),
    translated("single-profile-handler", &[Handler]),
    translated("data-parallel-profile-handler", &[Handler]).replaced_by("single-profile-handler"),
    PluginType {
        name: "header-profile-handler",
        parts: &[Handler],
        support: Support::TranslatedAlone,
        replaced_by: None,
    },
    translated("disagg-profile-handler", &[Handler]),
    translated("pd-profile-handler", &[Handler]).replaced_by("disagg-profile-handler"),
    translated("disagg-headers-handler", &[Other]).replaced_by("disagg-profile-handler"),
    translated("prefill-header-handler", &[Other]).replaced_by("disagg-profile-handler"),
    translated("always-disagg-pd-decider", &[Decider]),
    translated("always-disagg-multimodal-decider", &[Decider]),
    translated("prefix-based-pd-decider", &[Decider]),
    translated("token-producer", &[Producer]),
    translated("tokenizer", &[Producer]).replaced_by("token-producer"),
    translated("approx-prefix-cache-producer", &[Producer]),
    translated("precise-prefix-cache-producer", &[Producer]),
    translated("burst-prefix-cache-producer", &[Producer]),
    translated("inflight-load-producer", &[Producer]),
    translated("predicted-latency-producer", &[Producer]),
    translated("session-id-producer", &[Producer]),
    ignored(
        "mm-embeddings-cache-producer",
        &[Producer, Extractor],
        "what encoders cache is not indexed",
        &["cacheSizeInMBPerServer"],
    ),
    ignored(
        "p2p-source-producer",
        &[Producer],
        "engines find the source of a cached prefix themselves: no header names one",
        &["prefixMatchInfoProducerName", "minCachedTokenDelta", "prefillProfileName"],
    ),
    refused(
        "multicluster-approx-prefix-cache-producer",
        &[Producer],
        "there is one pool of pods here; `approx-prefix-cache-producer` comes nearest",
    ),
    refused(
        "disaggregatedset-rollout-screener",
        &[Other],
        "revisions of a rollout are not told apart; `label-selector-filter` on the revision comes nearest",
    ),
    ignored(
        "latency-slo-admitter",
        &[Other],
        "requests are not refused by predicted latency; the feature gate `flowControl` holds them back",
        &["latencyPredictionInfoProducerName"],
    ),
    ignored(
        "probabilistic-admitter",
        &[Other],
        "requests are not refused by chance; the feature gate `flowControl` holds back those of low priority",
        &["queueDepthThreshold", "kvCacheUtilThreshold", "power", "k"],
    ),
    ignored(
        "request-attribute-reporter",
        &[Other],
        "no dynamic metadata is made of usage: metrics count tokens",
        &["attributes"],
    ),
    ignored("destination-endpoint-served-verifier", &[Other], "it is for llm-d's conformance tests", &[]),
    translated("agent-identity", &[Other]),
    translated("global-strict-fairness-policy", &[Fairness]),
    translated("round-robin-fairness-policy", &[Fairness]),
    translated("program-aware-fairness", &[Fairness]),
    translated("fcfs-ordering-policy", &[Ordering]),
    translated("edf-ordering-policy", &[Ordering]),
    translated("slo-deadline-ordering-policy", &[Ordering]),
    translated("static-usage-limit-policy", &[UsageLimit]),
    translated("priority-holdback-policy", &[UsageLimit]),
    ignored(
        "soft-reflective-ceiling-policy",
        &[UsageLimit],
        "ceilings do not follow saturation: all bands may fill pods; `priority-holdback-policy` comes nearest",
        &[],
    ),
    ignored("sheddable-eviction-filter", &[Other], "requests in flight are not evicted", &[]),
    ignored("priority-then-time-eviction-order-policy", &[Other], "requests in flight are not evicted", &[]),
    translated("metrics-data-source", &[Source]),
    translated("core-metrics-extractor", &[Extractor]),
    translated("endpoint-notification-source", &[Source]),
    translated("topology-extractor", &[Extractor]),
    ignored(
        "models-data-source",
        &[Source],
        "which models a pod serves is told by discovery",
        &["scheme", "path", "insecureSkipVerify", "caCertPath", "clientCertPath", "clientKeyPath", "interval"],
    ),
    ignored("models-data-extractor", &[Extractor], "which models a pod serves is told by discovery", &[]),
    ignored(
        "dcgm-data-source",
        &[Source],
        "figures of GPUs are not scraped: attributes of it are missing for every pod",
        &["scheme", "path", "port", "insecureSkipVerify", "useNodeAddress", "interval"],
    ),
    ignored("dcgm-extractor", &[Extractor], "figures of GPUs are not scraped", &[]),
    ignored(
        "k8s-notification-source",
        &[Source],
        "objects other than pods are not watched",
        &["group", "version", "kind"],
    ),
    refused(
        "multicluster-metrics-data-source",
        &[Source],
        "there is one pool of pods here; `metrics-data-source` comes nearest",
    ),
    refused(
        "multicluster-metrics-extractor",
        &[Extractor],
        "there is one pool of pods here; `core-metrics-extractor` comes nearest",
    ),
    translated("file-discovery", &[Discovery]),
    refused(
        "multicluster-file-discovery",
        &[Discovery],
        "there is one pool of pods here; `file-discovery` comes nearest",
    ),
    translated("openai-parser", &[Parser]),
    translated("anthropic-parser", &[Parser]),
    translated("vllmhttp-parser", &[Parser]),
    translated("sglanghttp-parser", &[Parser]),
    translated("passthrough-parser", &[Parser]),
    refused("vllmgrpc-parser", &[Parser], "bodies are not gRPC here; `vllmhttp-parser` comes nearest"),
    refused("vertexai-parser", &[Parser], "Vertex AI's bodies are not read; `openai-parser` comes nearest"),
];
