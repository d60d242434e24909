//! Outbox of turns: where sessions' and programs' turns went, until peers are told.
//!
//! As of decisions: its memory is made when somebody first tells, and what finds no room is left out. A later turn tells the same. The rule that
//! must never break: who notes waits for nobody who makes a message.

use std::fmt;
use std::sync::OnceLock;

use parking_lot::Mutex;

/// Notes since peers were last told.
pub(crate) struct Outbox<T>(OnceLock<Notes<T>>);

struct Notes<T> {
    waiting: Mutex<Vec<T>>,
    /// As large, and swapped with it by whoever tells: so nothing is allocated for notes that come meanwhile.
    told: Mutex<Vec<T>>,
}

impl<T> Outbox<T> {
    /// Notes something, once somebody tells and while there is room.
    #[inline]
    pub(crate) fn push(&self, note: impl FnOnce() -> T) {
        let Some(notes) = self.0.get() else { return };
        let mut waiting = notes.waiting.lock();
        if waiting.len() < MOST_NOTES {
            waiting.push(note());
        }
    }

    /// Hands out what was noted, which is then forgotten. From the first time on something is.
    pub(crate) fn take<R>(&self, hand_out: impl FnOnce(&[T]) -> R) -> R {
        let notes = self.0.get_or_init(Notes::default);
        let mut told = notes.told.lock();
        std::mem::swap(&mut *told, &mut *notes.waiting.lock());
        let handed = hand_out(&told);
        told.clear();
        handed
    }
}

impl<T> Default for Outbox<T> {
    fn default() -> Self {
        Self(OnceLock::new())
    }
}

impl<T> Default for Notes<T> {
    fn default() -> Self {
        let [waiting, told] = std::array::from_fn(|_| Mutex::new(Vec::with_capacity(MOST_NOTES)));
        Self { waiting, told }
    }
}

impl<T> fmt::Debug for Outbox<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waiting = self.0.get().map(|notes| notes.waiting.lock().len());
        f.debug_tuple("Outbox").field(&waiting).finish()
    }
}

/// Turns that wait to be told: some 300 kB, for some milliseconds, and as much for those that are being told.
const MOST_NOTES: usize = 4_096;

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test of threads")]
    fn who_notes_does_not_wait_for_a_message_that_is_made() {
        let outbox = &Outbox::default();
        outbox.take(|notes| assert_eq!(notes, [0_u32; 0]));
        outbox.push(|| 1);
        thread::scope(|scope| {
            outbox.take(|notes| {
                assert_eq!(notes, [1]);
                let (done, is_done) = mpsc::channel();
                scope.spawn(move || {
                    outbox.push(|| 2);
                    done.send(())
                });
                is_done.recv_timeout(Duration::from_secs(60)).expect("it does not wait");
            });
        });
        outbox.take(|notes| assert_eq!(notes, [2], "what came meanwhile is told next, once"));
        outbox.take(|notes| assert!(notes.is_empty()));
    }
}
