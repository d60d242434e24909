//! Runs every example.

#[path = "../custom_scorer.rs"]
mod custom_scorer;
#[path = "../own_feed.rs"]
mod own_feed;
#[path = "../prefill_decode.rs"]
mod prefill_decode;
#[path = "../route_one.rs"]
mod route_one;
#[path = "../three_step_plan.rs"]
mod three_step_plan;
#[path = "../tower_stack.rs"]
mod tower_stack;
#[path = "../two_models.rs"]
mod two_models;

use std::error::Error;
use std::time::{Duration, Instant};

type Main = fn() -> Result<(), Box<dyn Error>>;

const EXAMPLES: [(&str, Main); 7] = [
    ("custom_scorer", custom_scorer::main),
    ("own_feed", own_feed::main),
    ("prefill_decode", prefill_decode::main),
    ("route_one", route_one::main),
    ("three_step_plan", three_step_plan::main),
    ("tower_stack", tower_stack::main),
    ("two_models", two_models::main),
];

#[test]
fn every_example_holds_and_is_quick() {
    for (name, main) in EXAMPLES {
        let started = Instant::now();
        assert!(main().inspect_err(|error| println!("{name}: {error}")).is_ok(), "{name} failed");
        // They take milliseconds; a machine may be busy.
        assert!(started.elapsed() < Duration::from_secs(5), "{name} took {:?}", started.elapsed());
    }
}

#[test]
fn no_example_is_left_out() {
    let files = std::fs::read_dir(env!("CARGO_MANIFEST_DIR")).unwrap().map(|entry| entry.unwrap().path());
    let sources = files.filter(|path| path.extension().is_some_and(|extension| extension == "rs"));
    let names = sources.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned());
    // The gateway has a test of its own.
    let mut names: Vec<_> = names.filter(|name| name != "lib" && name != "axum_gateway").collect();
    names.sort();
    assert_eq!(names, EXAMPLES.map(|(name, _)| name));
}
