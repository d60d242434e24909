//! What is known of a request that waits: the pod that it was decided for, and why it waits.

use std::sync::Arc;
use std::time::Instant;

use super::super::dispatch::WaitState;
use super::super::{FlowTrace, Ticket, Waited, Wanted};
use super::{FlowQueue, Place};

impl<T> FlowQueue<T> {
    pub(in super::super) fn state(&self, ticket: Ticket) -> Option<WaitState> {
        Some(self.places.get(&ticket.0)?.state)
    }

    /// A request that was decided for a pod without room goes on waiting. Why it waited first is what its trace says.
    pub(in super::super) fn keep(
        &mut self,
        ticket: Ticket,
        wants: Option<Wanted>,
        why: Waited,
        decided: Option<(Instant, u64)>,
    ) {
        let Some(place) = self.places.get_mut(&ticket.0) else { return };
        let state = &mut place.state;
        let why = if state.decided.is_none() { why } else { state.why };
        *state = WaitState { wants, decided, why, ..*state };
        place.program = place.program.or(wants.and_then(|wanted| wanted.program));
        let program = place.program;
        self.stand(ticket.0, program);
        if let Some(wanted) = wants {
            self.rank_by_new_work(ticket.0, &wanted);
        }
    }

    pub(in super::super) fn trace(&self, ticket: Ticket, now: Instant) -> Option<FlowTrace> {
        let Place { band, key, rank, state, standing, program, .. } = self.places.get(&ticket.0)?;
        let came = self.bands[*band].item(key, (*rank, ticket.0))?.came;
        // Whatever the clock says between the two calls.
        let is_at_once = state.decided.is_none() && state.ahead == 0;
        Some(FlowTrace {
            band: Arc::clone(&self.config.bands[*band].name),
            key: Arc::clone(key),
            why: if is_at_once { Waited::No } else { state.why },
            waited: now.saturating_duration_since(came),
            ahead: state.ahead,
            program: standing.as_ref().map(|standing| standing.told).filter(|_| program.is_some()),
        })
    }
}
