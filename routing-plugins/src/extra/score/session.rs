//! Session affinity scorer: the pod that the session is bound to.

use std::sync::Arc;

use routing_core::{Declare, PluginError, Read, RoutingContext, Scorer, Scores};

use crate::memories::SessionsKept;
use crate::pick::Sessions;
use crate::prepare::Session;

/// Scores whether a session is bound to a candidate: 1 for the pod it is bound to, 0 for all others.
///
/// A request of no session, one whose session is not bound, and one bound to a pod that was replaced leave every score at
/// 0, so that other scorers decide. It takes no parameters. Sessions are bound by a
/// [`SessionRecorder`](crate::extra::SessionRecorder) or by the host.
#[derive(Debug)]
pub struct SessionScorer {
    sessions: Arc<Sessions>,
    session: Read<Session>,
}

impl SessionScorer {
    /// Declares that it reads the request's session.
    pub fn declare(declare: &mut Declare<'_>, sessions: Arc<Sessions>) -> Self {
        declare.recalls::<SessionsKept>(Arc::as_ptr(&sessions) as usize);
        Self { sessions, session: declare.reads() }
    }
}

impl<const W: usize> Scorer<W> for SessionScorer {
    fn score(&self, context: &RoutingContext<'_, W>, scores: &mut Scores<'_, W>) -> Result<(), PluginError> {
        let Some(session) = *context.read(self.session)? else { return Ok(()) };
        let Some(pod) = self.sessions.bound(session, context.request().now) else { return Ok(()) };
        if context.fleet().pod(pod.id()).is_some_and(|info| info.pod == pod) {
            scores.set(pod.id(), 1.0);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::pick::SessionLimits;
    use crate::score::testing::{Given, Scene};

    fn scores(scene: &Scene, sessions: &Arc<Sessions>, session: Option<u64>) -> Vec<f32> {
        let sessions = Arc::clone(sessions);
        let profile = scene
            .profile()
            .preparer("session", move |d: &mut Declare<'_>| Given::<Session, _>::declare(d, move || session))
            .scorer("bound", 1.0, move |d: &mut Declare<'_>| SessionScorer::declare(d, sessions));
        scene.scores_of(&scene.request(), profile)
    }

    #[test]
    fn the_bound_pod_gets_1() {
        let (scene, sessions) = (Scene::new(3), Arc::new(Sessions::new(SessionLimits::default())));
        sessions.bind(7, scene.pod(1), scene.now);
        assert_eq!(scores(&scene, &sessions, Some(7)), [0.0, 1.0, 0.0]);
    }

    #[test]
    fn without_a_binding_all_stay_at_0() {
        let (mut scene, sessions) = (Scene::new(3), Arc::new(Sessions::new(SessionLimits::default())));
        let begun = scene.now;
        sessions.bind(7, scene.pod(1), begun);
        assert_eq!(scores(&scene, &sessions, None), [0.0; 3]);
        assert_eq!(scores(&scene, &sessions, Some(8)), [0.0; 3]);
        scene.now += Duration::from_secs(u64::from(SessionLimits::default().ttl_seconds.get()) + 1);
        assert_eq!(scores(&scene, &sessions, Some(7)), [0.0; 3]);
        scene.now = begun;
        assert_eq!(scores(&scene, &sessions, Some(7)), [0.0, 1.0, 0.0]);
        scene.replace(1);
        assert_eq!(scores(&scene, &sessions, Some(7)), [0.0; 3]);
    }
}
