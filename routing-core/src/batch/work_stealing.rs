//! Work stealing: how much of a list goes to a pod that has none left.
//!
//! So much that both have equally much to do, cut where little has to be computed again. Moving is worth it if the later one
//! ends earlier by more than what is computed again takes.

/// A cohort that could go: what its requests take in seconds, in order, and what has to be computed again to begin it elsewhere,
/// as a whole or from one of its later requests on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part<W> {
    pub(super) works: W,
    pub(super) again: f64,
    pub(super) split: f64,
}

/// The end of a list: so many whole cohorts, and the last so many requests of the one before them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tail {
    pub(super) cohorts: usize,
    pub(super) requests: usize,
}

/// The share of a pod's work that a move has to save: estimates are no better than that.
const WORTH: f64 = 0.05;

/// A pod as far as moving goes: seconds of all that it has to do at speed 1, begun or not, and its speed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Side {
    pub(super) load: f64,
    pub(super) speed: f64,
}

impl Side {
    fn with(self, work: f64) -> f64 {
        (self.load + work) / self.speed
    }
}

/// What should go from one pod to another that has begun all it has. `parts` are those that could go, the last one first.
pub(super) fn tail<W>(from: Side, to: Side, parts: impl Iterator<Item = Part<W>>) -> Option<Tail>
where
    W: DoubleEndedIterator<Item = f64> + ExactSizeIterator,
{
    let mut best: Option<(f64, Tail)> = None;
    let mut moved = 0.0;
    for (cohorts, part) in parts.enumerate() {
        let len = part.works.len();
        for (nth, work) in part.works.rev().enumerate() {
            moved += work;
            let whole = nth + 1 == len;
            let again = if whole { part.again } else { part.split };
            let (stays, goes) = (from.with(-moved), to.with(moved + again));
            // How much earlier the later one ends, less what is computed again.
            let gain = from.with(0.0) - stays.max(goes) - again / to.speed;
            if gain > WORTH * from.with(0.0) && best.is_none_or(|(most, _)| gain > most) {
                let tail = Tail { cohorts: cohorts + usize::from(whole), requests: if whole { 0 } else { nth + 1 } };
                best = Some((gain, tail));
            }
            if goes > from.with(0.0) {
                return best.map(|(_, tail)| tail);
            }
        }
    }
    best.map(|(_, tail)| tail)
}
