//! A request under way, and what it holds until it is answered.

use routing_core::ProgramTurn;
use routing_core::flow::Charge;
use routing_plugins::load::LoadGuard;
use routing_plugins::{DecodeSample, PaceSample};

/// A request under way.
pub(super) struct InFlightRequest {
    pub(super) came: u64,
    /// When it was decided about.
    pub(super) decided: u64,
    /// When it had its first token.
    pub(super) first: u64,
    /// What it was charged for by flow control.
    pub(super) charge: Option<Charge>,
    pub(super) serve: usize,
    pub(super) guard: LoadGuard,
    pub(super) sample: Option<PaceSample>,
    /// Its pod as it was at the first token.
    pub(super) decoding: Option<DecodeSample>,
    /// The program that it is a turn of, where that is told.
    pub(super) turn: Option<ProgramTurn>,
    pub(super) prefill: Option<LoadGuard>,
    /// Whether its prompt is still at another pod.
    pub(super) away: bool,
    /// Tokens that the pod which answers lacked when it was chosen.
    pub(super) missing: u32,
}
