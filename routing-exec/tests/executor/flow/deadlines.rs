//! Responses that nobody reads, whose time is up.

use std::sync::atomic::Ordering::SeqCst;

use routing_exec::{Deadlines, DispatchError};

use super::*;

/// A client that has read a little of an answer without end, and what its pod and its host see.
struct Stalled {
    clock: Clock,
    seen: Arc<Seen>,
    ledger: Arc<Ledger>,
    deadlines: Arc<Deadlines>,
}

impl Stalled {
    fn new() -> (Self, impl Body<Data = Bytes> + Unpin) {
        let (clock, deadlines, keeper) = (Clock::default(), Arc::<Deadlines>::default(), Keeper::default());
        let world =
            Pods::new(&clock, |_, _| [events()].into_iter().chain((0..9).map(|_| chunk("data: x\n\n"))).collect());
        let executor = executor(world.clone(), clock.clone()).deadlines(Arc::clone(&deadlines));
        let Poll::Ready(answer) = poll(&mut executor.execute(dispatch(&pods(2)), keeper.clone())) else {
            panic!("nothing waits")
        };
        let mut body = answer.into_body();
        assert!(matches!(poll_frame(&mut body), Poll::Ready(Some(Ok(_)))));
        (Self { clock, seen: world.seen, ledger: keeper.0, deadlines }, body)
    }

    /// Lets time pass, and ticks. Pods that are read, shares of load that are held, reports.
    fn after(&self, time: Duration) -> (usize, usize, usize) {
        self.clock.advance(time);
        self.deadlines.tick(self.clock.now());
        let reports = self.ledger.reports.lock().unwrap().len();
        (self.seen.live.load(SeqCst), self.ledger.holds.load(SeqCst), reports)
    }
}

#[test]
fn the_total_timeout_ends_an_answer_that_nobody_reads() {
    let timeout = DispatchPolicy::default().request_timeout;
    let (stalled, mut body) = Stalled::new();
    assert_eq!(stalled.after(timeout - Duration::from_secs(1)), (1, 1, 0));
    assert_eq!(stalled.after(Duration::from_secs(1)), (0, 0, 1), "its pod is let go");
    let report = stalled.ledger.reports.lock().unwrap().remove(0);
    assert_eq!(report.outcome, DispatchOutcome::Failed(DispatchError::RequestTimeout(timeout)));
    // Whoever reads on finds that it ended, and how.
    let Poll::Ready(Some(Ok(frame))) = poll_frame(&mut body) else { panic!("it is told") };
    assert!(frame.into_data().is_ok_and(|data| data.starts_with(b"event: error\n")));
    assert_eq!(stalled.after(timeout), (0, 0, 0), "once");
}

#[test]
fn an_answer_that_is_over_is_watched_no_more() {
    let (stalled, body) = Stalled::new();
    drop(body);
    assert_eq!(stalled.after(Duration::ZERO), (0, 0, 1), "the client left");
    assert_eq!(format!("{:?}", stalled.deadlines), "Deadlines { open: 0 }");
    assert_eq!(stalled.after(DispatchPolicy::default().request_timeout), (0, 0, 1));
}
