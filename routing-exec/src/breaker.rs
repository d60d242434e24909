//! Circuit breakers: closed, open and half-open, one for each pod.

mod change;
mod config;
mod failure_rate;
mod mean_first_byte;
mod permit;
mod state;
mod status;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use routing_core::{DEFAULT_POD_WORDS, OpenBreakers, Pod, PodId, PodSet};

use self::change::Observer;
pub use self::change::{BreakerCause, BreakerChange};
pub use self::config::BreakerConfig;
use self::failure_rate::FailureRate;
use self::mean_first_byte::MeanFirstByte;
pub use self::permit::{Admission, Permit};
use self::state::State;
pub use self::status::{BreakerState, BreakerStatus, BreakersId};
use crate::action::BreakerSample;

/// The circuit breakers of all pods.
///
/// Open breakers are published in [`OpenBreakers`], for decisions to leave those pods out, and before one opens that of a pod that fails ever
/// more requests so are the shares that go elsewhere ([`BreakerStatus::withheld_percent`]). A [`Dispatch`](crate::Dispatch) samples
/// a breaker once a request, and never with a client's error.
#[derive(Debug)]
pub struct Breakers<const W: usize = DEFAULT_POD_WORDS> {
    config: RwLock<BreakerConfig>,
    open_breakers: Arc<OpenBreakers<W>>,
    pods: Box<[Mutex<Breaker>]>,
    fleet: Mutex<MeanFirstByte>,
    /// When the next open breaker becomes half-open.
    due: Mutex<Option<Instant>>,
    fleet_size: AtomicUsize,
    observer: Observer,
}

#[derive(Debug, Default)]
struct Breaker {
    pod: Option<Pod>,
    state: State,
    /// Incremented at every transition: permits and samples of an earlier epoch have no effect.
    epoch: u64,
    /// When the first failure came after which there was no success.
    failing_since: Option<Instant>,
    /// Requests that were admitted, which numbers them.
    admitted: u64,
    /// The latest failures that count, by the numbers of their requests, and whether no success came since.
    counted: Vec<(u64, bool)>,
    /// Push-backs in a row.
    pushbacks: u32,
    /// Failures since a success, or a request that failed elsewhere too, that may be the requests' own: no other pod was asked.
    unconfirmed: u32,
    rate: FailureRate,
}

/// Failures that can be taken back.
const MAX_COUNTED: usize = 64;

/// Unconfirmed failures in a row that do not count. A pod that fails everything has so many soon; where half of what it is sent fails
/// everywhere, it has five more of them, which open a breaker, once in a million requests.
const MAX_UNCONFIRMED: u32 = 15;

impl Breaker {
    fn status(&self) -> BreakerStatus {
        BreakerStatus::of(&self.state, self.failing_since)
    }

    fn admission(&mut self, pod: Pod) -> Admission {
        self.admitted += 1;
        Admission { pod, epoch: self.epoch, number: self.admitted }
    }

    /// Whether a sample shows nothing of the pod: an unconfirmed failure of one that served others a moment ago.
    fn excuses(&mut self, sample: &BreakerSample) -> bool {
        match sample {
            BreakerSample::Success(_) => self.unconfirmed = 0,
            BreakerSample::Unconfirmed(_) => self.unconfirmed = self.unconfirmed.saturating_add(1),
            BreakerSample::Failure(_) | BreakerSample::Overloaded(_) => return false,
        }
        // A probe that fails is no reason to send more.
        (1..=MAX_UNCONFIRMED).contains(&self.unconfirmed) && self.state.failures().is_some()
    }

    /// The state after a success or a failure.
    fn sampled(&mut self, is_success: bool, config: &BreakerConfig, now: Instant) -> State {
        self.rate.add(!is_success, config);
        if is_success {
            self.pushbacks = 0;
        }
        let state = self.state.sampled(is_success, config, now);
        let is_closed = matches!(state, State::Closed { .. });
        if is_closed && !is_success && self.rate.exceeds(config) { State::opened(0, config, now) } else { state }
    }

    /// The state after a push-back that asks to be left alone for some time.
    fn cooled(&mut self, asked: Option<Duration>, config: &BreakerConfig, now: Instant) -> State {
        let least = asked.unwrap_or_default().max(config.cool_duration);
        let cool_for = least.saturating_mul(1 << self.pushbacks.min(5)).min(config.max_cool_duration);
        self.pushbacks = self.pushbacks.saturating_add(1);
        let until = now.checked_add(cool_for).unwrap_or(now);
        match self.state {
            // It was broken before it was full, and is still to be probed.
            State::Open { until: open, times } => State::Open { until: until.max(open), times },
            State::HalfOpen { times, .. } => State::Open { until, times },
            State::Closed { failures } | State::Cooling { failures, .. } => State::Cooling { until, failures },
        }
    }
}

impl<const W: usize> Breakers<W> {
    /// Closed breakers, which publish in `open_breakers`.
    #[must_use]
    pub fn new(config: BreakerConfig, open_breakers: Arc<OpenBreakers<W>>) -> Self {
        let pods = (0..PodSet::<W>::CAPACITY).map(|_| Mutex::default()).collect();
        let fleet_size = AtomicUsize::new(usize::MAX);
        Self {
            config: RwLock::new(config),
            open_breakers,
            pods,
            fleet: Mutex::default(),
            due: Mutex::new(None),
            fleet_size,
            observer: Observer::default(),
        }
    }

    /// Which they are.
    #[must_use]
    pub fn id(&self) -> BreakersId {
        BreakersId(self.pods.as_ptr().addr())
    }

    /// How they are configured.
    #[must_use]
    pub fn config(&self) -> BreakerConfig {
        self.config.read().clone()
    }

    /// Configures them otherwise, from the next sample on: those that are open stay so for the time they were given.
    pub fn set_config(&self, config: BreakerConfig) {
        *self.config.write() = config;
    }

    /// Tells a function of every change of a breaker's state from now on, for logs. Only once: false if there is one already.
    pub fn on_change(&self, tell: impl Fn(&BreakerChange) + Send + Sync + 'static) -> bool {
        self.observer.set(tell)
    }

    /// Says how many pods there are, for [`BreakerConfig::max_open_share`].
    pub fn set_fleet_size(&self, pods: usize) {
        // Relaxed: a number that stands for itself.
        self.fleet_size.store(pods, Ordering::Relaxed);
    }

    /// Admits a request to a pod; the permit is kept until the request is over.
    pub fn admit(self: &Arc<Self>, pod: Pod, now: Instant) -> Option<Permit<W>> {
        let admission = self.with(pod, time_up, |breaker, config| {
            let is_admitted = breaker.state.admit(config, now);
            is_admitted.then(|| (breaker.admission(pod), breaker.state.is_half_open()))
        });
        let (admission, is_probe) = admission??;
        Some(Permit { breakers: Arc::clone(self), admission, is_probe })
    }

    /// Admits a request to a pod whatever its breaker says, for want of another pod. `None` if it was replaced.
    pub fn admit_forced(self: &Arc<Self>, pod: Pod, now: Instant) -> Option<Permit<W>> {
        let admission = self.with(pod, time_up, |breaker, _| {
            breaker.state.tick(now);
            breaker.admission(pod)
        })?;
        Some(Permit { breakers: Arc::clone(self), admission, is_probe: false })
    }

    /// Records a sample of a pod. It is ignored if the pod was replaced since, or if the request was admitted before the breaker's
    /// last transition: it shows nothing of the pod's present state.
    /// So is a want of this process's own: it is no pod's failure. And so is a failure that may be the request's own, as long as there are
    /// not many in a row: where other pods are not asked, for want of retry budget, only that tells a broken pod from bad requests.
    pub fn record(&self, admission: Admission, sample: &BreakerSample, now: Instant) {
        let is_failure = match sample {
            BreakerSample::Failure(failure) if failure.is_local() => return,
            BreakerSample::Success(first_byte) => first_byte.is_some_and(|first_byte| self.is_slow(first_byte)),
            _ => true,
        };
        let may_open = self.may_open(admission.pod.id());
        self.with(
            admission.pod,
            || BreakerCause::of(sample, is_failure),
            |breaker, config| {
                if breaker.epoch != admission.epoch || breaker.excuses(sample) {
                    return;
                }
                match sample {
                    BreakerSample::Failure(_) | BreakerSample::Unconfirmed(_) => {
                        if breaker.counted.len() == MAX_COUNTED {
                            breaker.counted.remove(0);
                        }
                        breaker.counted.push((admission.number, true));
                    }
                    BreakerSample::Success(_) => {
                        breaker.counted.iter_mut().for_each(|(_, is_in_row)| *is_in_row = false)
                    }
                    BreakerSample::Overloaded(_) => {}
                }
                let before = breaker.state;
                let after = match sample {
                    BreakerSample::Overloaded(asked) => breaker.cooled(*asked, config, now),
                    _ => breaker.sampled(!is_failure, config, now),
                };
                if may_open || after.open_until().is_none() || before.open_until().is_some() {
                    breaker.state = after;
                }
                let is_changed = !before.is_like(&breaker.state);
                breaker.epoch += u64::from(is_changed);
                // A pod that was full for a while has failed as often as before.
                if is_changed && (before.failures().is_none() || breaker.state.failures().is_none()) {
                    breaker.rate = FailureRate::default();
                    breaker.counted.retain(|(_, is_in_row)| *is_in_row);
                }
                breaker.failing_since = is_failure.then(|| breaker.failing_since.unwrap_or(now));
            },
        );
    }

    /// Takes the failure of an admission back: other pods failed the same request, and none served it. A breaker that it
    /// opened is as it was before.
    pub fn exonerate(&self, admission: Admission) {
        self.with(
            admission.pod,
            || BreakerCause::Exonerated,
            |breaker, config| {
                // One that came after the breaker opened has not counted.
                let Some(at) = breaker.counted.iter().position(|(number, _)| *number == admission.number) else {
                    return;
                };
                let (_, is_in_row) = breaker.counted.remove(at);
                // Nor were those the pod's, more likely than not, that nobody was asked about.
                breaker.unconfirmed = 0;
                if !is_in_row {
                    return breaker.rate.take_back(config);
                }
                let state = breaker.state.taken_back(config);
                // Failures outlast a push-back, which is another epoch.
                if breaker.state.failures().is_some() {
                    breaker.rate.take_back(config);
                    breaker.state = state;
                } else if breaker.epoch == admission.epoch + 1 && breaker.state.is_open() {
                    // Those that opened it with this one stay counted.
                    breaker.counted.clear();
                    breaker.epoch += 1;
                    breaker.state = state;
                } else {
                    return;
                }
                if breaker.state == State::default() {
                    breaker.failing_since = None;
                }
            },
        );
    }

    /// Whether another pod may be out.
    fn may_open(&self, pod: PodId) -> bool {
        let size = self.fleet_size.load(Ordering::Relaxed);
        let share = self.config.read().max_open_share;
        if share >= 1.0 || size == usize::MAX {
            return true;
        }
        let mut others = self.open_breakers.opened();
        others.remove(pod);
        let most = (share.max(0.0) * size as f64) as usize;
        others.len() < most.max(1)
    }

    /// Closes a pod's breaker: it is healthy by other means, or new.
    pub fn recovered(&self, pod: Pod) {
        self.with(
            pod,
            || BreakerCause::Recovered,
            |breaker, _| {
                breaker.epoch += 1;
                *breaker = Breaker { pod: breaker.pod, epoch: breaker.epoch, ..Breaker::default() };
            },
        );
    }

    /// How a pod's breaker stands; closed if nothing was heard of the pod yet. `None` if another pod has its place: it left.
    #[must_use]
    pub fn status(&self, pod: Pod) -> Option<BreakerStatus> {
        let breaker = self.pods.get(pod.id().index())?.lock();
        match breaker.pod {
            Some(known) if known == pod => {
                let withheld = u32::from(self.open_breakers.withheld(pod.id()));
                Some(BreakerStatus { withheld_percent: (withheld * 100 / 256) as u8, ..breaker.status() })
            }
            Some(known) if known.generation() > pod.generation() => None,
            _ => Some(BreakerStatus::default()),
        }
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
            let before = breaker.status();
            breaker.state.tick(now);
            self.publish(PodId::new(at as u16), &breaker.state);
            let (pod, after) = (breaker.pod, breaker.status());
            drop(breaker);
            pod.into_iter().for_each(|pod| self.observer.tell(pod, [before, after], time_up));
        }
    }

    /// Works on a pod's breaker, a new one if the pod replaced another, and tells why its state changed if it did; `None` if it was
    /// replaced.
    fn with<T>(
        &self,
        pod: Pod,
        cause: impl FnOnce() -> BreakerCause,
        work: impl FnOnce(&mut Breaker, &BreakerConfig) -> T,
    ) -> Option<T> {
        let mut breaker = self.pods.get(pod.id().index())?.lock();
        match breaker.pod {
            Some(known) if known.generation() > pod.generation() => return None,
            Some(known) if known == pod => {}
            _ => *breaker = Breaker { pod: Some(pod), epoch: breaker.epoch + 1, ..Breaker::default() },
        }
        let before = breaker.status();
        let config = self.config.read();
        let answer = work(&mut breaker, &config);
        self.publish(pod.id(), &breaker.state);
        // One that is probed is to show what it can do.
        let withheld = breaker.state.failures().map_or(0, |_| breaker.rate.withheld(&config));
        drop(config);
        // Seldom: it is a line that all decisions read.
        if withheld != self.open_breakers.withheld(pod.id()) {
            self.open_breakers.withhold(pod.id(), withheld);
        }
        let after = breaker.status();
        drop(breaker);
        self.observer.tell(pod, [before, after], cause);
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
        let config = self.config.read();
        let slow = config.slow_factor.zip(mean).map(|(factor, mean)| mean * factor);
        first_byte > config.slow_floor && slow.is_some_and(|slow| first_byte.as_secs_f64() > slow)
    }
}

/// An open breaker becomes half-open, and one that cooled closes.
fn time_up() -> BreakerCause {
    BreakerCause::TimeUp
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
