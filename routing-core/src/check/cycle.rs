//! Dependency cycles among plugins.

use super::{Constraint, Node};

/// One circle for each group of plugins that wait for each other, each plugin before the one it must run before.
///
/// Stages and steps have an order of their own: a plugin that waits for one of a later stage waits in vain, and that
/// is a circle too only if the later one waits for it by what it declared. So only declared constraints count here.
pub(super) fn find(nodes: &[Node], constraints: &[Constraint]) -> Vec<Vec<usize>> {
    let mut cycles: Vec<Vec<usize>> = Vec::new();
    for start in 0..nodes.len() {
        if cycles.iter().any(|cycle| cycle.contains(&start)) {
            continue;
        }
        cycles.extend(shortest(nodes.len(), constraints, start));
    }
    cycles
}

/// The shortest way from a plugin back to itself, breadth first.
fn shortest(nodes: usize, constraints: &[Constraint], start: usize) -> Option<Vec<usize>> {
    let mut from = vec![None; nodes];
    let mut reached = vec![start];
    let mut next = 0;
    while let Some(&at) = reached.get(next) {
        next += 1;
        for constraint in constraints.iter().filter(|constraint| constraint.first == at) {
            if constraint.second == start {
                let mut path = vec![at];
                while let Some(before) = path.last().and_then(|last| from[*last]) {
                    path.push(before);
                }
                path.reverse();
                return Some(path);
            }
            if from[constraint.second].is_none() && constraint.second != start {
                from[constraint.second] = Some(at);
                reached.push(constraint.second);
            }
        }
    }
    None
}
