//! Search, side by side: the grid of pods × blocks × depths, every answer compared before it is timed.

use std::hint::black_box;
use std::time::Instant;

use kv_index::BlockHash;
use pointsman_benches::fleet::{Cell, Fleet, Rng};
use pointsman_benches::systems::{Ours, Smg, System};

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let table = args.get(1).map_or(200_000, |a| a.parse().expect("blocks"));
    let mut ratios = Vec::new();
    println!("{:>5} {:>6} {:>6} | {:>9} {:>9} | {:>6} {:>7}", "pods", "blocks", "depths", "ours ns", "smg ns", "ratio", "probes");
    for pods in [8, 64, 256] {
        for blocks in [16, 128, 512, 4096] {
            for depths in [1, 4, 16] {
                let cell = Cell { pods, blocks, depths, table };
                let fleet = Fleet::build(cell, 1);
                let (mut ours, mut smg) = (Ours::new(pods), Smg::new(pods));
                ours.fill(&fleet);
                smg.fill(&fleet);
                let (mut a, mut b) = (vec![0; pods], vec![0; pods]);
                for chain in fleet.chains.iter().take(500) {
                    ours.depths(chain, &mut a);
                    smg.depths(chain, &mut b);
                    assert_eq!(a, b, "{cell:?}");
                }
                let mut rng = Rng::new(7);
                let order: Vec<usize> = (0..4000).map(|_| rng.below(fleet.chains.len())).collect();
                let mut times = [Vec::new(), Vec::new()];
                let mut probes = 0;
                for _ in 0..9 {
                    times[0].push(time(&order, &fleet.chains, |c| ours.ask(c)));
                    times[1].push(time(&order, &fleet.chains, |c| smg.ask(c)));
                }
                for &i in &order[..200] {
                    ours.ask(&fleet.chains[i]);
                    probes += ours.probes();
                }
                let [x, y] = times.map(|mut t| {
                    t.sort_by(f64::total_cmp);
                    t[t.len() / 2]
                });
                ratios.push(y / x);
                println!("{pods:>5} {blocks:>6} {depths:>6} | {x:>9.0} {y:>9.0} | {:>6.2} {:>7.1}", y / x, probes as f64 / 200.0);
            }
        }
    }
    ratios.sort_by(f64::total_cmp);
    println!("ratio min {:.2} median {:.2} max {:.2}", ratios[0], ratios[ratios.len() / 2], ratios[ratios.len() - 1]);
}

fn time(order: &[usize], chains: &[Vec<BlockHash>], mut ask: impl FnMut(&[BlockHash]) -> u64) -> f64 {
    let start = Instant::now();
    for &i in order {
        black_box(ask(black_box(&chains[i])));
    }
    start.elapsed().as_nanos() as f64 / order.len() as f64
}
