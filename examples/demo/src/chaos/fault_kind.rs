//! Kinds of faults: what each is called, what it does to a pod, and what it excuses.

use pointsman_engine_sim::Fault;

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum FaultKind {
    Die,
    Hang,
    /// So many times slower.
    Slow(u32),
    /// Completions are answered at once with this status, and health checks are passed.
    Respond(u16),
    /// The pod dies, and comes back under its name at another address.
    Move,
    CutStreams,
    Restart,
    ChangeHashSeed,
    DropEvents(u32),
    DuplicateEvents(u32),
    ReorderEvents,
    CorruptEvents(u32),
    OversizeEvents(u32),
    PartitionEvents,
    /// The gateway gets another configuration, and one that is wrong.
    Reload,
    /// Every third client leaves half way.
    ClientsLeave,
    /// Clients that read more slowly than pods write.
    SlowReaders,
    /// Idle connections take all descriptors of a gateway.
    Descriptors,
}

impl FaultKind {
    /// Every kind; a figure is drawn when one occurs.
    pub(crate) const ALL: [Self; 23] = [
        Self::Die,
        Self::Hang,
        Self::Slow(1),
        Self::Respond(400),
        Self::Respond(401),
        Self::Respond(404),
        Self::Respond(429),
        Self::Respond(500),
        Self::Respond(503),
        Self::Move,
        Self::CutStreams,
        Self::Restart,
        Self::ChangeHashSeed,
        Self::DropEvents(0),
        Self::DuplicateEvents(0),
        Self::ReorderEvents,
        Self::CorruptEvents(0),
        Self::OversizeEvents(0),
        Self::PartitionEvents,
        Self::Reload,
        Self::ClientsLeave,
        Self::SlowReaders,
        Self::Descriptors,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Die => "die",
            Self::Hang => "hang",
            Self::Slow(_) => "slow",
            Self::Respond(400) => "answer 400",
            Self::Respond(401) => "answer 401",
            Self::Respond(404) => "answer 404",
            Self::Respond(429) => "answer 429",
            Self::Respond(503) => "answer 503",
            Self::Respond(_) => "answer 500",
            Self::Move => "move",
            Self::CutStreams => "cut streams",
            Self::Restart => "restart",
            Self::ChangeHashSeed => "change hash seed",
            Self::DropEvents(_) => "drop events",
            Self::DuplicateEvents(_) => "duplicate events",
            Self::ReorderEvents => "reorder events",
            Self::CorruptEvents(_) => "corrupt events",
            Self::OversizeEvents(_) => "oversize events",
            Self::PartitionEvents => "partition events",
            Self::Reload => "reload",
            Self::ClientsLeave => "clients leave",
            Self::SlowReaders => "slow readers",
            Self::Descriptors => "descriptors exhausted",
        }
    }

    /// Whether it happens to one pod.
    pub(crate) fn is_of_pod(self) -> bool {
        !matches!(self, Self::Reload | Self::ClientsLeave | Self::SlowReaders | Self::Descriptors)
    }

    /// Whether it goes on until it is ended.
    pub(crate) fn lasts(self) -> bool {
        self.takes_down() || matches!(self, Self::PartitionEvents) || !self.is_of_pod() && self != Self::Reload
    }

    /// Whether its pod is not to be counted on meanwhile: at any time half of the pods have no such fault.
    pub(crate) fn takes_down(self) -> bool {
        self.disables() || matches!(self, Self::Slow(_))
    }

    /// Whether its pod cannot answer meanwhile.
    pub(crate) fn disables(self) -> bool {
        matches!(self, Self::Die | Self::Hang | Self::Respond(_) | Self::Move)
    }

    /// Whether its pod is a new one at once, which is not there for a moment.
    pub(crate) fn restarts(self) -> bool {
        matches!(self, Self::Restart | Self::ChangeHashSeed)
    }

    /// Whether answers under way on its pod may be truncated by it.
    pub(crate) fn breaks_streams(self) -> bool {
        matches!(self, Self::Die | Self::Hang | Self::Slow(_) | Self::Move | Self::CutStreams) || self.restarts()
    }

    /// Whether its pod has to show that it serves again.
    pub(crate) fn heals(self) -> bool {
        self.takes_down() || self.breaks_streams()
    }

    /// What is done to the pod when it begins; nothing where it is none of a pod's own.
    pub(crate) fn begin(self) -> Option<Fault> {
        Some(match self {
            Self::Die | Self::Move => Fault::Die,
            Self::Hang => Fault::Hang,
            Self::Slow(times) => Fault::Slow(f64::from(times)),
            Self::Respond(status) => Fault::Respond(status),
            Self::CutStreams => Fault::CutStreams,
            Self::Restart => Fault::Restart,
            Self::ChangeHashSeed => Fault::ChangeHashSeed,
            Self::DropEvents(count) => Fault::DropEvents(count),
            Self::DuplicateEvents(count) => Fault::DuplicateEvents(count),
            Self::ReorderEvents => Fault::ReorderEvents,
            Self::CorruptEvents(count) => Fault::CorruptEvents(count),
            Self::OversizeEvents(count) => Fault::OversizeEvents(count),
            Self::PartitionEvents => Fault::PartitionEvents,
            Self::Reload | Self::ClientsLeave | Self::SlowReaders | Self::Descriptors => return None,
        })
    }

    /// What is done to the pod when it ends.
    pub(crate) fn end(self) -> Option<Fault> {
        match self {
            Self::Die => Some(Fault::Restart),
            Self::Hang | Self::Slow(_) | Self::Respond(_) | Self::PartitionEvents => Some(Fault::Recover),
            _ => None,
        }
    }
}
