//! Wakeups: what is polled is asked again only once something it waits for has woken it.
//!
//! A server polls the body of a response several times for each chunk, mostly in vain: hyper's does so twice after it flushed. The
//! rule: a wakeup between two calls of [`Wakeups::take`] is told by the later one, and its task is woken.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake, Waker};

/// The wakeups of what is polled by one task.
#[derive(Default)]
pub(super) struct Wakeups {
    current: Option<(Arc<Flag>, Waker)>,
}

/// Whether somebody woke, and the task to wake.
struct Flag {
    is_woken: AtomicBool,
    task: Waker,
}

impl Wakeups {
    /// Whether something woke since the last call, or another task polls now, which nothing would wake yet; and the waker to poll with.
    pub(super) fn take(&mut self, cx: &Context<'_>) -> (bool, &Waker) {
        self.current.take_if(|(flag, _)| !flag.task.will_wake(cx.waker()));
        let is_new = self.current.is_none();
        let (flag, waker) = self.current.get_or_insert_with(|| {
            let flag = Arc::new(Flag { is_woken: AtomicBool::new(false), task: cx.waker().clone() });
            (Arc::clone(&flag), Waker::from(flag))
        });
        // Acquire: what woke is seen by who polls it; pairs with `Flag::wake_by_ref`. A load first: mostly nothing woke.
        let is_woken = flag.is_woken.load(Ordering::Relaxed) && flag.is_woken.swap(false, Ordering::Acquire);
        (is_new || is_woken, waker)
    }
}

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Release: pairs with `Wakeups::take`. Before the task is woken, which may poll at once.
        self.is_woken.store(true, Ordering::Release);
        self.task.wake_by_ref();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[derive(Default)]
    struct Task(AtomicUsize);

    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_wakeup_is_told_once_and_wakes_its_task() {
        let task = Arc::new(Task::default());
        let waker = Waker::from(Arc::clone(&task));
        let cx = Context::from_waker(&waker);
        let mut wakeups = Wakeups::default();
        assert!(wakeups.take(&cx).0, "what was never polled is polled");
        let (is_woken, waker) = wakeups.take(&cx);
        assert!(!is_woken);
        waker.wake_by_ref();
        assert_eq!(task.0.load(Ordering::Relaxed), 1);
        assert!(wakeups.take(&cx).0 && !wakeups.take(&cx).0);
    }

    #[test]
    fn another_task_is_woken_from_when_it_polls_on() {
        let (first, second) = (Arc::new(Task::default()), Arc::new(Task::default()));
        let wakers = [Waker::from(Arc::clone(&first)), Waker::from(Arc::clone(&second))];
        let [of_first, of_second] = wakers.each_ref().map(Context::from_waker);
        let mut wakeups = Wakeups::default();
        assert!(wakeups.take(&of_first).0 && wakeups.take(&of_second).0 && !wakeups.take(&of_second).0);
        wakeups.take(&of_second).1.wake_by_ref();
        assert_eq!([&first, &second].map(|task| task.0.load(Ordering::Relaxed)), [0, 1]);
        assert!(wakeups.take(&of_second).0);
    }
}
