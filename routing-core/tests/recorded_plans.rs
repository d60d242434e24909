//! Golden recording (characterization test) of batch plans: generated queues are given to the same pods, in the same order
//! and cohorts, as when `recorded_plans.txt` was written.
//!
//! It says nothing about which plans are good, only that a change left them alone. Costs are numbers of this test's own, so
//! that new defaults change nothing here. `POINTSMAN_RECORD=FILE` writes what is planned now, for `diff`;
//! `POINTSMAN_BLESS=1` takes it for right.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::num::NonZeroU32;
use std::path::Path;
use std::time::Duration;

use kv_index::{BlockHash, Config, Event, EventSemantics, Index, Stored};
use pointsman_test_support::SplitMix64;
use routing_core::batch::{
    BatchConfig, BatchCosts, BatchPlan, BatchPlanner, BatchPod, BatchRequest, CachedPrefixes, ColdCaches,
    IndexedCaches, InfeasibleReason, Mixing,
};

const BLOCK: u32 = 16;

/// Costs of no device in particular.
const COSTS: BatchCosts = BatchCosts::ZERO
    .prompt_token(30.0e-6)
    .attended_pair(9.0e-10)
    .step(15.0e-3)
    .output_token(50.0e-6)
    .context_token(3.0e-7);

/// By remainder: what is recorded was drawn so.
fn below(rng: &mut SplitMix64, bound: u64) -> u64 {
    rng.next_u64() % bound
}

/// A queue to plan, and the pods for it.
struct Case {
    name: &'static str,
    seed: u64,
    requests: usize,
    /// How many branches the trie of prompts has at each fork; few share much.
    branches: u64,
    /// Blocks and speed of each pod.
    pods: &'static [(u64, f64)],
    /// How many of a hundred have a deadline.
    urgent: u64,
    /// Whether pods hold something already.
    warm: bool,
    mixing: Mixing,
}

const TWO_ENDS: Mixing = Mixing::TwoEnds { most_recomputed: 0.005 };

const CASES: [Case; 7] = [
    Case {
        name: "shared",
        seed: 1,
        requests: 80,
        branches: 2,
        pods: &[(900, 1.0); 3],
        urgent: 0,
        warm: false,
        mixing: TWO_ENDS,
    },
    Case {
        name: "apart",
        seed: 2,
        requests: 60,
        branches: 9,
        pods: &[(900, 1.0); 4],
        urgent: 0,
        warm: false,
        mixing: Mixing::Apart,
    },
    Case {
        name: "urgent",
        seed: 3,
        requests: 90,
        branches: 3,
        pods: &[(500, 1.0); 3],
        urgent: 30,
        warm: false,
        mixing: TWO_ENDS,
    },
    Case {
        name: "warm",
        seed: 4,
        requests: 80,
        branches: 3,
        pods: &[(700, 1.0); 4],
        urgent: 10,
        warm: true,
        mixing: TWO_ENDS,
    },
    Case {
        name: "uneven",
        seed: 5,
        requests: 70,
        branches: 4,
        pods: &[(60, 0.5), (400, 1.0), (2_000, 2.5)],
        urgent: 0,
        warm: true,
        mixing: TWO_ENDS,
    },
    Case {
        name: "too small",
        seed: 6,
        requests: 40,
        branches: 2,
        pods: &[(25, 1.0), (12, 1.0)],
        urgent: 50,
        warm: false,
        mixing: TWO_ENDS,
    },
    Case {
        name: "alone",
        seed: 7,
        requests: 40,
        branches: 3,
        pods: &[(300, 1.0)],
        urgent: 20,
        warm: true,
        mixing: Mixing::Apart,
    },
];

/// A request's chain, tokens of its prompt and of its answer, and its deadline.
type Row = (Vec<BlockHash>, u32, u32, Option<Duration>);

fn row(case: &Case, rng: &mut SplitMix64) -> Row {
    let (mut chain, mut path) = (Vec::new(), case.seed);
    for _ in 0..below(rng, 6) {
        path = path.wrapping_mul(31).wrapping_add(1 + below(rng, case.branches));
        // A hash stands for all that came before it; a branch is always as long.
        let blocks = 1 + below(&mut SplitMix64::new(path), 9);
        chain.extend((0..blocks).map(|block| BlockHash::new(SplitMix64::new(path << 8 | block).next_u64())));
    }
    let prompt_tokens = chain.len() as u32 * BLOCK + 1 + below(rng, u64::from(BLOCK)) as u32;
    let output_tokens = [5, 60, 300][below(rng, 3) as usize] + below(rng, 40) as u32;
    let deadline = Duration::from_millis(200 + below(rng, 6_000));
    (chain, prompt_tokens, output_tokens, (below(rng, 100) < case.urgent).then_some(deadline))
}

fn plan(case: &Case) -> BatchPlan {
    let mut rng = SplitMix64::new(case.seed);
    let rows: Vec<Row> = (0..case.requests).map(|_| row(case, &mut rng)).collect();
    let mut requests = Vec::new();
    for (chain, prompt_tokens, output_tokens, deadline) in &rows {
        let (prompt_tokens, output_tokens, deadline) = (*prompt_tokens, *output_tokens, *deadline);
        requests.push(BatchRequest { chain, prompt_tokens, output_tokens, deadline });
    }
    let index: Index = Index::new(Config::default());
    let mut pods = Vec::new();
    for (at, &(blocks, speed)) in case.pods.iter().enumerate() {
        let pod = index.join(&at.to_string()).expect("room");
        pods.push(BatchPod { pod, kv_tokens: blocks * u64::from(BLOCK), speed });
        // Each holds three prompts, whole or in part.
        for _ in 0..3 {
            let chain = &rows[below(&mut rng, rows.len() as u64) as usize].0;
            let held = &chain[..chain.len() - chain.len() / (1 + below(&mut rng, 4) as usize) / 2];
            index.apply(pod, EventSemantics::Membership, &Event::Stored(Stored::prompt(held))).expect("it is alive");
        }
    }
    let config = BatchConfig::new(COSTS)
        .block_tokens(NonZeroU32::new(BLOCK).expect("not zero"))
        .most_imbalance(0.02)
        .step_tokens(NonZeroU32::new(512).expect("not zero"))
        .most_running(32)
        .mixing(case.mixing);
    let held: &mut dyn CachedPrefixes = if case.warm { &mut IndexedCaches::new(&index) } else { &mut ColdCaches };
    BatchPlanner::new(config).plan(&requests, &pods, held).expect("nothing is wrong")
}

/// Pod by pod: cohorts in their order, as `shared blocks: requests (blocks to keep)`. Times in whole microseconds.
fn told(name: &str, plan: &BatchPlan) -> String {
    let mut text = format!("== {name}: {} of {} tokens\n", plan.prefill_tokens(), plan.distinct_tokens());
    for (at, pod) in plan.pods.iter().enumerate() {
        let _ = writeln!(text, "pod {at}: {} µs, {} tokens", pod.takes.as_micros(), pod.prefill_tokens);
        for cohort in &pod.cohorts {
            let _ = writeln!(text, "  {}: {:?} ({})", cohort.shared_blocks, cohort.requests, cohort.keep_blocks);
        }
    }
    for infeasible in &plan.infeasible {
        let _ = match infeasible.why {
            InfeasibleReason::Late(late) => {
                writeln!(text, "request {}: {} µs late", infeasible.request, late.as_micros())
            }
            why => writeln!(text, "request {}: {why:?}", infeasible.request),
        };
    }
    text
}

/// What whoever runs the test wants besides.
#[expect(clippy::disallowed_methods, reason = "a test is asked by its environment")]
fn wish(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

#[test]
fn every_queue_is_planned_as_recorded() {
    let texts: Vec<String> = CASES.iter().map(|case| told(case.name, &plan(case))).collect();
    let planned = texts.join("\n");
    if let Some(file) = wish("POINTSMAN_RECORD") {
        std::fs::write(file, &planned).expect("POINTSMAN_RECORD names a file that can be written");
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded_plans.txt");
    if wish("POINTSMAN_BLESS").is_some_and(|bless| bless == "1") {
        return std::fs::write(file, planned).expect("the recording can be written");
    }
    let recorded = std::fs::read_to_string(&file).expect("the recording");
    let differs = planned.lines().zip(recorded.lines()).position(|(now, then)| now != then);
    if let Some(at) = differs.or((planned != recorded).then_some(planned.lines().count().min(recorded.lines().count())))
    {
        let line = |text: &str| text.lines().nth(at).unwrap_or("(nothing)").to_owned();
        panic!(
            "planned otherwise than recorded in line {} of {}:\n  then: {}\n  now:  {}\nPOINTSMAN_RECORD=FILE writes what \
             is planned now. If the change is meant, POINTSMAN_BLESS=1 records it.",
            at + 1,
            file.display(),
            line(&recorded),
            line(&planned),
        );
    }
}
