//! No handoff: every pod gets the client's own request.

use super::dialect::Dialect;
use super::error::HandoffError;
use super::leg::{LegBody, LegContext};
use super::{Handoff, HandoffMode, HandoffReuse};

/// The same request to every pod, for single dispatch and for engines that find what they share by themselves.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Plain {
    mode: HandoffMode,
}

impl Plain {
    /// With legs that stand to each other like this.
    #[must_use]
    pub const fn new(mode: HandoffMode) -> Self {
        Self { mode }
    }
}

impl Default for Plain {
    /// One leg.
    fn default() -> Self {
        Self::new(HandoffMode::Single)
    }
}

impl Handoff for Plain {
    fn name(&self) -> &str {
        Dialect::Plain.name()
    }

    fn mode(&self) -> HandoffMode {
        self.mode
    }

    /// Nothing was handed out for one pod rather than another.
    fn reuse(&self) -> HandoffReuse {
        HandoffReuse::Always
    }

    fn leg(&self, leg: &LegContext<'_>) -> Result<LegBody, HandoffError> {
        leg.untouched()
    }
}
