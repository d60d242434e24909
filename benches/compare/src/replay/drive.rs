//! Open-loop load generator: a corpus sent at its times, compressed, by lanes of lookups and of events.
//!
//! The rule: a lane that is late sends at once and skips nothing, so being slow shows as being late.

use std::hint::black_box;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use super::corpus::Corpus;
use pointsman_benches::fleet::Step;
use pointsman_benches::system::{System, touch};
use pointsman_lab::latency::LatencyHistogram;

/// Threads that look up, and threads that send events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lanes {
    /// For lookups.
    pub lookups: usize,
    /// For events; a pod's events stay on one.
    pub events: usize,
}

impl Lanes {
    /// Half of the cores each, and one at least.
    #[must_use]
    pub fn of(cores: usize) -> Self {
        let events = (cores / 2).max(1);
        Self { lookups: cores.saturating_sub(events).max(1), events }
    }
}

/// How a replay went.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ReplayTimes {
    /// The time that it was meant to take.
    pub window: Duration,
    /// When the last lookup was answered and the last event sent.
    pub issued: Duration,
    /// When a search would see all of it.
    pub drained: Duration,
    /// How long that was after the last event was sent.
    pub drain: Duration,
    /// How long a lookup takes once it is sent.
    pub lookups: LatencyHistogram,
    /// How long a lookup takes from when it was due.
    pub since_due: LatencyHistogram,
    /// Events that the system refused.
    pub refused: usize,
}

impl ReplayTimes {
    /// Whether all of it was sent within 1.01 of its time, and done at 99% of its rate.
    #[must_use]
    pub fn kept_up(&self) -> bool {
        self.issued.as_secs_f64() <= self.window.as_secs_f64() * 1.01
            && self.window.as_secs_f64() >= self.drained.as_secs_f64() * 0.99
    }
}

/// What one lane did.
#[derive(Default)]
struct LaneTimes {
    ended: Duration,
    lookups: LatencyHistogram,
    since_due: LatencyHistogram,
    refused: usize,
}

/// Sends a corpus, whose chains are these, to an empty system within `window`.
///
/// # Panics
///
/// If the system does.
#[must_use]
pub fn replay<S: System>(chains: &[S::Chain], corpus: &Corpus, lanes: Lanes, window: Duration) -> ReplayTimes {
    let system = S::new(corpus.pods, lanes.events);
    let scale = window.as_nanos() as f64 / corpus.window.max(1) as f64;
    let due = |at: u64| Duration::from_nanos((at as f64 * scale) as u64);
    let mut lookups = vec![Vec::new(); lanes.lookups];
    for (number, (at, prompt)) in corpus.lookups.iter().enumerate() {
        lookups[number % lanes.lookups].push((due(*at), *prompt));
    }
    let mut events: Vec<Vec<(Duration, Step, S::Event)>> = (0..lanes.events).map(|_| Vec::new()).collect();
    for (at, step) in &corpus.steps {
        events[step.pod % lanes.events].push((due(*at), *step, S::event(&chains[step.chain], step)));
    }
    let barrier = Barrier::new(lanes.lookups + lanes.events + 1);
    let (lanes_done, sent, drained) = std::thread::scope(|scope| {
        let (system, barrier) = (&system, &barrier);
        let ask = |lane: Vec<_>| scope.spawn(move || ask(system, chains, &lane, barrier));
        let send = |lane| scope.spawn(move || send(system, chains, lane, barrier));
        let askers: Vec<_> = lookups.into_iter().map(ask).collect();
        let senders: Vec<_> = events.into_iter().map(send).collect();
        barrier.wait();
        let start = Instant::now();
        // Askers are waited for last: the drain begins when the last event is sent.
        let join = |lane: std::thread::ScopedJoinHandle<'_, LaneTimes>| lane.join().expect("a lane ends");
        let mut lanes_done: Vec<LaneTimes> = senders.into_iter().map(join).collect();
        let sent = start.elapsed();
        system.drain();
        let drained = start.elapsed();
        lanes_done.extend(askers.into_iter().map(join));
        (lanes_done, sent, drained)
    });
    let issued = lanes_done.iter().map(|lane_times| lane_times.ended).max().unwrap_or_default();
    let mut all = LaneTimes::default();
    for lane_times in &lanes_done {
        all.lookups.merge(&lane_times.lookups);
        all.since_due.merge(&lane_times.since_due);
        all.refused += lane_times.refused;
    }
    let LaneTimes { lookups, since_due, refused, .. } = all;
    ReplayTimes { window, issued, drained: drained.max(issued), drain: drained - sent, lookups, since_due, refused }
}

fn ask<S: System>(system: &S, chains: &[S::Chain], lane: &[(Duration, usize)], barrier: &Barrier) -> LaneTimes {
    let (mut lane_times, mut scratch) = (LaneTimes::default(), system.scratch());
    barrier.wait();
    let start = Instant::now();
    for &(due, prompt) in lane {
        // A router has just hashed the prompt.
        black_box(touch::<S>(&chains[prompt]));
        let began = wait_until(start, due);
        black_box(system.search(S::query(&chains[black_box(prompt)]), &mut scratch));
        let ended = start.elapsed();
        lane_times.lookups.record((ended - began).as_nanos() as u64);
        lane_times.since_due.record(ended.saturating_sub(due).as_nanos() as u64);
    }
    lane_times.ended = start.elapsed();
    lane_times
}

fn send<S: System>(
    system: &S,
    chains: &[S::Chain],
    lane: Vec<(Duration, Step, S::Event)>,
    barrier: &Barrier,
) -> LaneTimes {
    let (mut lane_times, mut writer) = (LaneTimes::default(), system.writer());
    barrier.wait();
    let start = Instant::now();
    for (due, step, event) in lane {
        wait_until(start, due);
        lane_times.refused += usize::from(!system.apply(&mut writer, &chains[step.chain], &step, event));
    }
    lane_times.ended = start.elapsed();
    lane_times
}

/// Waits until this long after the start; how long after it really is.
fn wait_until(start: Instant, due: Duration) -> Duration {
    loop {
        let now = start.elapsed();
        if now >= due {
            return now;
        }
        if now + SPIN >= due {
            std::hint::spin_loop();
        } else {
            // Systems have threads of their own, and lanes may be more than cores.
            std::thread::yield_now();
        }
    }
}

/// Before a time this near, nobody else is let run: it might take longer.
const SPIN: Duration = Duration::from_micros(20);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::corpus::Pods;
    use crate::systems::{Contender, Prompts, contenders};
    use pointsman_lab::trace::synthetic::Synthetic;

    fn sent(contender: &dyn Contender, corpus: &Corpus, window: Duration) -> ReplayTimes {
        let outcome = contender.replay(corpus, Lanes::of(2), window);
        assert_eq!(outcome.lookups.len(), corpus.lookups.len() as u64, "{}", contender.name());
        assert_eq!(outcome.refused, 0, "{}", contender.name());
        outcome
    }

    #[test]
    fn every_lookup_is_answered_and_every_event_taken() {
        let corpus = Corpus::new(&Synthetic::Conversation.trace(200, 2), Pods::new(4, 3_000), 1);
        let contenders = contenders(4, Prompts::Hashes(&corpus.chains));
        let flat_out: Vec<_> = contenders.iter().map(|contender| sent(&**contender, &corpus, Duration::ZERO)).collect();
        assert!(!flat_out[0].kept_up(), "no time was given");
        // A time that it takes a hundredth of, or 200 ms: nothing is sent before it is due.
        let window = (flat_out[0].drained * 100).max(Duration::from_millis(200));
        assert!(sent(&*contenders[0], &corpus, window).issued >= window / 2);
    }

    #[test]
    fn keeping_up_means_in_time_and_drained() {
        let outcome = |issued, drained| ReplayTimes {
            window: Duration::from_millis(1_000),
            issued: Duration::from_millis(issued),
            drained: Duration::from_millis(drained),
            drain: Duration::ZERO,
            lookups: LatencyHistogram::default(),
            since_due: LatencyHistogram::default(),
            refused: 0,
        };
        assert!(outcome(1_005, 1_009).kept_up());
        assert!(!outcome(1_011, 1_009).kept_up());
        assert!(!outcome(1_000, 1_011).kept_up());
    }
}
