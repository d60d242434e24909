//! Traces: requests over time, recorded or synthetic.
//!
//! | module | idea |
//! |---|---|
//! | [`read`] | from a file: Mooncake's open loop, agents' closed loop |
//! | [`synthetic`] | synthetic, with the statistics of real ones |
//! | [`order`] | places in the order of expected times |
//! | [`scale`] | faster, slower, and more of the same |
//! | [`resample`] | the same at other times |
//! | [`population`] | so many conversations at a time |
//! | [`stats`] | figures to compare traces by |
//!
//! The rule: equal ids mean equal prompts up to there, an [`Start::After`] names an earlier place, and the times of
//! [`Start::At`] never fall from one place to the next. Every method keeps it.

mod id_map;
pub mod order;
pub mod population;
pub mod read;
pub mod resample;
pub mod scale;
pub mod stats;
pub mod synthetic;

/// Requests in the order of their arrival; of those that wait for others, in the [expected](Trace::expected) one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Trace {
    /// The requests.
    pub requests: Vec<Request>,
    /// Tokens that one of [`Request::ids`] stands for.
    pub block: usize,
    /// Rows of a file that were left out since they had no prompt.
    pub skipped: usize,
}

impl Trace {
    /// A trace of these requests, put in [`order`].
    ///
    /// # Panics
    ///
    /// Panics if a request waits for one that is not before it.
    #[must_use]
    pub fn new(block: usize, requests: Vec<Request>) -> Self {
        Self { requests: order::arrange(requests), block, skipped: 0 }
    }

    /// The first requests only.
    #[must_use]
    pub fn take(mut self, requests: usize) -> Self {
        self.requests.truncate(requests);
        self
    }

    /// Whether requests wait for others, so that their times depend on how fast those are answered.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.requests.iter().any(|request| matches!(request.start, Start::After(..)))
    }
}

/// One request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "made up by tests and generators, field by field")]
pub struct Request {
    /// When it comes.
    pub start: Start,
    /// The conversation that it belongs to.
    pub session: u32,
    /// Tokens of its prompt; at least 1.
    pub input: u32,
    /// Tokens of its answer; at least 1.
    pub output: u32,
    /// Its prompt's blocks: equal ids mean equal prompts up to there. The last one may be for fewer tokens; tokens after
    /// the last whole block may also have none.
    pub ids: Vec<u64>,
}

impl Request {
    /// The ids of its whole blocks: what an engine can cache of the prompt.
    #[must_use]
    pub fn whole_blocks(&self, block: usize) -> &[u64] {
        &self.ids[..(self.input as usize / block).min(self.ids.len())]
    }
}

/// When a request comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "open and closed loop are all there is")]
pub enum Start {
    /// So many µs after the trace begins, whatever became of others.
    At(u64),
    /// So many µs after an earlier request of the trace, by its place, was answered.
    After(u32, u64),
}

impl Default for Start {
    fn default() -> Self {
        Self::At(0)
    }
}

#[cfg(test)]
mod tests;
