//! When engines start anew and pods are replaced: spread evenly over a run, whatever its length.

/// Something that befalls a fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Mishap {
    /// An engine starts anew.
    Restart,
    /// A pod is retired while another joins.
    Replacement,
}

/// Mishaps still to come.
#[derive(Clone, Debug)]
pub struct Mishaps {
    /// The turn before which each happens, latest first.
    ahead: Vec<(u64, Mishap)>,
}

impl Mishaps {
    /// Spreads so many of each over `turns` turns.
    #[must_use]
    pub fn spread(turns: u64, restarts: u64, replacements: u64) -> Self {
        let at = |nth: u64, of: u64| turns * (2 * nth + 1) / (2 * of);
        let restarts = (0..restarts).map(|nth| (at(nth, restarts), Mishap::Restart));
        let replacements = (0..replacements).map(|nth| (at(nth, replacements), Mishap::Replacement));
        let mut ahead: Vec<_> = restarts.chain(replacements).collect();
        ahead.sort_unstable_by(|a, b| b.cmp(a));
        Self { ahead }
    }

    /// The next mishap, if `turns` turns bring it on.
    pub fn due(&mut self, turns: u64) -> Option<Mishap> {
        let (at, mishap) = *self.ahead.last()?;
        if at > turns {
            return None;
        }
        self.ahead.pop();
        Some(mishap)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_comes_once_in_its_turn() {
        let mut mishaps = Mishaps::spread(100, 2, 1);
        let mut seen = Vec::new();
        for turn in 0..=100 {
            while let Some(mishap) = mishaps.due(turn) {
                seen.push((turn, mishap));
            }
        }
        assert_eq!(seen, [(25, Mishap::Restart), (50, Mishap::Replacement), (75, Mishap::Restart)]);
    }
}
