//! What hosts report of pods: health, and load, which is forgotten when nothing came for long.

use std::time::{Duration, Instant};

use kv_index::Pod;
use routing_core::Load;

use super::Router;
use crate::engine_metrics::EngineAdapters;
use crate::log;

impl<const W: usize> Router<W> {
    /// Says whether a pod passes its health checks: what `spawn_health_checks` calls, and a host that checks by itself.
    ///
    /// A pod that does not gets no request; those under way go on. Where no pod does, those that passed last get them all the same
    /// ([`Fleet::fallback`](routing_core::Fleet::fallback)). One that passes again has its circuit breaker closed, since
    /// it is well by other means than requests. Where the router was built with
    /// [`health_checked`](crate::RouterBuilder::health_checked), no pod gets a request before it was said to pass; elsewhere each
    /// pod counts as healthy until somebody says otherwise. Cheap where nothing changed, so it may be called after every check.
    ///
    /// False if the pod left.
    pub fn set_healthy(&self, pod: Pod, healthy: bool) -> bool {
        self.set_healthy_because(pod, healthy, "said so by its host")
    }

    /// The same, and logs why where it changed.
    pub(crate) fn set_healthy_because(&self, pod: Pod, healthy: bool, why: &str) -> bool {
        let now = self.now();
        let mut registry = self.0.registry.lock();
        let Some(entry) = registry.get_mut(pod) else { return false };
        // A pod that is not well from the start is worth a line, too.
        let is_news = entry.healthy != healthy || entry.checked.is_none() && !healthy;
        if is_news {
            log::health(&self.0.model.name, &entry.spec.name, healthy, why);
        }
        entry.checked = Some(now);
        if entry.healthy != healthy {
            (entry.healthy, entry.unhealthy_since) = (healthy, (!healthy).then_some(now));
            if healthy {
                self.0.breakers.recovered(pod);
            }
            self.publish_fleet(&mut registry);
        }
        drop(registry);
        self.pump();
        true
    }

    /// Notes whether a pod failed its health check. Returns whether it failed the one before.
    #[cfg(feature = "hyper-util")]
    pub(crate) fn note_check(&self, pod: Pod, failed: bool) -> bool {
        let mut registry = self.0.registry.lock();
        registry.get_mut(pod).is_some_and(|entry| std::mem::replace(&mut entry.failed_check, failed))
    }

    /// Takes what a pod's engine reports of its load, as of an instant. False if it left.
    ///
    /// It counts with what is sent from here after it and what is done since, so it need not be new; see
    /// [`LoadTracker::load_of`](routing_plugins::load::LoadTracker::load_of). After a minute without another, [`tick`](Self::tick)
    /// forgets it.
    pub fn report_load(&self, pod: Pod, load: Load, at: Instant) -> bool {
        let mut registry = self.0.registry.lock();
        let Some(entry) = registry.get_mut(pod) else { return false };
        (entry.load, entry.reported) = (load, Some(at));
        // What waits here for the pod is not in its engine's figures.
        let queued = self.0.plugin_state.queued.in_flight(pod.id());
        self.0.plugin_state.load.report_beside(pod, load, queued, at);
        drop(registry);
        self.pump();
        true
    }

    /// Takes what a pod's engine reports of its cache: the tokens that it has room for. False if it left.
    ///
    /// Profiles that know [programs](routing_plugins::program) go by it, where the pod was not [described](crate::PodSpec::kv_tokens) with it. Cheap
    /// where nothing changed.
    pub fn report_cache(&self, pod: Pod, tokens: u64) -> bool {
        let mut registry = self.0.registry.lock();
        let Some(entry) = registry.get_mut(pod) else { return false };
        if entry.cache_tokens.replace(tokens) != Some(tokens) {
            self.publish_fleet(&mut registry);
        }
        true
    }

    /// Takes what a pod's engine reports of its LoRA adapters. False if it left.
    ///
    /// They count beside those that the pod was [described](crate::PodSpec::adapters) with. Cheap where nothing changed.
    pub fn report_adapters(&self, pod: Pod, adapters: EngineAdapters) -> bool {
        let mut registry = self.0.registry.lock();
        let Some(entry) = registry.get_mut(pod) else { return false };
        if entry.adapters.as_ref() != Some(&adapters) {
            entry.adapters = Some(adapters);
            self.publish_fleet(&mut registry);
        }
        true
    }

    /// Forgets the loads of pods whose engines fell silent: a pod that is avoided for what it said once would never be found
    /// to have worked it off.
    pub(super) fn forget_old_reports(&self, now: Instant) {
        let mut registry = self.0.registry.lock();
        let is_old = |at: &Instant| now.saturating_duration_since(*at) > REPORT_LIFE;
        let mut changed = false;
        for entry in registry.pods.iter_mut().filter(|entry| entry.reported.as_ref().is_some_and(is_old)) {
            let told = std::mem::take(&mut entry.load);
            changed |= self.0.plugin_state.load.forget_report(entry.pod) || told != Load::default();
        }
        if changed {
            self.publish_fleet(&mut registry);
        }
    }
}

/// How long an engine's report counts at most.
const REPORT_LIFE: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use routing_core::Request;

    use super::*;
    use crate::PodSpec;

    const BUSY: Load = Load { running: 256, waiting: 500, tokens: 0, kv_used: 0.99 };

    /// Which of two idle pods get twenty new prompts in a row, each done before the next.
    fn chosen(router: &Router, now: Instant, round: u32) -> [usize; 2] {
        let (second, mut counts) = (router.pod("b"), [0; 2]);
        for at in 20 * round..20 * (round + 1) {
            let tokens = [at; 100];
            let routed = router.route(&Request::new("m", now).tokens(&tokens).seed(at.into())).unwrap();
            counts[usize::from(routed.first_pod() == second)] += 1;
        }
        counts
    }

    #[test]
    fn adapters_that_engines_tell_of_count_beside_those_that_a_pod_was_described_with() {
        let router = Router::builder("m").pod(PodSpec::new("a", "a:1").adapter("x")).build().unwrap();
        let pod = router.pod("a").unwrap();
        let version = router.fleet().version();
        let adapters =
            EngineAdapters { running: vec!["y".into(), "x".into()], waiting: vec!["z".into()], slots: Some(4) };
        assert!(router.report_adapters(pod, adapters.clone()) && router.report_adapters(pod, adapters));
        let fleet = router.fleet();
        assert_eq!(fleet.version(), version + 1, "what is not new changes nothing");
        let info = fleet.pod(pod.id()).unwrap();
        let names = |names: &[Box<str>]| names.iter().map(|name| name.to_string()).collect::<Vec<_>>().join(" ");
        assert_eq!((names(&info.adapters), names(&info.adapters_waiting)), ("x y".into(), "z".into()));
        assert_eq!(info.adapter_slots, Some(4));
    }

    #[test]
    fn the_default_heeds_what_engines_report_until_they_are_silent_for_a_minute() {
        let start = Instant::now();
        let pods = ["a", "b"].map(|name| PodSpec::new(name, format!("http://{name}")));
        let router = Router::builder("m").pods(pods).tokens_given().build().unwrap();
        let busy = router.pod("b").unwrap();
        assert!(chosen(&router, start, 0).iter().all(|count| *count > 0), "nothing is known of either");
        assert!(router.report_load(busy, BUSY, start));
        assert_eq!(chosen(&router, start, 1), [20, 0]);
        router.tick(start + REPORT_LIFE);
        assert_eq!(chosen(&router, start + REPORT_LIFE, 2), [20, 0], "the last word is as good as any");
        let late = start + REPORT_LIFE + Duration::from_millis(1);
        router.tick(late);
        // The other one had all prompts of late, which counts for a while.
        assert!(chosen(&router, late, 3)[1] > 0);
        assert!(chosen(&router, late + REPORT_LIFE, 4).iter().all(|count| *count > 0));
        assert_eq!(router.pods().iter().map(|pod| pod.load.waiting).sum::<u32>(), 0);
    }
}
