//! Routing request: tokens, headers and seed of a request, as profiles see it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use http::HeaderMap;
use kv_index::{BlockHash, Matches, Pod};
use routing_core::{Headers, PlanStep, Request};

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
        if let Some(kept) = parsed.truncate_prompt_tokens {
            match parsed.truncates_end {
                true => tokens.truncate(kept),
                false => drop(tokens.drain(..tokens.len().saturating_sub(kept))),
            }
        }
        Arc::new(Self { parsed, headers: ClientHeaders(headers), tokens, seed })
    }

    pub(super) fn request<'r>(&'r self, model: &'r str, now: Instant) -> Request<'r> {
        let parsed = &self.parsed;
        let mut request = Request::new(model, now).headers(&self.headers).body(&parsed.body).tokens(&self.tokens);
        request = request.seed(self.seed).priority(parsed.priority);
        (request.salt, request.tenant) = (parsed.salt.as_deref(), parsed.user.as_deref());
        request.adapter = parsed.adapter.as_deref();
        request.most_output = parsed.max_output_tokens;
        request
    }

    /// Prompt tokens that a pod of a step is expected to have cached, by the index.
    ///
    /// A cache-aware profile has what its first candidate holds in its plan; for others the index is searched. Engines
    /// compute at least the last token, so a block that it completes counts for nothing, even if it is held.
    pub(super) fn expected_tokens(&self, app: &AppState, pod: Pod, step: &PlanStep) -> u64 {
        if self.parsed.bypasses_cache {
            return 0;
        }
        let is_first = step.candidates.first().is_some_and(|first| first.pod == pod);
        let held = step.cache.filter(|_| is_first).map(|cache| cache.held).unwrap_or_else(|| {
            let mut matches = Matches::default();
            app.plugin_state.index.search(&self.hashes(app), &mut matches);
            matches.depth(pod.id())
        });
        let size = app.model.block_size.get() as usize;
        (held.min(self.tokens.len().saturating_sub(1) / size) * size) as u64
    }

    /// The prompt's block hashes; none where they cannot be made.
    pub(super) fn hashes(&self, app: &AppState) -> Vec<BlockHash> {
        app.plugin_state.hashing.hashes(&self.request(&app.model.name, Instant::now())).unwrap_or_default()
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
