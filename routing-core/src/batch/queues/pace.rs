//! A pod's pace, seen from outside: how long requests take it before their first token, how long each token takes, and what it has done
//! of its plan.
//!
//! Of answers that are not streamed only the end is seen. But how long they take grows with their length, so a straight line through
//! those of late says both: its slope is the time of a token, and what is left at no tokens is the time before the first.

/// What is known of a pod's pace.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// Sums over answers of late.
    answers: f64,
    tokens: f64,
    squares: f64,
    seconds: f64,
    products: f64,
    /// Seconds of a token by the plan, in a batch that is half full.
    pub(super) planned: f64,
    /// Seconds that it had something to do, and since when it has.
    busy: f64,
    since: Option<f64>,
    /// Planned seconds of all that it has done, at speed 1.
    pub(super) done: f64,
}

/// How much less an answer counts for each one after it.
const FORGETS: f64 = 0.97;

/// Answers without which nothing is said.
const ENOUGH: f64 = 8.0;

impl Pace {
    /// A pod of which nothing is known but the plan's seconds for a token.
    pub(super) fn new(planned: f64) -> Self {
        let (answers, tokens, squares, seconds, products) = Default::default();
        Self { answers, tokens, squares, seconds, products, planned, busy: 0.0, since: None, done: 0.0 }
    }

    /// It has something to do from now on, or nothing any more.
    pub(super) fn works(&mut self, is_busy: bool, now: f64) {
        match (is_busy, self.since) {
            (true, None) => self.since = Some(now),
            (false, Some(_)) => (self.busy, self.since) = (self.busy(now), None),
            _ => {}
        }
    }

    /// Seconds that it had something to do.
    pub(super) fn busy(&self, now: f64) -> f64 {
        self.busy + self.since.map_or(0.0, |since| (now - since).max(0.0))
    }

    /// An answer of so many tokens took so long.
    pub(super) fn answer(&mut self, seconds: f64, tokens: u32) {
        let (seconds, tokens) = (seconds.max(0.0), f64::from(tokens.max(1)));
        for (sum, one) in [
            (&mut self.answers, 1.0),
            (&mut self.tokens, tokens),
            (&mut self.squares, tokens * tokens),
            (&mut self.seconds, seconds),
            (&mut self.products, tokens * seconds),
        ] {
            *sum = *sum * FORGETS + one;
        }
    }

    /// Forgets answers.
    pub(super) fn forget(&mut self) {
        *self = Self { busy: self.busy, since: self.since, done: self.done, ..Self::new(self.planned) };
    }

    /// Seconds before the first token, and for each token.
    pub(super) fn line(&self) -> (f64, f64) {
        if self.answers < ENOUGH {
            return (0.0, self.planned);
        }
        let mean = self.seconds / self.tokens;
        let variance = self.squares * self.answers - self.tokens * self.tokens;
        // Answers of one length tell no slope.
        if variance < 0.01 * self.tokens * self.tokens {
            return (0.0, mean);
        }
        let slope = (self.products * self.answers - self.tokens * self.seconds) / variance;
        let slope = slope.min(mean).max(mean / 1_000.0);
        ((self.seconds - slope * self.tokens) / self.answers, slope)
    }

    /// The share of an answer's time that passes before its first token; nothing if too little is known.
    pub(super) fn share_before_first_token(&self) -> Option<f64> {
        let (before, _) = self.line();
        (self.answers >= 2.0 * ENOUGH && self.seconds > 0.0).then(|| before * self.answers / self.seconds)
    }
}
