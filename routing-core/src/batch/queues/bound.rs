//! How many requests a pod is given at a time: as many as its memory holds, fewer where they only wait there.
//!
//! An engine that has more than it runs lets the others wait, and what waits there cannot be moved any more. Whether it does is seen
//! from outside: how long a request takes grows with its answer, from the time that it takes before its first token. Where that is
//! more than half of all, and the pod is full, it has too many.

/// A pod's concurrency limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConcurrencyLimit {
    /// Requests; at least one. Fewer are sent where more would only wait.
    pub requests: u32,
    /// Tokens of prompts and expected outputs, as the pod's KV cache has to hold them; `None` for as many as the plan says that it
    /// holds. Shared prefixes count for each request. A larger request is sent when the pod is idle.
    pub tokens: Option<u64>,
}

crate::setters::setters! { ConcurrencyLimit {
    requests: u32,
    tokens: Option<u64>,
} }

impl Default for ConcurrencyLimit {
    /// 256 requests, which is what vLLM runs at once, of as many tokens as the plan says.
    fn default() -> Self {
        Self { requests: 256, tokens: None }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Bound {
    limit: ConcurrencyLimit,
    /// Requests at a time, as found so far.
    found: f64,
    /// Requests and tokens under way.
    running: u32,
    tokens: u64,
    /// Answers and refusals until the next change.
    patience: u32,
}

/// The fewest requests at a time.
const FEWEST: f64 = 8.0;

impl Bound {
    pub(super) fn new(limit: ConcurrencyLimit) -> Self {
        let found = f64::from(limit.requests.max(1));
        Self { limit, found, running: 0, tokens: 0, patience: 0 }
    }

    pub(super) fn limit(&mut self, limit: ConcurrencyLimit) {
        self.limit = limit;
        self.found = f64::from(limit.requests.max(1));
    }

    /// The pod has room for so many tokens, unless it is limited already.
    pub(super) fn fit(&mut self, tokens: u64) {
        self.limit.tokens.get_or_insert(tokens);
    }

    /// Requests at a time.
    pub(super) fn requests(&self) -> u32 {
        (self.found as u32).clamp(1, self.limit.requests.max(1))
    }

    /// Whether there is room for a request of so many tokens.
    pub(super) fn has_room(&self, tokens: u32) -> bool {
        let fits = self.limit.tokens.is_none_or(|most| self.tokens.saturating_add(u64::from(tokens)) <= most);
        self.running == 0 || (self.running < self.requests() && fits)
    }

    pub(super) fn begin(&mut self, tokens: u32) {
        self.running += 1;
        self.tokens += u64::from(tokens);
    }

    pub(super) fn end(&mut self, tokens: u32) {
        self.running -= 1;
        self.tokens -= u64::from(tokens);
    }

    /// The pod was lost and is back: nothing of it is known.
    pub(super) fn renew(&mut self) {
        (self.found, self.patience) = (f64::from(self.limit.requests.max(1)), 0);
    }

    /// An answer is there; of those of late, this share of the time passed before the first token, if that is known. Whether there is
    /// a new bound.
    pub(super) fn answer(&mut self, waiting: Option<f64>) -> bool {
        self.patience = self.patience.saturating_sub(1);
        let was_full = self.running + 2 > self.requests();
        if self.patience > 0 || !was_full {
            return false;
        }
        let waiting = waiting.unwrap_or(0.0);
        if waiting > 0.5 {
            self.change((self.found * 0.75).max(FEWEST.min(self.found)));
        } else if waiting < 0.25 && self.requests() < self.limit.requests {
            self.change(self.found * 1.02 + 1.0);
        } else {
            return false;
        }
        true
    }

    /// The pod refused a request for being overloaded.
    pub(super) fn push_back(&mut self) {
        self.patience = self.patience.saturating_sub(1);
        if self.patience == 0 {
            self.change(self.found / 2.0);
        }
    }

    /// What comes of it is seen when all that is under way has been answered or refused.
    fn change(&mut self, found: f64) {
        self.found = found.clamp(1.0, f64::from(self.limit.requests.max(1)));
        self.patience = self.running.max(1);
    }
}
