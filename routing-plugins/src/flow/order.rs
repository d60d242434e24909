//! The order within a key as a document: its name, or its name with what it takes.

use std::fmt;
use std::time::Duration;

use routing_core::flow::{FlowOrder, ServiceLevels};
use routing_core::suggest;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// The order within a key, as a document has it: `arrival`, `deadline`, `shortest_first`, `attained_service`, or
/// `{ attained_service: { first_level: 1024, aging: 1s } }`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OrderDocument {
    /// First come, first served.
    #[default]
    Arrival,
    /// Earliest deadline first.
    Deadline,
    /// Fewest tokens to compute first, with aging.
    ShortestFirst,
    /// Programs first that were served least, with aging.
    AttainedService(LevelsDocument),
}

/// Levels of attained service, as a document has them: what is not given is as [`ServiceLevels::default`] has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct LevelsDocument {
    /// Tokens from which on a program is of the second level.
    pub first_level: Option<u64>,
    /// How much later a level makes a request.
    #[serde(deserialize_with = "super::document::some_duration")]
    pub aging: Option<Duration>,
}

impl OrderDocument {
    pub(super) fn order(self) -> FlowOrder {
        match self {
            Self::Arrival => FlowOrder::Arrival,
            Self::Deadline => FlowOrder::Deadline,
            Self::ShortestFirst => FlowOrder::ShortestFirst,
            Self::AttainedService(LevelsDocument { first_level, aging }) => {
                let levels = ServiceLevels::default();
                let levels = levels.first_level(first_level.unwrap_or(levels.first_level));
                FlowOrder::AttainedService(levels.aging(aging.unwrap_or(levels.aging)))
            }
        }
    }

    fn of<E: Error>(name: &str) -> Result<Self, E> {
        match name {
            "arrival" => Ok(Self::Arrival),
            "deadline" => Ok(Self::Deadline),
            "shortest_first" => Ok(Self::ShortestFirst),
            ATTAINED_SERVICE => Ok(Self::AttainedService(LevelsDocument::default())),
            _ => {
                let known = NAMES.map(|name| format!("`{name}`")).join(", ");
                let meant = suggest(name, NAMES).map_or_else(String::new, |name| format!(" (did you mean `{name}`?)"));
                Err(E::custom(format_args!("unknown order `{name}`{meant}, expected one of {known}")))
            }
        }
    }
}

impl<'de> Deserialize<'de> for OrderDocument {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(OrderVisitor)
    }
}

struct OrderVisitor;

impl<'de> Visitor<'de> for OrderVisitor {
    type Value = OrderDocument;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of an order, or `attained_service` with what it takes")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<OrderDocument, E> {
        OrderDocument::of(name)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<OrderDocument, A::Error> {
        let Some(name) = map.next_key::<String>()? else { return Err(A::Error::custom("an order without a name")) };
        let order = match OrderDocument::of(&name)? {
            OrderDocument::AttainedService(_) => OrderDocument::AttainedService(map.next_value()?),
            _ => return Err(A::Error::custom(format_args!("order `{name}` takes nothing: write `order: {name}`"))),
        };
        match map.next_key::<String>()? {
            None => Ok(order),
            Some(second) => Err(A::Error::custom(format_args!("one order, not `{name}` and `{second}`"))),
        }
    }
}

const ATTAINED_SERVICE: &str = "attained_service";
const NAMES: [&str; 4] = ["arrival", "deadline", "shortest_first", ATTAINED_SERVICE];

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<FlowOrder, String> {
        serde_yaml_ng::from_str(text).map(OrderDocument::order).map_err(|error| error.to_string())
    }

    #[test]
    fn an_order_has_a_name_and_attained_service_may_have_levels() {
        let levels = ServiceLevels::default();
        assert_eq!(read("arrival"), Ok(FlowOrder::Arrival));
        assert_eq!(read("attained_service"), Ok(FlowOrder::AttainedService(levels)));
        assert_eq!(read("{attained_service: {}}"), Ok(FlowOrder::AttainedService(levels)));
        let given = read("{attained_service: {first_level: 64, aging: 2s}}");
        assert_eq!(given, Ok(FlowOrder::AttainedService(levels.first_level(64).aging(Duration::from_secs(2)))));
    }

    #[test]
    fn what_is_wrong_with_an_order_is_told_with_what_was_meant() {
        for (text, told) in [
            ("atained_service", "did you mean `attained_service`?"),
            ("{shortest_frist: {}}", "did you mean `shortest_first`?"),
            ("random", "expected one of `arrival`"),
            ("{arrival: {}}", "takes nothing: write `order: arrival`"),
            ("{attained_service: {level: 1}}", "unknown field `level`"),
            ("{attained_service: {aging: 5}}", "write `5s`"),
            ("{attained_service: {}, arrival: {}}", "one order"),
            ("{}", "without a name"),
            ("7", "the name of an order"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(told), "{text}: {error}");
        }
    }
}
