//! Requests over time: what a simulation is given.

/// Requests in the order of their arrival.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Trace {
    /// The requests.
    pub requests: Vec<Request>,
    /// Tokens that one of [`Request::ids`] stands for.
    pub block: usize,
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
    /// Its prompt's blocks: equal ids mean equal prompts up to there. The last one may be for fewer tokens.
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
