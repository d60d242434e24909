//! Keeps `PROTOCOL.md` true: its examples are messages, its numbers are the constants.

use super::bounds::{MAX_BLOCKS, MAX_CHANGES, MAX_NAME, MAX_NUMBER, MAX_PARTS};
use super::*;
use crate::event_ingest::MAX_UNFINISHED_BLOCKS;

const PAGE: &str = include_str!("../../PROTOCOL.md");

/// Code blocks of a language and kind, such as `json message`.
fn examples(kind: &str) -> Vec<&'static str> {
    let fence = format!("```json {kind}\n");
    PAGE.split(&*fence).skip(1).filter_map(|rest| rest.split("```").next()).collect()
}

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn every_example_is_a_message_and_comes_back_as_it_is() {
    let messages = examples("message");
    for text in &messages {
        let message: Message = decode(text.as_bytes()).unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert_eq!(serde_json::to_value(&message).unwrap(), json(text));
    }
    let kinds = messages.iter().map(|text| json(text).as_object().unwrap().keys().next().unwrap().clone());
    assert_eq!(kinds.collect::<Vec<_>>(), ["report", "inventory", "digest"]);
    for text in examples("resync") {
        let request: ResyncRequest = decode(text.as_bytes()).unwrap();
        assert_eq!(serde_json::to_value(&request).unwrap(), json(text));
    }
    for text in examples("ack") {
        let ack: Ack = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_value(ack).unwrap(), json(text));
    }
    assert_eq!(PAGE.matches("```json ").count(), 5, "every block is of a kind above");
}

#[test]
fn the_bounds_are_those_of_the_code() {
    let bounds = [
        ("MAX_CHANGES", MAX_CHANGES as u64),
        ("MAX_BLOCKS", MAX_BLOCKS as u64),
        ("MAX_PARTS", MAX_PARTS.into()),
        ("MAX_NAME", MAX_NAME as u64),
        ("MAX_NUMBER", MAX_NUMBER),
    ];
    assert!(PAGE.contains(&format!(" {MAX_UNFINISHED_BLOCKS} blocks |")));
    for (name, value) in bounds {
        let row =
            PAGE.lines().find(|line| line.starts_with(&format!("| `{name}` "))).unwrap_or_else(|| panic!("{name}"));
        assert!(row.ends_with(&format!("| {value} |")), "{row}");
    }
}

#[test]
fn every_ack_status_is_listed_with_its_number() {
    for (status, number) in AckStatus::ALL.into_iter().zip(1..) {
        let name = json(&serde_json::to_string(&status).unwrap());
        let row = format!("| `{}` | {number} |", name.as_str().unwrap());
        assert_eq!(PAGE.matches(&row).count(), 1, "{row}");
    }
}

#[test]
fn the_timing_is_that_of_the_default_configuration() {
    let config = crate::Config::new("a", HashScheme { block_size: 16, probe: BlockHash::new(1) }, 1);
    for (says, value, unit) in [
        ("sent every 5 s", config.digest_interval.as_secs(), 5),
        ("at most every 30 s", config.inventory_interval.as_secs(), 30),
        ("a pause of 50 ms", config.retry_initial.as_millis() as u64, 50),
        ("50 ms to 5 s", config.retry_max.as_secs(), 5),
    ] {
        let flat = PAGE.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(flat.contains(says) && value == unit, "{says}: {value}");
    }
}
