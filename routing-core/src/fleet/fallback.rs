//! Fail open (*panic routing*): the pods to fall back on where none passes its health checks.
//!
//! A fault of all pods mostly ends before a check says so, and a pod that is asked in vain costs less than one that is not asked.
//! Pods that never passed a check, and pods that drain, are nobody's fallback.

use std::time::{Duration, Instant};

use kv_index::{PodId, PodSet};

use super::Fleet;

impl<const W: usize> Fleet<W> {
    /// Pods to fall back on: for each kind of work that no pod does which passes its health checks and takes something new, those
    /// that passed them last.
    ///
    /// They are the [likeliest](super::PodInfo::unhealthy_since) to be back: who fell ill within half a minute of the last one did
    /// so of the same fault, and who has been gone for longer stays out.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    ///
    /// use kv_index::{Config, Index};
    /// use routing_core::{Fleet, PodInfo};
    ///
    /// let (index, now): (Index, _) = (Index::new(Config::default()), Instant::now());
    /// let pods = ["a", "b", "c"].map(|name| index.join(name).map(|pod| PodInfo::new(pod, name)));
    /// let [Ok(a), Ok(b), Ok(c)] = pods else { unreachable!("there is room for three") };
    /// let gone_for_an_hour = b.unhealthy_since(now);
    /// let just_now = a.unhealthy_since(now + Duration::from_secs(3600));
    /// let last = just_now.pod.id();
    /// let fleet: Fleet = Fleet::new(1, [just_now, gone_for_an_hour, c.unhealthy()]);
    /// assert_eq!(fleet.fallback().iter().collect::<Vec<_>>(), [last], "the third was never well");
    /// ```
    #[must_use]
    pub fn fallback(&self) -> PodSet<W> {
        self.fallback
    }

    pub(super) fn find_fallback(&self) -> PodSet<W> {
        let mut fallback = PodSet::EMPTY;
        for serving in self.serving {
            let takers = serving - self.draining;
            if !(takers & self.healthy).is_empty() {
                continue;
            }
            let fallen = || takers.iter().filter_map(|id| Some((id, self.pod(id)?.unhealthy_since?)));
            let Some(last) = fallen().map(|(_, since)| since).max() else { continue };
            let is_recent = |(_, since): &(PodId, Instant)| last.saturating_duration_since(*since) <= SAME_FAULT;
            fallback = fallback | fallen().filter(is_recent).map(|(id, _)| id).collect();
        }
        fallback
    }
}

/// Pods that fell ill within so long of each other did so of one fault: longer than two health checks at their slowest.
const SAME_FAULT: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use kv_index::{Config, Index};

    use super::*;
    use crate::fleet::{PodInfo, Role};

    /// The fallback of so many pods, each made by its number.
    fn fallback(pods: usize, info: impl Fn(usize, PodInfo) -> PodInfo) -> Vec<usize> {
        let index: Index = Index::new(Config::default());
        let pod = |at: usize| info(at, PodInfo::new(index.join(&format!("pod-{at}")).unwrap(), "pod"));
        let fleet: Fleet = Fleet::new(1, (0..pods).map(pod));
        fleet.fallback().iter().map(PodId::index).collect()
    }

    #[expect(clippy::disallowed_methods, reason = "some instant to count from")]
    fn start() -> Instant {
        Instant::now()
    }

    #[test]
    fn one_pod_that_is_well_leaves_no_fallback_unless_it_drains() {
        let ill = |at, pod: PodInfo| if at == 0 { pod } else { pod.unhealthy_since(start()) };
        assert!(fallback(3, ill).is_empty());
        let drains = |at, pod: PodInfo| if at == 0 { pod.draining() } else { pod.unhealthy_since(start()) };
        assert_eq!(fallback(3, drains), [1, 2]);
        assert!(fallback(3, |_, pod| pod.unhealthy_since(start()).draining()).is_empty());
    }

    #[test]
    fn only_those_of_the_last_fault_are_left_and_never_one_that_was_not_well_before() {
        let now = start();
        let ill = |at, pod: PodInfo| match at {
            0 => pod.unhealthy(),
            at => pod.unhealthy_since(now + at as u32 * SAME_FAULT),
        };
        assert_eq!(fallback(5, ill), [3, 4]);
        assert!(fallback(2, |_, pod| pod.unhealthy()).is_empty());
    }

    #[test]
    fn each_kind_of_work_has_its_own() {
        let now = start();
        let roles = [Role::Prefill, Role::Decode, Role::Decode, Role::Encode];
        let ill = |at: usize, pod: PodInfo| if at == 0 { pod } else { pod.unhealthy_since(now) }.role(roles[at]);
        assert_eq!(fallback(4, ill), [1, 2, 3], "prefill is done by one that is well");
    }
}
