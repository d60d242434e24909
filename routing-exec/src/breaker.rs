//! Circuit breakers: closed, open and half-open, one for each pod.

mod state;

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use routing_core::{DEFAULT_POD_WORDS, OpenBreakers, Pod, PodId, PodSet};

use self::state::State;
use crate::action::BreakerSample;

/// Configuration of circuit breakers.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::exhaustive_structs, reason = "settings that a host fills in by name")]
pub struct BreakerConfig {
    /// Consecutive failures that open a breaker; at least one.
    pub failure_threshold: u32,
    /// How long a breaker stays open. Each time in a row doubles it, up to eightfold.
    pub open_duration: Duration,
    /// Concurrent probes of a half-open breaker; at least one.
    pub max_probes: u32,
    /// Consecutive successful probes that close a half-open breaker; at least one.
    pub success_threshold: u32,
    /// A time to first byte of so many times the fleet's mean is a failure; `None` switches that off.
    pub slow_factor: Option<f64>,
    /// No time to first byte below this is slow.
    pub slow_floor: Duration,
}

impl Default for BreakerConfig {
    /// Five failures, 10 s open, one probe, two successes; slow is ten times the mean and above 5 s.
    fn default() -> Self {
        let (open_duration, slow_floor) = (Duration::from_secs(10), Duration::from_secs(5));
        Self {
            failure_threshold: 5,
            open_duration,
            max_probes: 1,
            success_threshold: 2,
            slow_factor: Some(10.0),
            slow_floor,
        }
    }
}

/// The circuit breakers of all pods.
///
/// Open breakers are published in [`OpenBreakers`], for decisions to leave those pods out. A [`Dispatch`](crate::Dispatch) samples
/// a breaker once a request, and never with a client's error.
#[derive(Debug)]
pub struct Breakers<const W: usize = DEFAULT_POD_WORDS> {
    config: BreakerConfig,
    open_breakers: Arc<OpenBreakers<W>>,
    pods: Box<[Mutex<Breaker>]>,
    fleet: Mutex<MeanFirstByte>,
    /// When the next open breaker becomes half-open.
    due: Mutex<Option<Instant>>,
}

#[derive(Debug, Default)]
struct Breaker {
    pod: Option<Pod>,
    state: State,
    /// Incremented at every transition: permits and samples of an earlier epoch have no effect.
    epoch: u64,
}

/// The fleet's mean time to first byte, exponentially smoothed.
#[derive(Debug, Default)]
struct MeanFirstByte {
    mean: f64,
    samples: u32,
}

impl MeanFirstByte {
    /// Adds a sample; the mean before it in seconds, once there are enough.
    fn add(&mut self, first_byte: Duration) -> Option<f64> {
        let mean = (self.samples >= MIN_SAMPLES).then_some(self.mean);
        let share = 1.0 / f64::from(self.samples.min(SMOOTHING) + 1);
        self.mean += (first_byte.as_secs_f64() - self.mean) * share;
        self.samples = self.samples.saturating_add(1);
        mean
    }
}

/// Samples before anything is slow.
const MIN_SAMPLES: u32 = 50;
/// Samples that the mean is smoothed over.
const SMOOTHING: u32 = 200;

impl<const W: usize> Breakers<W> {
    /// Closed breakers, which publish in `open_breakers`.
    #[must_use]
    pub fn new(config: BreakerConfig, open_breakers: Arc<OpenBreakers<W>>) -> Self {
        let pods = (0..PodSet::<W>::CAPACITY).map(|_| Mutex::default()).collect();
        Self { config, open_breakers, pods, fleet: Mutex::default(), due: Mutex::new(None) }
    }

    /// Admits a request to a pod; the permit is kept until the request is over.
    pub fn admit(self: &Arc<Self>, pod: Pod, now: Instant) -> Option<Permit<W>> {
        let admission = self.with(pod, |breaker, config| {
            let is_admitted = breaker.state.admit(config, now);
            is_admitted.then(|| (Admission { pod, epoch: breaker.epoch }, breaker.state.is_half_open()))
        });
        let (admission, is_probe) = admission??;
        Some(Permit { breakers: Arc::clone(self), admission, is_probe })
    }

    /// Records a sample of a pod. It is ignored if the pod was replaced since, or if the request was admitted before the breaker's
    /// last transition: it shows nothing of the pod's present state.
    pub fn record(&self, admission: Admission, sample: &BreakerSample, now: Instant) {
        let is_failure = match sample {
            BreakerSample::Success(first_byte) => first_byte.is_some_and(|first_byte| self.is_slow(first_byte)),
            BreakerSample::Failure(_) => true,
        };
        self.with(admission.pod, |breaker, config| {
            if breaker.epoch == admission.epoch {
                let before = breaker.state;
                breaker.state = before.sampled(!is_failure, config, now);
                breaker.epoch += u64::from(!before.is_like(&breaker.state));
            }
        });
    }

    /// Closes a pod's breaker: it is healthy by other means, or new.
    pub fn recovered(&self, pod: Pod) {
        self.with(pod, |breaker, _| {
            breaker.epoch += 1;
            breaker.state = State::default();
        });
    }

    /// Turns breakers half-open whose time is up. Cheap when there are none; to be called regularly, as
    /// [`TransportExecutor`](crate::TransportExecutor) does at each request.
    pub fn tick(&self, now: Instant) {
        {
            let mut due = self.due.lock();
            if due.is_none_or(|due| now < due) {
                return;
            }
            // Cleared first: a breaker that opens meanwhile sets its own time.
            *due = None;
        }
        for (at, breaker) in self.pods.iter().enumerate() {
            let mut breaker = breaker.lock();
            breaker.state.tick(now);
            self.publish(PodId::new(at as u16), &breaker.state);
        }
    }

    /// Works on a pod's breaker, a new one if the pod replaced another; `None` if it was replaced.
    fn with<T>(&self, pod: Pod, work: impl FnOnce(&mut Breaker, &BreakerConfig) -> T) -> Option<T> {
        let mut breaker = self.pods.get(pod.id().index())?.lock();
        match breaker.pod {
            Some(known) if known.generation() > pod.generation() => return None,
            Some(known) if known == pod => {}
            _ => *breaker = Breaker { pod: Some(pod), state: State::default(), epoch: breaker.epoch + 1 },
        }
        let answer = work(&mut breaker, &self.config);
        self.publish(pod.id(), &breaker.state);
        Some(answer)
    }

    /// Publishes whether a pod's breaker is open, and until when. The breaker is locked meanwhile.
    fn publish(&self, pod: PodId, state: &State) {
        let Some(until) = state.open_until() else { return self.open_breakers.close(pod) };
        self.open_breakers.open(pod);
        let mut due = self.due.lock();
        *due = Some(due.map_or(until, |due| due.min(until)));
    }

    fn is_slow(&self, first_byte: Duration) -> bool {
        let mean = self.fleet.lock().add(first_byte);
        let slow = self.config.slow_factor.zip(mean).map(|(factor, mean)| mean * factor);
        first_byte > self.config.slow_floor && slow.is_some_and(|slow| first_byte.as_secs_f64() > slow)
    }
}

/// The admission of a request, by which its sample is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admission {
    pod: Pod,
    epoch: u64,
}

/// A permit to send one request to a pod; released when dropped.
#[derive(Debug)]
#[must_use]
pub struct Permit<const W: usize = DEFAULT_POD_WORDS> {
    breakers: Arc<Breakers<W>>,
    admission: Admission,
    /// Whether it is a probe of a half-open breaker.
    is_probe: bool,
}

impl<const W: usize> Permit<W> {
    /// The admission, for [`Breakers::record`]; that may be after the permit is dropped.
    #[must_use]
    pub fn admission(&self) -> Admission {
        self.admission
    }
}

impl<const W: usize> Drop for Permit<W> {
    fn drop(&mut self) {
        if self.is_probe {
            self.breakers.with(self.admission.pod, |breaker, _| {
                if breaker.epoch == self.admission.epoch {
                    breaker.state.release_probe();
                }
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use kv_index::{Config, Index};

    use super::*;
    use crate::failure::Failure;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "some instant to count from")]
    fn nothing_is_due_unless_a_breaker_is_open() {
        let (index, now): (Index, _) = (Index::new(Config::default()), Instant::now());
        let config = BreakerConfig { failure_threshold: 1, ..BreakerConfig::default() };
        let breakers: Arc<Breakers> = Arc::new(Breakers::new(config, Arc::default()));
        assert_eq!(*breakers.due.lock(), None);
        let until = now + Duration::from_secs(10);
        for (pod, seconds) in [("a", 0), ("b", 5)] {
            let pod = index.join(pod).unwrap();
            let admission = breakers.admit(pod, now).unwrap().admission();
            breakers.record(
                admission,
                &BreakerSample::Failure(Failure::FirstByteTimeout),
                now + Duration::from_secs(seconds),
            );
        }
        assert_eq!(*breakers.due.lock(), Some(until), "the first of them");
        breakers.tick(until);
        assert_eq!(*breakers.due.lock(), Some(until + Duration::from_secs(5)), "then the next");
        breakers.tick(until + Duration::from_secs(5));
        assert_eq!(*breakers.due.lock(), None);
    }
}
