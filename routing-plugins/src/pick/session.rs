//! Sticky sessions: the pod that the session is bound to.

use std::num::NonZeroUsize;
use std::sync::Arc;

use kv_index::{Pod, PodId};
use routing_core::{Declare, Picker, PluginError, Ranking, Read, RoutingContext, Totals};

use super::sessions::Sessions;
use crate::memories::SessionsKept;
use crate::parameters::parameters;
use crate::prepare::Session;

parameters! {
    /// What [`SessionPicker`] takes. How many sessions are remembered and how long is said of [`Sessions`].
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct SessionParameters {
        /// How many candidates are ranked; 3 unless given.
        pub most: NonZeroUsize = super::MOST,
        /// What becomes of a session whose pod is there but no candidate; it moves at once unless given.
        pub when_refused: WhenRefused = WhenRefused::Rebind,
    }
}

/// What becomes of a session whose pod is in the fleet but not among the candidates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum WhenRefused {
    /// It moves to the pod that is chosen instead, and stays there.
    #[default]
    Rebind,
    /// This request goes elsewhere, and the session stays bound for as long as its pod is in the fleet.
    KeepWhileAlive,
}

/// Chooses the pod that the request's [`Session`] is bound to; then the highest totals.
///
/// A session's first request goes to the highest total and binds it there; of several first ones at once, all go where the
/// first of them went. It stays bound from request to request, until its time runs out, its place in the table is needed,
/// or its pod is gone: out of the fleet, or replaced by another of the same id. It also moves when the pod is refused, by a
/// filter or because it failed this request, unless [`when_refused`](SessionParameters::when_refused) says otherwise.
/// Sessions of other pods stay where they are. A request without a session goes to the highest total.
///
/// A session is bound when it is picked, even if a later step of the decision fails.
#[derive(Debug)]
pub struct SessionPicker {
    parameters: SessionParameters,
    sessions: Arc<Sessions>,
    session: Read<Session>,
}

impl SessionPicker {
    /// Declares that it reads sessions.
    pub fn declare(declare: &mut Declare<'_>, parameters: SessionParameters, sessions: Arc<Sessions>) -> Self {
        declare.records::<SessionsKept>(Arc::as_ptr(&sessions) as usize);
        Self { parameters, sessions, session: declare.reads() }
    }

    /// The candidate that a session is bound to, now if not before; none if it stays with a pod that is refused.
    fn home<const W: usize>(
        &self,
        context: &RoutingContext<'_, W>,
        totals: &Totals<'_, W>,
        session: u64,
    ) -> Option<PodId> {
        let (fleet, now, candidates) = (context.fleet(), context.request().now, totals.candidates());
        let stays = |pod: Pod| {
            let alive = fleet.pod(pod.id()).is_some_and(|info| info.pod == pod);
            alive && (candidates.contains(pod.id()) || self.parameters.when_refused == WhenRefused::KeepWhileAlive)
        };
        let bound = self.sessions.renew(session, now, stays).or_else(|| {
            let mut best = Ranking::default();
            totals.rank(1, &mut best);
            let pod = fleet.pod(best.picks().first()?.pod)?.pod;
            Some(self.sessions.settle(session, pod, now, stays))
        });
        bound.map(Pod::id).filter(|pod| candidates.contains(*pod))
    }
}

impl<const W: usize> Picker<W> for SessionPicker {
    fn pick(
        &self,
        context: &RoutingContext<'_, W>,
        totals: &Totals<'_, W>,
        ranking: &mut Ranking,
    ) -> Result<(), PluginError> {
        if let Some(pod) = context.read(self.session)?.and_then(|session| self.home(context, totals, session)) {
            ranking.push(pod);
        }
        totals.rank(self.parameters.most.get().saturating_sub(ranking.picks().len()), ranking);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
