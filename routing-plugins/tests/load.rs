//! The load tracker against a literal model, in any interleaving, with threads, and what plugins make of it.

mod load {
    mod decisions;
    mod model;
    mod threads;

    use kv_index::{Config, Index, Pod};

    pub(crate) const IDS: usize = 3;
    pub(crate) const GENERATIONS: usize = 4;

    /// Handles of every id in every generation: `[generation][id]`, older ones first.
    pub(crate) fn handles() -> Vec<Vec<Pod>> {
        let index: Index = Index::new(Config::default());
        let generation = |_| {
            let pods: Vec<_> = (0..IDS).map(|at| index.join(&format!("pod-{at}")).expect("room")).collect();
            pods.iter().for_each(|&pod| assert!(index.retire(pod)));
            assert_eq!(index.sweep(1).freed, IDS, "the ids are free for the next");
            pods
        };
        (0..GENERATIONS).map(generation).collect()
    }
}
