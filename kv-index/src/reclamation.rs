//! Epoch-based reclamation: when memory that a search might still read can be freed.
//!
//! Searches run *pinned*; what a writer takes out of sight is handed to [`Pin::later`] and freed once every
//! search that was pinned at that moment has ended. The scheme is in [`epochs`]; here is one for all indexes of the
//! process and a place in it for every thread. The modelled one keeps everything for ever, which lets loom check
//! the publication protocols without the reclamation; that is checked by itself.

mod epochs;
pub(crate) mod slab;

#[cfg(not(all(test, routing_loom)))]
pub(crate) use real::{Pin, pin};

#[cfg(all(test, routing_loom))]
pub(crate) use epochs::Epochs;
#[cfg(all(test, routing_loom))]
pub(crate) use modelled::{Pin, pin};

#[cfg(not(all(test, routing_loom)))]
mod real {
    use std::cell::Cell;
    use std::marker::PhantomData;
    use std::sync::LazyLock;

    use super::epochs::Epochs;

    static EPOCHS: LazyLock<Epochs> = LazyLock::new(Epochs::new);

    thread_local! {
        static READER: Reader = Reader { epochs: &EPOCHS, place: EPOCHS.join(), depth: Cell::new(0) };
    }

    /// A thread's place, and how many of its pins there are.
    struct Reader {
        epochs: &'static Epochs,
        place: u32,
        depth: Cell<usize>,
    }

    impl Drop for Reader {
        fn drop(&mut self) {
            self.epochs.leave_for_good(self.place);
        }
    }

    /// Proof that the current thread is pinned.
    pub(crate) struct Pin {
        place: u32,
        /// Whether the place is its own, since the thread has given up its place already.
        is_own: bool,
        /// It is the thread that is pinned.
        _here: PhantomData<*const ()>,
    }

    #[inline]
    pub(crate) fn pin() -> Pin {
        let entered = READER.try_with(|reader| {
            let depth = reader.depth.get();
            if depth == 0 {
                reader.epochs.enter(reader.place);
            }
            reader.depth.set(depth + 1);
            reader.place
        });
        let is_own = entered.is_err();
        let place = entered.unwrap_or_else(|_| EPOCHS.join());
        if is_own {
            EPOCHS.enter(place);
        }
        Pin { place, is_own, _here: PhantomData }
    }

    impl Pin {
        /// A number that no other thread has now, counted from one.
        #[inline]
        pub(crate) fn thread(&self) -> u32 {
            self.place + 1
        }

        /// Segments `free` once nobody pinned now is pinned any more.
        pub(crate) fn later(&self, free: impl FnOnce() + Send + 'static) {
            EPOCHS.retire(Box::new(free));
        }

        /// Frees what can be freed now.
        pub(crate) fn flush(&self) {
            EPOCHS.collect();
        }
    }

    impl Drop for Pin {
        #[inline]
        fn drop(&mut self) {
            if self.is_own {
                EPOCHS.leave(self.place);
                EPOCHS.leave_for_good(self.place);
                return;
            }
            // The thread's place outlives its pins: it goes when the thread's values do, and pins made later have
            // their own.
            let _ = READER.try_with(|reader| {
                let depth = reader.depth.get() - 1;
                reader.depth.set(depth);
                if depth == 0 {
                    reader.epochs.leave(reader.place);
                }
            });
        }
    }

    #[cfg(test)]
    #[expect(clippy::disallowed_methods, reason = "tests are hosts, and own their threads")]
    mod tests {
        use std::sync::Arc;
        use std::sync::mpsc::channel;
        use std::time::{Duration, Instant};

        use super::*;

        /// Other tests' threads may be pinned meanwhile, for as long as a busy machine leaves them no core: they end.
        fn collect_until(freed: impl Fn() -> bool) {
            let patience = Instant::now() + Duration::from_secs(300);
            while !freed() {
                assert!(Instant::now() < patience, "never freed");
                std::thread::sleep(Duration::from_millis(1));
                EPOCHS.collect();
            }
        }

        #[test]
        fn what_a_pinned_thread_may_read_is_kept_until_it_is_no_longer_pinned() {
            let thing = Arc::new(());
            let (pinned, told) = channel();
            let (release, released) = channel::<()>();
            let reader = std::thread::spawn(move || {
                let outer = pin();
                let inner = pin();
                drop(outer);
                pinned.send(()).expect("the test waits");
                let _ = released.recv();
                drop(inner);
            });
            told.recv().expect("the reader speaks");
            let given = Arc::clone(&thing);
            pin().later(move || drop(given));
            for _ in 0..10_000 {
                EPOCHS.collect();
            }
            assert_eq!(Arc::strong_count(&thing), 2, "a reader that was there is there");
            drop(release);
            reader.join().expect("it ends");
            collect_until(|| Arc::strong_count(&thing) == 1);
        }

        #[test]
        fn a_thread_that_ended_gives_its_place_to_the_next() {
            for _ in 0..200 {
                std::thread::spawn(|| drop(pin())).join().expect("it ends");
            }
            assert!(EPOCHS.places() < 150, "{} places", EPOCHS.places());
        }

        #[test]
        fn a_thread_s_last_acts_may_pin() {
            struct Last;
            impl Drop for Last {
                fn drop(&mut self) {
                    let pin = pin();
                    pin.later(|| {});
                }
            }
            thread_local! {
                static LAST: Last = const { Last };
            }
            std::thread::spawn(|| {
                // Made first and so dropped last, after the thread's place.
                LAST.with(|_| drop(pin()));
            })
            .join()
            .expect("no panic");
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
        /// Models say which thread it is.
        pub(crate) fn thread(&self) -> u32 {
            1
        }

        pub(crate) fn later(&self, free: impl FnOnce() + Send + 'static) {
            std::mem::forget(free);
        }

        pub(crate) fn flush(&self) {}
    }
}
