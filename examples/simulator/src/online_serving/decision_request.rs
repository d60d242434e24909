//! A request of a trace, as a router is asked about it.

use pointsman_lab::SplitMix64;

use crate::config::SimConfig;
use crate::prepared_trace::PreparedTrace;
use crate::router::DecisionRequest;

/// A request of a trace, as a router is asked about it.
pub(super) fn decision_request<'t>(load: &'t PreparedTrace<'_>, config: &SimConfig, place: u32) -> DecisionRequest<'t> {
    let request = &load.trace.requests[place as usize];
    DecisionRequest {
        chain: load.chains.get(place),
        prompt: request.input,
        session: request.session,
        seed: chance(config.seed, place),
    }
}

/// What chance begins with in the decision about a request: of one seed's numbers, the one at its place. Not the next one in the
/// order of arrival, which in a closed loop depends on answers, and so on the policy.
fn chance(seed: u64, place: u32) -> u64 {
    SplitMix64::new(seed.wrapping_add(u64::from(place).wrapping_mul(GOLDEN_GAMMA))).next_u64()
}

/// What a generator's state goes on by.
const GOLDEN_GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;
