//! A batch whose host has a say in every send.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use routing_core::batch::BatchPlan;
use routing_core::{InFlightGuard, Pod};
use routing_exec::batch::{
    BatchError, BatchGuard, BatchRunner, BatchRunnerConfig, BatchSource, CohortStart, ConcurrencyLimit, RequestSize,
};
use routing_exec::{ClientRequest, Timer, TransportExecutor};

use crate::executor_world::{Act, Clock, block_on, dispatch_config, pods};
use crate::world::*;

/// Admits to one pod nothing before a time, and nothing beyond a number. Has no new plan if it is told so.
struct Gated {
    made: Made,
    clock: Clock,
    pod: Pod,
    opens: Instant,
    most: usize,
    is_at_a_loss: bool,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
struct Seen {
    /// Shares of the pod's load that are held.
    held: usize,
    most_held: usize,
    answered: usize,
    refused: Vec<Instant>,
}

struct Share(Arc<Mutex<Seen>>);

impl InFlightGuard for Share {
    fn first_byte(&mut self) {
        self.0.lock().expect("nobody panics with it").answered += 1;
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.0.lock().expect("nobody panics with it").held -= 1;
    }
}

impl BatchSource for Gated {
    fn size(&self, index: u32) -> RequestSize {
        self.made.size(index)
    }

    fn admit(&mut self, pod: Pod, _: u32) -> Option<BatchGuard> {
        if pod != self.pod {
            return Some(Box::new(()));
        }
        let (now, mut seen) = (self.clock.now(), self.seen.lock().expect("nobody panics with it"));
        if now < self.opens || seen.held == self.most {
            seen.refused.push(now);
            return None;
        }
        seen.held += 1;
        seen.most_held = seen.most_held.max(seen.held);
        Some(Box::new(Share(Arc::clone(&self.seen))))
    }

    fn request(&mut self, index: u32) -> ClientRequest {
        self.made.request(index)
    }

    fn replan(&mut self, rest: &[u32], living: &[Pod]) -> Option<BatchPlan> {
        if self.is_at_a_loss { None } else { self.made.replan(rest, living) }
    }
}

#[test]
fn what_the_host_does_not_admit_waits_and_is_asked_again() {
    let (clock, pods) = (Clock::default(), pods(2));
    let fleet = Fleet::new(&clock, 2, |_, index, _| answers(index, 10));
    let (began, seen) = (clock.now(), Arc::<Mutex<Seen>>::default());
    // Long after the other pod is done, so that nothing but time brings the question up again.
    let opens = began + Duration::from_secs(5);
    let (made, pod) = (Made::new(5), pods[1]);
    let source =
        Gated { made, clock: clock.clone(), pod, opens, most: 2, is_at_a_loss: false, seen: Arc::clone(&seen) };
    let plan = split(&(0..40).collect::<Vec<_>>(), &pods, 5);
    let config = BatchRunnerConfig::default()
        .limit(ConcurrencyLimit::default().requests(4).tokens(None))
        .cohort_start(CohortStart::Together)
        .work_stealing(false)
        .admission_interval(Duration::from_millis(100));
    let executor: TransportExecutor<_, _> = TransportExecutor::new(fleet.clone(), clock.clone());
    let mut runner = BatchRunner::new(executor, clock.clone(), dispatch_config(), source, 40, plan).config(config);
    let mut done = 0;
    while let Some(result) = block_on(&clock, runner.next()) {
        assert!(result.unwrap().outcome.is_ok());
        done += 1;
    }
    assert_eq!(done, 40);
    assert_eq!(fleet.log.most(), [4, 2], "the other pod has its limit, this one what the host admits");
    assert_eq!(fleet.log.sent_to(pods[1]), (20..40).collect::<Vec<_>>(), "in the order of the plan");
    let seen = seen.lock().expect("nobody panics with it");
    assert_eq!((seen.held, seen.most_held, seen.answered), (0, 2, 20), "each share is told of its answer and let go");
    let quiet = began + Duration::from_secs(1)..opens;
    let asked = seen.refused.iter().filter(|at| quiet.contains(at)).count();
    assert!((39..=41).contains(&asked), "every 100 ms while nothing else happens: {asked}");
    assert!(
        clock.now() < opens + Duration::from_millis(250),
        "and begun as soon as it may: 20 of 10 ms, two at a time"
    );
}

#[test]
fn after_an_error_nothing_is_held_and_nobody_is_asked() {
    let (clock, pods) = (Clock::default(), pods(3));
    // The first pod dies at once; what is under way with the second fills the max_outstanding, and nothing else keeps more from it.
    let fleet =
        Fleet::new(&clock, 3, |pod, index, _| if pod == 0 { vec![Act::Refuse] } else { answers(index, 60_000) });
    let (began, seen) = (clock.now(), Arc::<Mutex<Seen>>::default());
    let (made, pod) = (Made::new(5), pods[1]);
    let source =
        Gated { made, clock: clock.clone(), pod, opens: began, most: 100, is_at_a_loss: true, seen: Arc::clone(&seen) };
    let plan = split(&(0..60).collect::<Vec<_>>(), &pods, 5);
    let config = BatchRunnerConfig::default()
        .limit(ConcurrencyLimit::default().requests(20).tokens(None))
        .cohort_start(CohortStart::Together)
        .failure_threshold(1)
        .max_outstanding(10);
    let executor: TransportExecutor<_, _> = TransportExecutor::new(fleet.clone(), clock.clone());
    let mut runner = BatchRunner::new(executor, clock.clone(), dispatch_config(), source, 60, plan)
        .config(config)
        .limit(pods[0], ConcurrencyLimit::default().requests(4).tokens(None));
    assert_eq!(run_all(&clock, &mut runner), (Vec::new(), Some(BatchError::NoPlan { remaining: 60 })));
    let shares = seen.lock().map(|seen| (seen.held, seen.most_held)).expect("nobody panics with it");
    assert_eq!(shares, (0, 6), "what was under way is let go, and nothing is begun any more");
    let progress = runner.progress();
    assert_eq!((progress.in_flight, progress.queued, progress.buffered), (0, 60, 0), "{progress:?}");
    assert_eq!(clock.asleep(), 0);
}
