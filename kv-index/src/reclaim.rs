//! When may memory that a search might still be reading be used again?
//!
//! Searches run *pinned*; what a writer takes out of sight is handed to [`Pin::later`] and freed once every
//! search that was pinned at that moment has ended. The real thing is `crossbeam-epoch`; the modelled one
//! keeps everything for ever, which lets loom check the publication protocols without the reclamation.

#[cfg(not(all(test, routing_loom)))]
pub(crate) use real::{Pin, pin};

#[cfg(all(test, routing_loom))]
pub(crate) use modelled::{Pin, pin};

#[cfg(not(all(test, routing_loom)))]
mod real {
    use crossbeam_epoch::{Guard, pin as epoch_pin};

    /// Proof that the current thread is pinned.
    pub(crate) struct Pin(Guard);

    pub(crate) fn pin() -> Pin {
        Pin(epoch_pin())
    }

    impl Pin {
        /// Runs `free` once nobody pinned now is pinned any more.
        pub(crate) fn later(&self, free: impl FnOnce() + Send + 'static) {
            self.0.defer(free);
        }

        /// Hands what this thread has gathered to all threads, so that any of them may free it.
        pub(crate) fn flush(&self) {
            self.0.flush();
        }
    }
}

#[cfg(all(test, routing_loom))]
mod modelled {
    pub(crate) struct Pin;

    pub(crate) fn pin() -> Pin {
        Pin
    }

    impl Pin {
        pub(crate) fn later(&self, free: impl FnOnce() + Send + 'static) {
            std::mem::forget(free);
        }

        pub(crate) fn flush(&self) {}
    }
}
