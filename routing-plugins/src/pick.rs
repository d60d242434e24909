//! Pickers: the chosen candidate, and the order of failover.
//!
//! | picker | chooses | then |
//! |---|---|---|
//! | [`MaxScorePicker`] | the highest total | the next highest |
//! | [`RoundRobinPicker`] | who was not chosen for the longest | the next in turn |
//! | [`SessionPicker`] | where the session is, or the highest total | the highest totals |
//! | [`ConsistentHashPicker`] | where the key lies | the next places of the key |
//! | [`WeightedRandomPicker`] | by chance, the higher the total the likelier | the next of the same draw |
//!
//! Each ranks up to `most` candidates: the first is the choice, the rest is the order of failover. What is left to chance
//! comes from the request's seed, so that a decision replays. A warm pick allocates nothing (`tests/allocations`), but for
//! the first of a session and of a changed fleet.

mod bounded;
pub(crate) mod chance;
mod consistent_hash;
mod least;
mod max_score;
mod placement;
mod ring;
mod round_robin;
mod round_robin_order;
mod session;
mod sessions;
#[cfg(test)]
pub(crate) mod testing;
mod weighted_random;

use std::num::NonZeroUsize;

pub use consistent_hash::{ConsistentHashParameters, ConsistentHashPicker, HashBy};
pub use max_score::{MaxScoreParameters, MaxScorePicker, Ties};
pub use round_robin::{RoundRobinParameters, RoundRobinPicker};
pub use round_robin_order::RoundRobinOrder;
pub use session::{SessionParameters, SessionPicker, WhenRefused};
pub(crate) use sessions::SessionNote;
pub use sessions::{SessionLimits, Sessions};
pub use weighted_random::{WeightedRandomParameters, WeightedRandomPicker};

/// How many candidates are ranked, unless a parameter says otherwise: as many as a step of a plan keeps by default.
pub(crate) const MOST: NonZeroUsize = NonZeroUsize::new(3).expect("three is not zero");

#[cfg(all(test, feature = "serde"))]
mod tests {
    use serde::de::DeserializeOwned;

    use super::*;
    use crate::extra::{BetterBy, TwoChoicesParameters};

    fn parse<P: DeserializeOwned>(json: &str) -> Option<P> {
        serde_json::from_str(json).ok()
    }

    #[test]
    fn parameters_are_written_by_name_and_have_defaults() {
        assert_eq!(parse("{}"), Some(MaxScoreParameters::default()));
        assert_eq!(parse("{}"), Some(RoundRobinParameters::default()));
        assert_eq!(parse("{}"), Some(SessionParameters::default()));
        assert_eq!(parse("{}"), Some(SessionLimits::default()));
        assert_eq!(parse("{}"), Some(ConsistentHashParameters::default()));
        assert_eq!(parse("{}"), Some(WeightedRandomParameters::default()));
        assert_eq!(parse("{}"), Some(TwoChoicesParameters::default()));
        let hash: ConsistentHashParameters =
            parse(r#"{"by": "ring", "bounded": false, "points": 40, "most": 5}"#).unwrap();
        assert_eq!((hash.by, hash.epsilon, hash.points.get(), hash.most.get()), (HashBy::Ring, None, 40, 5));
        let session: SessionParameters = parse(r#"{"when_refused": "keep_while_alive"}"#).unwrap();
        assert_eq!(session.when_refused, WhenRefused::KeepWhileAlive);
        assert_eq!(parse::<TwoChoicesParameters>(r#"{"by": "requests"}"#).unwrap().by, BetterBy::Requests);
        assert_eq!(parse::<WeightedRandomParameters>(r#"{"softened": false}"#).unwrap().temperature, None);
        assert_eq!(parse::<MaxScoreParameters>(r#"{"ties": "by_prompt"}"#).unwrap().ties, Ties::ByPrompt);
    }

    #[test]
    fn parameters_that_mean_nothing_are_refused() {
        assert_eq!(parse::<MaxScoreParameters>(r#"{"most": 0}"#), None);
        assert_eq!(parse::<ConsistentHashParameters>(r#"{"epsilon": 0}"#), None);
        assert_eq!(parse::<ConsistentHashParameters>(r#"{"points": 0}"#), None);
        assert_eq!(parse::<ConsistentHashParameters>(r#"{"points": 40}"#), None, "rendezvous has no points");
        assert_eq!(parse::<ConsistentHashParameters>(r#"{"bounded": false, "epsilon": 0.1}"#), None);
        assert_eq!(parse::<WeightedRandomParameters>(r#"{"temperature": -1}"#), None);
        assert_eq!(parse::<WeightedRandomParameters>(r#"{"softened": false, "temperature": 1}"#), None);
        assert_eq!(parse::<SessionLimits>(r#"{"ttl_seconds": 0}"#), None);
    }
}
