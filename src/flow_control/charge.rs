//! A charge that is settled once: by what a request took, or given back if it was never served.

use std::fmt;

use routing_core::flow::Charge;

use crate::router::Router;

/// What a request was charged by flow control. Dropped unsettled, it was not served.
pub(crate) struct OpenCharge<const W: usize> {
    router: Router<W>,
    /// None once it is settled.
    charge: Option<Charge>,
}

impl<const W: usize> OpenCharge<W> {
    pub(super) fn new(router: Router<W>, charge: Charge) -> Self {
        Self { router, charge: Some(charge) }
    }

    /// The request took so many tokens; as many as it was charged, if that is not known.
    pub(crate) fn settle(mut self, tokens: Option<u64>) {
        if let Some(charge) = self.charge.take() {
            self.router.served(&charge, tokens.unwrap_or(charge.tokens()));
        }
    }
}

impl<const W: usize> Drop for OpenCharge<W> {
    fn drop(&mut self) {
        if let Some(charge) = self.charge.take() {
            self.router.served(&charge, 0);
            self.router.pump();
        }
    }
}

impl<const W: usize> fmt::Debug for OpenCharge<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OpenCharge").field(&self.charge).finish()
    }
}
