//! llm-d's producers of prefix matches: by what was sent where, or by engines' events.

use serde_json::{Value, json};

use super::fields::Fields;
use super::parts::{DEFAULT_PRODUCER, World};
use super::schema::PluginSpec;
use super::settings::{KvEvents, PrefixCache};

/// How it is known what pods hold, as a producer says.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Producer {
    pub(super) cache: PrefixCache,
    /// Leading tokens that count.
    pub(super) most_tokens: Option<i64>,
    /// How long a block counts as held before its event comes, in milliseconds.
    pub(super) speculates: Option<u64>,
    /// What a block counts by its tier, where tiers differ.
    pub(super) tiers: Option<Value>,
    /// Whether requests of one prompt should meet, also such as are decided at once.
    pub(super) bursts: bool,
}

/// The producer of a name: one that is defined, or the default one, which needs no definition.
pub(super) fn producer(world: World<'_>, name: &str) -> Option<Producer> {
    let Some(plugin) = world.schema.plugin(name) else {
        return (name == DEFAULT_PRODUCER).then(|| approximate_of(DEFAULT_BLOCK, DEFAULT_TOKENS, DEFAULT_CAPACITY));
    };
    let mut fields = world.parameters(plugin);
    let producer = read(plugin, &fields);
    fields.skip_all();
    producer
}

/// Checks a producer's parameters; whether it is one.
pub(super) fn check(world: World<'_>, plugin: &PluginSpec) -> bool {
    let mut fields = world.parameters(plugin);
    let is_producer = read(plugin, &fields).is_some();
    if !is_producer {
        fields.skip_all();
    }
    is_producer
}

fn read(plugin: &PluginSpec, fields: &Fields<'_>) -> Option<Producer> {
    match plugin.kind.as_str() {
        "approx-prefix-cache-producer" => Some(approximate(fields)),
        "precise-prefix-cache-producer" | "precise-prefix-cache-scorer" => Some(precise(fields)),
        "burst-prefix-cache-producer" => Some(burst(fields)),
        _ => None,
    }
}

fn approximate(fields: &Fields<'_>) -> Producer {
    let tunes = fields.flag("autoTune").unwrap_or(true);
    let mut block = fields.whole("blockSizeTokens").unwrap_or(DEFAULT_BLOCK);
    if let Some(old) = fields.whole("blockSize").filter(|old| *old > 0 && block == DEFAULT_BLOCK) {
        block = old;
    }
    if !tunes && block <= 0 {
        fields.problem("blockSizeTokens", "expected a whole number above 0, since `autoTune` is off");
    }
    let tokens = fields.whole("maxPrefixTokensToMatch").unwrap_or(DEFAULT_TOKENS);
    if tokens < 0 {
        fields.problem("maxPrefixTokensToMatch", "expected a whole number from 0 on");
    }
    let blocks = fields.whole("maxPrefixBlocksToMatch").unwrap_or(2048);
    let capacity = fields.whole("lruCapacityPerServer").unwrap_or(DEFAULT_CAPACITY);
    let most = if tokens > 0 { tokens } else { blocks.saturating_mul(block.max(LEAST_BLOCK)) };
    approximate_of(block, most, capacity)
}

/// Blocks are never smaller than theirs.
fn approximate_of(block: i64, most_tokens: i64, capacity: i64) -> Producer {
    let blocks_per_pod = usize::try_from(capacity).ok().filter(|capacity| *capacity > 0);
    let cache = PrefixCache::Approximate {
        block_tokens: u32::try_from(block.max(LEAST_BLOCK)).unwrap_or(u32::MAX),
        blocks_per_pod: blocks_per_pod.unwrap_or(DEFAULT_CAPACITY as usize),
    };
    let most_tokens = Some(most_tokens).filter(|most| *most > 0);
    Producer { cache, most_tokens, speculates: None, tiers: None, bursts: false }
}

fn burst(fields: &Fields<'_>) -> Producer {
    fields.skip(&["windowDurationMs", "maxPerReplica", "minColocateBlocks", "maxBatchSize", "balanceBy"]);
    let block = fields.whole("blockSizeTokens").unwrap_or(LEAST_BLOCK);
    let most = fields.whole("maxPrefixTokensToMatch").unwrap_or_default();
    Producer { bursts: true, ..approximate_of(block, most, DEFAULT_CAPACITY) }
}

fn precise(fields: &Fields<'_>) -> Producer {
    let tokens = fields.fields("tokenProcessorConfig");
    let size = |name| tokens.as_ref().and_then(|tokens| tokens.whole(name)).unwrap_or_default();
    let (block, old) = (size("blockSizeTokens"), size("blockSize"));
    let block = if block == 0 { old } else { block };
    let block = if block == 0 { DEFAULT_BLOCK } else { block };
    if block <= 0 {
        fields.problem("tokenProcessorConfig", "expected a `blockSizeTokens` above 0");
    }
    let seed = tokens.as_ref().and_then(|tokens| tokens.text("hashSeed")).unwrap_or_default();
    tokens.as_ref().and_then(|tokens| tokens.text("hashAlgorithm"));
    let tiers = fields.fields("indexerConfig").map_or_else(default_tiers, |indexer| indexed(&indexer));
    let events = fields.fields("kvEventsConfig").map_or_else(KvEvents::default, |events| kv_events(&events));
    let lasts = fields.duration("speculativeTTL").map_or(2000, |lasts| lasts.as_millis() as u64);
    let speculates = fields.flag("speculativeIndexing").unwrap_or_default().then_some(lasts.max(1));
    let block_tokens = u32::try_from(block).unwrap_or(DEFAULT_BLOCK as u32);
    let cache = PrefixCache::Precise { block_tokens, hash_seed: seed.to_owned(), events };
    Producer { cache, most_tokens: None, speculates, tiers, bursts: false }
}

/// What of an index's settings counts here: the tiers' weights. How it is kept is another matter.
fn indexed(indexer: &Fields<'_>) -> Option<Value> {
    indexer.skip(&["kvBlockIndexConfig", "kvBlockScorerConfig"]);
    if indexer.get("tokenizersPoolConfig").is_some() {
        indexer.problem("tokenizersPoolConfig", "it is not taken any more: define a `token-producer`");
    }
    let backends = indexer.objects("kvCacheBackendConfigs");
    if backends.is_empty() {
        return default_tiers();
    }
    let mut weights = json!({ "gpu": 1.0, "host": 1.0, "disk": 1.0, "remote": 1.0 });
    for backend in backends {
        let weight = backend.number("weight").unwrap_or_default();
        if !(0.0..=1.0).contains(&weight) {
            backend.problem("weight", format!("found {weight}, expected a number from 0 to 1"));
            continue;
        }
        let tier = match backend.text("name").unwrap_or_default().to_ascii_lowercase().as_str() {
            "gpu" => "gpu",
            "cpu" => "host",
            "disk" | "storage" | "fs" => "disk",
            _ => "remote",
        };
        weights[tier] = json!(weight);
    }
    let differ = weights.as_object().is_some_and(|weights| weights.values().any(|weight| *weight != json!(1.0)));
    differ.then_some(weights)
}

/// A tier that is not named counts in full.
fn default_tiers() -> Option<Value> {
    Some(json!({ "gpu": 1.0, "host": 0.8, "disk": 1.0, "remote": 1.0 }))
}

fn kv_events(events: &Fields<'_>) -> KvEvents {
    events.skip(&["concurrency"]);
    let default = KvEvents::default();
    let pods = events.fields("podDiscoveryConfig");
    let port = |name| {
        pods.as_ref()
            .and_then(|pods| pods.whole(name))
            .and_then(|port| u16::try_from(port).ok())
            .filter(|port| *port > 0)
    };
    let ports = (port("socketPort"), port("replaySocketPort"));
    if let Some(pods) = &pods {
        pods.skip(&["podLabelSelector", "podNamespace"]);
    }
    let discovers = events.flag("discoverPods").unwrap_or(true);
    KvEvents {
        topic_filter: events.text("topicFilter").map_or(default.topic_filter, str::to_owned),
        socket_port: discovers.then(|| ports.0.or(default.socket_port)).flatten(),
        replay_port: ports.1,
        endpoint: events.text("zmqEndpoint").map(str::to_owned),
        engine: events.text("engineType").map_or(default.engine, str::to_owned),
    }
}

const DEFAULT_BLOCK: i64 = 16;
/// The smallest block that prompts are cut by where the cache is guessed.
const LEAST_BLOCK: i64 = 64;
const DEFAULT_TOKENS: i64 = 131_072;
const DEFAULT_CAPACITY: i64 = 31_250;
