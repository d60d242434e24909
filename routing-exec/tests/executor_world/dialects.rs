//! Dialects that say nothing: only how legs stand to each other.

use routing_exec::handoff::{
    Api, Handoff, HandoffError, HandoffMode, HandoffReuse, LegBody, LegContext, Plain, UsageFix,
};

/// Legs that run at once, as engines want that meet each other.
#[derive(Debug)]
pub(crate) struct Meeting;

impl Handoff for Meeting {
    fn mode(&self) -> HandoffMode {
        HandoffMode::Concurrent
    }

    fn reuse(&self) -> HandoffReuse {
        HandoffReuse::Never
    }

    fn leg(&self, leg: &LegContext<'_>) -> Result<LegBody, HandoffError> {
        Plain::default().leg(leg)
    }

    fn usage(&self, _: Api, _: bool, _: Option<&[u8]>) -> Option<UsageFix> {
        None
    }
}

/// Legs that run one after the other, and hand out what serves one pod only.
#[derive(Debug)]
pub(crate) struct OneUse;

impl Handoff for OneUse {
    fn mode(&self) -> HandoffMode {
        HandoffMode::Serial
    }

    fn reuse(&self) -> HandoffReuse {
        HandoffReuse::Never
    }

    fn leg(&self, leg: &LegContext<'_>) -> Result<LegBody, HandoffError> {
        Plain::default().leg(leg)
    }
}
