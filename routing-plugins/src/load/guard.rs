//! RAII load guard: one request's share of its pod's load.
//!
//! The share is what the guard counts at the moment, so giving all of it back is right at any time, and once.

use std::sync::Arc;

use kv_index::{DEFAULT_POD_WORDS, Pod};

use super::{InFlight, LoadTracker, Work};

/// One request's share of its pod's load; lets go when dropped.
///
/// Guards are sent to where the request is: held with its answer's stream, it lets go when that ends, fails or is given
/// up by the client. If the pod's id goes to another pod meanwhile, the guard changes nothing any more.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
///
/// use kv_index::{Config, Index};
/// use routing_plugins::load::{LoadTracker, Work};
///
/// let index: Index = Index::new(Config::default());
/// let (pod, load) = (index.join("a")?, Arc::new(<LoadTracker>::default()));
///
/// let mut guard = load.begin(pod, Work::of(1000).held(600).output(50));
/// assert_eq!(load.in_flight(pod.id()).uncached_tokens, 400);
/// guard.first_token();
/// assert_eq!(load.in_flight(pod.id()).uncached_tokens, 0);
/// guard.generated(80); // more than was expected
/// assert_eq!(load.in_flight(pod.id()).output_tokens, 80);
/// guard.end();
/// assert_eq!(load.in_flight(pod.id()), Default::default());
/// # Ok::<(), kv_index::JoinError>(())
/// ```
#[derive(Debug)]
#[must_use = "a request counts while its guard is held"]
pub struct LoadGuard<const W: usize = DEFAULT_POD_WORDS> {
    tracker: Arc<LoadTracker<W>>,
    pod: Pod,
    share: InFlight,
}

impl<const W: usize> LoadGuard<W> {
    pub(super) fn new(tracker: Arc<LoadTracker<W>>, pod: Pod, work: Work) -> Self {
        let share = InFlight {
            requests: 1,
            prefilling: 1,
            prompt_tokens: bounded(work.prompt_tokens),
            uncached_tokens: bounded(work.uncached_tokens),
            output_tokens: bounded(work.output_tokens),
        };
        if let Some(writer) = tracker.cell(pod).and_then(|cell| cell.enter(pod.generation())) {
            writer.add(share);
        }
        Self { tracker, pod, share }
    }

    /// Says that the first token came: the prompt is computed. Only the first call says anything.
    pub fn first_token(&mut self) {
        if self.share.prefilling == 0 {
            return;
        }
        let (prefilling, uncached_tokens) = (self.share.prefilling, self.share.uncached_tokens);
        (self.share.prefilling, self.share.uncached_tokens) = (0, 0);
        self.take(InFlight { prefilling, uncached_tokens, ..InFlight::default() });
    }

    /// Says how many tokens were generated so far, in all. The first token is among them, if there are any.
    ///
    /// What was expected counts until more than that were generated; from then on these do. Figures lower than an earlier
    /// one say nothing. Touches the counters only where they change, so it may be called for each piece of an answer.
    pub fn generated(&mut self, tokens: u64) {
        if tokens > 0 {
            self.first_token();
        }
        let more = bounded(tokens).saturating_sub(self.share.output_tokens);
        if more == 0 {
            return;
        }
        self.share.output_tokens += more;
        if let Some(writer) = self.tracker.cell(self.pod).and_then(|cell| cell.enter_again(self.pod.generation())) {
            writer.add(InFlight { output_tokens: more, ..InFlight::default() });
        }
    }

    /// Says that the request is done, as dropping the guard does.
    pub fn end(self) {}

    /// The pod that it was sent to.
    #[must_use]
    pub fn pod(&self) -> Pod {
        self.pod
    }

    fn take(&self, share: InFlight) {
        if let Some(writer) = self.tracker.cell(self.pod).and_then(|cell| cell.enter_again(self.pod.generation())) {
            writer.take(share);
        }
    }
}

impl<const W: usize> Drop for LoadGuard<W> {
    fn drop(&mut self) {
        self.take(self.share);
    }
}

/// Whoever sends the request says so by what it sees of the answer.
impl<const W: usize> routing_core::InFlightGuard for LoadGuard<W> {
    fn first_byte(&mut self) {
        self.first_token();
    }
}

/// Tokens of one request, so few that no sum of them overflows.
fn bounded(tokens: u64) -> u64 {
    tokens.min(u64::from(u32::MAX))
}

// A guard goes wherever its request goes.
const _: () = {
    const fn sent<T: Send + Sync + 'static>() {}
    sent::<LoadGuard>();
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::handles;

    fn figures(requests: u32, prefilling: u32, tokens: [u64; 3]) -> InFlight {
        let [prompt_tokens, uncached_tokens, output_tokens] = tokens;
        InFlight { requests, prefilling, prompt_tokens, uncached_tokens, output_tokens }
    }

    #[test]
    fn each_stage_lets_go_of_its_part_once() {
        let tracker = Arc::new(<LoadTracker>::default());
        let pod = handles(1, 1)[0][0];
        let now = || tracker.in_flight(pod.id());
        let other = tracker.begin(pod, Work::of(5).output(1));
        let mut guard = tracker.begin(pod, Work::of(100).held(64).output(10));
        assert_eq!(guard.pod(), pod);
        assert_eq!(now(), figures(2, 2, [105, 41, 11]));
        assert_eq!((now().tokens(), now().decoding()), (116, 0));
        guard.first_token();
        guard.first_token();
        assert_eq!(now(), figures(2, 1, [105, 5, 11]));
        assert_eq!(now().decoding(), 1);
        guard.end();
        assert_eq!(now(), figures(1, 1, [5, 5, 1]));
        drop(other);
        assert_eq!(now(), InFlight::default());
    }

    #[test]
    fn the_first_byte_of_an_answer_is_its_first_token() {
        let tracker = Arc::new(<LoadTracker>::default());
        let pod = handles(1, 1)[0][0];
        let mut hold: Box<dyn routing_core::InFlightGuard> = Box::new(tracker.begin(pod, Work::of(100).output(10)));
        hold.first_byte();
        assert_eq!(tracker.in_flight(pod.id()), figures(1, 0, [100, 0, 10]));
        drop(hold);
        assert_eq!(tracker.in_flight(pod.id()), InFlight::default());
    }

    #[test]
    fn the_expected_counts_until_more_was_generated() {
        let tracker = Arc::new(<LoadTracker>::default());
        let pod = handles(1, 1)[0][0];
        let mut guard = tracker.begin(pod, Work::of(100).output(10));
        let mut generated = |tokens| {
            guard.generated(tokens);
            tracker.in_flight(pod.id())
        };
        assert_eq!(generated(0), figures(1, 1, [100, 100, 10]), "nothing came yet");
        assert_eq!(generated(1), figures(1, 0, [100, 0, 10]), "the first token");
        assert_eq!(generated(10).output_tokens, 10);
        assert_eq!(generated(12).output_tokens, 12);
        assert_eq!(generated(11).output_tokens, 12, "what was generated is not taken back");
        drop(guard);
        assert_eq!(tracker.in_flight(pod.id()), InFlight::default());
    }

    #[test]
    fn no_figures_are_too_large_to_count() {
        let tracker = Arc::new(<LoadTracker>::default());
        let pod = handles(1, 1)[0][0];
        let most = Work { prompt_tokens: u64::MAX, uncached_tokens: u64::MAX, output_tokens: u64::MAX };
        let mut guards: Vec<_> = (0..3).map(|_| tracker.begin(pod, most)).collect();
        guards[0].generated(u64::MAX);
        assert_eq!(tracker.in_flight(pod.id()).tokens(), 6 * u64::from(u32::MAX));
        guards.clear();
        assert_eq!(tracker.in_flight(pod.id()), InFlight::default());
    }

    #[test]
    fn a_guard_lets_go_when_its_holder_panics() {
        let tracker = Arc::new(<LoadTracker>::default());
        let pod = handles(1, 1)[0][0];
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _guard = tracker.begin(pod, Work::of(1));
            std::panic::resume_unwind(Box::new(()));
        }));
        assert!(panicked.is_err());
        assert_eq!(tracker.in_flight(pod.id()), InFlight::default());
    }
}
