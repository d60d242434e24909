//! A request as decisions see it: its tokens, its headers, its seed.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use http::HeaderMap;
use kv_index::{BlockSize, ChainHasher, ChainSeed, Matches};
use routing_core::{Headers, Request, RoutingPlan};

use super::asked::Asked;
use super::shared::Shared;

/// A request that wants a pod. It may be decided on again when pods fail.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) asked: Asked,
    headers: ClientHeaders,
    pub(super) tokens: Vec<u32>,
    pub(super) seed: u64,
}

impl Wanted {
    /// Makes the prompt's tokens. A prompt that has none is routed as an empty one, and counted.
    pub(super) fn new(shared: &Shared, asked: Asked, headers: HeaderMap, seed: u64) -> Arc<Self> {
        let mut tokens = Vec::new();
        if shared.tokenizer.tokenize(&asked.body, &mut tokens).is_err() {
            tokens.clear();
            // Relaxed: a count that publishes nothing.
            shared.plugin_state.tokenize_failures.fetch_add(1, Ordering::Relaxed);
        }
        Arc::new(Self { asked, headers: ClientHeaders(headers), tokens, seed })
    }

    pub(super) fn request<'r>(&'r self, model: &'r str, now: Instant) -> Request<'r> {
        let asked = &self.asked;
        let mut request = Request::new(model, now).headers(&self.headers).body(&asked.body).tokens(&self.tokens);
        request = request.seed(self.seed).priority(asked.priority);
        (request.salt, request.tenant) = (asked.salt.as_deref(), asked.user.as_deref());
        request.most_output = asked.most_output;
        request
    }

    /// Tokens of the prompt that the pod which computes it is known to hold.
    ///
    /// A profile that looks at caches has it in its plan; for the others the index is asked.
    pub(super) fn matched(&self, shared: &Shared, plan: &RoutingPlan) -> u64 {
        let Some(step) = plan.steps().first() else { return 0 };
        let Some(size) = BlockSize::new(shared.model.block_size.get()) else { return 0 };
        let blocks = step.cache.map(|cache| cache.held).or_else(|| {
            let pod = step.candidates.first()?.pod;
            let mut seed = ChainSeed::new(&shared.model.name);
            if let Some(salt) = &self.asked.salt {
                seed = seed.salt(salt);
            }
            let (mut matches, mut buffer) = (Matches::default(), Vec::new());
            let hasher = ChainHasher::new(seed, size);
            let mut chain = hasher.lazy(&self.tokens, &mut buffer);
            shared.plugin_state.index.search_lazy(&mut chain, &mut matches);
            Some(matches.depth(pod.id()))
        });
        (blocks.unwrap_or(0) * size.tokens()).min(self.tokens.len()) as u64
    }
}

/// A client's headers, for plugins.
#[derive(Debug)]
struct ClientHeaders(HeaderMap);

impl Headers for ClientHeaders {
    fn header(&self, name: &str) -> Option<&[u8]> {
        self.0.get(name).map(|value| value.as_bytes())
    }

    fn all(&self, name: &str, visit: &mut dyn FnMut(&[u8])) {
        self.0.get_all(name).iter().for_each(|value| visit(value.as_bytes()));
    }
}
