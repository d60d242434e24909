//! Atomics and locks of this crate, real or modelled by loom; no other file may name `std::sync::atomic`.
//!
//! `test` keeps loom a dev-dependency, and the private cfg leaves our dependencies as they are.

#[cfg(all(test, routing_loom))]
pub(crate) use loom::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};
#[cfg(not(all(test, routing_loom)))]
pub(crate) use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};

// Its value is set once and never changed: there is nothing for loom to try.
pub(crate) use std::sync::OnceLock;

#[cfg(all(test, routing_loom))]
pub(crate) use modelled::{Mutex, MutexGuard};
#[cfg(not(all(test, routing_loom)))]
pub(crate) use parking_lot::{Mutex, MutexGuard};

/// Loom's mutex in the shape of `parking_lot`'s: no poisoning.
#[cfg(all(test, routing_loom))]
mod modelled {
    #[derive(Debug)]
    pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);
    pub(crate) use loom::sync::MutexGuard;

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(loom::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap()
        }

        pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            self.0.try_lock().ok()
        }
    }

    impl<T: Default> Default for Mutex<T> {
        fn default() -> Self {
            Self::new(T::default())
        }
    }
}
