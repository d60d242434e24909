//! Who has something to say: every request under way has a waker of its own.
//!
//! So a wake costs one request's poll, not all of them. The rule that must never break: a bell that rings while its request
//! is being listened to is heard again.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::task::{Wake, Waker};

use parking_lot::Mutex;

/// The bells of all slots.
#[derive(Default)]
pub(super) struct Bells {
    desk: Arc<Desk>,
    wakers: Vec<Waker>,
}

#[derive(Default)]
struct Desk(Mutex<Rung>);

#[derive(Default)]
struct Rung {
    slots: VecDeque<usize>,
    /// By slot, whether it is among them.
    is_rung: Vec<bool>,
    /// Who is woken by the next one.
    host: Option<Waker>,
}

struct Bell {
    desk: Arc<Desk>,
    slot: usize,
}

impl Bells {
    /// From now on this one is woken. Called before listening, lest a bell ring unheard.
    pub(super) fn attend(&self, waker: &Waker) {
        let mut rung = self.desk.0.lock();
        if !rung.host.as_ref().is_some_and(|host| host.will_wake(waker)) {
            rung.host = Some(waker.clone());
        }
    }

    /// The waker of a slot.
    pub(super) fn waker(&mut self, slot: usize) -> Waker {
        while self.wakers.len() <= slot {
            let bell = Bell { desk: Arc::clone(&self.desk), slot: self.wakers.len() };
            self.wakers.push(Waker::from(Arc::new(bell)));
            self.desk.0.lock().is_rung.push(false);
        }
        self.wakers[slot].clone()
    }

    /// Has a slot listened to that nobody has rung for, within the same poll: nobody is woken for it.
    pub(super) fn ring(&mut self, slot: usize) {
        self.waker(slot);
        self.desk.0.lock().ring(slot);
    }

    /// The next slot to listen to.
    pub(super) fn answer(&self) -> Option<usize> {
        let mut rung = self.desk.0.lock();
        let slot = rung.slots.pop_front()?;
        rung.is_rung[slot] = false;
        Some(slot)
    }
}

impl Rung {
    /// Whether that is news.
    fn ring(&mut self, slot: usize) -> bool {
        let is_new = !std::mem::replace(&mut self.is_rung[slot], true);
        if is_new {
            self.slots.push_back(slot);
        }
        is_new
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        let host = {
            let mut rung = self.desk.0.lock();
            if rung.ring(self.slot) { rung.host.take() } else { None }
        };
        // Outside the lock: a waker is the host's code.
        if let Some(host) = host {
            host.wake();
        }
    }
}

impl fmt::Debug for Bells {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bells").field("slots", &self.wakers.len()).finish_non_exhaustive()
    }
}
