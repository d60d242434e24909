//! Measured step times, the input of a fit; deserialized from any format with the feature `serde`.

/// Step times of one device and model.
///
/// The field names are those of a benchmark's table, in which other keys may stand beside these.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize))]
#[expect(clippy::exhaustive_structs, reason = "a table that a host fills in")]
pub struct Measurements {
    /// Prefills of one sequence.
    pub prefill: Vec<PrefillRow>,
    /// Decode steps.
    pub decode: Vec<DecodeRow>,
    /// Steps with a prefill chunk and a decode batch; none, unless given.
    #[cfg_attr(feature = "serde", serde(default))]
    pub mixed: Vec<MixedRow>,
}

/// One measured prefill.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize))]
#[expect(clippy::exhaustive_structs, reason = "a row that a host fills in")]
pub struct PrefillRow {
    /// Tokens before the new ones.
    pub cached: u32,
    /// Tokens that were computed.
    pub new: u32,
    /// Milliseconds of the step.
    pub ms: f64,
    /// Milliseconds of it that the benchmark itself took to copy the cached part; 0, unless given.
    #[cfg_attr(feature = "serde", serde(default))]
    pub cache_copy_ms: f64,
}

/// One measured decode step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize))]
#[expect(clippy::exhaustive_structs, reason = "a row that a host fills in")]
pub struct DecodeRow {
    /// Sequences in the step.
    pub batch: u32,
    /// Tokens of context of each.
    pub context: u32,
    /// Milliseconds of the step.
    pub ms: f64,
}

/// One measured step with a prefill chunk and a decode batch.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize))]
#[expect(clippy::exhaustive_structs, reason = "a row that a host fills in")]
pub struct MixedRow {
    /// Tokens before the chunk.
    pub cached: u32,
    /// Tokens of the chunk.
    pub new: u32,
    /// Sequences that decode; rows with none are not used.
    pub batch: u32,
    /// Tokens of context of each sequence.
    pub context: u32,
    /// Milliseconds of the step.
    pub ms: f64,
}
