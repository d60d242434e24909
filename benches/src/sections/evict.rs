//! What does it cost to forget a conversation, by how many share its prompt?
//!
//! SMG 2.0.0 panics past 262,144 conversations under one prompt, so the section stays below.

use kv_index::BlockHash;

use crate::fleet::Step;
use crate::measure::interleaved;
use crate::options::Options;
use crate::report::{Table, Value};
use crate::rng::Rng;
use crate::systems::{Contender, NAMES, Prompts, contenders};

pub(super) fn run(options: &Options, tell: &mut dyn FnMut(&str)) -> Vec<Table> {
    let [ours, smg, dynamo] = NAMES;
    let ratios = [format!("{smg} ÷ ours"), format!("{dynamo} ÷ ours")];
    let columns = ["conversations", ours, smg, dynamo, &ratios[0], &ratios[1]];
    let title = "Evicting a conversation of 8 blocks under one shared prompt, 64 pods (ns per conversation)";
    let mut table = Table::new("evict", title, columns);
    let sizes: &[usize] = if options.quick { &[1_000, 10_000] } else { &[1_000, 10_000, 100_000, 200_000] };
    for &live in sizes {
        tell(&format!("evict: {live} live conversations"));
        let mut conversations = Conversations::new(options.seed);
        let mut contenders = contenders(PODS, Prompts::Hashes(&[]));
        conversations.fill(live, &mut contenders);
        let stored: Vec<Step> = (0..SAMPLE).map(|i| Step::store(i % PODS, i, PROMPT..LENGTH)).collect();
        let evicted: Vec<Step> = (0..SAMPLE).map(|i| Step::evict(i % PODS, i, PROMPT..LENGTH)).collect();
        let times = interleaved(options.rounds, contenders.len(), |lane| {
            let time = contenders[lane].write(&evicted);
            contenders[lane].write(&stored);
            time.as_nanos() as f64 / SAMPLE as f64
        });
        let mut row = vec![Value::from(live)];
        row.extend(times.iter().map(|&time| Value::from(time)));
        row.extend([1, 2].map(|peer| Value::from(times[peer].median / times[0].median)));
        table.rows.push(row);
    }
    vec![table]
}

/// Conversations under one prompt.
struct Conversations {
    rng: Rng,
    prompt: Vec<BlockHash>,
}

impl Conversations {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let prompt = rng.chain(PROMPT);
        Self { rng, prompt }
    }

    /// Stores them all, and leaves [`SAMPLE`] loaded that were stored half-way.
    fn fill(&mut self, live: usize, contenders: &mut [Box<dyn Contender>]) {
        let sample = self.chains(SAMPLE);
        let half = (live - SAMPLE) / 2;
        self.store_new(half, contenders);
        store(&sample, contenders);
        self.store_new(live - SAMPLE - half, contenders);
        for contender in contenders {
            contender.load(Prompts::Hashes(&sample));
        }
    }

    fn store_new(&mut self, count: usize, contenders: &mut [Box<dyn Contender>]) {
        for from in (0..count).step_by(BATCH) {
            store(&self.chains(BATCH.min(count - from)), contenders);
        }
    }

    fn chains(&mut self, count: usize) -> Vec<Vec<BlockHash>> {
        let mut chain = || {
            let mut chain = self.prompt.clone();
            chain.extend(self.rng.chain(LENGTH - PROMPT));
            chain
        };
        (0..count).map(|_| chain()).collect()
    }
}

fn store(chains: &[Vec<BlockHash>], contenders: &mut [Box<dyn Contender>]) {
    let steps: Vec<Step> = (0..chains.len()).map(|i| Step::store(i % PODS, i, 0..LENGTH)).collect();
    for contender in contenders {
        contender.load(Prompts::Hashes(chains));
        contender.write(&steps);
    }
}

const PODS: usize = 64;
const PROMPT: usize = 16;
const LENGTH: usize = PROMPT + 8;

/// Conversations evicted a round, and stored again after it.
const SAMPLE: usize = 200;

/// Conversations loaded at a time.
const BATCH: usize = 10_000;
