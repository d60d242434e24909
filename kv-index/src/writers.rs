//! Biased locking of writers: while one thread writes, it takes none of the directory's locks.
//!
//! An atomic exchange for each block is most of what a store costs, and mostly one thread brings all events. So the first thread that writes
//! *owns* the index: it says that it is writing, and locks no line ([`Writers::One`]). When another thread comes, ownership ends: from then on there
//! are [`Writers::Many`], who wait until the owner's event is carried out and lock the lines that they change, as the owner does then. After a
//! while one of them is to own the index again: once nobody is there any more that came before, and unless somebody else comes meanwhile.
//! Who waits has a pod locked: an owner that may wait for one, or works long, [steps aside](WritePin::step_aside) first.
//!
//! The rule that must never break: **who locks no line owns the index and says that it is writing, and all others wait for that.** A writer
//! is pinned before it looks which it is, so that an epoch tells when the last of many has gone.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crossbeam_utils::{Backoff, CachePadded};

use crate::reclamation::{Pin, pin};
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// Whether other writers may be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writers {
    /// None is.
    One,
    Many,
}

/// A writer is there: pinned, and told whether it is the only one.
pub(crate) struct WritePin<'t> {
    writers: Writers,
    /// What others wait at for the end of this update, if it is the owner's.
    gate: Option<&'t WriterGate>,
    pin: Pin,
}

impl WritePin<'_> {
    #[inline]
    pub(crate) fn writers(&self) -> Writers {
        self.writers
    }

    /// Lets others go on who wait for the owner, if there are any: from here on it is one of many. It may know no line as its own.
    #[inline]
    pub(crate) fn let_in(&mut self) {
        if self.gate.is_some_and(|gate| !is_of(gate.mode.load(Ordering::Relaxed), OWNED, self.pin.thread())) {
            self.step_aside();
        }
    }

    /// The same for others who will come before the update ends: it will take long, or calls what may wait for them.
    #[inline]
    pub(crate) fn step_aside(&mut self) {
        if let Some(gate) = self.gate.take() {
            self.writers = Writers::Many;
            // Release: publishes what was written without locks; pairs with `WriterGate::wait`.
            gate.owner.writing.store(NOBODY, Ordering::Release);
        }
    }
}

impl Deref for WritePin<'_> {
    type Target = Pin;

    #[inline]
    fn deref(&self) -> &Pin {
        &self.pin
    }
}

impl Drop for WritePin<'_> {
    #[inline]
    fn drop(&mut self) {
        self.step_aside();
    }
}

/// Lets the writers of an index in.
pub(crate) struct WriterGate {
    /// One of the states, whose it is, and how often it came to be [`MANY`]: see [`mode`].
    mode: Arc<CachePadded<AtomicU64>>,
    owner: CachePadded<Owner>,
    many: CachePadded<Many>,
}

/// What the owner says.
struct Owner {
    /// The thread that writes without locks, or nobody.
    writing: AtomicU64,
    /// Updates since the index is owned.
    updates: AtomicU64,
}

/// When one of many is to own the index.
struct Many {
    /// Updates since there were many, or since one of many was last given it.
    updates: AtomicU32,
    /// After how many of them one is.
    patience: AtomicU32,
}

impl WriterGate {
    pub(crate) fn new() -> Self {
        // Models of the index are of many writers: those of an owner are below.
        Self::starting(if cfg!(all(test, routing_loom)) { MANY } else { NOBODYS })
    }

    fn starting(mode: u64) -> Self {
        let owner = Owner { writing: AtomicU64::new(NOBODY), updates: AtomicU64::new(0) };
        let many = Many { updates: AtomicU32::new(0), patience: AtomicU32::new(PATIENCE) };
        Self {
            mode: Arc::new(CachePadded::new(AtomicU64::new(mode))),
            owner: CachePadded::new(owner),
            many: CachePadded::new(many),
        }
    }

    /// A writer comes, and waits for the owner if that is writing.
    #[inline]
    pub(crate) fn enter(&self) -> WritePin<'_> {
        // Before it looks: see `give`.
        let pin = pin();
        self.enter_as(pin.thread(), pin)
    }

    #[inline]
    fn enter_as(&self, thread: u32, pin: Pin) -> WritePin<'_> {
        let owner = &*self.owner;
        debug_assert_ne!(owner.writing.load(Ordering::Relaxed), u64::from(thread), "an owner's update is in no other");
        // Relaxed: looked at again before it is believed.
        if is_of(self.mode.load(Ordering::Relaxed), OWNED, thread) {
            owner.writing.swap(thread.into(), Ordering::SeqCst);
            // SeqCst, here and in `enter_unowned`: if somebody has ended ownership we see that, or else whoever finds it ended sees that we are writing.
            model_order();
            if is_of(self.mode.load(Ordering::SeqCst), OWNED, thread) {
                owner.updates.store(owner.updates.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                return WritePin { writers: Writers::One, gate: Some(self), pin };
            }
            // It is over, and nothing was written.
            owner.writing.store(NOBODY, Ordering::Release);
        }
        self.enter_unowned(thread, pin)
    }

    /// The same for who does not own the index.
    fn enter_unowned(&self, thread: u32, pin: Pin) -> WritePin<'_> {
        let mut now = self.mode.load(Ordering::SeqCst);
        while now & STATE != MANY {
            if is_of(now, GIVEN, thread) {
                // Until then it writes as one of many. Where nothing becomes garbage, nobody else looks whether an epoch has passed; and as long as
                // somebody is pinned none does, so that looking at every update would be in vain.
                if self.many.updates.fetch_add(1, Ordering::Relaxed) % COUNTED == 0 {
                    pin.flush();
                }
                break;
            }
            let is_first = now & STATE == NOBODYS;
            let next = if is_first { mode(now, OWNED, thread) } else { mode(now, MANY, NOT_A_THREAD) + CHANGE };
            match self.mode.compare_exchange(now, next, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) if is_first => return self.enter_as(thread, pin),
                Ok(_) => {
                    self.put_off();
                    break;
                }
                Err(newer) => now = newer,
            }
        }
        self.wait();
        WritePin { writers: Writers::Many, gate: None, pin }
    }

    /// Waits for the owner's last update.
    #[inline]
    fn wait(&self) {
        // SeqCst: see `enter_as`. It also makes what the owner wrote visible; pairs with `WritePin::step_aside`.
        model_order();
        let backoff = Backoff::new();
        while self.owner.writing.load(Ordering::SeqCst) != NOBODY {
            snooze(&backoff);
        }
    }

    /// Another thread came. Where that is soon, the index is given to somebody later.
    fn put_off(&self) {
        // Relaxed, here and below: numbers that only say when to try again.
        let patience = self.many.patience.load(Ordering::Relaxed);
        let lasted = self.owner.updates.swap(0, Ordering::Relaxed) > OFTEN * u64::from(patience);
        self.many.updates.store(0, Ordering::Relaxed);
        self.many.patience.store(if lasted { PATIENCE } else { (2 * patience).min(LONGEST) }, Ordering::Relaxed);
    }

    /// One of many has written, and is one that counts: one in [`COUNTED`] of its pod. After a while such a one is to own the index, an
    /// epoch later.
    #[cold]
    pub(crate) fn count(&self, writer: &WritePin<'_>) {
        let updates = self.many.updates.fetch_add(COUNTED, Ordering::Relaxed) + COUNTED;
        if updates >= self.many.patience.load(Ordering::Relaxed) {
            self.many.updates.store(0, Ordering::Relaxed);
            self.give_to(writer.thread(), |hand_over| writer.later(hand_over));
        }
    }

    /// The index is to be a thread's, once those have gone who are pinned now.
    fn give_to(&self, thread: u32, later: impl FnOnce(HandOver)) {
        let now = self.mode.load(Ordering::Relaxed);
        let given = mode(now, GIVEN, thread);
        let gives = || self.mode.compare_exchange(now, given, Ordering::SeqCst, Ordering::Relaxed).is_ok();
        if now & STATE != MANY || !gives() {
            return;
        }
        let cell = Arc::clone(&self.mode);
        // Whoever found that there are many was pinned before, and so is gone by then. Others change the word.
        later(Box::new(move || {
            // Release: publishes what they wrote, whose leaving was seen; pairs with the second look in `enter_as`.
            let _ = cell.compare_exchange(given, given - GIVEN + OWNED, Ordering::SeqCst, Ordering::Relaxed);
        }));
    }
}

#[cfg(all(test, not(routing_loom)))]
impl WriterGate {
    pub(crate) fn is_owned(&self) -> bool {
        self.mode.load(Ordering::Relaxed) & STATE == OWNED
    }
}

impl fmt::Debug for WriterGate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = ["nobody's", "owned", "many", "given"][(self.mode.load(Ordering::Relaxed) & STATE) as usize];
        write!(f, "WriterGate({state})")
    }
}

/// A mode of this state and thread, as often changed as `before`.
fn mode(before: u64, state: u64, thread: u32) -> u64 {
    (before / CHANGE * CHANGE) | ((u64::from(thread) << 2) % CHANGE) | state
}

/// Whether a mode is of this state and thread.
#[inline]
fn is_of(word: u64, state: u64, thread: u32) -> bool {
    word % CHANGE == mode(0, state, thread)
}

/// What makes a thread the owner.
type HandOver = Box<dyn FnOnce() + Send>;

/// Accesses that are all SeqCst have one order, which suffices. Loom knows such an order of fences alone.
#[inline]
fn model_order() {
    #[cfg(all(test, routing_loom))]
    crate::sync::fence(Ordering::SeqCst);
}

/// Waits a little for an owner.
fn snooze(backoff: &Backoff) {
    backoff.snooze();
    #[cfg(all(test, routing_loom))]
    loom::thread::yield_now();
}

/// One of many, for tests of what is below an index.
#[cfg(test)]
pub(crate) fn of_many() -> WritePin<'static> {
    WritePin { writers: Writers::Many, gate: None, pin: pin() }
}

/// The only one, for tests that see to that.
#[cfg(all(test, not(routing_loom)))]
pub(crate) fn of_one() -> WritePin<'static> {
    WritePin { writers: Writers::One, gate: None, pin: pin() }
}

/// The low bits of a mode; above them a thread, and above that how often there came to be many.
const STATE: u64 = 3;
const CHANGE: u64 = 1 << 34;
/// Nobody has written yet.
const NOBODYS: u64 = 0;
const OWNED: u64 = 1;
const MANY: u64 = 2;
/// It will be owned when an epoch has passed.
const GIVEN: u64 = 3;

/// Who writes without locks if nobody does, and the thread of what is no thread's. Threads count from one.
const NOBODY: u64 = 0;
const NOT_A_THREAD: u32 = 0;

/// Where an index was not owned for so many updates as often as this, the next attempt is made later, up to the last of these.
const PATIENCE: u32 = if cfg!(test) { 4 } else { 1 << 10 };
const OFTEN: u64 = 16;
const LONGEST: u32 = if cfg!(test) { 16 } else { 1 << 20 };

/// One in how many updates of a pod is counted for all.
pub(crate) const COUNTED: u32 = if cfg!(test) { 2 } else { 16 };

#[cfg(all(test, not(routing_loom)))]
mod tests {
    use super::Writers::{Many, One};
    use super::*;
    use crate::collect_garbage;

    const A: u32 = 1_001;
    const B: u32 = 1_002;

    fn told(gate: &WriterGate, thread: u32) -> Writers {
        gate.enter_as(thread, pin()).writers()
    }

    fn give(gate: &WriterGate, thread: u32) {
        gate.give_to(thread, |hand_over| pin().later(hand_over));
    }

    #[test]
    fn the_first_owns_the_index_until_another_comes() {
        let gate = WriterGate::new();
        assert_eq!([A, A, B, A].map(|thread| told(&gate, thread)), [One, One, Many, Many]);
    }

    #[test]
    fn the_owner_s_update_is_waited_for() {
        let gate = WriterGate::new();
        let (owners, done) = (gate.enter(), AtomicU64::new(0));
        std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                let pin = gate.enter();
                assert_eq!((pin.writers(), done.load(Ordering::Relaxed)), (Many, 1));
            });
            while gate.mode.load(Ordering::Relaxed) & STATE != MANY {
                std::thread::yield_now();
            }
            done.store(1, Ordering::Relaxed);
            drop(owners);
            other.join().expect("it was let in once the owner was done");
        });
    }

    #[test]
    fn who_waits_for_an_owner_is_let_in_before_its_update_ends() {
        let gate = WriterGate::new();
        let mut owners = gate.enter();
        owners.let_in();
        assert_eq!(owners.writers(), One, "nobody waits");
        std::thread::scope(|scope| {
            let other = scope.spawn(|| gate.enter().writers());
            while owners.writers() == One {
                owners.let_in();
            }
            assert_eq!((other.join().expect("it was let in"), owners.writers()), (Many, Many));
        });
    }

    #[test]
    fn who_steps_aside_is_waited_for_no_longer_and_owns_the_index_all_the_same() {
        let gate = WriterGate::new();
        let mut owners = gate.enter();
        owners.step_aside();
        assert_eq!((owners.writers(), gate.enter().writers()), (Many, One), "an update in the course of another");
        assert_eq!(std::thread::scope(|scope| scope.spawn(|| gate.enter().writers()).join().expect("no wait")), Many);
    }

    #[test]
    fn it_is_owned_again_when_the_last_of_many_has_gone() {
        let gate = WriterGate::new();
        assert_eq!((told(&gate, A), told(&gate, B)), (One, Many));
        std::thread::scope(|scope| {
            let of_many = gate.enter();
            scope.spawn(|| give(&gate, B)).join().expect("it ends");
            for _ in 0..100 {
                collect_garbage();
                assert_eq!(told(&gate, B), Many, "one that came before is there");
            }
            drop(of_many);
        });
        // Other tests' threads may be pinned meanwhile: they end.
        while told(&gate, B) == Many {}
        assert_eq!(told(&gate, A), Many);
    }

    #[test]
    fn who_comes_meanwhile_ends_it_and_puts_the_next_off() {
        let gate = WriterGate::starting(MANY);
        give(&gate, A);
        assert_eq!(told(&gate, B), Many);
        for _ in 0..100 {
            collect_garbage();
            assert_eq!(told(&gate, A), Many, "however many epochs pass");
        }
        assert_eq!(gate.many.patience.load(Ordering::Relaxed), 2 * PATIENCE);
        gate.owner.updates.store(u64::MAX / 2, Ordering::Relaxed);
        gate.put_off();
        assert_eq!(gate.many.patience.load(Ordering::Relaxed), PATIENCE, "it had lasted");
    }

    /// Who was to own the index and is to again does so an epoch after the second time, not after the first: others came between.
    #[test]
    fn a_hand_over_that_was_ended_does_not_count_for_the_next_one() {
        let (gate, mut hand_overs) = (WriterGate::starting(MANY), Vec::new());
        gate.give_to(A, |hand_over| hand_overs.push(hand_over));
        assert_eq!(told(&gate, B), Many);
        gate.give_to(A, |hand_over| hand_overs.push(hand_over));
        let [ended, next] = <[HandOver; 2]>::try_from(hand_overs).ok().expect("two");
        ended();
        assert!(!gate.is_owned());
        next();
        assert!(gate.is_owned());
    }

    #[test]
    fn one_of_many_owns_the_index_after_a_while() {
        let gate = WriterGate::starting(MANY);
        for _ in 0..PATIENCE / COUNTED {
            assert_eq!(gate.mode.load(Ordering::Relaxed) & STATE, MANY);
            gate.count(&of_many());
        }
        assert_eq!(gate.mode.load(Ordering::Relaxed) & STATE, GIVEN);
        while gate.enter().writers() == Many {}
    }
}

#[cfg(all(test, routing_loom))]
mod loom_tests {
    use loom::sync::Arc;

    use super::*;
    use crate::loom_tests::model;
    use crate::reclamation::Epochs;

    fn write(world: &(WriterGate, AtomicU64), thread: u32) {
        let (gate, count) = world;
        let pin = gate.enter_as(thread, pin());
        match pin.writers() {
            Writers::One => count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed),
            Writers::Many => drop(count.fetch_add(1, Ordering::Relaxed)),
        }
    }

    /// Who is told to be the only writer is: what it writes without an exchange is not lost.
    #[test]
    fn loom_an_owner_against_one_of_many() {
        model(|| {
            let world = Arc::new((WriterGate::starting(NOBODYS), AtomicU64::new(0)));
            write(&world, 1);
            let other = {
                let world = Arc::clone(&world);
                loom::thread::spawn(move || write(&world, 2))
            };
            write(&world, 1);
            write(&world, 1);
            other.join().unwrap();
            assert_eq!(world.1.load(Ordering::Relaxed), 4);
        });
    }

    /// The same if somebody else has ended ownership, and has yet to wait for the owner.
    #[test]
    fn loom_an_owner_against_who_finds_many() {
        model(|| {
            let world = Arc::new((WriterGate::starting(NOBODYS), AtomicU64::new(0)));
            write(&world, 1);
            let [ends, other] = [2, 3].map(|thread| {
                let world = Arc::clone(&world);
                loom::thread::spawn(move || match thread {
                    2 => world.0.mode.store(mode(0, MANY, NOT_A_THREAD), Ordering::SeqCst),
                    _ => write(&world, thread),
                })
            });
            write(&world, 1);
            ends.join().unwrap();
            other.join().unwrap();
            assert_eq!(world.1.load(Ordering::Relaxed), 3);
        });
    }

    /// One of many is to own the index, and does once the others have gone, who may search again by then.
    #[test]
    fn loom_a_hand_over_against_one_of_many() {
        model(|| {
            let world = Arc::new((WriterGate::starting(MANY), AtomicU64::new(0)));
            let epochs = Arc::new(Epochs::new());
            let places = [epochs.join(), epochs.join()];
            let other = {
                let (world, epochs) = (Arc::clone(&world), Arc::clone(&epochs));
                loom::thread::spawn(move || {
                    epochs.enter(places[1]);
                    write(&world, 2);
                    epochs.leave(places[1]);
                    epochs.enter(places[1]);
                    epochs.leave(places[1]);
                })
            };
            world.0.give_to(1, |hand_over| epochs.retire(hand_over));
            epochs.collect();
            epochs.collect();
            epochs.enter(places[0]);
            write(&world, 1);
            epochs.leave(places[0]);
            other.join().unwrap();
            assert_eq!(world.1.load(Ordering::Relaxed), 2);
        });
    }
}
