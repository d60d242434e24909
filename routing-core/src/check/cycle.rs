//! Dependency cycles among plugins: strongly connected components (Kosaraju), and a shortest circle through each plugin.

use super::Constraint;

/// Circles, and which of them a plugin is in.
pub(super) struct Cycles {
    pub(super) paths: Vec<Vec<usize>>,
    of: Vec<Vec<usize>>,
}

impl Cycles {
    /// Circles such that everyone who waits for itself is in one, each plugin before the one it must run before.
    ///
    /// Stages and steps have an order of their own: a plugin that waits for one of a later stage waits in vain, and that
    /// is a circle too only if the later one waits for it by what it declared. So only declared constraints count here.
    pub(super) fn find(nodes: usize, constraints: &[Constraint]) -> Self {
        let mut cycles = Self { paths: Vec::new(), of: vec![Vec::new(); nodes] };
        let after = neighbours(nodes, constraints.iter().map(|order| (order.first, order.second)));
        let group = components(nodes, &after, constraints);
        for start in 0..nodes {
            if cycles.of[start].is_empty() {
                let Some(path) = shortest(&after, &group, start) else { continue };
                path.iter().for_each(|at| cycles.of[*at].push(cycles.paths.len()));
                cycles.paths.push(path);
            }
        }
        cycles
    }

    /// Whether two plugins are in one circle.
    pub(super) fn join(&self, a: usize, b: usize) -> bool {
        self.of[a].iter().any(|cycle| self.of[b].contains(cycle))
    }
}

fn neighbours(nodes: usize, edges: impl Iterator<Item = (usize, usize)>) -> Vec<Vec<usize>> {
    let mut lists = vec![Vec::new(); nodes];
    edges.for_each(|(from, to)| lists[from].push(to));
    lists
}

/// A number for each plugin; two that wait for each other have the same one.
fn components(nodes: usize, after: &[Vec<usize>], constraints: &[Constraint]) -> Vec<usize> {
    let before = neighbours(nodes, constraints.iter().map(|order| (order.second, order.first)));
    let mut finished = Vec::with_capacity(nodes);
    let mut seen = vec![false; nodes];
    for start in 0..nodes {
        // A stack of our own: chains are as long as a profile.
        let mut stack = vec![(start, 0)];
        while let Some((at, next)) = stack.pop() {
            if next == 0 && std::mem::replace(&mut seen[at], true) {
                continue;
            }
            match after[at].get(next) {
                Some(&other) => stack.extend([(at, next + 1), (other, 0)]),
                None => finished.push(at),
            }
        }
    }
    let mut group = vec![usize::MAX; nodes];
    for start in finished.into_iter().rev() {
        let mut stack = vec![start];
        while let Some(at) = stack.pop() {
            if group[at] == usize::MAX {
                group[at] = start;
                stack.extend(&before[at]);
            }
        }
    }
    group
}

/// The shortest way from a plugin back to itself, breadth first and within its group.
fn shortest(after: &[Vec<usize>], group: &[usize], start: usize) -> Option<Vec<usize>> {
    let mut from = std::collections::HashMap::new();
    let mut reached = vec![start];
    let mut next = 0;
    while let Some(&at) = reached.get(next) {
        next += 1;
        for &second in after[at].iter().filter(|second| group[**second] == group[start]) {
            if second == start {
                let mut path = vec![at];
                while let Some(before) = path.last().and_then(|last| from.get(last)) {
                    path.push(*before);
                }
                path.reverse();
                return Some(path);
            }
            from.entry(second).or_insert_with(|| {
                reached.push(second);
                at
            });
        }
    }
    None
}
