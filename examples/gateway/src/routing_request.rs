//! Routing request: tokens, headers and seed of a request, as profiles see it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use http::HeaderMap;
use kv_index::{BlockSize, ChainHasher, ChainSeed, Matches};
use routing_core::{Headers, Request, RoutingPlan};

use super::app_state::AppState;
use super::parsed_request::ParsedRequest;

/// A request to be routed; routed again when pods fail.
#[derive(Debug)]
pub(super) struct RoutingRequest {
    pub(super) parsed: ParsedRequest,
    headers: ClientHeaders,
    pub(super) tokens: Vec<u32>,
    pub(super) seed: u64,
}

impl RoutingRequest {
    /// Tokenizes the prompt. A failure is counted, and the request is routed as an empty prompt.
    pub(super) fn new(app: &AppState, parsed: ParsedRequest, headers: HeaderMap, seed: u64) -> Arc<Self> {
        let mut tokens = Vec::new();
        if app.tokenizer.tokenize(&parsed.body, &mut tokens).is_err() {
            tokens.clear();
            // Relaxed: a count that publishes nothing.
            app.plugin_state.tokenize_failures.fetch_add(1, Ordering::Relaxed);
        }
        Arc::new(Self { parsed, headers: ClientHeaders(headers), tokens, seed })
    }

    pub(super) fn request<'r>(&'r self, model: &'r str, now: Instant) -> Request<'r> {
        let parsed = &self.parsed;
        let mut request = Request::new(model, now).headers(&self.headers).body(&parsed.body).tokens(&self.tokens);
        request = request.seed(self.seed).priority(parsed.priority);
        (request.salt, request.tenant) = (parsed.salt.as_deref(), parsed.user.as_deref());
        request.most_output = parsed.max_output_tokens;
        request
    }

    /// Prompt tokens that the chosen pod is known to hold.
    ///
    /// A cache-aware profile has it in its plan; for others the index is searched.
    pub(super) fn matched_tokens(&self, app: &AppState, plan: &RoutingPlan) -> u64 {
        let Some(step) = plan.steps().first() else { return 0 };
        let Some(size) = BlockSize::new(app.model.block_size.get()) else { return 0 };
        let blocks = step.cache.map(|cache| cache.held).or_else(|| {
            let pod = step.candidates.first()?.pod;
            let mut seed = ChainSeed::new(&app.model.name);
            if let Some(salt) = &self.parsed.salt {
                seed = seed.salt(salt);
            }
            let (mut matches, mut buffer) = (Matches::default(), Vec::new());
            let hasher = ChainHasher::new(seed, size);
            let mut chain = hasher.lazy(&self.tokens, &mut buffer);
            app.plugin_state.index.search_lazy(&mut chain, &mut matches);
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
