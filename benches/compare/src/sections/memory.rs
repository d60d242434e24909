//! Memory footprint: bytes a block, and memory after eviction.
//!
//! Counted by the global allocator, so nothing a system allocates is left out. One system at a time; what its
//! input takes is freed before the count is read.

use kv_index::BlockHash;

use crate::mismatches::disagreements;
use crate::options::Options;
use crate::results::{ResultTable, Value};
use crate::systems::{Contender, MAKERS, NAMES, Prompts};
use crate::targets::Cells;
use pointsman_benches::fleet::{Op, Step};
use pointsman_benches::random_prompt::RandomPrompt;
use pointsman_lab::SplitMix64;
use pointsman_test_support::alloc::Process;

pub(super) fn run(options: &Options, tell: &mut dyn FnMut(&str)) -> Vec<ResultTable> {
    let sizes = options.memory_blocks();
    sizes.iter().enumerate().map(|(at, &blocks)| table(blocks, at + 1, options, tell)).collect()
}

fn table(blocks: usize, size: usize, options: &Options, tell: &mut dyn FnMut(&str)) -> ResultTable {
    let world = World::new(blocks, options.seed);
    let [distinct, held] = [world.distinct, world.held].map(Value::from);
    let title = format!("Memory: {distinct} distinct blocks, {held} held by {PODS} pods");
    let columns = ["system", "empty MB", "filled MB", "bytes a block", "bytes a held block", "says MB", "emptied MB"];
    let mut table = ResultTable::new(format!("memory_{blocks}"), &title, columns);
    table.findings.push(format!(
        "content: conversations of {OWN} blocks, each held by 1.5 pods on average, under {PROMPTS} prompts of {PROMPT} \
         blocks, each held by up to {SHARING} pods"
    ));
    let mut weights = Vec::new();
    for (name, make) in NAMES.into_iter().zip(MAKERS) {
        tell(&format!("size {size} of {}: {blocks} blocks, {name}", options.memory_blocks().len()));
        settle();
        Process::start();
        let mut system = make(PODS, Prompts::Hashes(&[]));
        let empty = Process::live_bytes();
        world.play(&mut *system, Op::Store);
        system.tidy();
        let (filled, says) = (Process::live_bytes(), system.claimed_bytes());
        // Findings are counted with it until they are dropped, and are small.
        let wrong = world.check(&mut system);
        world.play(&mut *system, Op::Evict);
        system.tidy();
        let emptied = Process::live_bytes();
        drop(system);
        Process::stop();
        weights.push((filled as f64, emptied as f64));
        table.findings.extend(wrong);
        let mega = |bytes: usize| Value::from(bytes as f64 / 1e6);
        let each = |blocks: usize| Value::from(filled as f64 / blocks as f64);
        let (per_block, per_held) = (each(world.distinct), each(world.held));
        let says = says.map(|bytes| bytes as f64 / 1e6).into();
        table.rows.push(vec![name.into(), mega(empty), mega(filled), per_block, per_held, says, mega(emptied)]);
    }
    let ratios = [("filled", weights[1].0 / weights[0].0), ("emptied", weights[1].1 / weights[0].1)];
    let cells = Cells::new(&super::ratio_columns()[0], ratios);
    table.findings.push(cells.every(1.0, "memory, filled and emptied"));
    table
}

/// Frees what earlier sections left to be freed later, which would be counted as negative otherwise.
fn settle() {
    for _ in 0..1_000 {
        kv_index::collect_garbage();
    }
}

/// Conversations by prompt and holders; their hashes are made when they are needed.
struct World {
    prompts: Vec<Vec<BlockHash>>,
    conversations: Vec<Conversation>,
    /// By prompt and pod.
    holds_prompt: Vec<bool>,
    distinct: usize,
    held: usize,
}

struct Conversation {
    seed: u64,
    prompt: usize,
    /// Who holds it, and whether it was that pod's first under its prompt.
    holders: Vec<(usize, bool)>,
}

impl World {
    fn new(blocks: usize, seed: u64) -> Self {
        let mut rng = SplitMix64::new(seed);
        let prompts = (0..PROMPTS).map(|_| rng.chain(PROMPT)).collect();
        let holds_prompt = vec![false; PROMPTS * PODS];
        let (distinct, held) = (PROMPTS * PROMPT, 0);
        let mut world = Self { prompts, conversations: Vec::new(), holds_prompt, distinct, held };
        while world.distinct < blocks {
            let prompt = rng.below(PROMPTS);
            let first = rng.below(SHARING);
            let mut holders = vec![first];
            // Half of the conversations have a second holder: 1.5 on average.
            if rng.below(2) == 0 {
                holders.push((first + 1 + rng.below(SHARING - 1)) % SHARING);
            }
            let holders: Vec<_> = holders
                .into_iter()
                .map(|sharer| (sharer + prompt * 3) % PODS)
                .map(|pod| (pod, !std::mem::replace(&mut world.holds_prompt[prompt * PODS + pod], true)))
                .collect();
            world.distinct += OWN;
            world.held += holders.iter().map(|&(_, first)| OWN + if first { PROMPT } else { 0 }).sum::<usize>();
            world.conversations.push(Conversation { seed: rng.next_u64(), prompt, holders });
        }
        world
    }

    /// Stores everything, or evicts everything: conversations first, prompts after them.
    fn play(&self, system: &mut dyn Contender, op: Op) {
        for batch in self.conversations.chunks(1_000) {
            let chains: Vec<_> = batch.iter().map(|conversation| self.chain(conversation)).collect();
            let holders =
                batch.iter().enumerate().flat_map(|(at, c)| c.holders.iter().map(move |&holder| (at, holder)));
            let steps: Vec<Step> = match op {
                Op::Store => {
                    let from = |first: bool| if first { 0 } else { PROMPT };
                    let come = |(chain, (pod, first))| Step::serve(pod, chain, from(first)..ASKED, PROMPT + OWN);
                    holders.flat_map(come).collect()
                }
                Op::Evict => {
                    let go = |(chain, (pod, _))| Step::evict_singly(pod, chain, PROMPT..PROMPT + OWN);
                    holders.flat_map(go).collect()
                }
            };
            system.load(Prompts::Hashes(&chains));
            system.write(&steps);
        }
        if op == Op::Evict {
            let holders =
                self.conversations.iter().flat_map(|c| c.holders.iter().map(|&(pod, first)| (c.prompt, pod, first)));
            let steps: Vec<_> = holders
                .filter(|&(.., first)| first)
                .map(|(prompt, pod, _)| Step::evict(pod, prompt, 0..PROMPT))
                .collect();
            system.load(Prompts::Hashes(&self.prompts));
            system.write(&steps);
        }
        system.load(Prompts::Hashes(&[]));
    }

    /// Compares answers for some conversations: their holders have all of it, sharers of the prompt that much.
    fn check(&self, system: &mut Box<dyn Contender>) -> Vec<String> {
        let some: Vec<_> = self.conversations.iter().step_by((self.conversations.len() / 500).max(1)).collect();
        let chains: Vec<_> = some.iter().map(|conversation| self.chain(conversation)).collect();
        system.load(Prompts::Hashes(&chains));
        let lines = disagreements("filled for memory", std::slice::from_mut(system), 0..some.len(), |chain| {
            let sharers = &self.holds_prompt[some[chain].prompt * PODS..][..PODS];
            let mut depths: Vec<u32> = sharers.iter().map(|&shares| if shares { PROMPT as u32 } else { 0 }).collect();
            some[chain].holders.iter().for_each(|&(pod, _)| depths[pod] = (PROMPT + OWN) as u32);
            depths
        });
        system.load(Prompts::Hashes(&[]));
        lines
    }

    fn chain(&self, conversation: &Conversation) -> Vec<BlockHash> {
        let mut chain = self.prompts[conversation.prompt].clone();
        chain.extend(SplitMix64::new(conversation.seed).chain(OWN));
        chain
    }
}

const PODS: usize = 200;
/// Pods that share a prompt.
const SHARING: usize = 64;
const PROMPTS: usize = 100;
const PROMPT: usize = 64;
/// Blocks of a conversation beyond its prompt.
const OWN: usize = 40;
/// Where what was asked ends and the answer begins.
const ASKED: usize = PROMPT + 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systems_hold_what_the_world_says_and_nothing_after() {
        let world = World::new(50_000, 1);
        let sharers = world.conversations.iter().filter(|c| c.prompt == 0).flat_map(|c| c.holders.iter());
        assert!(sharers.filter(|(_, first)| *first).count() <= SHARING);
        let holders: usize = world.conversations.iter().map(|c| c.holders.len()).sum();
        let average = holders as f64 / world.conversations.len() as f64;
        assert!((1.4..1.6).contains(&average), "{average}");
        for make in MAKERS {
            let mut system = make(PODS, Prompts::Hashes(&[]));
            world.play(&mut *system, Op::Store);
            assert_eq!(system.refused(), 0);
            assert_eq!(world.check(&mut system), Vec::<String>::new());
            world.play(&mut *system, Op::Evict);
            system.load(Prompts::Hashes(&world.prompts));
            let mut answer = vec![1; PODS];
            for prompt in 0..PROMPTS {
                system.depths(prompt, &mut answer);
                assert!(answer.iter().all(|&depth| depth == 0), "{}", system.name());
            }
        }
    }
}
