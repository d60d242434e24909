//! Attempt guard: a request's share of a pod's load, which lets those go that wait when there is less of it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use kv_index::{DEFAULT_POD_WORDS, Pod};
use routing_core::InFlightGuard;
use routing_plugins::PaceSample;
use routing_plugins::load::LoadGuard;

use crate::answer_learning::Decoding;
use crate::router::Router;

/// A request's share of a pod's load; lets go when dropped.
#[must_use = "a request counts while its guard is held"]
pub struct AttemptGuard<const W: usize = DEFAULT_POD_WORDS> {
    /// None once it is let go.
    load: Option<LoadGuard<W>>,
    pod: Pod,
    router: Router<W>,
    /// Where its pod is noted as it is when the first token comes and at the end, if that teaches anything.
    watched: Option<(PaceSample, Arc<Decoding>)>,
    /// Where it computes the prompt for another pod.
    leg: Option<Arc<PrefillLeg>>,
}

/// Whether a pod that computes a prompt for another did, or is about to.
#[derive(Debug, Default)]
pub(crate) struct PrefillLeg {
    has_failed: AtomicBool,
}

impl PrefillLeg {
    pub(crate) fn has_failed(&self) -> bool {
        // Relaxed: read by the task that drops the guard, or by one that was told since.
        self.has_failed.load(Ordering::Relaxed)
    }
}

impl<const W: usize> AttemptGuard<W> {
    pub(crate) fn new(load: LoadGuard<W>, router: Router<W>) -> Self {
        Self { pod: load.pod(), load: Some(load), router, watched: None, leg: None }
    }

    /// The same, noting its pod as it is when the first token comes and at the end.
    pub(crate) fn watching(mut self, watched: Option<(PaceSample, Arc<Decoding>)>) -> Self {
        self.watched = watched;
        self
    }

    /// The same of a pod that computes the prompt for another.
    pub(crate) fn leg(mut self, leg: Option<Arc<PrefillLeg>>) -> Self {
        self.leg = leg;
        self
    }

    /// The pod.
    #[must_use]
    pub fn pod(&self) -> Pod {
        self.pod
    }

    /// The first token came: the prompt is computed.
    pub fn first_token(&mut self) {
        if let Some(load) = &mut self.load {
            load.first_token();
        }
        self.leg = None;
        if let Some((sample, decoding)) = &self.watched {
            decoding.began.get_or_init(|| self.router.decode_sample(*sample));
        }
        self.router.pump();
    }

    /// So many tokens were generated so far, in all.
    pub fn generated(&mut self, tokens: u64) {
        if let Some(load) = &mut self.load {
            load.generated(tokens);
        }
    }
}

impl<const W: usize> InFlightGuard for AttemptGuard<W> {
    fn first_byte(&mut self) {
        self.first_token();
    }
}

impl<const W: usize> Drop for AttemptGuard<W> {
    fn drop(&mut self) {
        if let Some((sample, decoding)) = self.watched.take().filter(|(_, decoding)| decoding.began.get().is_some()) {
            // While it counts: it was in the last step too.
            decoding.ended.get_or_init(|| self.router.decode_sample(sample));
        }
        if let Some(leg) = &self.leg {
            leg.has_failed.store(true, Ordering::Relaxed);
        }
        self.load = None;
        self.router.pump();
    }
}

impl<const W: usize> fmt::Debug for AttemptGuard<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AttemptGuard").field("load", &self.load).finish_non_exhaustive()
    }
}
