//! Fault schedule: a deterministic function of the seed.
//!
//! A partition comes first and lasts longest, so that load meets an index that is far behind. The last faults drop the final
//! events of some pods.
//!
//! Invariants: the same seed, pods and length give the same schedule; every kind of fault occurs; lasting faults end before the
//! schedule does; at any time at least half of the pods can serve.

use std::time::Duration;

use pointsman_lab::SplitMix64;

use super::fault_kind::FaultKind;

/// Faults, in the order of their beginnings.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FaultSchedule {
    faults: Vec<ScheduledFault>,
}

/// A fault, and when: after the beginning of the load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ScheduledFault {
    pub(crate) kind: FaultKind,
    /// The pod's number; none if it is not one of a pod.
    pub(crate) pod: Option<usize>,
    pub(crate) begin: Duration,
    /// As its beginning if it does not last.
    pub(crate) end: Duration,
}

/// A moment of a schedule: the fault of this number begins or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Begin(usize),
    End(usize),
}

impl FaultSchedule {
    /// The schedule of a seed, for at least two pods.
    pub(crate) fn new(seed: u64, pods: usize, length: Duration) -> Self {
        let mut builder = ScheduleBuilder::new(seed, pods.max(2), length);
        while builder.incident() {}
        builder.tail_loss();
        let mut faults = builder.faults;
        // Stable: what is planned first comes first.
        faults.sort_by_key(|fault| fault.begin);
        Self { faults }
    }

    /// The faults.
    pub(crate) fn faults(&self) -> &[ScheduledFault] {
        &self.faults
    }

    /// Their beginnings and ends, in the order of time; an end before a beginning of the same moment.
    pub(crate) fn steps(&self) -> Vec<(Duration, Step)> {
        let mut steps = Vec::with_capacity(self.faults.len() * 2);
        for (nth, fault) in self.faults.iter().enumerate() {
            steps.push((fault.begin, Step::Begin(nth)));
            if fault.kind.lasts() {
                steps.push((fault.end, Step::End(nth)));
            }
        }
        steps.sort_by_key(|(at, step)| (*at, matches!(step, Step::Begin(_))));
        steps
    }

    /// How often each kind of fault occurs, in the order of first occurrence.
    pub(crate) fn kinds(&self) -> Vec<(&'static str, usize)> {
        let mut kinds: Vec<(&'static str, usize)> = Vec::new();
        for name in self.faults.iter().map(|fault| fault.kind.name()) {
            match kinds.iter_mut().find(|(known, _)| *known == name) {
                Some((_, count)) => *count += 1,
                None => kinds.push((name, 1)),
            }
        }
        kinds
    }
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
    bag: Vec<FaultKind>,
    /// Until when each pod has its fault.
    busy: Vec<Duration>,
    /// Until when there is a fault that is none of a pod.
    fleet_busy: Duration,
    /// Until when each pod cannot be counted on to serve.
    down: Vec<Duration>,
    faults: Vec<ScheduledFault>,
}

impl ScheduleBuilder {
    fn new(seed: u64, pods: usize, length: Duration) -> Self {
        // Room for every kind at least once, whatever the length.
        let gap = (length * 3 / 4 / (FaultKind::ALL.len() as u32 + 1)).min(LONGEST_GAP);
        let longest = (length / 6).min(LONGEST);
        let begin = gap / 2;
        Self {
            rng: SplitMix64::new(seed),
            now: begin,
            gap,
            longest,
            end: length,
            bag: vec![FaultKind::PartitionEvents],
            busy: vec![Duration::ZERO; pods],
            fleet_busy: Duration::ZERO,
            down: vec![Duration::ZERO; pods],
            faults: Vec::new(),
        }
    }

    /// Plans one; false when there is no more time.
    fn incident(&mut self) -> bool {
        let kind = self.draw();
        let lasts = match kind {
            FaultKind::PartitionEvents => self.share(self.longest * 2, 60, 100),
            kind if kind.lasts() => self.share(self.longest, 40, 100),
            _ => Duration::ZERO,
        };
        let pod = kind.is_of_pod().then(|| self.pod(kind));
        let free = pod.map_or(self.fleet_busy, |pod| self.busy[pod]);
        let begin = self.now.max(free);
        // A breath between two faults of one pod.
        let (end, breath) = (begin + lasts, self.gap / 4);
        if end + breath > self.end {
            return false;
        }
        let kind = self.with_figure(kind);
        self.faults.push(ScheduledFault { kind, pod, begin, end });
        match pod {
            Some(pod) => self.busy[pod] = end + breath,
            None => self.fleet_busy = end + breath,
        }
        if let Some(pod) = pod.filter(|_| kind.takes_down()) {
            self.down[pod] = end;
        }
        let pause = self.share(self.gap, 60, 120);
        self.now += pause;
        true
    }

    /// Every second pod loses what it says next, when there is little more to say.
    fn tail_loss(&mut self) {
        let first = self.rng.below(2);
        for pod in (first..self.busy.len()).step_by(2) {
            let kind = FaultKind::DropEvents(self.rng.between(10, 60) as u32);
            self.faults.push(ScheduledFault { kind, pod: Some(pod), begin: self.end, end: self.end });
        }
    }

    /// A kind that has not come up in this round.
    fn draw(&mut self) -> FaultKind {
        if self.bag.is_empty() {
            self.bag = FaultKind::ALL.to_vec();
        }
        let at = self.rng.below(self.bag.len());
        self.bag.swap_remove(at)
    }

    /// A pod for it: one that has no fault, or the first to be free again. What takes a pod down does so only while at
    /// least half of the pods stay up.
    fn pod(&mut self, kind: FaultKind) -> usize {
        let pods = self.busy.len();
        let down = self.down.iter().filter(|until| **until > self.now).count();
        if kind.takes_down() && down + 1 > pods / 2 {
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
    fn with_figure(&mut self, kind: FaultKind) -> FaultKind {
        match kind {
            FaultKind::Slow(_) => FaultKind::Slow(self.rng.between(3, 12) as u32),
            FaultKind::DropEvents(_) => FaultKind::DropEvents(self.rng.between(1, 20) as u32),
            FaultKind::DuplicateEvents(_) => FaultKind::DuplicateEvents(self.rng.between(1, 20) as u32),
            FaultKind::CorruptEvents(_) => FaultKind::CorruptEvents(self.rng.between(1, 20) as u32),
            // Each is as large as a message may not be.
            FaultKind::OversizeEvents(_) => FaultKind::OversizeEvents(1),
            kind => kind,
        }
    }

    fn share(&mut self, of: Duration, least: usize, most: usize) -> Duration {
        of * self.rng.between(least, most) as u32 / 100
    }
}

const LONGEST_GAP: Duration = Duration::from_millis(1_500);
const LONGEST: Duration = Duration::from_secs(6);

#[cfg(test)]
mod tests;
