//! Prefers the pod that a session's earlier requests went to.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use kv_index::{DEFAULT_POD_WORDS, Pod};
use routing_core::{Declare, PluginError, Read, RoutingContext, Scorer, Scores};

use crate::pick::Sessions;
use crate::prepare::Session;

/// Which pods sessions are bound to, as the host remembers it.
pub trait Bindings<const W: usize = DEFAULT_POD_WORDS>: Send + Sync {
    /// The pod that a session is bound to at this time, if it is.
    fn bound(&self, session: u64, now: Instant) -> Option<Pod>;
}

impl<const W: usize> Bindings<W> for Sessions {
    fn bound(&self, session: u64, now: Instant) -> Option<Pod> {
        Sessions::bound(self, session, now)
    }
}

/// Scores whether a session is bound to a candidate: 1 for the pod it is bound to, 0 for all others.
///
/// A request of no session, one whose session is not bound, and one bound to a pod that was replaced leave every score at
/// 0, so that other scorers decide. It takes no parameters. Sessions are bound by a
/// [`SessionRecorder`](crate::record::SessionRecorder), or by whatever else the host has.
pub struct SessionScorer<const W: usize = DEFAULT_POD_WORDS> {
    bindings: Arc<dyn Bindings<W>>,
    session: Read<Session>,
}

impl<const W: usize> SessionScorer<W> {
    /// Declares that it reads the request's session.
    pub fn declare(declare: &mut Declare<'_>, bindings: Arc<dyn Bindings<W>>) -> Self {
        Self { bindings, session: declare.reads() }
    }
}

impl<const W: usize> Scorer<W> for SessionScorer<W> {
    fn score(&self, context: &RoutingContext<'_, W>, scores: &mut Scores<'_, W>) -> Result<(), PluginError> {
        let Some(session) = *context.read(self.session)? else { return Ok(()) };
        let Some(pod) = self.bindings.bound(session, context.request().now) else { return Ok(()) };
        if context.fleet().pod(pod.id()).is_some_and(|info| info.pod == pod) {
            scores.set(pod.id(), 1.0);
        }
        Ok(())
    }
}

impl<const W: usize> fmt::Debug for SessionScorer<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionScorer").field("session", &self.session).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::score::testing::{Given, Scene};

    /// One session, bound to a pod up to a time.
    struct One(u64, Pod, Instant);

    impl Bindings for One {
        fn bound(&self, session: u64, now: Instant) -> Option<Pod> {
            (session == self.0 && now <= self.2).then_some(self.1)
        }
    }

    fn scores(scene: &Scene, bindings: One, session: Option<u64>) -> Vec<f32> {
        let profile = scene
            .profile()
            .preparer("session", move |d: &mut Declare<'_>| Given::<Session, _>::declare(d, move || session))
            .scorer("bound", 1.0, move |d: &mut Declare<'_>| SessionScorer::declare(d, Arc::new(bindings)));
        scene.scores_of(&scene.request(), profile)
    }

    #[test]
    fn the_bound_pod_gets_1() {
        let scene = Scene::new(3);
        assert_eq!(scores(&scene, One(7, scene.pod(1), scene.now), Some(7)), [0.0, 1.0, 0.0]);
    }

    #[test]
    fn without_a_binding_all_stay_at_0() {
        let mut scene = Scene::new(3);
        let pod = scene.pod(1);
        assert_eq!(scores(&scene, One(7, pod, scene.now), None), [0.0; 3]);
        assert_eq!(scores(&scene, One(7, pod, scene.now), Some(8)), [0.0; 3]);
        let passed = scene.now.checked_sub(std::time::Duration::from_nanos(1)).unwrap();
        assert_eq!(scores(&scene, One(7, pod, passed), Some(7)), [0.0; 3]);
        scene.replace(1);
        assert_eq!(scores(&scene, One(7, pod, scene.now), Some(7)), [0.0; 3]);
    }
}
