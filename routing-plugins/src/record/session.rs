//! Binds a session to the pod that its request went to.

use std::sync::Arc;

use routing_core::{Context, Declare, PlanStep, PluginError, Read, Recorder};

use crate::pick::Sessions;
use crate::prepare::Session;

/// Binds the request's session to its step's first pod, for a [`SessionScorer`](crate::score::SessionScorer) to find.
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
        Self { sessions, session: declare.reads() }
    }
}

impl<const W: usize> Recorder<W> for SessionRecorder {
    fn record(&self, context: &Context<'_, W>, step: &PlanStep) -> Result<(), PluginError> {
        if let (Some(session), Some(chosen)) = (*context.read(self.session)?, step.candidates.first()) {
            self.sessions.bind(session, chosen.pod, context.request().now);
        }
        Ok(())
    }
}
