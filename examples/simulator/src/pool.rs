//! Many runs on all cores, their results in the order asked for.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Does all of it, so many at once; `done` is told after each how many there are. The results are in the order of the tasks.
pub fn run_all<T: Sync, R: Send>(
    tasks: &[T],
    at_once: usize,
    work: impl Fn(&T) -> R + Sync,
    done: impl Fn(usize) + Sync,
) -> Vec<R> {
    let (next, finished) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let results: Vec<Mutex<Option<R>>> = tasks.iter().map(|_| Mutex::new(None)).collect();
    thread::scope(|scope| {
        for _ in 0..at_once.clamp(1, tasks.len().max(1)) {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(task) = tasks.get(at) else { return };
                    let result = work(task);
                    if let Ok(mut place) = results[at].lock() {
                        *place = Some(result);
                    }
                    done(finished.fetch_add(1, Ordering::Relaxed) + 1);
                }
            });
        }
    });
    results.into_iter().filter_map(|place| place.into_inner().ok().flatten()).collect()
}
