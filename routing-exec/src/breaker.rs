//! Breakers: pods that fail are given nothing for a while, then a little, then everything again.

mod state;

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use routing_core::OpenBreakers;
use routing_core::{DEFAULT_POD_WORDS, Pod, PodId, PodSet};

use self::state::State;
use crate::action::Verdict;

/// When breakers open and close.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::exhaustive_structs, reason = "settings that a host fills in by name")]
pub struct BreakerConfig {
    /// Failures in a row that open a circuit; at least one.
    pub failures: u32,
    /// How long a circuit stays open. Each time in a row doubles it, up to eight times as long.
    pub open_for: Duration,
    /// How many requests at once try a pod out that is half open; at least one.
    pub probes: u32,
    /// How many of them in a row must do well before the circuit closes; at least one.
    pub successes: u32,
    /// A first byte that takes so many times as long as the fleet's usually do is a failure; none switches it off.
    pub slow: Option<f64>,
    /// No first byte is slow that comes within this time.
    pub never_slow: Duration,
}

impl Default for BreakerConfig {
    /// Five failures in a row, 10 s open, one probe, two of them well; slow is ten times the usual and above 5 s.
    fn default() -> Self {
        let (open_for, never_slow) = (Duration::from_secs(10), Duration::from_secs(5));
        Self { failures: 5, open_for, probes: 1, successes: 2, slow: Some(10.0), never_slow }
    }
}

/// The breakers of all pods.
///
/// Which circuits are open is published in [`OpenBreakers`], for decisions to leave those pods out. What a client does wrong
/// never reaches a breaker, and one request counts once for a pod, however often it was tried: a
/// [`Run`](crate::Run) sees to both.
#[derive(Debug)]
pub struct Breakers<const W: usize = DEFAULT_POD_WORDS> {
    config: BreakerConfig,
    circuits: Arc<OpenBreakers<W>>,
    pods: Box<[Mutex<Breaker>]>,
    fleet: Mutex<Usual>,
    /// When the next open circuit is due to be tried out.
    due: Mutex<Option<Instant>>,
}

#[derive(Debug, Default)]
struct Breaker {
    pod: Option<Pod>,
    state: State,
    /// Tells the time before a circuit opened from the time when it is tried out, and that from what follows: a late permit
    /// does not give back another's place, and a late verdict decides nothing.
    term: u64,
}

/// How long first bytes usually take, over the whole fleet.
#[derive(Debug, Default)]
struct Usual {
    mean: f64,
    seen: u32,
}

impl Usual {
    /// Takes in a time; the usual one before it in seconds, once enough were seen to call anything usual.
    fn take(&mut self, first_byte: Duration) -> Option<f64> {
        let usual = (self.seen >= ENOUGH).then_some(self.mean);
        let share = 1.0 / f64::from(self.seen.min(SMOOTHED) + 1);
        self.mean += (first_byte.as_secs_f64() - self.mean) * share;
        self.seen = self.seen.saturating_add(1);
        usual
    }
}

/// First bytes before anything is called slow.
const ENOUGH: u32 = 50;
/// How many first bytes the usual time is smoothed over.
const SMOOTHED: u32 = 200;

impl<const W: usize> Breakers<W> {
    /// Breakers that publish which circuits are open.
    #[must_use]
    pub fn new(config: BreakerConfig, circuits: Arc<OpenBreakers<W>>) -> Self {
        let pods = (0..PodSet::<W>::CAPACITY).map(|_| Mutex::default()).collect();
        Self { config, circuits, pods, fleet: Mutex::default(), due: Mutex::new(None) }
    }

    /// Whether a request may go to a pod now; if so, keep the permit until the request is over.
    pub fn admit(self: &Arc<Self>, pod: Pod, now: Instant) -> Option<Permit<W>> {
        let admitted = self.with(pod, |breaker, config| {
            let is_admitted = breaker.state.admit(config, now);
            is_admitted.then(|| (Admitted { pod, term: breaker.term }, breaker.state.is_half_open()))
        });
        let (admitted, is_probe) = admitted??;
        Some(Permit { breakers: Arc::clone(self), admitted, is_probe })
    }

    /// What came of a request to a pod. A pod that was replaced is not judged, nor is the one in its place; nor does it count
    /// what became of a request that was let through before the circuit last opened, closed, or was seen to recover: it tells
    /// nothing of how the pod is now.
    pub fn judge(&self, admitted: Admitted, verdict: &Verdict, now: Instant) {
        let bad = match verdict {
            Verdict::Good(first_byte) => self.is_slow(*first_byte),
            Verdict::Answered => false,
            Verdict::Bad(_) => true,
        };
        self.with(admitted.pod, |breaker, config| {
            if breaker.term == admitted.term {
                let before = breaker.state;
                breaker.state = before.judged(!bad, config, now);
                breaker.term += u64::from(!before.is_like(&breaker.state));
            }
        });
    }

    /// Health checks say that a pod is well again, or it has just come: its circuit closes at once.
    pub fn recovered(&self, pod: Pod) {
        self.with(pod, |breaker, _| {
            breaker.term += 1;
            breaker.state = State::default();
        });
    }

    /// Lets pods be tried out whose circuits were open long enough. Cheap when none is; to be called now and then, as a
    /// driver does at each request.
    pub fn tick(&self, now: Instant) {
        {
            let mut due = self.due.lock();
            if due.is_none_or(|due| now < due) {
                return;
            }
            // Cleared first: a circuit that opens while the others are looked at enters its own time.
            *due = None;
        }
        for (at, breaker) in self.pods.iter().enumerate() {
            let mut breaker = breaker.lock();
            breaker.state.tick(now);
            self.publish(PodId::new(at as u16), &breaker.state);
        }
    }

    /// Works on a pod's breaker, a new one if the pod has taken the place of another; none if it is another's now.
    fn with<T>(&self, pod: Pod, work: impl FnOnce(&mut Breaker, &BreakerConfig) -> T) -> Option<T> {
        let mut breaker = self.pods.get(pod.id().index())?.lock();
        match breaker.pod {
            Some(known) if known.generation() > pod.generation() => return None,
            Some(known) if known == pod => {}
            _ => *breaker = Breaker { pod: Some(pod), state: State::default(), term: breaker.term + 1 },
        }
        let answer = work(&mut breaker, &self.config);
        self.publish(pod.id(), &breaker.state);
        Some(answer)
    }

    /// Says whether a pod's circuit is open, and when that is to be looked at again. Its breaker is locked meanwhile.
    fn publish(&self, pod: PodId, state: &State) {
        let Some(until) = state.open_until() else { return self.circuits.close(pod) };
        self.circuits.open(pod);
        let mut due = self.due.lock();
        *due = Some(due.map_or(until, |due| due.min(until)));
    }

    fn is_slow(&self, first_byte: Duration) -> bool {
        let usual = self.fleet.lock().take(first_byte);
        let slow = self.config.slow.zip(usual).map(|(times, usual)| usual * times);
        first_byte > self.config.never_slow && slow.is_some_and(|slow| first_byte.as_secs_f64() > slow)
    }
}

/// When a request was let through to a pod: what its verdict counts for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admitted {
    pod: Pod,
    term: u64,
}

/// The right to send one request to a pod; gives its place back when dropped.
#[derive(Debug)]
#[must_use]
pub struct Permit<const W: usize = DEFAULT_POD_WORDS> {
    breakers: Arc<Breakers<W>>,
    admitted: Admitted,
    /// Whether it has one of the places of a half-open circuit.
    is_probe: bool,
}

impl<const W: usize> Permit<W> {
    /// When it was given, for [`Breakers::judge`]; that may be after the permit is dropped.
    #[must_use]
    pub fn admitted(&self) -> Admitted {
        self.admitted
    }
}

impl<const W: usize> Drop for Permit<W> {
    fn drop(&mut self) {
        if self.is_probe {
            self.breakers.with(self.admitted.pod, |breaker, _| {
                if breaker.term == self.admitted.term {
                    breaker.state.give_back();
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
    fn nothing_is_due_unless_a_circuit_is_open() {
        let (index, now): (Index, _) = (Index::new(Config::default()), Instant::now());
        let config = BreakerConfig { failures: 1, ..BreakerConfig::default() };
        let breakers: Arc<Breakers> = Arc::new(Breakers::new(config, Arc::default()));
        assert_eq!(*breakers.due.lock(), None);
        let until = now + Duration::from_secs(10);
        for (pod, seconds) in [("a", 0), ("b", 5)] {
            let pod = index.join(pod).unwrap();
            let admitted = breakers.admit(pod, now).unwrap().admitted();
            breakers.judge(admitted, &Verdict::Bad(Failure::Silent), now + Duration::from_secs(seconds));
        }
        assert_eq!(*breakers.due.lock(), Some(until), "the first of them");
        breakers.tick(until);
        assert_eq!(*breakers.due.lock(), Some(until + Duration::from_secs(5)), "then the next");
        breakers.tick(until + Duration::from_secs(5));
        assert_eq!(*breakers.due.lock(), None);
    }
}
