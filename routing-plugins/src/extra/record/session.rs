//! Session recorder: binds a session to the pod that served it.

use std::sync::Arc;

use routing_core::{Declare, PlanStep, PluginError, Read, Recorder, RoutingContext};

use crate::memories::SessionsKept;
use crate::pick::Sessions;
use crate::prepare::Session;

/// Binds the request's session to its step's first pod, for a [`SessionScorer`](crate::extra::SessionScorer) to find.
///
/// The last request counts: a session whose request went elsewhere has moved. A
/// [`SessionPicker`](crate::pick::SessionPicker) binds by itself and needs no recorder.
#[derive(Debug)]
pub struct SessionRecorder {
    sessions: Arc<Sessions>,
    session: Read<Session>,
}

impl SessionRecorder {
    /// Declares that it reads the request's session.
    pub fn declare(declare: &mut Declare<'_>, sessions: Arc<Sessions>) -> Self {
        declare.records::<SessionsKept>(Arc::as_ptr(&sessions) as usize);
        Self { sessions, session: declare.reads() }
    }
}

impl<const W: usize> Recorder<W> for SessionRecorder {
    fn record(&self, context: &RoutingContext<'_, W>, step: &PlanStep) -> Result<(), PluginError> {
        if let (Some(session), Some(chosen)) = (*context.read(self.session)?, step.candidates.first()) {
            self.sessions.bind(session, chosen.pod, context.request().now);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::testing::Site;

    /// The pod that the only session is bound to.
    fn bound(site: &Site, sessions: &Sessions) -> Option<usize> {
        let (name, tenant) = (xxhash_rust::xxh3::xxh3_64(b"u"), b"");
        let key = xxhash_rust::xxh3::xxh3_64_with_seed(tenant, name);
        sessions.bound(key, site.start).map(|pod| pod.id().index())
    }

    #[test]
    fn a_session_is_where_its_last_request_went() {
        let (site, sessions) = (Site::new(), Arc::new(Sessions::default()));
        let recorded = Arc::clone(&sessions);
        let workflow = site.workflow(|d: &mut Declare<'_>| SessionRecorder::declare(d, recorded));
        assert_eq!(bound(&site, &sessions), None);
        site.send(&workflow, 1, &[]);
        assert_eq!(bound(&site, &sessions), Some(0));
        site.send(&workflow, 1, &[0]);
        assert_eq!(bound(&site, &sessions), Some(1), "its pod failed, and the next plan is without it");
        assert_eq!(sessions.len(), 1);
    }

    #[test]
    fn no_session_is_bound_by_a_decision_that_fails_in_a_later_step() {
        let (site, sessions) = (Site::new(), Arc::new(Sessions::default()));
        let recorded = Arc::clone(&sessions);
        site.fail_later(|d: &mut Declare<'_>| SessionRecorder::declare(d, recorded));
        assert!(sessions.is_empty());
    }
}
