//! Their producer that guesses what pods hold from what was routed to them.

use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::{Arc, Mutex};

use kv_index::{BlockSize, ChainHasher, ChainSeed, Index, PodId};
use routing_core::{
    Declare, Fleet, OnEmpty, PluginError, PrefixMatches, ProfileBuilder, Read, RoutingContext, Scorer, Scores,
};
use routing_plugins::Hashing;
use routing_plugins::prepare::{BlockHashParameters, BlockHashPreparer, GivenTokensPreparer, PrefixMatchPreparer};
use routing_plugins::record::{PredictRecorder, PredictedBlocks};
use serde_json::{Value, json};

use crate::case::{self, Case};
use crate::plugins::{Best, Only};
use crate::read::{equal, flag, known, known_case, list, refused, signed, texts, tokens};

const PARAMETERS: [&str; 6] = [
    "autoTune",
    "blockSize",
    "blockSizeTokens",
    "lruCapacityPerServer",
    "maxPrefixBlocksToMatch",
    "maxPrefixTokensToMatch",
];

/// The size of a block that counts: with tuning, what pods report. `blockSize` is a name that they gave up.
pub(super) fn size(params: &Value, reported: Option<i64>) -> Result<Option<BlockSize>, String> {
    let configured = signed(params, "blockSizeTokens")?;
    let tuned = reported.filter(|size| *size > 0 && params["autoTune"] == true);
    Ok(tuned.or(configured).and_then(|size| u32::try_from(size).ok()).and_then(BlockSize::new))
}

/// How many tokens count; of two caps, the one in tokens.
fn most_tokens(params: &Value, size: BlockSize) -> Result<Option<NonZeroU32>, String> {
    let cap = |name| Ok::<_, String>(signed(params, name)?.filter(|cap| *cap > 0));
    let blocks = cap("maxPrefixBlocksToMatch")?.map(|blocks| blocks * size.tokens() as i64);
    Ok(cap("maxPrefixTokensToMatch")?.or(blocks).and_then(|cap| u32::try_from(cap).ok()).and_then(NonZeroU32::new))
}

/// Pods whose contents are guessed.
struct Site {
    index: Arc<Index>,
    fleet: Fleet,
    names: Vec<String>,
    predicted: Arc<PredictedBlocks>,
    hashing: BlockSize,
    parameters: BlockHashParameters,
}

impl Site {
    fn new(params: &Value, names: Vec<String>, reported: Option<i64>) -> Result<Self, String> {
        let hashing = size(params, reported)?.ok_or("unknown block size")?;
        let predicted = match signed(params, "lruCapacityPerServer")? {
            None => PredictedBlocks::default(),
            Some(blocks) => {
                let blocks = usize::try_from(blocks).ok().and_then(NonZeroUsize::new);
                PredictedBlocks::new(blocks.ok_or("unknown capacity")?)
            }
        };
        let mut parameters = BlockHashParameters::default();
        parameters.most_tokens = most_tokens(params, hashing)?;
        let (index, fleet) = case::fleet(names.len(), |_, pod| pod);
        Ok(Self { index, fleet, names, predicted: Arc::new(predicted), hashing, parameters })
    }

    fn profile(&self) -> ProfileBuilder {
        let (index, size, parameters) = (Arc::clone(&self.index), self.hashing, self.parameters);
        ProfileBuilder::new("case")
            .preparer("tokens", GivenTokensPreparer::declare)
            .preparer("chain", move |d: &mut Declare<'_>| {
                BlockHashPreparer::declare(d, parameters, Hashing::Native(size))
            })
            .preparer("held", move |d: &mut Declare<'_>| PrefixMatchPreparer::declare(d, index))
            .picker("best", |_: &mut Declare<'_>| Best)
    }

    /// A prompt goes to an endpoint.
    fn route(&self, tokens: &[u32], to: &str) -> Result<(), String> {
        let at = self.names.iter().position(|name| name == to).ok_or_else(|| format!("unknown target {to}"))?;
        let (index, predicted) = (Arc::clone(&self.index), Arc::clone(&self.predicted));
        let profile = self
            .profile()
            .filter("to", OnEmpty::Fail, move |_: &mut Declare<'_>| Only(vec![at]))
            .recorder("predict", move |d: &mut Declare<'_>| PredictRecorder::declare(d, index, predicted));
        case::trace(profile, &case::request().tokens(tokens), &self.fleet).map(|_| ())
    }

    /// Whether an endpoint still holds all of a prompt.
    fn holds(&self, tokens: &[u32], name: &str) -> Result<bool, String> {
        let at = self.names.iter().position(|known| known == name).ok_or_else(|| format!("unknown target {name}"))?;
        self.search(tokens).map(|(depths, blocks)| depths[at] == blocks && blocks > 0)
    }

    /// Depths and blocks of a prompt, or a list of them for a list of prompts.
    fn search_all(&self, queries: &Value) -> Result<(Value, Value), String> {
        let Some(prompts) = queries.as_array().filter(|prompts| prompts.first().is_some_and(Value::is_array)) else {
            return self.search(&tokens(queries)?).map(|(depths, blocks)| (json!(depths), json!(blocks)));
        };
        let found = prompts.iter().map(|prompt| self.search_all(prompt)).collect::<Result<Vec<_>, _>>()?;
        Ok(found.into_iter().unzip::<_, _, Vec<_>, Vec<_>>()).map(|(matched, total)| (matched.into(), total.into()))
    }

    /// Depths and blocks of several prompts of one request, added up: a host searches for each by itself.
    fn search_sum(&self, prompts: &[Value]) -> Result<(Value, Value), String> {
        let (mut matched, mut total) = (vec![0; self.names.len()], 0);
        for prompt in prompts {
            let (depths, blocks) = self.search(&tokens(prompt)?)?;
            matched.iter_mut().zip(depths).for_each(|(sum, depth)| *sum += depth);
            total += blocks;
        }
        Ok((json!(matched), json!(total)))
    }

    /// Who holds how many of a prompt's blocks, and how many it has.
    fn search(&self, tokens: &[u32]) -> Result<(Vec<usize>, usize), String> {
        let found = Arc::new(Mutex::new((Vec::new(), 0)));
        let kept = Arc::clone(&found);
        let profile = self.profile().scorer("keep", 1.0, move |d: &mut Declare<'_>| Keep(d.reads(), kept));
        case::trace(profile, &case::request().tokens(tokens), &self.fleet)?;
        let found = found.lock().expect("not poisoned").clone();
        Ok(found)
    }
}

/// Keeps what was found of a prompt.
struct Keep(Read<PrefixMatches>, Arc<Mutex<(Vec<usize>, usize)>>);

impl Scorer for Keep {
    fn score(&self, context: &RoutingContext<'_>, scores: &mut Scores<'_>) -> Result<(), PluginError> {
        let matches = context.read(self.0)?;
        let depths = scores.candidates().iter().map(|pod: PodId| matches.depth(pod)).collect();
        *self.1.lock().expect("not poisoned") = (depths, matches.blocks());
        Ok(())
    }
}

/// Who is guessed to hold how much of a prompt, or of each of several, after what was routed; or which of the prompts that
/// were routed are still held where they went.
pub(super) fn produce(case: &Case) -> Result<(), String> {
    let inputs = ["history", "requests", "query_tokens", "query_prompts", "endpoints", "pod_block_size"];
    known_case(case, &PARAMETERS, &inputs)?;
    known(&case.expected, &["matched", "total", "present"])?;
    let names = if case.input["endpoints"].is_null() { vec!["pod1".into()] } else { texts(&case.input["endpoints"])? };
    let site = Site::new(&case.params, names, signed(&case.input, "pod_block_size")?)?;
    let mut sent = Vec::new();
    if case.input["requests"].is_null() {
        sent = history(&site, list(&case.input, "history")?)?;
    } else {
        // All of them go to the first endpoint.
        for request in list(&case.input, "requests")? {
            sent.push((tokens(request)?, vec![site.names[0].clone()]));
        }
    }
    for (tokens, targets) in &sent {
        targets.iter().try_for_each(|to| site.route(tokens, to))?;
    }
    let mut found = serde_json::Map::new();
    if !case.expected["present"].is_null() {
        let held =
            sent.iter().map(|(tokens, targets)| site.holds(tokens, &targets[0])).collect::<Result<Vec<_>, _>>()?;
        found.insert("present".into(), json!(held));
    }
    let queried = match (&case.input["query_tokens"], &case.input["query_prompts"]) {
        (Value::Null, Value::Null) => None,
        (query, Value::Null) => Some(site.search_all(query)?),
        (_, _) => Some(site.search_sum(list(&case.input, "query_prompts")?)?),
    };
    if let Some((matched, total)) = queried {
        found.extend([("matched".to_owned(), matched), ("total".to_owned(), total)]);
        found.retain(|name, _| case.expected.get(name).is_some());
    }
    if found.is_empty() { Err("unknown: nothing is expected".into()) } else { equal(&found.into(), &case.expected) }
}

type Sent = Vec<(Vec<u32>, Vec<String>)>;

/// Prompts and the endpoints that they go to.
fn history(site: &Site, history: &[Value]) -> Result<Sent, String> {
    let mut sent = Vec::new();
    for routed in history {
        known(routed, &["tokens", "prompts", "routed_to"])?;
        let targets = match &routed["routed_to"] {
            Value::Null => vec![site.names[0].clone()],
            Value::Object(by_profile) => by_profile.values().map(texts).collect::<Result<Vec<_>, _>>()?.concat(),
            names => texts(names)?,
        };
        // Of several prompts, each goes there by itself.
        if routed["prompts"].is_null() {
            sent.push((tokens(&routed["tokens"])?, targets));
        } else {
            for prompt in list(routed, "prompts")? {
                sent.push((tokens(prompt)?, targets.clone()));
            }
        }
    }
    Ok(sent)
}

/// How many blocks a prompt has, or each of several; an empty one is passed over.
pub(super) fn blocks(case: &Case) -> Result<(), String> {
    known_case(case, &PARAMETERS, &["tokens", "prompts", "pod_block_size"])?;
    let site = Site::new(&case.params, vec!["pod1".into()], signed(&case.input, "pod_block_size")?)?;
    if case.input["prompts"].is_null() {
        let (_, blocks) = site.search(&tokens(&case.input["tokens"])?)?;
        return equal(&json!({ "blocks": blocks }), &case.expected);
    }
    let mut blocks = Vec::new();
    for prompt in list(&case.input, "prompts")?.iter().map(tokens) {
        let prompt = prompt?;
        if !prompt.is_empty() {
            blocks.push(site.search(&prompt)?.1);
        }
    }
    equal(&json!({ "blocks": blocks }), &case.expected)
}

/// The size that prompts are cut by.
pub(super) fn block_size(case: &Case) -> Result<(), String> {
    known_case(case, &PARAMETERS, &["pod_block_size"])?;
    let size = size(&case.params, signed(&case.input, "pod_block_size")?)?;
    equal(&json!({ "block_size": size.map(BlockSize::tokens) }), &case.expected)
}

/// A block of no tokens is no block.
pub(super) fn config(case: &Case) -> Result<(), String> {
    known_case(case, &PARAMETERS, &[])?;
    known(&case.expected, &["error"])?;
    flag(&case.params, "autoTune")?;
    refused(case, Site::new(&case.params, vec!["pod1".into()], None).map(|site| site.hashing))
}

/// The blocks themselves: hashed, they are the prompt.
pub(super) fn split(case: &Case) -> Result<(), String> {
    known_case(case, &["blockSizeTokens"], &["tokens"])?;
    known(&case.expected, &["blocks"])?;
    let prompt = if case.input["tokens"].is_null() { Vec::new() } else { tokens(&case.input["tokens"])? };
    let expected = case.expected.get("blocks").ok_or("unknown: nothing is expected")?;
    let expected = expected.as_array().into_iter().flatten().map(tokens).collect::<Result<Vec<_>, _>>()?;
    let Some(size) = size(&case.params, None)? else {
        return if expected.is_empty() { Ok(()) } else { Err("found no blocks".into()) };
    };
    let hasher = ChainHasher::new(ChainSeed::new("m"), size);
    let found = hasher.hash(&prompt);
    let is_same = found == hasher.hash(&expected.concat()) && found.len() == expected.len();
    if is_same { Ok(()) } else { Err(format!("found {} blocks, expected {expected:?}", found.len())) }
}
