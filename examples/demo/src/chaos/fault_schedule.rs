//! Fault schedule: a deterministic function of the seed.
//!
//! A partition comes first and lasts longest, so that load meets an index that is far behind. The last faults drop the final
//! events of some pods, with no later event to reveal the gap.
//!
//! Invariants: the same seed, pods and length give the same schedule; every kind of fault occurs; lasting faults end before the
//! schedule does; at any time at least half of the pods can serve.

use std::time::Duration;

use pointsman_engine_sim::Fault;
use pointsman_lab::SplitMix64;

/// Faults and their ends.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FaultSchedule {
    faults: Vec<ScheduledFault>,
}

/// A fault, or the end of one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ScheduledFault {
    /// After the beginning of the load.
    pub(crate) at: Duration,
    /// The pod's number.
    pub(crate) pod: usize,
    /// What.
    pub(crate) fault: Fault,
}

impl FaultSchedule {
    /// The schedule of a seed, for at least two pods.
    pub(crate) fn new(seed: u64, pods: usize, length: Duration) -> Self {
        let mut builder = ScheduleBuilder::new(seed, pods.max(2), length);
        while builder.incident() {}
        builder.tail_loss();
        let mut faults = builder.faults;
        // Stable: what is planned first comes first.
        faults.sort_by_key(|fault| fault.at);
        Self { faults }
    }

    /// The faults, in the order of time.
    pub(crate) fn faults(&self) -> &[ScheduledFault] {
        &self.faults
    }

    /// How often each kind of fault occurs, in the order of first occurrence; what only ends a fault is left out.
    pub(crate) fn kinds(&self) -> Vec<(&'static str, usize)> {
        let mut kinds: Vec<(&'static str, usize)> = Vec::new();
        let mut dead = std::collections::HashSet::new();
        for step in &self.faults {
            let revives = step.fault == Fault::Restart && dead.remove(&step.pod);
            if step.fault == Fault::Die {
                dead.insert(step.pod);
            }
            let Some(name) = name(step.fault).filter(|_| !revives) else { continue };
            match kinds.iter_mut().find(|(known, _)| *known == name) {
                Some((_, count)) => *count += 1,
                None => kinds.push((name, 1)),
            }
        }
        kinds
    }
}

/// What a fault is called; none for what ends one.
fn name(fault: Fault) -> Option<&'static str> {
    Some(match fault {
        Fault::Die => "die",
        Fault::Hang => "hang",
        Fault::Slow(_) => "slow",
        Fault::CutStreams => "cut streams",
        Fault::Restart => "restart",
        Fault::ChangeHashSeed => "change hash seed",
        Fault::DropEvents(_) => "drop events",
        Fault::DuplicateEvents(_) => "duplicate events",
        Fault::ReorderEvents => "reorder events",
        Fault::PartitionEvents => "partition events",
        _ => return None,
    })
}

struct ScheduleBuilder {
    rng: SplitMix64,
    /// When the next incident begins.
    now: Duration,
    /// Between two incidents, on average.
    gap: Duration,
    /// The longest that anything lasts.
    longest: Duration,
    /// When everything has ended.
    end: Duration,
    /// Kinds not drawn yet: each comes up before any comes up again.
    bag: Vec<Fault>,
    /// Until when each pod has its fault.
    busy: Vec<Duration>,
    /// Until when each pod cannot be counted on to serve.
    down: Vec<Duration>,
    faults: Vec<ScheduledFault>,
}

impl ScheduleBuilder {
    fn new(seed: u64, pods: usize, length: Duration) -> Self {
        // Room for every kind at least once, whatever the length.
        let gap = (length * 3 / 4 / (KINDS.len() as u32 + 1)).min(LONGEST_GAP);
        let longest = (length / 6).min(LONGEST);
        let begin = gap / 2;
        Self {
            rng: SplitMix64::new(seed),
            now: begin,
            gap,
            longest,
            end: length,
            bag: vec![Fault::PartitionEvents],
            busy: vec![Duration::ZERO; pods],
            down: vec![Duration::ZERO; pods],
            faults: Vec::new(),
        }
    }

    /// Plans one; false when there is no more time.
    fn incident(&mut self) -> bool {
        let kind = self.draw();
        let lasts = match kind {
            Fault::PartitionEvents => self.share(self.longest * 2, 60, 100),
            kind if takes_down(kind) => self.share(self.longest, 40, 100),
            _ => Duration::ZERO,
        };
        let pod = self.pod(kind);
        let at = self.now.max(self.busy[pod]);
        if at + lasts + self.gap / 4 > self.end {
            return false;
        }
        let fault = self.fault(kind);
        self.faults.push(ScheduledFault { at, pod, fault });
        if let Some(end) = end(kind) {
            self.faults.push(ScheduledFault { at: at + lasts, pod, fault: end });
        }
        // A breath between two faults of one pod.
        self.busy[pod] = at + lasts + self.gap / 4;
        if takes_down(kind) {
            self.down[pod] = at + lasts;
        }
        let pause = self.share(self.gap, 60, 120);
        self.now += pause;
        true
    }

    /// Every second pod loses what it says next, when there is little more to say.
    fn tail_loss(&mut self) {
        let first = self.rng.below(2);
        for pod in (first..self.busy.len()).step_by(2) {
            let count = self.rng.between(10, 60) as u32;
            self.faults.push(ScheduledFault { at: self.end, pod, fault: Fault::DropEvents(count) });
        }
    }

    /// A kind that has not come up in this round.
    fn draw(&mut self) -> Fault {
        if self.bag.is_empty() {
            self.bag = KINDS.to_vec();
        }
        let at = self.rng.below(self.bag.len());
        self.bag.swap_remove(at)
    }

    /// A pod for it: one that has no fault, or the first to be free again. What takes a pod down does so only while at
    /// least half of the pods stay up.
    fn pod(&mut self, kind: Fault) -> usize {
        let pods = self.busy.len();
        let down = self.down.iter().filter(|until| **until > self.now).count();
        if takes_down(kind) && down + 1 > pods / 2 {
            // The place of a pod that is down already, once it is up.
            let first = (0..pods).filter(|pod| self.down[*pod] > self.now).min_by_key(|pod| self.busy[*pod]);
            return first.unwrap_or(0);
        }
        let free: Vec<usize> = (0..pods).filter(|pod| self.busy[*pod] <= self.now).collect();
        match free.is_empty() {
            true => (0..pods).min_by_key(|pod| self.busy[*pod]).unwrap_or(0),
            false => free[self.rng.below(free.len())],
        }
    }

    /// A kind of fault with a figure, where it has one.
    fn fault(&mut self, kind: Fault) -> Fault {
        match kind {
            Fault::Slow(_) => Fault::Slow(self.rng.between(3, 12) as f64),
            Fault::DropEvents(_) => Fault::DropEvents(self.rng.between(1, 20) as u32),
            Fault::DuplicateEvents(_) => Fault::DuplicateEvents(self.rng.between(1, 20) as u32),
            kind => kind,
        }
    }

    fn share(&mut self, of: Duration, least: usize, most: usize) -> Duration {
        of * self.rng.between(least, most) as u32 / 100
    }
}

fn takes_down(kind: Fault) -> bool {
    matches!(kind, Fault::Die | Fault::Hang | Fault::Slow(_))
}

/// What ends a fault that lasts.
fn end(kind: Fault) -> Option<Fault> {
    match kind {
        Fault::Die => Some(Fault::Restart),
        Fault::Hang | Fault::Slow(_) | Fault::PartitionEvents => Some(Fault::Recover),
        _ => None,
    }
}

/// Kinds of faults; a figure is drawn when one occurs.
const KINDS: [Fault; 10] = [
    Fault::Die,
    Fault::Hang,
    Fault::Slow(1.0),
    Fault::CutStreams,
    Fault::Restart,
    Fault::ChangeHashSeed,
    Fault::DropEvents(0),
    Fault::DuplicateEvents(0),
    Fault::ReorderEvents,
    Fault::PartitionEvents,
];

const LONGEST_GAP: Duration = Duration::from_millis(1_500);
const LONGEST: Duration = Duration::from_secs(6);

#[cfg(test)]
mod tests;
