//! Pod registry: names, generations and the alive set.
//!
//! A pod's life is one word, `(generation, stage)`. Everything that depends on it follows one rule: the stage
//! goes Free → Live → Retired → Free, the last step only under the pod's lock with nothing of the pod left in
//! any segment, and the generation grows at each Free → Live. So a handle names at most one pod for ever.

use crate::map::FixedMap;
use crate::pods::{AtomicPodSet, JoinError, Pod, PodId, PodSet};
use crate::sync::{AtomicU64, Mutex, Ordering};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Free,
    Live,
    Retired,
}

/// Names, lives and the alive set.
#[derive(Debug)]
pub(crate) struct Registry<const W: usize> {
    /// Who searches may report.
    alive: AtomicPodSet<W>,
    /// Ids ever handed out; a search that sees it change starts again, lest it mix two pods of one id.
    joins: AtomicU64,
    lives: Box<[AtomicU64]>,
    names: Mutex<Names>,
}

#[derive(Debug, Default)]
struct Names {
    pods: FixedMap<String, Pod>,
    of: Vec<Option<String>>,
}

impl<const W: usize> Registry<W> {
    pub(crate) fn new(pods: usize) -> Self {
        Self {
            alive: AtomicPodSet::new(),
            joins: AtomicU64::new(0),
            lives: (0..pods).map(|_| AtomicU64::new(life(0, Stage::Free))).collect(),
            names: Mutex::new(Names { pods: FixedMap::default(), of: vec![None; pods] }),
        }
    }

    pub(crate) fn join(&self, name: &str) -> Result<Pod, JoinError> {
        self.join_after(name, 0)
    }

    /// Joins under a generation above `generation`, for pods that a snapshot brings back.
    pub(crate) fn join_after(&self, name: &str, generation: u32) -> Result<Pod, JoinError> {
        let mut names = self.names.lock();
        if let Some(&pod) = names.pods.get(name) {
            if self.is_live(pod) {
                return Err(JoinError::NameTaken(pod));
            }
        }
        let Some(index) = (0..self.lives.len()).find(|&i| self.stage(PodId::from_index(i)).1 == Stage::Free) else {
            let sweeping = self.retired().len();
            return Err(JoinError::Full { live: self.lives.len() - sweeping, sweeping });
        };
        let id = PodId::from_index(index);
        let pod = Pod::new(id, self.stage(id).0.max(generation).saturating_add(1));
        // Release, before the pod can store anything: a search that reads a segment of this pod, or its alive
        // bit, then reads a changed count. Pairs with `joins`.
        self.joins.fetch_add(1, Ordering::Release);
        self.lives[index].store(life(pod.generation(), Stage::Live), Ordering::Release);
        self.alive.insert(id);
        names.pods.insert(name.to_owned(), pod);
        names.of[index] = Some(name.to_owned());
        Ok(pod)
    }

    /// Hides a live pod from searches, or shows it again; false if it is not live.
    pub(crate) fn set_hidden(&self, pod: Pod, hidden: bool) -> bool {
        // Neither retired nor handed out again meanwhile: both want the lock.
        let _names = self.names.lock();
        if !self.is_live(pod) {
            return false;
        }
        if hidden {
            self.alive.remove(pod.id())
        } else {
            self.alive.insert(pod.id())
        };
        true
    }

    /// Ends a pod: true for the one call that did it.
    pub(crate) fn retire(&self, pod: Pod) -> bool {
        let Some(word) = self.lives.get(pod.id().index()) else { return false };
        let _names = self.names.lock();
        let live = life(pod.generation(), Stage::Live);
        let retired = life(pod.generation(), Stage::Retired);
        if word.compare_exchange(live, retired, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return false;
        }
        // Only the winner of the exchange clears the bit, and the id is not handed out again before a sweep
        // that sees Retired, and that the bit is gone, so this is still this pod's bit.
        self.alive.remove(pod.id());
        true
    }

    /// Makes a retired pod's id free again. The caller holds the pod's lock and has swept it.
    pub(crate) fn free(&self, id: PodId) {
        let mut names = self.names.lock();
        let (generation, _) = self.stage(id);
        if let Some(name) = names.of[id.index()].take() {
            if names.pods.get(&name) == Some(&Pod::new(id, generation)) {
                names.pods.remove(&name);
            }
        }
        self.lives[id.index()].store(life(generation, Stage::Free), Ordering::Release);
    }

    /// Whether the handle's pod is joined and not retired.
    pub(crate) fn is_live(&self, pod: Pod) -> bool {
        self.lives
            .get(pod.id().index())
            .is_some_and(|word| word.load(Ordering::Acquire) == life(pod.generation(), Stage::Live))
    }

    pub(crate) fn pod(&self, name: &str) -> Option<Pod> {
        self.names.lock().pods.get(name).copied().filter(|&pod| self.is_live(pod))
    }

    pub(crate) fn name(&self, pod: Pod) -> Option<String> {
        let names = self.names.lock();
        names.of.get(pod.id().index()).filter(|_| self.is_live(pod))?.clone()
    }

    pub(crate) fn handle(&self, id: PodId) -> Option<Pod> {
        match (id.index() < self.lives.len()).then(|| self.stage(id)) {
            Some((generation, Stage::Live)) => Some(Pod::new(id, generation)),
            _ => None,
        }
    }

    pub(crate) fn stage(&self, id: PodId) -> (u32, Stage) {
        let word = self.lives[id.index()].load(Ordering::Acquire);
        let stage = match word & 3 {
            0 => Stage::Free,
            1 => Stage::Live,
            _ => Stage::Retired,
        };
        ((word >> 2) as u32, stage)
    }

    /// The live pods' handles, lowest id first.
    pub(crate) fn live(&self) -> impl Iterator<Item = Pod> + '_ {
        (0..self.lives.len()).filter_map(|index| self.handle(PodId::from_index(index)))
    }

    /// Retired pods that are not yet swept.
    pub(crate) fn retired(&self) -> PodSet<W> {
        (0..self.lives.len()).map(PodId::from_index).filter(|&id| self.stage(id).1 == Stage::Retired).collect()
    }

    #[inline]
    pub(crate) fn alive(&self) -> PodSet<W> {
        self.alive.get()
    }

    #[inline]
    pub(crate) fn joins(&self) -> u64 {
        self.joins.load(Ordering::Acquire)
    }
}

fn life(generation: u32, stage: Stage) -> u64 {
    u64::from(generation) << 2 | stage as u64
}
