//! Criterion benchmarks of ours alone, and what they share with the comparison with the peers (`benches/compare`).
//!
//! | module | idea |
//! |---|---|
//! | [`fleet`] | caches as engines fill them: prompts, steps, and the depths that must come out |
//! | [`oracle`] | the literal model that answers are compared with before they are timed |
//! | [`system`], [`ours`] | a system under test, and ours as one |
//! | [`decide`] | one decision by plugins, and the same by hand |
//! | [`forward`] | a streamed response through the executor |
//! | [`measure`] | interleaved rounds, medians with their spread |
//! | [`random_prompt`] | random prompts as hashes and as tokens |

pub mod decide;
pub mod fleet;
pub mod forward;
pub mod measure;
pub mod oracle;
pub mod ours;
pub mod random_prompt;
pub mod system;
