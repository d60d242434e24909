//! Plans a synthetic queue and says how long planning took and what it is worth.
//!
//! `cargo run --release -p pointsman-routing-core --example plan_batch -- 1000000 100 16` plans a million requests of a
//! hundred blocks for sixteen pods.

#![expect(clippy::disallowed_methods, reason = "a program: it reads its command line and the clock")]

use std::time::Instant;

use kv_index::{BlockHash, Config, Index};
use pointsman_test_support::{SplitMix64, splitmix64};
use routing_core::batch::{BatchConfig, BatchCosts, BatchPlanner, BatchPod, BatchRequest, IndexedCaches};

/// Of an 8B model on one H200.
const COSTS: BatchCosts = BatchCosts::ZERO
    .prompt_token(28.8e-6)
    .attended_pair(8.51e-10)
    .step(17.1e-3)
    .output_token(60.7e-6)
    .context_token(3.34e-7);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let mut number = |default: usize| args.next().map_or(Ok(default), |text| text.parse());
    let (requests, blocks, pods) = (number(100_000)?, number(100)?, number(16)?);

    let index: Index = Index::new(Config::default());
    let pods: Vec<BatchPod> = (0..pods)
        .map(|pod| Ok(BatchPod { pod: index.join(&format!("pod-{pod}"))?, kv_tokens: 1_000_000, speed: 1.0 }))
        .collect::<Result<_, kv_index::JoinError>>()?;
    let began = Instant::now();
    let hashes = chains(requests, blocks);
    let mut rng = SplitMix64::new(7);
    let queue: Vec<BatchRequest<'_>> = hashes
        .chunks(blocks)
        .map(|chain| BatchRequest {
            chain,
            prompt_tokens: (blocks * 16) as u32 + 5,
            output_tokens: 1 + (rng.next_u64() % 400) as u32,
            deadline: None,
        })
        .collect();
    println!("{requests} requests of {blocks} blocks made in {:.2} s", began.elapsed().as_secs_f64());

    let began = Instant::now();
    let plan = BatchPlanner::new(BatchConfig::new(COSTS)).plan(&queue, &pods, &mut IndexedCaches::new(&index))?;
    println!("planned for {} pods in {:.2} s", pods.len(), began.elapsed().as_secs_f64());
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    if let Some(peak) = status.lines().find(|line| line.starts_with("VmHWM")) {
        println!("peak memory: {}", peak.trim_start_matches("VmHWM:").trim());
    }
    let cohorts: usize = plan.pods.iter().map(|pod| pod.cohorts.len()).sum();
    println!(
        "{cohorts} cohorts, {} tokens to compute ({:.4} of the bound), {:.0} s, imbalance {:.3}%",
        plan.prefill_tokens(),
        plan.prefill_tokens() as f64 / plan.distinct_tokens() as f64,
        plan.makespan().as_secs_f64(),
        plan.imbalance() * 100.0,
    );
    Ok(())
}

/// Chains in no order: system prompts (a tenth of the blocks), documents below them (half), turns (a quarter), and the
/// rest of one's own.
fn chains(requests: usize, blocks: usize) -> Vec<BlockHash> {
    let levels = [(blocks / 10, 20_u64), (blocks / 2, 1 + requests as u64 / 50), (blocks / 4, 1 + requests as u64 / 4)];
    let mut rng = SplitMix64::new(1);
    let mut hashes = Vec::with_capacity(requests * blocks);
    for own in 0..requests as u64 {
        let (mut parent, mut left) = (0, blocks);
        for (length, choices) in levels {
            // What is below a node is drawn from few, and each is below one node.
            parent = splitmix64(parent ^ splitmix64(rng.next_u64() % choices.max(1)));
            hashes.extend((0..length as u64).map(|at| BlockHash::new(splitmix64(parent.wrapping_add(at)))));
            left -= length;
        }
        hashes.extend((0..left as u64).map(|at| BlockHash::new(splitmix64(parent ^ splitmix64(own << 20 | at)))));
    }
    hashes
}
