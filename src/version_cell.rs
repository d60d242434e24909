//! Published versions (RCU): readers load a whole version without a lock, writers make the next one of the last.
//!
//! The rule: every version is made of the one before it. Two changes at once, such as a pod's health and a new profile, both
//! survive, in one order or the other, and a reader never sees half of one.

use std::sync::Arc;

use self::swap::{Mutex, Swap};

/// A value that is replaced whole.
#[derive(Debug)]
pub(crate) struct VersionCell<T> {
    current: Swap<T>,
    /// Held while the next version is made.
    writer: Mutex<()>,
}

impl<T> VersionCell<T> {
    pub(crate) fn new(first: T) -> Self {
        Self { current: Swap::new(Arc::new(first)), writer: Mutex::new(()) }
    }

    /// The current version.
    pub(crate) fn load(&self) -> Arc<T> {
        self.current.load()
    }

    /// Publishes the next version, made of the current one. Nobody else publishes meanwhile.
    pub(crate) fn update(&self, next: impl FnOnce(&T) -> T) {
        let _writer = self.writer.lock();
        let made = next(&self.current.load());
        self.current.store(Arc::new(made));
    }
}

#[cfg(not(all(test, routing_loom)))]
mod swap {
    use std::sync::Arc;

    use arc_swap::ArcSwap;
    pub(super) use parking_lot::Mutex;

    #[derive(Debug)]
    pub(super) struct Swap<T>(ArcSwap<T>);

    impl<T> Swap<T> {
        pub(super) fn new(first: Arc<T>) -> Self {
            Self(ArcSwap::new(first))
        }

        pub(super) fn load(&self) -> Arc<T> {
            self.0.load_full()
        }

        pub(super) fn store(&self, next: Arc<T>) {
            self.0.store(next);
        }
    }
}

/// The same for loom, with `arc-swap` taken for what it promises: a load sees some store, whole.
#[cfg(all(test, routing_loom))]
mod swap {
    use std::sync::Arc;

    #[derive(Debug)]
    pub(super) struct Swap<T>(loom::sync::Mutex<Arc<T>>);

    impl<T> Swap<T> {
        pub(super) fn new(first: Arc<T>) -> Self {
            Self(loom::sync::Mutex::new(first))
        }

        pub(super) fn load(&self) -> Arc<T> {
            Arc::clone(&self.0.lock().unwrap())
        }

        pub(super) fn store(&self, next: Arc<T>) {
            *self.0.lock().unwrap() = next;
        }
    }

    #[derive(Debug)]
    pub(super) struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(super) fn new(value: T) -> Self {
            Self(loom::sync::Mutex::new(value))
        }

        pub(super) fn lock(&self) -> loom::sync::MutexGuard<'_, T> {
            self.0.lock().unwrap()
        }
    }
}

#[cfg(all(test, routing_loom))]
mod loom_tests {
    use super::*;

    /// A fleet's version, the workflow's, and which fleet the pair was published with: never torn, nothing lost.
    #[test]
    fn changes_at_once_both_survive_and_are_seen_whole() {
        loom::model(|| {
            let cell = Arc::new(VersionCell::new((0_u32, 0_u32, 0_u32)));
            let (fleets, workflows) = (Arc::clone(&cell), Arc::clone(&cell));
            let writers = [
                loom::thread::spawn(move || {
                    fleets.update(|&(fleet, workflow, _)| (fleet + 1, workflow, fleet + 1 + workflow))
                }),
                loom::thread::spawn(move || {
                    workflows.update(|&(fleet, workflow, _)| (fleet, workflow + 1, fleet + workflow + 1));
                }),
            ];
            let (fleet, workflow, sum) = *cell.load();
            assert_eq!(fleet + workflow, sum, "one version and not parts of two");
            writers.into_iter().for_each(|writer| writer.join().unwrap());
            assert_eq!(*cell.load(), (1, 1, 2), "no change is lost");
        });
    }
}
