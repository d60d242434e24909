//! Shortest job first by new work: where a request stands once a decision says how much of its prompt its pod holds.
//!
//! The rule that must never break: a rank is of the prompt or of a part of it, so however often it is decided anew, a request is no later than
//! its prompt makes it.

use super::super::order::Came;
use super::super::{FlowOrder, Wanted};
use super::FlowQueue;
use crate::fleet::Role;

impl<T> FlowQueue<T> {
    /// A request was decided for a pod without room: what that pod holds of its prompt does not count any more.
    pub(super) fn rank_by_new_work(&mut self, ticket: u64, wanted: &Wanted) {
        let Some(place) = self.places.get(&ticket) else { return };
        let order = self.config.bands[place.band].order;
        // For a pod that only answers, another computes the prompt.
        if order != FlowOrder::ShortestFirst || wanted.role == Role::Decode {
            return;
        }
        let Some(item) = self.bands[place.band].item(&place.key, (place.rank, ticket)) else { return };
        let new_tokens = wanted.new_tokens(item.prompt_tokens);
        let came = Came { at: item.came, expires: place.expires, new_tokens };
        let rank = order.rank(self.origin.unwrap_or(item.came), &came);
        self.move_to(ticket, rank);
    }
}
