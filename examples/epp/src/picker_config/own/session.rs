//! Session filter: the pod that the session is bound to, by the table of sessions.

use std::sync::Arc;

use pointsman::index::PodSet;
use routing_core::{Declare, Filter, PluginError, Read, RoutingContext};
use routing_plugins::pick::Sessions;
use routing_plugins::prepare::Session;

use super::narrowed;

/// Keeps the session's pod alone, if it is a candidate; else everybody.
#[derive(Debug)]
pub(super) struct SessionFilter {
    sessions: Arc<Sessions>,
    session: Read<Session>,
}

impl SessionFilter {
    /// Declares that it reads the request's session.
    pub(super) fn declare(declare: &mut Declare<'_>, sessions: Arc<Sessions>) -> Self {
        Self { sessions, session: declare.reads() }
    }
}

impl<const W: usize> Filter<W> for SessionFilter {
    fn filter(&self, context: &RoutingContext<'_, W>, candidates: PodSet<W>) -> Result<PodSet<W>, PluginError> {
        let Some(session) = *context.read(self.session)? else { return Ok(candidates) };
        let Some(pod) = self.sessions.bound(session, context.request().now) else { return Ok(candidates) };
        let is_there = context.fleet().pod(pod.id()).is_some_and(|info| info.pod == pod);
        Ok(if is_there { narrowed(candidates, [pod.id()].into_iter().collect()) } else { candidates })
    }
}
