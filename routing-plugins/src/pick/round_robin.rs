//! Round-robin picker, whatever the totals.

use kv_index::DEFAULT_POD_WORDS;
use std::num::NonZeroUsize;
use std::sync::Arc;

use routing_core::{Declare, Picker, PluginError, Ranking, RoutingContext, Totals};

use super::least::rank_least;
use super::round_robin_order::RoundRobinOrder;
use crate::parameters::parameters;

parameters! {
    /// What [`RoundRobinPicker`] takes.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct RoundRobinParameters {
        /// How many candidates are ranked; 3 unless given.
        pub most: NonZeroUsize = super::MOST,
    }
}

/// Ranks candidates in turn: first who was not chosen for the longest, then the next in turn.
///
/// Fairness: of n candidates, each is chosen exactly k times in n·k picks, from however many threads. Whoever joins is next
/// once, and then in turn. Only being chosen takes a turn; being ranked for failover does not.
///
/// The turns are the host's, so that they go on when a workflow is replaced. Replaying a request takes another turn.
#[derive(Debug)]
pub struct RoundRobinPicker<const W: usize = DEFAULT_POD_WORDS> {
    most: NonZeroUsize,
    turns: Arc<RoundRobinOrder<W>>,
}

impl<const W: usize> RoundRobinPicker<W> {
    /// Declares nothing: whose turn it is depends on no request.
    pub fn declare(
        declare: &mut Declare<'_>,
        parameters: RoundRobinParameters,
        turns: Arc<RoundRobinOrder<W>>,
    ) -> Self {
        declare.ignores_scores();
        Self { most: parameters.most, turns }
    }
}

impl<const W: usize> Picker<W> for RoundRobinPicker<W> {
    fn pick(
        &self,
        _: &RoutingContext<'_, W>,
        totals: &Totals<'_, W>,
        ranking: &mut Ranking,
    ) -> Result<(), PluginError> {
        let mut others = totals.candidates();
        if let Some(pod) = self.turns.take(others) {
            ranking.push(pod);
            others.remove(pod);
        }
        rank_least(others, self.most.get() - 1, ranking, |pod| self.turns.last(pod));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::thread;

    use kv_index::PodSet;
    use routing_core::{RoutingInput, RoutingPlan, Workflow};

    use super::*;
    use crate::pick::testing::{build, fleet, numbers, pod, pods, profile, request};

    fn workflow() -> Workflow {
        let declare = |declare: &mut Declare<'_>| {
            RoundRobinPicker::declare(declare, RoundRobinParameters::default(), Arc::default())
        };
        build(profile(|pod| pod as f32 / 100.0, declare))
    }

    #[test]
    fn everyone_has_a_turn_and_failover_goes_to_the_next() {
        let (workflow, fleet) = (workflow(), fleet(4));
        let ranked: Vec<_> = (0..6).map(|_| numbers(&workflow, &request(7), &fleet)).collect();
        assert_eq!(ranked, [[0, 1, 2], [1, 2, 3], [2, 3, 0], [3, 0, 1], [0, 1, 2], [1, 2, 3]]);
    }

    #[test]
    fn each_of_n_is_chosen_k_times_in_n_k_picks_from_many_threads() {
        const PICKS: usize = 300;
        let (workflow, fleet) = (workflow(), fleet(7));
        let counts = Mutex::new([0; 7]);
        #[expect(clippy::disallowed_methods, reason = "fairness is claimed for callers on several threads")]
        thread::scope(|scope| {
            for _ in 0..7 {
                scope.spawn(|| {
                    for _ in 0..PICKS {
                        let picked = numbers(&workflow, &request(0), &fleet)[0];
                        counts.lock().unwrap()[picked] += 1;
                    }
                });
            }
        });
        assert_eq!(*counts.lock().unwrap(), [PICKS; 7]);
    }

    #[test]
    fn pods_that_come_and_go_do_not_disturb_the_rest() {
        let (workflow, (_index, mut infos)) = (workflow(), pods(5));
        let late = infos.pop().unwrap();
        let four = routing_core::Fleet::new(1, infos.clone());
        assert_eq!([(); 2].map(|()| numbers(&workflow, &request(0), &four)[0]), [0, 1]);
        infos.push(late);
        infos.remove(2);
        let changed = routing_core::Fleet::new(2, infos);
        assert_eq!([(); 5].map(|()| numbers(&workflow, &request(0), &changed)[0]), [3, 4, 0, 1, 3]);
    }

    /// Two kinds of requests in step: a counter that both advance would give each kind the same pod for ever.
    #[test]
    fn requests_that_differ_in_candidates_do_not_leave_anyone_out() {
        let (workflow, fleet) = (workflow(), fleet(4));
        let mut counts = [0; 4];
        let mut plan = RoutingPlan::default();
        for turn in 0..40 {
            let excluded: PodSet =
                if turn % 2 == 0 { [pod(0), pod(1)] } else { [pod(2), pod(3)] }.into_iter().collect();
            workflow
                .decide(
                    &mut workflow.workspace(),
                    RoutingInput::new(&request(0), &fleet).excluding(excluded),
                    &mut plan,
                )
                .unwrap();
            counts[plan.steps()[0].candidates[0].pod.id().index()] += 1;
        }
        assert_eq!(counts, [10; 4]);
    }
}
