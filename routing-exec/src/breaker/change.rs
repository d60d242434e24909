//! Changes of a circuit breaker's state, as data, for whoever logs them.

use std::fmt;
use std::sync::OnceLock;

use routing_core::Pod;

use super::status::BreakerStatus;
use crate::action::BreakerSample;
use crate::failure::Failure;

/// A pod's circuit breaker changed its state.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BreakerChange {
    /// The pod.
    pub pod: Pod,
    /// How the breaker stood.
    pub before: BreakerStatus,
    /// How it stands.
    pub after: BreakerStatus,
    /// Why.
    pub cause: BreakerCause,
}

/// Why a circuit breaker changed its state.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BreakerCause {
    /// The pod failed a request, after others or as a probe.
    Failure(Failure),
    /// The pod was too slow.
    Slow,
    /// The pod pushed back (429, 503).
    Overloaded,
    /// The pod served requests again.
    Success,
    /// The time it was to be left alone for is up.
    TimeUp,
    /// It is well by other means: a health check.
    Recovered,
    /// The failure was the request's own, as other pods showed.
    Exonerated,
}

impl BreakerCause {
    pub(super) fn of(sample: &BreakerSample, is_failure: bool) -> Self {
        match sample {
            BreakerSample::Failure(failure) | BreakerSample::Unconfirmed(failure) => Self::Failure(failure.clone()),
            BreakerSample::Overloaded(_) => Self::Overloaded,
            BreakerSample::Success(_) if is_failure => Self::Slow,
            BreakerSample::Success(_) => Self::Success,
        }
    }
}

impl fmt::Display for BreakerCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failure(failure) => failure.fmt(f),
            Self::Slow => f.write_str("too slow"),
            Self::Overloaded => f.write_str("pushed back"),
            Self::Success => f.write_str("serves again"),
            Self::TimeUp => f.write_str("its time is up"),
            Self::Recovered => f.write_str("passes its health checks again"),
            Self::Exonerated => f.write_str("the failure was the request's own"),
        }
    }
}

/// Who is told of changes; nobody, unless given.
#[derive(Default)]
pub(super) struct Observer(OnceLock<Box<Tell>>);

type Tell = dyn Fn(&BreakerChange) + Send + Sync;

impl Observer {
    pub(super) fn set(&self, tell: impl Fn(&BreakerChange) + Send + Sync + 'static) -> bool {
        self.0.set(Box::new(tell)).is_ok()
    }

    /// Tells of a change, if it is one. No breaker is locked meanwhile.
    pub(super) fn tell(&self, pod: Pod, [before, after]: [BreakerStatus; 2], cause: impl FnOnce() -> BreakerCause) {
        let Some(tell) = self.0.get().filter(|_| before.name() != after.name()) else { return };
        tell(&BreakerChange { pod, before, after, cause: cause() });
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Observer").field(&self.0.get().is_some()).finish()
    }
}
