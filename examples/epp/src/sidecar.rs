//! Handoffs by sidecars: the picker names the pods of every step, and whoever stands before the decode pod does the rest.

use pointsman::core::Role;
use pointsman::exec::handoff::{Handoff, HandoffError, HandoffMode, HandoffReuse, LegBody, LegContext, Plain};

/// Carries every role, since nothing is sent from here.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct SidecarHandoff(Plain);

impl Handoff for SidecarHandoff {
    fn name(&self) -> &str {
        "sidecar"
    }

    fn carries(&self, _: Role) -> bool {
        true
    }

    fn mode(&self) -> HandoffMode {
        self.0.mode()
    }

    fn reuse(&self) -> HandoffReuse {
        self.0.reuse()
    }

    fn leg(&self, leg: &LegContext<'_>) -> Result<LegBody, HandoffError> {
        self.0.leg(leg)
    }
}
