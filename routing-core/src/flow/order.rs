//! Order within a key: arrival, deadline, shortest job first, least attained service.
//!
//! The rule that must never break: each order ages. A rank is a time, no earlier than when the request came, and later than that by no more than
//! its size or its program's service counts for. Requests of one program change ranks, so there it is when the one came that brought the rank.

use std::time::{Duration, Instant};

/// The order in which requests of one key leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum FlowOrder {
    /// First come, first served.
    #[default]
    Arrival,
    /// Earliest deadline first; who has none has the end of its time to live.
    Deadline,
    /// Fewest tokens to compute first, with aging: a token counts as a millisecond that it came later. So a prompt of 10,000 tokens
    /// goes before short ones that come more than ten seconds after it. What the pod holds that a request was decided for last is not
    /// computed; before the first decision, all of its prompt counts.
    ShortestFirst,
    /// Those first whose [program](crate::ProgramTurn) was served least so far, by [levels](ServiceLevels) and with aging. Of one program's, the
    /// one first that most of it waits for.
    AttainedService(ServiceLevels),
}

/// Levels of attained service: each of twice as many tokens as the one below, and in each whoever came first is first, so that programs of about
/// the same service do not take turns and all end late.
///
/// A level counts as coming [later](Self::aging), and there are [16](Self::MOST) above the lowest. So no more requests go before one that waits
/// than come within 33 times that (`tests/flow`, `whoever_waits_is_passed_by_a_bounded_number`), but for those that go since a pod has room for
/// them that has none for it.
///
/// # Examples
///
/// ```
/// use routing_core::flow::ServiceLevels;
///
/// let levels = ServiceLevels::default();
/// assert_eq!([0, 1_023, 1_024, 2_047, 2_048, u64::MAX].map(|service| levels.level(service)), [0, 0, 1, 1, 2, 16]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServiceLevels {
    /// Tokens from which on a program is of the second level; 1,024 unless given.
    pub first_level: u64,
    /// How much later a level makes a request; 1 s unless given, by the figures in `docs/flow-control.md`. More helps short programs sooner, and long
    /// ones end later.
    pub aging: Duration,
}

crate::setters::setters! { ServiceLevels {
    first_level: u64,
    aging: Duration,
} }

impl Default for ServiceLevels {
    fn default() -> Self {
        Self { first_level: 1_024, aging: Duration::from_secs(1) }
    }
}

impl ServiceLevels {
    /// The highest level: programs of 32,768 times the first one's tokens and more.
    pub const MOST: u32 = 16;

    /// The level of a program that was served so many tokens.
    #[must_use]
    pub fn level(&self, service: u64) -> u32 {
        let levels = (service / self.first_level.max(1)).checked_ilog2().map_or(0, |log| log + 1);
        levels.min(Self::MOST)
    }

    pub(super) fn is_sound(&self) -> bool {
        self.first_level > 0 && !self.aging.is_zero() && self.aging <= LONGEST_AGING
    }

    /// What so many levels come to.
    pub(super) fn later(&self, levels: u32) -> u64 {
        nanos(self.aging).saturating_mul(levels.into())
    }
}

/// What a request is put in order by when it comes.
pub(super) struct Came {
    pub(super) at: Instant,
    pub(super) expires: Instant,
    pub(super) new_tokens: u64,
}

impl FlowOrder {
    /// The rank of a request of which no program is known, as nanoseconds from the queue's first request.
    pub(super) fn rank(self, origin: Instant, came: &Came) -> u64 {
        let since = |at: Instant| nanos(at.saturating_duration_since(origin));
        match self {
            Self::Arrival => since(came.at),
            Self::Deadline => since(came.expires),
            Self::ShortestFirst => since(came.at).saturating_add(came.new_tokens.saturating_mul(TOKEN_NANOS)),
            // The last of all, until it is known: whose turn it is does not wait for who is not known yet.
            Self::AttainedService(levels) => since(came.at).saturating_add(levels.later(ServiceLevels::MOST + 1)),
        }
    }
}

pub(super) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// How much later a token to compute makes a request, where short ones go first.
const TOKEN_NANOS: u64 = 1_000_000;
/// Who waits for longer has left.
const LONGEST_AGING: Duration = Duration::from_secs(86_400);
