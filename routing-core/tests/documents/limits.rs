//! Large documents take time in proportion, and nesting without end is refused at once.

use std::fmt::Write;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use routing_core::{Document, FilterUse, OnEmpty, PluginDefinition, ProfileDefinition, Value};

use crate::format::{read_json, read_yaml};
use crate::plugins::registry;

fn large(definitions: usize, is_misspelt: bool) -> Document {
    let mut document = Document::default();
    let mut profile = ProfileDefinition::new("p", "best");
    document.plugins.push(PluginDefinition::new("best"));
    for at in 0..definitions {
        let mut plugin = PluginDefinition::new("label");
        plugin.name = format!("label_{at}");
        plugin.parameters.insert("key".to_owned(), Value::from("k"));
        plugin.parameters.insert(if is_misspelt { "vlaue" } else { "value" }.to_owned(), Value::from("v"));
        let used = if is_misspelt { format!("lable_{at}") } else { plugin.name.clone() };
        profile.filter.push(FilterUse::new(&used, OnEmpty::Fail));
        document.plugins.push(plugin);
        document.profiles.push(ProfileDefinition::new(&format!("other_{at}"), "best"));
    }
    document.profiles.push(profile);
    let mut workflow = routing_core::WorkflowDefinition::default();
    workflow.steps.push(routing_core::StepDefinition::new("s", "p"));
    document.workflow = Some(workflow);
    document
}

/// The least of some tries: whatever else the machine does only adds to one.
fn time(mut work: impl FnMut()) -> Duration {
    let tries = (0..5).map(|_| {
        let begun = clock();
        work();
        clock().saturating_sub(begun)
    });
    tries.min().expect("some tries")
}

/// Time that this thread has computed, since others use the machine too; where the system does not tell, time that passed.
#[allow(clippy::disallowed_methods, reason = "the test measures")]
fn clock() -> Duration {
    static START: OnceLock<Instant> = OnceLock::new();
    let computed = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let computed = computed.and_then(|text| text.split(' ').next()?.parse().ok()).map(Duration::from_nanos);
    computed.unwrap_or_else(|| START.get_or_init(Instant::now).elapsed())
}

/// What 16,000 definitions may take: under a second. Unoptimised code has longer; `.ci/run` runs these tests optimised too.
const LARGE: Duration = if cfg!(debug_assertions) { Duration::from_secs(5) } else { Duration::from_secs(1) };
/// And how many times what `serde_json` takes to read the same text into its own values, since machines differ in speed.
const TIMES: u32 = if cfg!(debug_assertions) { 20 } else { 10 };
/// What 200,000 levels may take before they are refused.
const AT_ONCE: Duration = if cfg!(debug_assertions) { Duration::from_secs(1) } else { Duration::from_millis(100) };

fn read_and_build(json: &str, definitions: usize) -> Duration {
    let registry = registry();
    time(|| {
        let read = registry.read(&mut serde_json::Deserializer::from_str(json));
        match read {
            Ok(document) => assert!(document.build(&registry).is_ok()),
            // Each definition and each use of one.
            Err(error) => assert_eq!(error.problems().len(), 2 * definitions),
        }
    })
}

#[test]
fn time_is_in_proportion_to_the_document() {
    for is_misspelt in [false, true] {
        let text = |definitions| serde_json::to_string(&large(definitions, is_misspelt)).expect("JSON");
        let (short, long) = (text(2_000), text(16_000));
        let (eighth, whole) = (read_and_build(&short, 2_000), read_and_build(&long, 16_000));
        let read = time(|| drop(serde_json::from_str::<serde_json::Value>(&long).expect("JSON")));
        println!("16,000 definitions, misspelt: {is_misspelt}: {whole:?}, by serde_json {read:?}");
        assert!(whole < LARGE, "{whole:?} for 16,000 definitions, misspelt: {is_misspelt}");
        assert!(whole < read * TIMES, "{whole:?}, and {read:?} by serde_json, misspelt: {is_misspelt}");
        // Eight times as much is 64 times the work by a square. In proportion it takes 8 to 13 times as long, since the larger
        // one does not fit the caches.
        assert!(whole < eighth * 24, "{eighth:?} for 2,000 and {whole:?} for 16,000, misspelt: {is_misspelt}");
    }
}

#[test]
fn nesting_without_end_is_refused_at_once() {
    let registry = registry();
    let (open, close) = ("[".repeat(200_000), "]".repeat(200_000));
    let json =
        format!(r#"{{"plugins": [{{"type": "best", "parameters": {{"most": {open}{close}}}}}], "profiles": []}}"#);
    let mut blocks = String::from("profiles: []\nplugins:\n");
    (0..500).for_each(|depth| writeln!(blocks, "{}- a:", " ".repeat(2 + 2 * depth)).expect("room"));
    let mut told = String::new();
    let took = time(|| told = registry.load(|seed| read_json(&json, seed)).expect_err("it has no end").to_string());
    assert!(told.contains("nested more than 64 levels deep"), "{told}");
    println!("200,000 levels of JSON: {took:?}");
    assert!(took < AT_ONCE, "{took:?} for JSON");
    let took = time(|| drop(registry.load(|seed| read_yaml(&blocks, seed)).expect_err("nor has this")));
    assert!(took < AT_ONCE, "{took:?} for YAML");
    // Of YAML it is told before its own scanner takes the square of the levels.
    let flow = format!("plugins: {open}{close}");
    let took = time(|| assert!(routing_core::check_nesting(&flow).is_err()));
    println!("200,000 levels of YAML: {took:?}");
    assert!(took < AT_ONCE, "{took:?} for brackets of YAML");
    // Many more levels take YAML's own scanner the square of their number before it hands anything over.
    let flow = format!("profiles: []\nplugins: {}{}\n", &open[..2_000], &close[..2_000]);
    assert!(registry.load(|seed| read_yaml(&flow, seed)).is_err());
}
