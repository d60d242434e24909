//! Wrong answers, counted: a system's depths against the oracle's.

use std::collections::BTreeSet;

use crate::systems::Contender;

/// A line for each system that answers otherwise than expected for one of these chains, which it has loaded.
pub(crate) fn disagreements(
    case: &str,
    contenders: &mut [Box<dyn Contender>],
    asked: impl IntoIterator<Item = usize>,
    expected: impl FnMut(usize) -> Vec<u32>,
) -> Vec<String> {
    let ask = |contender: &mut dyn Contender, chain: usize, answer: &mut [u32]| contender.depths(chain, answer);
    compare(case, contenders, asked, expected, ask)
}

/// The same for any way of asking.
pub(crate) fn compare(
    case: &str,
    contenders: &mut [Box<dyn Contender>],
    asked: impl IntoIterator<Item = usize>,
    mut expected: impl FnMut(usize) -> Vec<u32>,
    ask: impl Fn(&mut dyn Contender, usize, &mut [u32]),
) -> Vec<String> {
    let mut counts = vec![Mismatches::default(); contenders.len()];
    for chain in asked.into_iter().collect::<BTreeSet<_>>() {
        let expected = expected(chain);
        for (contender, mismatches) in contenders.iter_mut().zip(&mut counts) {
            let mut answer = vec![0; expected.len()];
            ask(&mut **contender, chain, &mut answer);
            mismatches.add(chain, &answer, &expected);
        }
    }
    let systems = contenders.iter().zip(counts);
    systems.filter_map(|(contender, mismatches)| mismatches.line(contender.name(), case)).collect()
}

/// Counts prompts that one system answers wrongly, and keeps the first of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mismatches {
    asked: usize,
    wrong: usize,
    first: Option<(usize, usize, u32, u32)>,
}

impl Mismatches {
    /// Counts one answer.
    pub(crate) fn add(&mut self, chain: usize, answer: &[u32], expected: &[u32]) {
        self.asked += 1;
        if let Some(pod) = (0..expected.len()).find(|&pod| answer[pod] != expected[pod]) {
            self.wrong += 1;
            self.first.get_or_insert((chain, pod, answer[pod], expected[pod]));
        }
    }

    /// What there is to report, if anything was wrong.
    pub(crate) fn line(&self, system: &str, case: &str) -> Option<String> {
        let (chain, pod, said, held) = self.first?;
        let Self { wrong, asked, .. } = self;
        Some(format!(
            "DISAGREES: {system} at {case}: {wrong} of {asked} prompts; first: chain {chain}, pod {pod}: says {said}, holds {held}",
        ))
    }
}

#[cfg(test)]
mod tests {
    use pointsman_benches::fleet::Step;
    use pointsman_benches::oracle::Oracle;
    use pointsman_benches::random_prompt::RandomPrompt;
    use pointsman_lab::SplitMix64;

    use super::*;
    use crate::systems::{Prompts, contenders};

    #[test]
    fn a_system_that_was_not_told_is_reported() {
        let chains = vec![SplitMix64::new(1).chain(8)];
        let mut oracle = Oracle::default();
        oracle.write(&chains, &[Step::store(1, 0, 0..8)]);
        let mut contenders = contenders(2, Prompts::Hashes(&chains));
        for contender in &mut contenders[1..] {
            contender.write(&[Step::store(1, 0, 0..8)]);
        }
        let lines = disagreements("here", &mut contenders, 0..1, |chain| oracle.depths(&chains[chain], 2));
        let wrong = "DISAGREES: pointsman at here: 1 of 1 prompts; first: chain 0, pod 1: says 0, holds 8";
        assert_eq!(lines, [wrong]);
    }
}
