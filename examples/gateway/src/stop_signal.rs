//! Stop signal: a cancellation token that is asked without its lock.
//!
//! Every task looks for it whenever it is woken, which is for each chunk of each stream. So whoever waits for it registers its task
//! once, and then reads a flag; the token itself takes a lock that all tasks of the process share. The rule: the flag is set before
//! the token wakes anybody.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// A signal that is given once. Clones are the same signal.
#[derive(Clone, Debug, Default)]
pub(super) struct StopSignal {
    is_given: Arc<AtomicBool>,
    token: CancellationToken,
}

impl StopSignal {
    /// Gives it.
    pub(super) fn give(&self) {
        // Release: pairs with `is_given`.
        self.is_given.store(true, Ordering::Release);
        self.token.cancel();
    }

    /// Whether it was given.
    pub(super) fn is_given(&self) -> bool {
        // Acquire: what came before the signal is seen; pairs with `give`.
        self.is_given.load(Ordering::Acquire)
    }

    /// Waits for it.
    pub(super) fn given(&self) -> Given {
        Given { signal: self.clone(), waiting: None }
    }

    /// What a future gives; none if the signal is given before. A large one is pinned by the caller: it would be moved with every call.
    pub(super) async fn until<F: Future + Unpin>(&self, future: F) -> Option<F::Output> {
        if self.is_given() {
            return None;
        }
        tokio::select! {
            biased;
            output = future => Some(output),
            // Made only where the future has to be waited for.
            () = async { self.given().await } => None,
        }
    }

    /// A token that is cancelled with it.
    pub(super) fn child_token(&self) -> CancellationToken {
        self.token.child_token()
    }
}

/// Resolves when the signal is given. It may be polled again then.
#[derive(Debug)]
pub(super) struct Given {
    signal: StopSignal,
    /// The task that is registered; none before it first waited.
    waiting: Option<(Waker, Pin<Box<WaitForCancellationFutureOwned>>)>,
}

impl Given {
    /// Whether it was given.
    pub(super) fn is_given(&self) -> bool {
        self.signal.is_given()
    }
}

impl Future for Given {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.signal.is_given() {
            return Poll::Ready(());
        }
        if self.waiting.as_ref().is_some_and(|(waker, _)| waker.will_wake(cx.waker())) {
            // Given from now on, it wakes this task.
            return Poll::Pending;
        }
        let mut cancelled = Box::pin(self.signal.token.clone().cancelled_owned());
        let polled = cancelled.as_mut().poll(cx);
        self.waiting = Some((cx.waker().clone(), cancelled));
        polled
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Task(AtomicUsize);

    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn whoever_waits_is_woken_by_the_task_that_polled_last() {
        let tasks = [(); 2].map(|()| Arc::new(Task::default()));
        let wakers = tasks.each_ref().map(|task| Waker::from(Arc::clone(task)));
        let [mut first, mut second] = wakers.each_ref().map(Context::from_waker);
        let signal = StopSignal::default();
        let mut given = signal.given();
        let mut poll = |cx: &mut Context<'_>| Pin::new(&mut given).poll(cx);
        assert!(poll(&mut first).is_pending() && poll(&mut second).is_pending() && poll(&mut second).is_pending());
        assert!(!signal.is_given());
        signal.give();
        assert_eq!(tasks.each_ref().map(|task| task.0.load(Ordering::Relaxed)), [0, 1]);
        assert!(signal.is_given() && poll(&mut second).is_ready() && poll(&mut first).is_ready());
    }

    /// The token is still to be cancelled: that it is given is known by the flag.
    #[test]
    fn work_that_is_woken_reads_the_flag_alone() {
        let signal = StopSignal::default();
        let mut cx = Context::from_waker(Waker::noop());
        let mut working = std::pin::pin!(signal.until(std::future::pending::<()>()));
        assert!(working.as_mut().poll(&mut cx).is_pending());
        signal.is_given.store(true, Ordering::Release);
        assert!(working.as_mut().poll(&mut cx).is_ready());
    }

    #[tokio::test]
    async fn work_that_is_done_at_once_is_done_unless_the_signal_was_given() {
        let signal = StopSignal::default();
        assert_eq!(signal.until(std::future::ready(7)).await, Some(7));
        let waiting = tokio::spawn({
            let signal = signal.clone();
            async move { signal.until(std::future::pending::<()>()).await }
        });
        tokio::task::yield_now().await;
        signal.give();
        assert_eq!(waiting.await.unwrap(), None);
        assert_eq!(signal.until(std::future::ready(7)).await, None);
        signal.given().await;
    }
}
