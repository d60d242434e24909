//! Trace statistics: figures to compare traces by.

use std::collections::HashMap;
use std::fmt;

use super::id_map::IdMap;
use super::{Start, Trace};

/// What a trace is like.
///
/// Spreads are p25, p50, p75, p95, p99, and the mean.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Stats {
    /// Requests.
    pub requests: usize,
    /// Those of them that wait for another's answer.
    pub waiting: usize,
    /// Conversations.
    pub sessions: usize,
    /// How long requests come, as far as can be [expected](Trace::expected).
    pub seconds: f64,
    /// Tokens of all prompts.
    pub input_tokens: u64,
    /// Tokens of all answers.
    pub output_tokens: u64,
    /// Ids of all prompts, also those that stand for fewer tokens than a block has.
    pub ids: u64,
    /// Different ones among them.
    pub ids_distinct: u64,
    /// Whole blocks of all prompts.
    pub blocks: u64,
    /// Whole blocks that an infinite cache shared by all would have held: the earlier requests' prompts.
    pub blocks_known: u64,
    /// Ids a request.
    pub chain: [f64; 6],
    /// Tokens a prompt.
    pub input: [f64; 6],
    /// Tokens an answer.
    pub output: [f64; 6],
    /// Requests a conversation.
    pub turns: [f64; 6],
    /// Share of requests that have more than their first id in common with an earlier one.
    pub continued: f64,
    /// Most children of one id, and of the next.
    pub fan: [usize; 2],
    /// Ids with more than one child.
    pub forks: usize,
}

impl Stats {
    /// Share of ids, whole or not, that an earlier request had.
    #[must_use]
    pub fn known(&self) -> f64 {
        (self.ids - self.ids_distinct) as f64 / self.ids.max(1) as f64
    }

    /// Share of whole blocks that an infinite cache shared by all would have held: no hit rate is higher.
    #[must_use]
    pub fn bound(&self) -> f64 {
        self.blocks_known as f64 / self.blocks.max(1) as f64
    }

    /// Different whole blocks: what must be computed at least once.
    #[must_use]
    pub const fn blocks_distinct(&self) -> u64 {
        self.blocks - self.blocks_known
    }
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let spread = |[a, b, c, d, e, mean]: [f64; 6]| format!("{a} {b} {c} {d} {e}, mean {mean:.1}");
        writeln!(
            f,
            "{} requests ({} wait for another) of {} sessions in {:.0} s",
            self.requests, self.waiting, self.sessions, self.seconds
        )?;
        writeln!(f, "ids: {}, {} distinct, {:.2}% known", self.ids, self.ids_distinct, self.known() * 100.0)?;
        let distinct = self.blocks_distinct();
        writeln!(f, "whole blocks: {}, {distinct} distinct, {:.2}% known", self.blocks, self.bound() * 100.0)?;
        writeln!(f, "tokens: {} of prompts, {} of answers", self.input_tokens, self.output_tokens)?;
        writeln!(f, "p25 p50 p75 p95 p99, mean")?;
        writeln!(f, "  ids a request: {}", spread(self.chain))?;
        writeln!(f, "  tokens a prompt: {}", spread(self.input))?;
        writeln!(f, "  tokens an answer: {}", spread(self.output))?;
        writeln!(f, "  requests a session: {}", spread(self.turns))?;
        let [most, next] = self.fan;
        let continued = self.continued * 100.0;
        write!(f, "{continued:.1}% go on from another; widest forks {most}, {next}; {} forks", self.forks)
    }
}

impl Trace {
    /// What there is to know about it.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let mut stats = Stats { requests: self.requests.len(), ..Stats::default() };
        // By id, its children.
        let mut seen = IdMap::new(&self.requests);
        let mut turns = HashMap::<u32, usize>::new();
        for request in &self.requests {
            let known = request.ids.iter().take_while(|id| seen.get(**id).is_some()).count();
            let whole = request.whole_blocks(self.block.max(1)).len();
            stats.waiting += usize::from(matches!(request.start, Start::After(..)));
            stats.input_tokens += u64::from(request.input);
            stats.output_tokens += u64::from(request.output);
            stats.ids += request.ids.len() as u64;
            stats.blocks += whole as u64;
            stats.blocks_known += known.min(whole) as u64;
            stats.continued += if known > 1 { 1.0 / self.requests.len() as f64 } else { 0.0 };
            for (place, &id) in request.ids.iter().enumerate().skip(known) {
                seen.get_or_set(id, || 0);
                if place > 0 {
                    *seen.get_or_set(request.ids[place - 1], || 0) += 1;
                }
            }
            *turns.entry(request.session).or_default() += 1;
        }
        let mut children = seen.numbers();
        stats.ids_distinct = children.len() as u64;
        for &children in &children {
            let [most, next] = stats.fan;
            stats.fan = [most.max(children as usize), next.max(most.min(children as usize))];
        }
        children.retain(|&children| children > 1);
        stats.forks = children.len();
        stats.sessions = turns.len();
        stats.seconds = self.expected().last().map_or(0.0, |&at| at as f64 / 1e6);
        stats.chain = spread(self.requests.iter().map(|request| request.ids.len()));
        stats.input = spread(self.requests.iter().map(|request| request.input as usize));
        stats.output = spread(self.requests.iter().map(|request| request.output as usize));
        stats.turns = spread(turns.into_values());
        stats
    }
}

fn spread(values: impl Iterator<Item = usize>) -> [f64; 6] {
    let mut values: Vec<usize> = values.collect();
    values.sort_unstable();
    let at = |share: f64| values.get((values.len() as f64 * share) as usize).map_or(0.0, |&value| value as f64);
    let mean = values.iter().sum::<usize>() as f64 / values.len().max(1) as f64;
    [at(0.25), at(0.5), at(0.75), at(0.95), at(0.99), mean]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Request;

    #[test]
    fn partly_filled_blocks_count_as_ids_only() {
        let request = |input, ids: &[u64]| Request { input, output: 2, ids: ids.to_vec(), ..Request::default() };
        let mut again = request(40, &[1, 2, 3]);
        again.start = Start::After(0, 5);
        let trace = Trace::new(16, vec![request(40, &[1, 2, 3]), again, request(20, &[1, 4]), request(9, &[])]);
        let stats = trace.stats();
        assert_eq!((stats.ids, stats.ids_distinct, stats.blocks, stats.blocks_known), (8, 4, 5, 3));
        assert_eq!((stats.blocks_distinct(), stats.known(), stats.bound()), (2, 0.5, 0.6));
        assert_eq!((stats.fan, stats.forks, stats.waiting, stats.sessions), ([2, 1], 1, 1, 1));
        assert_eq!((stats.input_tokens, stats.output_tokens, stats.continued), (109, 8, 0.25));
        assert!(stats.to_string().contains("whole blocks: 5, 2 distinct, 60.00% known"));
        assert_eq!(Trace::default().stats(), Stats::default());
    }
}
