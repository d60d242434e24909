//! Work stealing: how much of a list goes to a pod that has none left.
//!
//! So much that both end equally late, cut where little has to be computed again. Moving is worth it if the later one ends earlier by
//! more than what is computed again takes.

/// A request that could go.
#[derive(Clone, Copy, Debug)]
pub(super) struct Movable {
    /// Planned seconds that it adds.
    pub(super) work: f64,
    /// Planned seconds to compute what is there for it, if it is the first to go.
    pub(super) again: f64,
    /// Seconds that it takes from begin to end, where it goes.
    pub(super) residence: f64,
}

/// The end of a list: so many whole cohorts, and the last so many requests of the one before them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tail {
    pub(super) cohorts: usize,
    pub(super) requests: usize,
}

/// The seconds that a move has to save: a share of the time that a pod has before it, and of the time that it was busy, since
/// estimates are no better than that.
pub(super) fn worth(from: Side, busy: f64) -> f64 {
    0.05 * from.with(0.0) + 0.02 * busy
}

/// A pod as far as moving goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Side {
    /// Seconds of all that it has to do, begun or not.
    pub(super) seconds: f64,
    /// Seconds of each planned second more.
    pub(super) rate: f64,
    /// Seconds that it has to do however little more it gets.
    pub(super) least: f64,
}

impl Side {
    /// Seconds until it is done with this much more to do, or less.
    pub(super) fn with(self, work: f64) -> f64 {
        (self.seconds + work * self.rate).max(self.least)
    }
}

/// What should go from one pod to another that has begun all it has. `cohorts` are those that could go, the last one first, and their
/// requests, the last one first; one that cannot go is `None`, and so none before it.
pub(super) fn tail<C>(worth: f64, from: Side, to: Side, cohorts: impl Iterator<Item = C>) -> Option<Tail>
where
    C: Iterator<Item = Option<Movable>>,
{
    let mut best: Option<(f64, Tail)> = None;
    let (mut moved, mut longest) = (0.0, 0.0_f64);
    let ends = from.with(0.0);
    // Most often, and seen at once.
    if ends <= worth {
        return None;
    }
    for (cohorts, cohort) in cohorts.enumerate() {
        let mut requests = cohort.enumerate().peekable();
        while let Some((nth, movable)) = requests.next() {
            let Some(Movable { work, again, residence }) = movable else { return best.map(|(_, tail)| tail) };
            moved += work;
            longest = longest.max(residence);
            let (stays, goes) = (from.with(-moved), to.with(moved + again).max(longest));
            // How much earlier the later one ends, less what is computed again.
            let gain = ends - stays.max(goes) - again * to.rate;
            if gain > worth && best.is_none_or(|(most, _)| gain > most) {
                let is_whole = requests.peek().is_none();
                let (cohorts, requests) = if is_whole { (cohorts + 1, 0) } else { (cohorts, nth + 1) };
                best = Some((gain, Tail { cohorts, requests }));
            }
            if goes > ends {
                return best.map(|(_, tail)| tail);
            }
        }
    }
    best.map(|(_, tail)| tail)
}
