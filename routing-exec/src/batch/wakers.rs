//! Wakers: one for each request in flight, so that a wake polls one request, not all.
//!
//! The rule that must never break: a slot that is woken while it is polled is polled again.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::task::{Wake, Waker};

use parking_lot::Mutex;

/// The wakers of all slots.
#[derive(Default)]
pub(super) struct SlotWakers {
    ready: Arc<Mutex<ReadySlots>>,
    wakers: Vec<Waker>,
}

#[derive(Default)]
struct ReadySlots {
    slots: VecDeque<usize>,
    /// By slot, whether it is among them.
    is_ready: Vec<bool>,
    /// The waker of the task that polls the runner.
    task: Option<Waker>,
}

struct SlotWaker {
    ready: Arc<Mutex<ReadySlots>>,
    slot: usize,
}

impl SlotWakers {
    /// Registers the task to wake. Called before slots are polled, lest a wake be lost.
    pub(super) fn register(&self, waker: &Waker) {
        let mut ready = self.ready.lock();
        if !ready.task.as_ref().is_some_and(|task| task.will_wake(waker)) {
            ready.task = Some(waker.clone());
        }
    }

    /// The waker of a slot.
    pub(super) fn waker(&mut self, slot: usize) -> Waker {
        while self.wakers.len() <= slot {
            let waker = SlotWaker { ready: Arc::clone(&self.ready), slot: self.wakers.len() };
            self.wakers.push(Waker::from(Arc::new(waker)));
            self.ready.lock().is_ready.push(false);
        }
        self.wakers[slot].clone()
    }

    /// Schedules a slot within the current poll of the runner, without a wake.
    pub(super) fn schedule(&mut self, slot: usize) {
        self.waker(slot);
        self.ready.lock().push(slot);
    }

    /// The next slot to poll.
    pub(super) fn pop(&self) -> Option<usize> {
        let mut ready = self.ready.lock();
        let slot = ready.slots.pop_front()?;
        ready.is_ready[slot] = false;
        Some(slot)
    }
}

impl ReadySlots {
    /// Adds a slot; whether it was not there.
    fn push(&mut self, slot: usize) -> bool {
        let is_new = !std::mem::replace(&mut self.is_ready[slot], true);
        if is_new {
            self.slots.push_back(slot);
        }
        is_new
    }
}

impl Wake for SlotWaker {
    fn wake(self: Arc<Self>) {
        let task = {
            let mut ready = self.ready.lock();
            if ready.push(self.slot) { ready.task.take() } else { None }
        };
        // Outside the lock: a waker is foreign code.
        if let Some(task) = task {
            task.wake();
        }
    }
}

impl fmt::Debug for SlotWakers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SlotWakers").field("slots", &self.wakers.len()).finish_non_exhaustive()
    }
}
