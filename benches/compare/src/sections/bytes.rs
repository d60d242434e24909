//! Bytes to index: vLLM's messages decoded, translated and applied.
//!
//! A message is what a subscriber's socket hands over: topic, number, and a batch in msgpack, as vLLM writes it since 0.26. Ours takes it by
//! the engine's own hashes or hashes the tokens anew; Dynamo decodes it by `zmq_wire`, hashes the tokens and applies it on a thread of its own. SMG has
//! no decoder of these. What was stored is searched for before anything is timed.

use std::time::{Duration, Instant};

use kv_index::engine::{EngineFeed, EngineFeedConfig};
use kv_index::{BatchOutcome, BlockHash, BlockSize, ChainHasher, ChainSeed, Config, Index, Matches, Pod};
use serde::Serialize;

use crate::options::Options;
use crate::results::{ResultTable, Value};
use crate::systems::dynamo::Decoder;
use pointsman_benches::measure::{Spread, by_phase};
use pointsman_benches::system::BLOCK_TOKENS;
use pointsman_lab::SplitMix64;

pub(super) fn run(options: &Options, tell: &mut dyn FnMut(&str)) -> Vec<ResultTable> {
    let columns = ["message", "blocks a prompt", "by its hashes", "by its tokens", "dynamo", "tokens ÷ dynamo"];
    let mut table = ResultTable::new("bytes", "vLLM's messages, bytes to index (M blocks a second)", columns);
    let lengths: &[usize] = if options.quick { &[64] } else { &[16, 64, 512] };
    for &blocks in lengths {
        tell(&format!("prompts of {blocks} blocks"));
        let corpus = Corpus::new(blocks, (options.table() / 4 / blocks).max(PODS), options.seed);
        table.findings.extend(corpus.check());
        for ((phase, _), rates) in corpus.phases.iter().zip(corpus.measure(options.rounds)) {
            let ratio = rates[1].median / rates[2].median;
            let mut row = vec![Value::from(*phase), blocks.into()];
            row.extend(rates.into_iter().map(Value::from));
            row.push(ratio.into());
            table.rows.push(row);
        }
    }
    vec![table]
}

/// Prompts, and what their pods' engines publish.
struct Corpus {
    prompts: Vec<Vec<u32>>,
    /// Messages, each with its pod and how many blocks it speaks of.
    phases: [(&'static str, Vec<Message>); PHASES],
}

struct Message {
    pod: usize,
    blocks: usize,
    frames: [Vec<u8>; 3],
}

impl Corpus {
    fn new(blocks: usize, count: usize, seed: u64) -> Self {
        let mut rng = SplitMix64::new(seed);
        let prompts: Vec<Vec<u32>> = (0..count)
            .map(|_| (0..(blocks + TAIL) * BLOCK_TOKENS).map(|_| rng.below(100_000) as u32).collect())
            .collect();
        let mut publisher = Publisher { sequences: [0; PODS] };
        let whole =
            |prompt: usize| publisher.send(prompt % PODS, vec![stored(prompt, &prompts[prompt], 0, blocks)], blocks);
        let stored_whole = (0..count).map(whole).collect();
        let mut singly = |event: &dyn Fn(usize, usize) -> Event, order: &mut dyn Iterator<Item = usize>| {
            let order: Vec<usize> = order.collect();
            let mut messages = Vec::new();
            for pod in 0..PODS {
                let served: Vec<usize> = (pod..count).step_by(PODS).collect();
                for bunch in served.chunks(BATCH) {
                    for &at in &order {
                        let events: Vec<Event> = bunch.iter().map(|&prompt| event(prompt, at)).collect();
                        messages.push(publisher.send(pod, events, bunch.len()));
                    }
                }
            }
            messages
        };
        let append = |prompt: usize, at: usize| stored(prompt, &prompts[prompt], at, 1);
        let remove = |prompt: usize, at: usize| Event::Removed {
            block_hashes: vec![name(prompt, at)],
            medium: "GPU",
            group_idx: 0,
        };
        let appended = singly(&append, &mut (blocks..blocks + TAIL));
        let removed = singly(&remove, &mut (blocks..blocks + TAIL).rev());
        let phases = [("a prompt", stored_whole), ("32 answers by a block", appended), ("32 evictions", removed)];
        Self { prompts, phases }
    }

    /// Whether everybody finds what was stored, and no more.
    fn check(&self) -> Vec<String> {
        let blocks = self.prompts[0].len() / BLOCK_TOKENS - TAIL;
        let mut wrong = Vec::new();
        for lane in 0..LANES {
            let mut receiver = Receiver::new(lane);
            for (phase, messages) in &self.phases {
                messages.iter().for_each(|message| receiver.receive(message));
                receiver.drain();
                let expected = if phase.starts_with("32 answers") { blocks + TAIL } else { blocks };
                let asked = (0..self.prompts.len()).step_by(self.prompts.len().div_ceil(50));
                let found = asked.filter(|&at| receiver.depth(at, &self.prompts[at]) != expected).count();
                if found > 0 {
                    wrong.push(format!("WRONG: lane {lane} after `{phase}`: {found} prompts"));
                }
            }
        }
        wrong
    }

    /// Millions of blocks a second.
    fn measure(&self, rounds: usize) -> [Vec<Spread>; PHASES] {
        by_phase(rounds, LANES, |lane| {
            let mut receiver = Receiver::new(lane);
            self.phases.each_ref().map(|(_, messages)| {
                let start = Instant::now();
                messages.iter().for_each(|message| receiver.receive(message));
                receiver.drain();
                let took: Duration = start.elapsed();
                messages.iter().map(|message| message.blocks).sum::<usize>() as f64 / took.as_secs_f64() / 1e6
            })
        })
    }
}

/// Who takes messages.
enum Receiver {
    Ours { index: &'static Index, pods: Vec<Pod>, feeds: Vec<EngineFeed<&'static Index>>, by_name: bool },
    Dynamo(Box<Decoder>),
}

impl Receiver {
    fn new(lane: usize) -> Self {
        if lane == 2 {
            return Self::Dynamo(Box::new(Decoder::new()));
        }
        // A few of them a measurement, and feeds want one that stays.
        let index: &'static Index = Box::leak(Box::new(Index::new(Config::default())));
        let pods: Vec<Pod> = (0..PODS).map(|pod| index.join(&pod.to_string()).expect("room")).collect();
        let config = match lane {
            0 => EngineFeedConfig::engine_hashes(block_size()),
            _ => EngineFeedConfig::tokens(ChainSeed::new("m"), block_size()),
        };
        let feed = |pod: &Pod| EngineFeed::new(index, *pod, config.clone()).expect("live");
        Self::Ours { index, feeds: pods.iter().map(feed).collect(), pods, by_name: lane == 0 }
    }

    fn receive(&mut self, message: &Message) {
        match self {
            Self::Ours { feeds, .. } => {
                let received = feeds[message.pod].receive(&message.frames).expect("as vLLM writes it");
                assert!(matches!(received.outcome, BatchOutcome::Applied(_)), "{received:?}");
            }
            Self::Dynamo(decoder) => decoder.receive(message.pod, &message.frames[2]),
        }
    }

    fn drain(&self) {
        if let Self::Dynamo(decoder) = self {
            decoder.drain();
        }
    }

    /// Leading blocks of a prompt on its pod.
    fn depth(&self, prompt: usize, tokens: &[u32]) -> usize {
        let pod = prompt % PODS;
        match self {
            Self::Ours { index, pods, by_name, .. } => {
                let named = || (0..tokens.len() / BLOCK_TOKENS).map(|at| BlockHash::new(name(prompt, at))).collect();
                let hashed = || ChainHasher::new(ChainSeed::new("m"), block_size()).hash(tokens);
                let chain: Vec<BlockHash> = if *by_name { named() } else { hashed() };
                let mut matches = Matches::default();
                index.search(&chain, &mut matches);
                matches.depth(pods[pod].id())
            }
            Self::Dynamo(decoder) => decoder.depth(pod, tokens),
        }
    }
}

struct Publisher {
    sequences: [u64; PODS],
}

impl Publisher {
    fn send(&mut self, pod: usize, events: Vec<Event>, blocks: usize) -> Message {
        let mut payload = Vec::new();
        let batch = (1e9, events, 0u32);
        batch
            .serialize(&mut rmp_serde::Serializer::new(&mut payload).with_struct_map())
            .expect("memory takes every byte");
        let sequence = self.sequences[pod].to_be_bytes().to_vec();
        self.sequences[pod] += 1;
        Message { pod, blocks, frames: [Vec::new(), sequence, payload] }
    }
}

/// An event as vLLM writes it.
#[derive(Serialize)]
#[serde(tag = "type")]
enum Event {
    #[serde(rename = "BlockStored")]
    Stored {
        block_hashes: Vec<u64>,
        parent_block_hash: Option<u64>,
        token_ids: Vec<u32>,
        block_size: usize,
        lora_id: (),
        medium: &'static str,
        lora_name: (),
        group_idx: u32,
        kv_cache_spec_kind: &'static str,
    },
    #[serde(rename = "BlockRemoved")]
    Removed { block_hashes: Vec<u64>, medium: &'static str, group_idx: u32 },
}

fn stored(prompt: usize, tokens: &[u32], from: usize, count: usize) -> Event {
    Event::Stored {
        block_hashes: (from..from + count).map(|at| name(prompt, at)).collect(),
        parent_block_hash: from.checked_sub(1).map(|before| name(prompt, before)),
        token_ids: tokens[from * BLOCK_TOKENS..(from + count) * BLOCK_TOKENS].to_vec(),
        block_size: BLOCK_TOKENS,
        lora_id: (),
        medium: "GPU",
        lora_name: (),
        group_idx: 0,
        kv_cache_spec_kind: "full_attention",
    }
}

/// What an engine calls a block.
fn name(prompt: usize, at: usize) -> u64 {
    SplitMix64::new((prompt as u64) << 20 | at as u64).next_u64()
}

fn block_size() -> BlockSize {
    BlockSize::new(BLOCK_TOKENS as u32).expect("not zero")
}

const PODS: usize = 64;
const PHASES: usize = 3;
/// Ours by names, ours by tokens, Dynamo.
const LANES: usize = 3;
/// Blocks of an answer.
const TAIL: usize = 16;
/// Events of a message.
const BATCH: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_is_understood() {
        assert_eq!(Corpus::new(16, 70, 3).check(), Vec::<String>::new());
    }
}
