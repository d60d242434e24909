//! Synthetic traffic: requests with shared prefixes, turns, failures, resets, by seed.

use pointsman_test_support::SplitMix64;

use super::pool::{NAMESPACES, Namespace, Pool};

/// Prompts that were seen, so that later ones can continue or repeat them.
#[derive(Clone, Debug, Default)]
pub struct Traffic {
    pub prompts: Vec<(Namespace, Vec<u32>)>,
}

impl Traffic {
    /// One scheduling step of the engine.
    pub fn step(&mut self, pool: &mut Pool, rng: &mut SplitMix64) {
        let running = pool.requests();
        match rng.below(100) {
            0..30 => {
                let (namespace, tokens) = self.prompt(rng);
                pool.start(tokens, namespace);
            }
            30..75 if !running.is_empty() => {
                let id = running[rng.below(running.len())];
                let generated: Vec<u32> = (0..1 + rng.below(6)).map(|_| rng.below(3) as u32).collect();
                if !pool.advance(id, 1 + rng.below(24), &generated) {
                    // No room: what is longest on makes it.
                    pool.finish(running[0]);
                }
            }
            75..94 if !running.is_empty() => pool.finish(running[rng.below(running.len())]),
            94..96 if !running.is_empty() => pool.fail_load(running[rng.below(running.len())], rng.below(4)),
            96 => pool.reset(),
            _ => {}
        }
    }

    /// A prompt: an exact repeat, a continuation, or a new one under a common beginning.
    fn prompt(&mut self, rng: &mut SplitMix64) -> (Namespace, Vec<u32>) {
        let (namespace, mut tokens) = match rng.below(10) {
            0..2 if !self.prompts.is_empty() => return self.prompts[rng.below(self.prompts.len())].clone(),
            2..6 if !self.prompts.is_empty() => self.prompts[rng.below(self.prompts.len())].clone(),
            _ => (NAMESPACES[rng.below(NAMESPACES.len())], (0..16).collect()),
        };
        // Exact multiples of the block size matter: their last block is computed again.
        tokens.extend((0..4 * (1 + rng.below(6)) + rng.below(2) * rng.below(4)).map(|_| 100 + rng.below(3) as u32));
        tokens.truncate(96);
        self.prompts.push((namespace, tokens.clone()));
        if self.prompts.len() > 40 {
            self.prompts.remove(rng.below(20));
        }
        (namespace, tokens)
    }
}
