//! Golden decodes: every captured message and replay of every release, as its engine's own decoder read it.
//!
//! `POINTSMAN_VECTORS` may name a folder with more files of the same names.

#![cfg(feature = "engine")]

mod captures;

use std::collections::HashMap;
use std::path::Path;

use captures::{bytes, expected, frames};
use kv_index::engine::{Message, ReplayForm, ReplayReply, decode_batch, parse_replay_request, replay_request};
use serde_json::Value;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/vectors");

/// How much of a file was run.
#[derive(Debug, Default, PartialEq, Eq)]
struct Run {
    messages: usize,
    encodings: usize,
    replays: usize,
}

#[test]
fn vllms_captures_mean_what_vllm_says() {
    assert_eq!(run_file(Path::new(FOLDER), "vllm_events.json"), Some(Run { messages: 20, encodings: 2, replays: 6 }));
}

#[test]
fn sglangs_captures_mean_what_sglang_says() {
    assert_eq!(run_file(Path::new(FOLDER), "sglang_events.json"), Some(Run { messages: 17, encodings: 1, replays: 4 }));
}

#[test]
fn every_listed_release_is_understood() {
    let run = run_file(Path::new(FOLDER), "events_by_version.json");
    assert_eq!(run, Some(Run { messages: 64, encodings: 0, replays: 16 }));
}

#[test]
#[expect(clippy::disallowed_methods, reason = "whoever runs the tests may have more captures than are kept here")]
fn further_captures_are_understood_too() {
    let Some(folder) = std::env::var_os("POINTSMAN_VECTORS") else { return };
    let files = ["vllm_events.json", "sglang_events.json", "events_by_version.json"];
    let runs: Vec<_> = files.iter().filter_map(|file| run_file(Path::new(&folder), file)).collect();
    assert!(!runs.is_empty(), "{} has none of {files:?}", Path::new(&folder).display());
    println!("{runs:?}");
}

/// Runs all of a file, if it exists, and makes sure that it was all.
fn run_file(folder: &Path, name: &str) -> Option<Run> {
    let text = std::fs::read_to_string(folder.join(name)).ok()?;
    let file: Value = serde_json::from_str(&text).expect(name);
    let mut run = Run::default();
    match &file {
        Value::Array(releases) => releases.iter().for_each(|release| run_release(release, &mut run)),
        _ => run_captures(&file, &mut run),
    }
    let count = |key: &str| text.matches(&format!("\"{key}\":")).count();
    assert_ne!(run.messages, 0, "{name} is empty");
    assert_eq!(run.messages, count("frames_hex"), "{name}");
    assert_eq!(run.encodings, count("payload_hex"), "{name}");
    assert_eq!(run.replays, count("received_frames_hex") + count("replay_from_3"), "{name}");
    Some(run)
}

/// A file of one engine: messages, encodings that no publisher sends, and replays.
fn run_captures(file: &Value, run: &mut Run) {
    for message in list(&file["messages"]) {
        let frames = frames(&message["frames_hex"]);
        let parsed = run_message(message, &frames, &message["decoded_untyped"]);
        assert_eq!(parsed.topic, message["topic"].as_str().expect("a topic").as_bytes(), "{message}");
        assert_eq!(Some(parsed.sequence), message["seq"].as_u64(), "{message}");
        assert_eq!(Some(parsed.payload.len() as u64), message["payload_len"].as_u64(), "{message}");
        run.messages += 1;
    }
    for encoding in list(&file["direct_encodings"]) {
        let payload = bytes(&encoding["payload_hex"]);
        let batch = decode_batch(&payload).expect("a batch");
        assert_eq!((batch.unknown, batch.malformed), (0, 0), "{encoding}");
        let name = encoding["name"].as_str().expect("a name");
        if let Some(rank) = name.strip_prefix("batch_rank_") {
            assert_eq!(batch.rank, rank.parse().ok(), "{encoding}");
        }
        run.encodings += 1;
    }
    for exchange in list(&file["replay"]) {
        run_exchange(exchange);
        run.replays += 1;
    }
}

/// What one release sends: a few messages, and a replay from the fourth on.
fn run_release(release: &Value, run: &mut Run) {
    let mut payloads = HashMap::new();
    for message in list(&release["messages"]) {
        let frames = frames(&message["frames_hex"]);
        let parsed = run_message(message, &frames, &message["decoded"]);
        payloads.insert(parsed.sequence, parsed.payload.to_vec());
        assert_eq!(list(&message["decoded"]).len(), list(&release["batch_fields"]).len(), "{message}");
        run.messages += 1;
    }
    let form = match release["replay_frames"].as_str() {
        Some("[empty][topic][seq][payload]") => ReplayForm::WithTopic,
        Some("[empty][seq][payload]") => ReplayForm::WithoutTopic,
        other => panic!("replays of {other:?}"),
    };
    let replies: Vec<_> = list(&release["replay_from_3"]).iter().map(frames).collect();
    let (end, batches) = replies.split_last().expect("an end at least");
    assert_eq!(ReplayReply::parse(end), Ok(ReplayReply::End));
    assert_eq!(&ReplayReply::End.to_frames(form), end);
    for (reply, sequence) in batches.iter().zip(3..) {
        let parsed = ReplayReply::parse(reply).expect("a reply");
        let ReplayReply::Batch(message) = parsed else { panic!("over before the end") };
        assert_eq!(message.sequence, sequence);
        let live = payloads.get(&sequence).map(Vec::as_slice);
        assert_eq!(live, Some(message.payload), "what was sent live");
        assert_eq!(&parsed.to_frames(form), reply);
    }
    run.replays += 1;
}

/// A live message: its frames come back, and its payload means what the capture says.
fn run_message<'f>(message: &Value, frames: &'f [Vec<u8>], meaning: &Value) -> Message<'f> {
    let parsed = Message::parse(frames).expect("a message");
    assert_eq!(parsed.to_frames(), frames, "{message}");
    let batch = decode_batch(parsed.payload).expect("a batch");
    let meaning = list(meaning);
    assert_eq!((batch.unknown, batch.malformed, batch.fault), (0, 0, None), "{message}");
    assert_eq!(Some(batch.timestamp), meaning[0].as_f64(), "{message}");
    assert_eq!(batch.events, list(&meaning[1]).iter().map(expected).collect::<Vec<_>>(), "{message}");
    let rank = meaning.get(2).and_then(Value::as_u64);
    assert_eq!(batch.rank.map(u64::from), rank, "{message}");
    parsed
}

/// A request for a replay and everything that came back.
fn run_exchange(exchange: &Value) {
    let mut sent = frames(&exchange["sent_frames_hex"]);
    let received = list(&exchange["received_frames_hex"]);
    let socket = exchange["client_socket"].as_str();
    let Some(start) = exchange["start_seq"].as_u64() else {
        // The one without the empty frame, which got no answer.
        assert!(parse_replay_request(&sent).is_err() && received.is_empty(), "{exchange}");
        return;
    };
    if socket == Some("REQ") {
        // Such a socket puts the empty frame before, and takes it off again.
        sent.insert(0, Vec::new());
    }
    assert_eq!(parse_replay_request(&sent), Ok(start), "{exchange}");
    assert_eq!(replay_request(start).as_slice(), sent, "{exchange}");
    let mut ended = false;
    let mut last = None;
    for reply in received {
        if reply.get("no_more_within_ms").is_some() {
            assert_eq!(socket, Some("REQ"), "{exchange}");
            continue;
        }
        assert!(!ended, "{exchange}");
        let frames = frames(reply);
        let parsed = ReplayReply::parse(&frames).expect("a reply");
        match parsed {
            ReplayReply::End => ended = true,
            ReplayReply::Batch(message) => {
                assert!(message.sequence >= start && last < Some(message.sequence), "{exchange}");
                last = Some(message.sequence);
                let batch = decode_batch(message.payload).expect("a batch");
                assert_eq!((batch.unknown, batch.malformed), (0, 0), "{exchange}");
            }
        }
        if socket == Some("DEALER") {
            let form = if frames.len() == 4 { ReplayForm::WithTopic } else { ReplayForm::WithoutTopic };
            assert_eq!(parsed.to_frames(form), frames, "{exchange}");
        }
    }
    assert_eq!(ended, socket == Some("DEALER"), "{exchange}");
}

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}
