//! Batch planning: prompts as chains of block hashes, and the plan over pods.

use std::num::NonZeroU32;

use json_edit::Object;
use kv_index::engine::native_seed;
use kv_index::{BlockHash, BlockSize, ChainHasher, ChainSeed};
use routing_core::batch::{BatchConfig, BatchPlan, BatchPlanner, BatchPod, BatchRequest, ColdCaches, PodPlan};
use routing_plugins::CostModel;
use routing_plugins::tokenize::PromptTokenizer;

use crate::input::Line;
use pointsman_example_common::cli::error_chain;

/// The prompts of a batch as pods see them: chains of block hashes, and how long they are.
#[derive(Clone, Debug)]
pub(crate) struct PromptChains {
    hashes: Vec<BlockHash>,
    /// By place, where its hashes end and how many tokens are expected.
    ends: Vec<(usize, u32, u32)>,
    /// Tokens in a block.
    block: NonZeroU32,
    /// Prompts that could not be read, and why the first of them could not.
    pub(crate) unread: Option<(usize, String)>,
}

impl PromptChains {
    /// The chains of a batch for a model, in blocks of so many tokens. A prompt that cannot be read is an empty one, and
    /// counted.
    pub(crate) fn of(lines: &[Line], tokenizer: &dyn PromptTokenizer, model: &str, size: BlockSize) -> Self {
        let block = u32::try_from(size.tokens()).ok().and_then(NonZeroU32::new).unwrap_or(NonZeroU32::MIN);
        let model = ChainSeed::new(model);
        let mut chains = Self { hashes: Vec::new(), ends: Vec::with_capacity(lines.len()), block, unread: None };
        let mut tokens = Vec::new();
        for line in lines {
            tokens.clear();
            if let Err(error) = tokenizer.tokenize(&line.body, &mut tokens) {
                tokens.clear();
                chains.unread.get_or_insert_with(|| (0, error_chain(&error))).0 += 1;
            }
            let body = Object::parse(&line.body).ok();
            let salt = body.and_then(|body| body.get("cache_salt")?.as_str());
            let hasher = ChainHasher::new(native_seed(model, None, salt.as_deref()), size);
            chains.hashes.extend(hasher.hash(&tokens));
            let limit = |name: &str| body.and_then(|body| body.get(name)?.as_u64());
            let output = limit("max_completion_tokens").or_else(|| limit("max_tokens")).unwrap_or(OUTPUT);
            let count = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
            chains.ends.push((chains.hashes.len(), count(tokens.len() as u64), count(output)));
        }
        chains
    }

    /// A request as planners see it.
    pub(crate) fn request(&self, place: u32) -> BatchRequest<'_> {
        let at = place as usize;
        let begin = at.checked_sub(1).map_or(0, |before| self.ends[before].0);
        let (end, prompt_tokens, output_tokens) = self.ends[at];
        BatchRequest { chain: &self.hashes[begin..end], prompt_tokens, output_tokens, deadline: None }
    }
}

/// Plans some of a batch's requests over pods. Places are those of the whole batch.
///
/// What no pod has room for is in the plan's infeasible ones, and so has an error as its result; and if there can be no plan
/// at all, every request is in no cohort, which is an error for each too.
pub(crate) fn plan(chains: &PromptChains, places: &[u32], pods: &[BatchPod]) -> BatchPlan {
    let config = BatchConfig::new((&CostModel::default()).into()).block_tokens(chains.block);
    let requests: Vec<BatchRequest<'_>> = places.iter().map(|place| chains.request(*place)).collect();
    match BatchPlanner::new(config).plan(&requests, pods, &mut ColdCaches) {
        Ok(plan) => plan.at_places(places),
        Err(_) => {
            let mut plan = BatchPlan::default();
            plan.pods.extend(pods.iter().map(|pod| PodPlan::new(pod.pod, Vec::new())));
            plan
        }
    }
}

/// Tokens of an answer where the request sets no limit.
const OUTPUT: u64 = 256;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use kv_index::{Config, Index};
    use routing_core::batch::{Cohort, InfeasibleReason};

    use super::*;
    use crate::input::Batch;
    use crate::synthetic::synthetic_batch;
    use pointsman_engine_sim::MODEL;
    use pointsman_example_common::words;

    #[test]
    fn a_plan_has_every_request_once_and_few_pods_a_document() {
        let batch = Batch::read(synthetic_batch(120, 7).as_bytes()).unwrap();
        let chains = PromptChains::of(&batch.lines, &words::prompts().unwrap(), MODEL, BlockSize::new(16).unwrap());
        let index: Index = Index::new(Config::default());
        let pods: Vec<BatchPod> = (0..3)
            .map(|nth| BatchPod { pod: index.join(&format!("pod-{nth}")).unwrap(), kv_tokens: 65_536, speed: 1.0 })
            .collect();
        let places: Vec<u32> = (0..120).filter(|place| place % 7 != 0).collect();
        let plan = plan(&chains, &places, &pods);
        let planned: Vec<&Cohort> = plan.pods.iter().flat_map(|pod| &pod.cohorts).collect();
        let mut all: Vec<u32> = planned.iter().flat_map(|cohort| cohort.requests.clone()).collect();
        all.sort_unstable();
        assert_eq!(all, places);
        let documents: BTreeSet<_> = places.iter().map(|place| chains.request(*place).chain[0]).collect();
        assert!(planned.len() <= documents.len() + 2, "a document is cut where a pod's share ends, at most");
        for pod in &plan.pods {
            let requests: usize = pod.cohorts.iter().map(|cohort| cohort.requests.len()).sum();
            assert!((28..=42).contains(&requests), "{requests}");
        }
    }

    #[test]
    fn what_no_pod_has_room_for_is_said_by_its_place_in_the_batch() {
        let batch = Batch::read(synthetic_batch(10, 7).as_bytes()).unwrap();
        let mut chains = PromptChains::of(&batch.lines, &words::prompts().unwrap(), MODEL, BlockSize::new(16).unwrap());
        chains.ends[6].2 = 1_000_000;
        let index: Index = Index::new(Config::default());
        let pods = [BatchPod { pod: index.join("pod").unwrap(), kv_tokens: 65_536, speed: 1.0 }];
        let made = plan(&chains, &[2, 4, 6, 8], &pods);
        let mut planned: Vec<u32> = made.pods[0].requests().collect();
        planned.sort_unstable();
        assert_eq!(planned, [2, 4, 8]);
        let infeasible = made.infeasible.first().unwrap();
        assert_eq!((made.infeasible.len(), infeasible.request, infeasible.why), (1, 6, InfeasibleReason::TooLong));
        assert_eq!(plan(&chains, &[2], &[]).pods, [], "without pods there is no plan, and no panic");
    }
}
