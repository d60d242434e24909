//! The questions, one a file. Each takes the options, tells its progress and returns tables.

mod decision;
mod evict;
mod execution;
mod memory;
mod replay;
mod search;
mod threads;
mod tokens;
mod writes;

use crate::fleet::Fleet;
use crate::options::{Options, Section};
use crate::report::Table;
use crate::systems::{Contender, NAMES};

/// Runs one section.
#[must_use]
pub fn run(section: Section, options: &Options, tell: &mut dyn FnMut(&str)) -> Vec<Table> {
    match section {
        Section::Search => search::run(options, tell),
        Section::Tokens => tokens::run(options, tell),
        Section::Writes => writes::run(options, tell),
        Section::Evict => evict::run(options, tell),
        Section::Threads => threads::run(options, tell),
        Section::Replay => replay::run(options, tell),
        Section::Memory => memory::run(options, tell),
        Section::Decision => decision::run(options, tell),
        Section::Execution => execution::run(options, tell),
    }
}

/// Compares every system's answers with the truth; a line for each system that is wrong.
fn disagreements(
    case: &str,
    fleet: &Fleet,
    contenders: &mut [Box<dyn Contender>],
    pods: usize,
    order: &[usize],
) -> Vec<String> {
    let mut asked = order.to_vec();
    asked.sort_unstable();
    asked.dedup();
    let (mut truth, mut answer) = (vec![0; pods], vec![0; pods]);
    let mut lines = Vec::new();
    for contender in contenders {
        let (mut wrong, mut first) = (0, None);
        for &chain in &asked {
            fleet.truth(chain, &mut truth);
            contender.depths(chain, &mut answer);
            if let Some(pod) = (0..pods).find(|&pod| answer[pod] != truth[pod]) {
                wrong += 1;
                first.get_or_insert((chain, pod, answer[pod], truth[pod]));
            }
        }
        if let Some((chain, pod, said, held)) = first {
            lines.push(format!(
                "DISAGREES: {} at {case}: {wrong} of {} prompts; first: chain {chain}, pod {pod}: says {said}, holds {held}",
                contender.name(),
                asked.len(),
            ));
        }
    }
    lines
}

/// Sums up how a column of ratios over ours turned out.
fn summary(peer: &str, mut ratios: Vec<f64>) -> String {
    ratios.sort_by(f64::total_cmp);
    let (Some(&min), Some(&max)) = (ratios.first(), ratios.last()) else {
        return format!("{peer}: nothing measured");
    };
    let behind = ratios.iter().filter(|&&ratio| ratio < 1.0).count();
    let median = ratios[ratios.len() / 2];
    format!(
        "{peer} ÷ {}: min {min:.2}, median {median:.2}, max {max:.2}; ours is slower in {behind} of {}",
        NAMES[0],
        ratios.len()
    )
}
