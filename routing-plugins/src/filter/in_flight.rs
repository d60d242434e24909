//! In-flight limits, in requests or in tokens.

use std::num::{NonZeroU32, NonZeroU64};

use crate::load::PodLoad;

/// How much a pod may have in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize), serde(try_from = "Raw"))]
#[expect(clippy::exhaustive_enums, reason = "what is counted of requests; another figure is another contract")]
pub enum InFlightLimit {
    /// So many requests.
    Requests(NonZeroU32),
    /// So many tokens of prompts and answers.
    Tokens(NonZeroU64),
}

/// Which figures are compared with a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize), serde(rename_all = "snake_case"))]
#[expect(clippy::exhaustive_enums, reason = "own figures, or those of all: complete by nature")]
pub enum Figures {
    /// What was sent from here and what the engine reports, merged: right where pods have other clients too.
    #[default]
    Merged,
    /// What was sent from here, and nothing else.
    Counted,
}

impl InFlightLimit {
    /// The limit.
    #[must_use]
    pub const fn get(self) -> u64 {
        match self {
            Self::Requests(most) => most.get() as u64,
            Self::Tokens(most) => most.get(),
        }
    }

    /// What a pod has of what is limited.
    #[must_use]
    #[inline]
    pub const fn of(self, load: &PodLoad, figures: Figures) -> u64 {
        match (self, figures) {
            (Self::Requests(_), Figures::Merged) => load.requests as u64,
            (Self::Requests(_), Figures::Counted) => load.in_flight.requests as u64,
            (Self::Tokens(_), Figures::Merged) => load.tokens,
            (Self::Tokens(_), Figures::Counted) => {
                load.in_flight.prompt_tokens.saturating_add(load.in_flight.output_tokens)
            }
        }
    }
}

/// A limit as documents give it: by name, which every format can write.
#[cfg(feature = "serde")]
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    requests: Option<NonZeroU32>,
    tokens: Option<NonZeroU64>,
}

#[cfg(feature = "serde")]
impl TryFrom<Raw> for InFlightLimit {
    type Error = &'static str;

    fn try_from(raw: Raw) -> Result<Self, &'static str> {
        match (raw.requests, raw.tokens) {
            (Some(most), None) => Ok(Self::Requests(most)),
            (None, Some(most)) => Ok(Self::Tokens(most)),
            _ => Err("give `requests` or `tokens`; two limits are two filters"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_has_its_figure() {
        let mut load = PodLoad { requests: 1, tokens: 2, ..PodLoad::default() };
        load.in_flight.requests = 3;
        (load.in_flight.prompt_tokens, load.in_flight.output_tokens) = (4, 5);
        let requests = InFlightLimit::Requests(NonZeroU32::MIN);
        let tokens = InFlightLimit::Tokens(NonZeroU64::MIN);
        let of = |limit: InFlightLimit| (limit.of(&load, Figures::Merged), limit.of(&load, Figures::Counted));
        assert_eq!((of(requests), of(tokens)), ((1, 3), (2, 9)));
    }

    #[cfg(feature = "serde")]
    #[test]
    fn a_limit_is_one_of_both() {
        let read = |text| serde_yaml_ng::from_str::<InFlightLimit>(text).map_err(|error| error.to_string());
        assert_eq!(read("requests: 2").map(InFlightLimit::get), Ok(2));
        assert_eq!(read("tokens: 3").map(InFlightLimit::get), Ok(3));
        for odd in ["{}", "{requests: 2, tokens: 3}"] {
            assert_eq!(read(odd), Err("give `requests` or `tokens`; two limits are two filters".to_owned()));
        }
    }
}
