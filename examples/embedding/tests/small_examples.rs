//! Every small example runs, shows what it says, and takes no time worth mentioning.

#[path = "../custom_scorer.rs"]
mod custom_scorer;
#[path = "../own_feed.rs"]
mod own_feed;
#[path = "../prefill_decode.rs"]
mod prefill_decode;
#[path = "../route_one.rs"]
mod route_one;
#[path = "../tower_stack.rs"]
mod tower_stack;

use std::error::Error;
use std::time::{Duration, Instant};

type Main = fn() -> Result<(), Box<dyn Error>>;

const EXAMPLES: [(&str, Main); 5] = [
    ("custom_scorer", custom_scorer::main),
    ("own_feed", own_feed::main),
    ("prefill_decode", prefill_decode::main),
    ("route_one", route_one::main),
    ("tower_stack", tower_stack::main),
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
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut names: Vec<_> = files.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    names.sort();
    assert_eq!(names, EXAMPLES.map(|(name, _)| name));
}
