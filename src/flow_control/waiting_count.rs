//! How many requests wait, told without a lock: who makes room asks it, so that nothing is locked while nothing waits.
//!
//! The rule (Dekker's): who begins to wait says so and then looks for room; who makes room does so and then looks whether somebody waits.
//! With a fence between the two on either side, in [`WaitingCount::any`], one of them sees the other, and nobody waits beside a pod that has room.

use self::atomic::{AtomicUsize, Ordering, fence};

/// The count.
#[derive(Debug)]
pub(super) struct WaitingCount(AtomicUsize);

impl WaitingCount {
    pub(super) fn new() -> Self {
        Self(AtomicUsize::new(0))
    }

    /// So many wait. Who begins to asks [`any`](Self::any) then, as everybody does, and looks for room.
    pub(super) fn set(&self, waiting: usize) {
        self.0.store(waiting, Ordering::Relaxed);
    }

    /// Whether somebody waits, who may not have seen the room that was made before this.
    pub(super) fn any(&self) -> bool {
        // SeqCst: between what was made before, a wait or room, and the look for the other. Pairs with itself on the other side.
        fence(Ordering::SeqCst);
        self.0.load(Ordering::Relaxed) > 0
    }
}

#[cfg(not(all(test, routing_loom)))]
mod atomic {
    pub(super) use std::sync::atomic::{AtomicUsize, Ordering, fence};
}

#[cfg(all(test, routing_loom))]
mod atomic {
    pub(super) use loom::sync::atomic::{AtomicUsize, Ordering, fence};
}

#[cfg(all(test, routing_loom))]
mod loom_tests {
    use loom::sync::atomic::{AtomicBool, Ordering};
    use loom::sync::{Arc, Mutex};
    use loom::thread;

    use super::WaitingCount;

    /// A pod that is busy, and who waits for it.
    struct Scene {
        count: WaitingCount,
        waits: Mutex<bool>,
        busy: AtomicBool,
    }

    impl Scene {
        fn pump(&self) {
            if self.count.any() {
                let mut waits = self.waits.lock().unwrap();
                if *waits && !self.busy.load(Ordering::Relaxed) {
                    *waits = false;
                    self.count.set(0);
                }
            }
        }
    }

    #[test]
    fn loom_nobody_waits_beside_a_pod_that_has_room() {
        loom::model(|| {
            let (count, waits, busy) = (WaitingCount::new(), Mutex::new(false), AtomicBool::new(true));
            let scene = Arc::new(Scene { count, waits, busy });
            let other = Arc::clone(&scene);
            let leaves = thread::spawn(move || {
                other.busy.store(false, Ordering::Relaxed);
                other.pump();
            });
            {
                let mut waits = scene.waits.lock().unwrap();
                *waits = true;
                scene.count.set(1);
            }
            scene.pump();
            leaves.join().unwrap();
            assert!(!*scene.waits.lock().unwrap());
        });
    }
}
