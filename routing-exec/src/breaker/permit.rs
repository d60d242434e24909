//! Permits: who may send a request to a pod, and by what its sample is recorded.

use std::sync::Arc;

use routing_core::{DEFAULT_POD_WORDS, Pod};

use super::{Breakers, time_up};

/// The admission of a request, by which its sample is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admission {
    pub(super) pod: Pod,
    pub(super) epoch: u64,
    pub(super) number: u64,
}

/// A permit to send one request to a pod; released when dropped.
#[derive(Debug)]
#[must_use]
pub struct Permit<const W: usize = DEFAULT_POD_WORDS> {
    pub(super) breakers: Arc<Breakers<W>>,
    pub(super) admission: Admission,
    /// Whether it is a probe of a half-open breaker.
    pub(super) is_probe: bool,
}

impl<const W: usize> Permit<W> {
    /// The admission, for [`Breakers::record`]; that may be after the permit is dropped.
    #[must_use]
    pub fn admission(&self) -> Admission {
        self.admission
    }
}

impl<const W: usize> Drop for Permit<W> {
    fn drop(&mut self) {
        if self.is_probe {
            self.breakers.with(self.admission.pod, time_up, |breaker, _| {
                if breaker.epoch == self.admission.epoch {
                    breaker.state.release_probe();
                }
            });
        }
    }
}
