//! Prefill share: what part of its time each pod computes prompts, lately.
//!
//! An answer that decodes beside prompts gets a token for each of their steps, which may be thirty times as long as its own. Who comes later is
//! not in a pod's queue yet: pods that were sent many prompts lately will be sent more. Exponentially weighted, and no further from the
//! fleet's than chance would not have it, or as seen. A peer tells sums, and not of how many prompts they are, which both chance and steps go by: what it
//! sent counts where shares are as seen, and there as whole steps.

use std::time::Instant;

use crate::cost_model::CostModel;

/// What was sent to a pod lately, weighed by its age.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RecentPrefills {
    share: PrefillShare,
    /// That of what peers sent.
    by_peers: PrefillShare,
    /// The variance of the share, if prompts came by chance.
    variance: f64,
    /// When that was so.
    at: Option<Instant>,
}

/// A pod's, in two ways.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct PrefillShares {
    /// The fleet's, as far as chance may have made the difference: for who only wants to know which pods are slow.
    pub(crate) likely: PrefillShare,
    /// As it was: for who makes differences larger.
    pub(crate) seen: PrefillShare,
}

/// The part of its time that a pod computes prompts, and the steps a second in which it does.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct PrefillShare {
    pub(crate) busy: f64,
    pub(crate) steps: f64,
}

impl RecentPrefills {
    /// A prompt is sent that takes the pod so long; no time where another one computes it.
    pub(super) fn sent(&mut self, seconds: f64, model: &CostModel, now: Instant) {
        *self = self.at(now);
        // Whoever is sent something is one of the fleet, if only to answer.
        self.at = Some(self.at.map_or(now, |at| at.max(now)));
        if seconds.is_nan() || seconds <= 0.0 {
            return;
        }
        let prompt = PrefillShare::of(seconds, model);
        self.share = self.share.and(prompt);
        self.variance += 0.5 * prompt.busy * prompt.busy;
    }

    /// A peer sent prompts that take the pod so long.
    pub(super) fn sent_by_peer(&mut self, seconds: f64, model: &CostModel, now: Instant) {
        *self = self.at(now);
        self.at = Some(self.at.map_or(now, |at| at.max(now)));
        if seconds > 0.0 {
            self.by_peers = self.by_peers.and(PrefillShare::of(seconds, model));
        }
    }

    /// What is left of it at an instant.
    fn at(self, now: Instant) -> Self {
        let Some(at) = self.at else { return self };
        let kept = (-now.saturating_duration_since(at).as_secs_f64() / WINDOW).exp();
        let [share, by_peers] = [self.share, self.by_peers].map(|share| share.part(kept));
        Self { share, by_peers, variance: self.variance * kept, at: Some(at.max(now)) }
    }
}

/// Those of the fleet on average, and those of each pod.
pub(super) fn shares(recent: &[RecentPrefills], now: Instant) -> (PrefillShares, Vec<PrefillShares>) {
    let is_known =
        |pod: &&RecentPrefills| pod.at.is_some_and(|at| now.saturating_duration_since(at).as_secs_f64() < 6.0 * WINDOW);
    let known: Vec<RecentPrefills> = recent.iter().filter(is_known).map(|pod| pod.at(now)).collect();
    let mean = |of: fn(&RecentPrefills) -> f64| known.iter().map(of).sum::<f64>() / known.len().max(1) as f64;
    let fleet = PrefillShare { busy: mean(|pod| pod.share.busy), steps: mean(|pod| pod.share.steps) };
    let by_peers = PrefillShare { busy: mean(|pod| pod.by_peers.busy), steps: mean(|pod| pod.by_peers.steps) };
    // Of a pod that got few, its own prompts say too little of how much they vary.
    let variance = mean(|pod| pod.variance);
    let of_pod = |pod: &RecentPrefills| {
        let pod = pod.at(now);
        let apart = pod.share.busy - fleet.busy;
        let sure = (1.0 - pod.variance.max(variance) / (apart * apart).max(f64::MIN_POSITIVE)).max(0.0);
        let between = |fleet: f64, own: f64| fleet + (own - fleet) * sure;
        let likely =
            PrefillShare { busy: between(fleet.busy, pod.share.busy), steps: between(fleet.steps, pod.share.steps) };
        PrefillShares { likely: likely.bounded(), seen: pod.share.and(pod.by_peers).bounded() }
    };
    let of_fleet = PrefillShares { likely: fleet.bounded(), seen: fleet.and(by_peers).bounded() };
    (of_fleet, recent.iter().map(of_pod).collect())
}

impl PrefillShare {
    /// That of prompts which take so long together.
    fn of(seconds: f64, model: &CostModel) -> Self {
        let full = model.prefill_seconds(model.step_tokens.get(), 0.0).max(f64::MIN_POSITIVE);
        Self { busy: (seconds / WINDOW).min(MOST), steps: (seconds / full).clamp(1.0, MOST) / WINDOW }
    }

    /// That of both together.
    fn and(self, other: Self) -> Self {
        Self { busy: self.busy + other.busy, steps: self.steps + other.steps }
    }

    /// So much of it.
    pub(crate) fn part(self, part: f64) -> Self {
        Self { busy: self.busy * part, steps: self.steps * part }
    }

    /// No pod does nothing else for ever: what waits longer is in its queue.
    fn bounded(self) -> Self {
        Self { busy: self.busy.min(BUSIEST), ..self }
    }
}

/// Seconds that count as lately.
const WINDOW: f64 = 10.0;
const BUSIEST: f64 = 0.95;
/// More than any prompt takes; a sum of some is still a number.
const MOST: f64 = 1e6;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::load::start;

    /// Pods that are sent prompts of a tenth of a second for ten seconds, one every so many milliseconds; the shares then.
    fn after_ten_seconds(every: &[u64]) -> (PrefillShares, Vec<PrefillShares>) {
        let mut pods = vec![RecentPrefills::default(); every.len()];
        for ms in 0..10_000 {
            for (pod, every) in pods.iter_mut().zip(every) {
                if ms % every == 0 {
                    pod.sent(0.1, &CostModel::FUSED, start() + Duration::from_millis(ms));
                }
            }
        }
        shares(&pods, start() + Duration::from_secs(10))
    }

    #[test]
    fn a_pod_that_computes_more_than_others_is_known_to() {
        let (PrefillShares { likely: fleet, .. }, pods) = after_ten_seconds(&[125, 500, 500, 500]);
        assert!((0.15..0.3).contains(&fleet.busy), "{fleet:?}: two thirds of what was sent in ten seconds");
        let likely = pods[0].likely;
        assert!(likely.busy > 0.4 && likely.steps > 2.0 * fleet.steps, "{pods:?}");
        assert!(pods[1..].iter().all(|pod| pod.likely.busy <= fleet.busy), "{pods:?}");
    }

    #[test]
    fn what_may_be_chance_is_no_difference() {
        let (PrefillShares { likely: fleet, .. }, pods) = after_ten_seconds(&[250, 240, 265, 250]);
        assert!(pods.iter().all(|pod| pod.likely == fleet), "{fleet:?} {pods:?}");
        let seen = |at: usize| pods[at].seen.busy;
        assert!(seen(2) < seen(0) && seen(0) < seen(1), "and is seen all the same: {pods:?}");
        // Nor is one prompt, however long.
        let mut pods = [RecentPrefills::default(); 4];
        pods.iter_mut()
            .zip([6.0, 0.1, 0.1, 0.1])
            .for_each(|(pod, seconds)| pod.sent(seconds, &CostModel::FUSED, start()));
        let (PrefillShares { likely: fleet, .. }, pods) = shares(&pods, start());
        assert!(pods[0].likely.busy - fleet.busy < 0.1 * (0.6 - fleet.busy), "{fleet:?} {pods:?}");
    }

    #[test]
    fn it_is_forgotten_and_never_no_number() {
        let mut pod = RecentPrefills::default();
        for seconds in [f64::NAN, f64::INFINITY, f64::MAX, -1.0, 3.0] {
            pod.sent(seconds, &CostModel::FUSED, start());
        }
        let (PrefillShares { likely: fleet, .. }, _) = shares(&[pod], start());
        assert!((0.0..=1.0).contains(&fleet.busy) && fleet.steps.is_finite(), "{fleet:?}");
        assert_eq!(shares(&[pod], start() + Duration::from_secs(600)).0, PrefillShares::default());
    }

    #[test]
    fn whoever_only_answers_is_one_of_the_fleet() {
        let (mut pods, now) = ([RecentPrefills::default(); 4], start());
        pods.iter_mut().zip([4.0, 0.0, 0.0]).for_each(|(pod, seconds)| pod.sent(seconds, &CostModel::FUSED, now));
        let fleet = shares(&pods, now).0.seen;
        assert!((fleet.busy - 0.4 / 3.0).abs() < 1e-12, "{fleet:?}: of three, and the fourth is nobody");
    }

    #[test]
    fn what_peers_send_is_seen_and_says_nothing_of_chance() {
        let (mut pods, now) = ([RecentPrefills::default(); 2], start());
        pods.iter_mut().for_each(|pod| pod.sent(1.0, &CostModel::FUSED, now));
        let before = shares(&pods, now);
        pods[0].sent_by_peer(4.0, &CostModel::FUSED, now);
        let (fleet, [first, second]) = (shares(&pods, now).0, [0, 1].map(|at| shares(&pods, now).1[at]));
        assert_eq!((fleet.likely, first.likely, second), (before.0.likely, before.1[0].likely, before.1[1]));
        assert!((first.seen.busy - 0.5).abs() < 1e-12 && (fleet.seen.busy - 0.3).abs() < 1e-12, "{first:?} {fleet:?}");
        assert!(first.seen.steps > second.seen.steps);
    }
}
