//! A bounded sample of the prompts that were routed, recent ones more likely than old ones.

use pointsman_lab::SplitMix64;

/// Prompts kept for the check in the end.
#[derive(Debug)]
pub struct Sample {
    prompts: Vec<Vec<u32>>,
    most: usize,
    rng: SplitMix64,
}

impl Sample {
    /// Room for `most` prompts.
    #[must_use]
    pub fn new(most: usize, rng: SplitMix64) -> Self {
        Self { prompts: Vec::new(), most, rng }
    }

    /// Keeps the prompt if there is room, and otherwise now and then in the place of another.
    pub fn offer(&mut self, prompt: &[u32]) {
        if self.prompts.len() < self.most {
            self.prompts.push(prompt.to_vec());
        } else if self.rng.one_in(KEPT) {
            let at = self.rng.below(self.most);
            self.prompts[at].clear();
            self.prompts[at].extend_from_slice(prompt);
        }
    }

    /// What was kept.
    #[must_use]
    pub fn prompts(&self) -> &[Vec<u32>] {
        &self.prompts
    }
}

/// One prompt in this many takes another's place.
const KEPT: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_keeps_old_and_recent_prompts_but_no_more_than_it_has_room_for() {
        let mut sample = Sample::new(100, SplitMix64::new(1));
        for n in 0..2_000 {
            sample.offer(&[n]);
        }
        assert_eq!(sample.prompts().len(), 100);
        assert!(sample.prompts().iter().any(|prompt| prompt[0] < 1_000));
        assert!(sample.prompts().iter().any(|prompt| prompt[0] >= 1_900));
    }
}
