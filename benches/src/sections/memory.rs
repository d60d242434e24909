//! What does a block weigh, and is its memory given back?
//!
//! Counted by the global allocator, so nothing a system allocates is left out. One system at a time; what its
//! input takes is freed before the count is read.

use kv_index::BlockHash;

use crate::alloc;
use crate::fleet::{Op, Step};
use crate::options::Options;
use crate::report::{Table, Value};
use crate::rng::Rng;
use crate::systems::{Contender, MAKERS, NAMES, Prompts};

pub(super) fn run(options: &Options, tell: &mut dyn FnMut(&str)) -> Vec<Table> {
    let world = World::new(options.memory_blocks, options.seed);
    let title = format!(
        "Memory: {} distinct blocks in conversations of {OWN} under {PROMPTS} prompts of {PROMPT}, {} held by {PODS} pods",
        Value::from(world.distinct),
        Value::from(world.held),
    );
    let columns = ["system", "empty MB", "filled MB", "bytes a block", "bytes a held block", "says MB", "emptied MB"];
    let mut table = Table::new("memory", &title, columns);
    for (name, make) in NAMES.into_iter().zip(MAKERS) {
        tell(&format!("memory: {name}"));
        settle();
        alloc::start();
        let mut system = make(PODS, Prompts::Hashes(&[]));
        let empty = alloc::live();
        world.play(&mut *system, Op::Store);
        system.tidy();
        let (filled, says) = (alloc::live(), system.claimed_bytes());
        world.play(&mut *system, Op::Evict);
        system.tidy();
        let emptied = alloc::live();
        drop(system);
        alloc::stop();
        let mega = |bytes: usize| Value::from(bytes as f64 / 1e6);
        let each = |blocks: usize| Value::from(filled as f64 / blocks as f64);
        let (per_block, per_held) = (each(world.distinct), each(world.held));
        let says = says.map(|bytes| bytes as f64 / 1e6).into();
        table.rows.push(vec![name.into(), mega(empty), mega(filled), per_block, per_held, says, mega(emptied)]);
    }
    vec![table]
}

/// Frees what earlier sections left to be freed later, which would be counted as negative otherwise.
fn settle() {
    for _ in 0..1_000 {
        kv_index::collect();
    }
}

/// Conversations by prompt and holders; their hashes are made when they are needed.
struct World {
    prompts: Vec<Vec<BlockHash>>,
    conversations: Vec<Conversation>,
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
        let mut rng = Rng::new(seed);
        let prompts = (0..PROMPTS).map(|_| rng.chain(PROMPT)).collect();
        let mut world = Self { prompts, conversations: Vec::new(), distinct: PROMPTS * PROMPT, held: 0 };
        let mut holds_prompt = vec![false; PROMPTS * PODS];
        while world.distinct < blocks {
            let prompt = rng.below(PROMPTS);
            let first = rng.below(PODS);
            let mut holders = vec![first];
            // Half of the conversations have a second holder: 1.5 on average.
            if rng.below(2) == 0 {
                holders.push((first + 1 + rng.below(PODS - 1)) % PODS);
            }
            let holders: Vec<_> = holders
                .into_iter()
                .map(|pod| (pod, !std::mem::replace(&mut holds_prompt[prompt * PODS + pod], true)))
                .collect();
            world.distinct += OWN;
            world.held += holders.iter().map(|&(_, first)| OWN + if first { PROMPT } else { 0 }).sum::<usize>();
            world.conversations.push(Conversation { seed: rng.bits(), prompt, holders });
        }
        world
    }

    /// Stores everything, or evicts everything: conversations first, prompts after them.
    fn play(&self, system: &mut dyn Contender, op: Op) {
        for batch in self.conversations.chunks(1_000) {
            let chains: Vec<_> = batch.iter().map(|conversation| self.chain(conversation)).collect();
            let step = |chain: usize, (pod, first): (usize, bool)| match op {
                Op::Store => Step::store(pod, chain, if first { 0 } else { PROMPT }..PROMPT + OWN),
                Op::Evict => Step::evict(pod, chain, PROMPT..PROMPT + OWN),
            };
            let steps: Vec<_> = batch
                .iter()
                .enumerate()
                .flat_map(|(chain, conversation)| conversation.holders.iter().map(move |&holder| step(chain, holder)))
                .collect();
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

    fn chain(&self, conversation: &Conversation) -> Vec<BlockHash> {
        let mut chain = self.prompts[conversation.prompt].clone();
        chain.extend(Rng::new(conversation.seed).chain(OWN));
        chain
    }
}

const PODS: usize = 200;
const PROMPTS: usize = 100;
const PROMPT: usize = 64;
/// Blocks of a conversation beyond its prompt.
const OWN: usize = 40;
