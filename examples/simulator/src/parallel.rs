//! Parallel map: work over a slice on several threads, results in the order of the input.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Maps `work` over all tasks on so many threads.
pub(crate) fn parallel_map<T: Sync, R: Send>(tasks: &[T], threads: usize, work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<Option<R>>> = tasks.iter().map(|_| Mutex::new(None)).collect();
    thread::scope(|scope| {
        for _ in 0..threads.clamp(1, tasks.len().max(1)) {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(task) = tasks.get(at) else { return };
                    let result = work(task);
                    if let Ok(mut slot) = results[at].lock() {
                        *slot = Some(result);
                    }
                }
            });
        }
    });
    results.into_iter().filter_map(|slot| slot.into_inner().ok().flatten()).collect()
}
