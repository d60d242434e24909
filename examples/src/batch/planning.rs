//! Prompts as chains of block hashes, and the plan that is made of them.

use kv_index::engine::native_seed;
use kv_index::{BlockHash, BlockSize, ChainHasher, ChainSeed};
use routing_core::batch::{BatchPlan, BatchPod, BatchRequest, Cohort, PodPlan};
use routing_core::json::Object;
use routing_plugins::tokenize::{PromptTokenizer, TemplateError};

use crate::batch::Line;
use crate::text;

/// The prompts of a batch as pods see them: chains of block hashes, and how long they are.
#[derive(Clone, Debug)]
pub struct Chains {
    hashes: Vec<BlockHash>,
    /// By place, where its hashes end and how many tokens are expected.
    ends: Vec<(usize, u32, u32)>,
}

impl Chains {
    /// The chains of a batch for a model, in blocks of so many tokens, by words as simulated pods have them. A prompt that
    /// cannot be read is an empty one: its pod will say what is wrong with it.
    ///
    /// # Errors
    ///
    /// None in fact: the template of words is a constant.
    pub fn of(lines: &[Line], model: &str, size: BlockSize) -> Result<Self, TemplateError> {
        let (prompts, model) = (text::prompts()?, ChainSeed::new(model));
        let mut chains = Self { hashes: Vec::new(), ends: Vec::with_capacity(lines.len()) };
        let mut tokens = Vec::new();
        for line in lines {
            tokens.clear();
            if prompts.tokenize(&line.body, &mut tokens).is_err() {
                tokens.clear();
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
        Ok(chains)
    }

    /// A request as planners see it.
    #[must_use]
    pub fn request(&self, place: u32) -> BatchRequest<'_> {
        let at = place as usize;
        let begin = at.checked_sub(1).map_or(0, |before| self.ends[before].0);
        let (end, prompt_tokens, output_tokens) = self.ends[at];
        BatchRequest { chain: &self.hashes[begin..end], prompt_tokens, output_tokens, deadline: None }
    }
}

/// Plans some of a batch's requests over pods: those whose prompts begin alike side by side, cut into parts of equal work.
/// Places are those of the whole batch.
#[must_use]
pub fn plan(chains: &Chains, places: &[u32], pods: &[BatchPod]) -> BatchPlan {
    let mut order = places.to_vec();
    order.sort_by_key(|place| (chains.request(*place).chain, *place));
    let work = |place: &u32| {
        let request = chains.request(*place);
        f64::from(request.prompt_tokens) + f64::from(request.output_tokens)
    };
    let speed: f64 = pods.iter().map(|pod| pod.speed).sum();
    let share = order.iter().map(work).sum::<f64>() / speed.max(f64::MIN_POSITIVE);
    let (mut plan, mut rest, mut due, mut done) = (BatchPlan::default(), &order[..], 0.0, 0.0);
    for (nth, pod) in pods.iter().enumerate() {
        due += share * pod.speed;
        let mut taken = 0;
        while taken < rest.len() && (nth + 1 == pods.len() || done < due) {
            done += work(&rest[taken]);
            taken += 1;
        }
        let (part, after) = rest.split_at(taken);
        let cohorts = part.chunk_by(|a, b| begin_alike(chains, *a, *b));
        let cohorts = cohorts.map(|cohort| Cohort::new(u32::from(cohort.len() > 1), cohort.to_vec(), 0));
        plan.pods.push(PodPlan::new(pod.pod, cohorts.collect()));
        rest = after;
    }
    plan
}

fn begin_alike(chains: &Chains, a: u32, b: u32) -> bool {
    let first = |place| chains.request(place).chain.first();
    first(a).is_some() && first(a) == first(b)
}

/// Tokens of an answer where the request sets no limit.
const OUTPUT: u64 = 256;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use kv_index::{Config, Index};

    use super::*;
    use crate::batch::{Batch, made_up};
    use crate::sim::MODEL;

    #[test]
    fn a_plan_has_every_request_once_and_few_pods_a_document() {
        let batch = Batch::read(made_up(120, 7).as_bytes()).unwrap();
        let chains = Chains::of(&batch.lines, MODEL, BlockSize::new(16).unwrap()).unwrap();
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
}
