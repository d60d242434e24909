//! The shortest makespan that a batch could have, whoever plans it.

use pointsman_engine_sim::scheduler::EngineConfig;
use routing_plugins::{CostModel, Products};

use super::TokenLengths;
use crate::chains::Chains;
use crate::config::SimConfig;

/// Seconds of the longest answer, had it a pod for itself and its prompt for nothing: no strategy ends earlier.
pub(crate) fn longest_answer(lengths: &TokenLengths, costs: &CostModel) -> f64 {
    let alone = |&(prompt, output): &(u32, u32)| {
        let step = costs.decode(1, (prompt + output / 2) as usize);
        step.as_secs_f64() * f64::from(output.saturating_sub(1))
    };
    lengths.iter().map(alone).fold(0.0, f64::max)
}

/// Seconds that no strategy ends before: those of the longest answer, or of all work, spread evenly over pods of one kind.
///
/// The work is every distinct block of prompts computed once, every answer's reading of its context, and steps that are as full as
/// the engine's limit and its memory allow. Where a pod has few requests it is far from what can be had: steps are not full once
/// the short answers are done.
pub(crate) fn least_makespan(chains: &Chains, lengths: &TokenLengths, config: &SimConfig) -> f64 {
    let Some((engine, _)) = config.pods.iter().max_by_key(|(engine, _)| engine.blocks) else { return 0.0 };
    let work = Work::of(chains, lengths, engine.block_tokens);
    let speed: f64 = config.pods.iter().map(|(engine, _)| engine.speed).sum();
    (work.seconds(&config.costs, engine) / speed).max(longest_answer(lengths, &config.costs))
}

#[derive(Debug, Default)]
struct Work {
    /// Tokens of prompts, computed once; and pairs of one of them with one before it.
    new: f64,
    pairs: f64,
    /// Tokens that steps generate.
    outputs: f64,
    /// Tokens of context that they read.
    context: f64,
    /// Tokens of memory that they take up which no other request shares.
    held: f64,
}

impl Work {
    fn of(chains: &Chains, lengths: &TokenLengths, block_tokens: usize) -> Self {
        let mut order: Vec<u32> = (0..lengths.len() as u32).collect();
        order.sort_by_key(|&at| chains.get(at));
        let mut work = Self::default();
        let mut before: &[kv_index::BlockHash] = &[];
        for at in order {
            let (chain, (prompt, output)) = (chains.get(at), lengths[at as usize]);
            let shared = before.iter().zip(chain).take_while(|(a, b)| a == b).count();
            before = chain;
            // An answer begins with what the last token's computation gives.
            let cached = ((shared * block_tokens) as f64).min(f64::from(prompt) - 1.0).max(0.0);
            let (new, steps) = (f64::from(prompt) - cached, f64::from(output.saturating_sub(1)));
            let (prompt, half) = (f64::from(prompt), f64::from(output) / 2.0);
            work.new += new;
            work.pairs += new * (cached + new / 2.0);
            work.outputs += steps;
            work.context += steps * (prompt + half);
            work.held += steps * (new + half);
        }
        work
    }

    fn seconds(&self, costs: &CostModel, engine: &EngineConfig) -> f64 {
        let room = (engine.blocks * engine.block_tokens) as f64;
        let steps = (self.outputs / engine.max_running as f64).max(self.held / room);
        let (base, new) = (costs.decode_step.get() * steps, costs.per_token.get() * self.new);
        let products = match costs.products {
            Products::Additive => base + new,
            // What is computed hides what a step costs at least, at best in all of them alike.
            Products::Roofline => base.hypot(new + costs.per_token.get() * self.outputs),
        };
        products
            + costs.per_pair.get() * self.pairs
            + costs.per_sequence.get() * self.outputs
            + costs.per_context.get() * self.context
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kv_index::BlockHash;

    fn chains(prompts: &[&[u64]]) -> Chains {
        let mut chains = Chains::default();
        prompts.iter().for_each(|prompt| chains.push(prompt.iter().map(|&block| BlockHash::new(block))));
        chains
    }

    #[test]
    fn it_is_the_longest_answer_or_all_work_over_all_pods() {
        let config = SimConfig::mixed(2, 100_000, 16);
        // Two prompts of two blocks that share one, and one of one block.
        let chains = chains(&[&[1, 2], &[7], &[1, 3]]);
        let one_long = [(32, 2), (16, 2), (32, 2_000)];
        let longest = longest_answer(&one_long, &config.costs);
        assert_eq!(least_makespan(&chains, &one_long, &config), longest);
        let prompts_only = [(32, 1), (16, 1), (32, 1)];
        let costs = &config.costs;
        let (new, pairs) = (64.0, 32.0 * 16.0 + 16.0 * 8.0 + 16.0 * 24.0);
        let expected = (costs.per_token.get() * new + costs.per_pair.get() * pairs) / 2.0;
        assert!((least_makespan(&chains, &prompts_only, &config) - expected).abs() < 1e-9);
    }
}
