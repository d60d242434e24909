//! Queues and fleets to plan.

use std::time::Duration;

use kv_index::{BlockHash, Config, Index};
use proptest::collection::vec;
use proptest::prelude::*;
use routing_core::batch::{BatchPod, BatchRequest};

/// Tokens of a block.
pub(crate) const BLOCK: u32 = 16;

/// A queue that owns its chains.
#[derive(Clone, Debug)]
pub(crate) struct Queue {
    pub(crate) rows: Vec<Row>,
}

/// One request.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) chain: Vec<BlockHash>,
    /// Tokens of the prompt behind its whole blocks.
    pub(crate) tail: u32,
    pub(crate) output: u32,
    pub(crate) deadline: Option<Duration>,
}

impl Queue {
    pub(crate) fn requests(&self) -> Vec<BatchRequest<'_>> {
        let mut requests = Vec::new();
        for Row { chain, tail, output, deadline } in &self.rows {
            let prompt_tokens = chain.len() as u32 * BLOCK + tail;
            requests.push(BatchRequest { chain, prompt_tokens, output_tokens: *output, deadline: *deadline });
        }
        requests
    }
}

/// Pods of so many blocks each, and so fast.
pub(crate) fn pods(pods: &[(u64, f64)]) -> (Index, Vec<BatchPod>) {
    let index: Index = Index::new(Config::default());
    let pods = pods.iter().enumerate().map(|(at, &(blocks, speed))| BatchPod {
        pod: index.join(&at.to_string()).expect("room for a few pods"),
        kv_tokens: blocks * u64::from(BLOCK),
        speed,
    });
    let pods = pods.collect();
    (index, pods)
}

/// So many documents of so many blocks, so many questions about each, and answers of 10 to 59 tokens. The first question
/// about each document comes first.
pub(crate) fn documents(documents: u64, questions: u64, blocks: u64) -> Queue {
    let row = |at: u64| {
        let (document, question) = (at % documents, at / documents);
        let of_document = (0..blocks).map(|block| mixed(document << 32 | block));
        let own = (0..2).map(|block| mixed(1 << 62 | document << 32 | question << 8 | block));
        Row { chain: of_document.chain(own).collect(), tail: 5, output: 10 + (at * 7 % 50) as u32, deadline: None }
    };
    Queue { rows: (0..documents * questions).map(row).collect() }
}

/// Any trie of few branches, requests anywhere on it.
pub(crate) fn queue() -> impl Strategy<Value = Queue> {
    let deadline = prop::option::weighted(0.2, (0_u64..3_000).prop_map(Duration::from_millis));
    let row = (vec(0_u64..3, 0..12), 1..4_u64, 0..BLOCK, 0_u32..200, deadline);
    vec(row, 0..60).prop_map(|rows| {
        let row = |(turns, length, tail, output, deadline): (Vec<u64>, u64, u32, u32, Option<Duration>)| {
            // A hash stands for all that came before it; each branch is some blocks long.
            let mut chain = Vec::new();
            let mut path = 7_u64;
            for turn in turns {
                path = path.wrapping_mul(31).wrapping_add(turn + 1);
                chain.extend((0..length).map(|block| mixed(path << 8 | length << 4 | block)));
            }
            Row { chain, tail, output, deadline }
        };
        Queue { rows: rows.into_iter().map(row).collect() }
    })
}

fn mixed(bits: u64) -> BlockHash {
    let bits = (bits ^ (bits >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    BlockHash::new((bits ^ (bits >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9))
}

/// Leading blocks that two chains share.
pub(crate) fn common(one: &[BlockHash], other: &[BlockHash]) -> usize {
    one.iter().zip(other).take_while(|(a, b)| a == b).count()
}
