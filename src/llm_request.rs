//! LLM requests: the fields of an OpenAI or Anthropic request that routing needs, read in place; only a model alias is rewritten.

use std::sync::atomic::Ordering;
use std::time::Instant;

use bytes::Bytes;
use http::request::Parts;
use json_edit::{Edit, JsonError, Kind, Object, Raw};
use kv_index::{Pod, PodSet};
use routing_core::{Fleet, PromptSpans, Request};
use routing_exec::ReadBody;
use routing_exec::handoff::Api;
use routing_plugins::prepare::PromptFinder;
use routing_plugins::tokenize::{PromptApi, PromptTokenizer};

use crate::api_error::ApiError;
use crate::flow_control::FlowClass;
use crate::model::NamedModel;
use crate::router::Router;

/// A client's request, read for routing: made by [`Router::read`].
#[derive(Debug)]
pub struct LlmRequest {
    pub(crate) parts: Parts,
    /// The body for pods: the client's own, but for an alias.
    pub(crate) body: Bytes,
    /// The same, if it was read: it is not looked through again.
    pub(crate) read: Option<ReadBody>,
    /// The prompt; none where there is no tokenizer, and empty where it failed.
    tokens: Option<Vec<u32>>,
    pub(crate) seed: u64,
    fields: RequestFields,
    /// Who it is of, if the host says so.
    class: Option<FlowClass>,
    /// The pods that it may go to; any, unless the host says so.
    pods: Option<Vec<Pod>>,
}

/// What the body of a request says beside its prompt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RequestFields {
    /// The API that it is of, which says where its prompt is; a chat's unless given.
    pub api: Api,
    /// The LoRA adapter that it names as its model.
    pub adapter: Option<String>,
    /// `cache_salt`, if there is one.
    pub salt: Option<String>,
    /// `user`, or `metadata.user_id`.
    pub user: Option<String>,
    /// `max_completion_tokens`, `max_tokens` or `max_output_tokens`.
    pub max_output_tokens: Option<u32>,
    /// `priority`; 0 unless given.
    pub priority: i32,
    /// Whether the engine computes the whole prompt, whatever it has cached: log probabilities of a prompt are not cached.
    pub bypasses_cache: bool,
    /// Whether several answers are wanted, or several inputs are given: engines then report the cached tokens of one of them, which
    /// had the others' blocks, or of all.
    pub has_samples: bool,
    /// Whether the answer is streamed: `stream`.
    pub streams: bool,
    /// The tokens of the prompt to which the engine truncates it.
    pub truncate_prompt_tokens: Option<usize>,
    /// Whether it keeps the first ones of them; the last, unless asked for.
    pub truncates_end: bool,
    /// Where in the body the prompt is.
    pub prompt: Option<PromptSpans>,
}

impl RequestFields {
    /// Reads a body for a model: its fields, and the body for pods, in which an alias is replaced by the model's name and nothing
    /// else is changed. `named` says what a name means.
    ///
    /// # Errors
    ///
    /// 400 if it is no JSON object or names no model, 404 if `named` does not know the name.
    pub fn read(
        body: Bytes,
        model: &str,
        named: impl FnOnce(&str) -> Option<NamedModel<'_>>,
    ) -> Result<(Self, Bytes), ApiError> {
        Self::read_body(&body, model, named).map(|(fields, read)| (fields, read.body().clone()))
    }

    /// The same, with what a dispatch has to know of the body for pods.
    pub(crate) fn read_body(
        body: &Bytes,
        model: &str,
        named: impl FnOnce(&str) -> Option<NamedModel<'_>>,
    ) -> Result<(Self, ReadBody), ApiError> {
        // One pass over the body, however long its prompt is; another where an alias is replaced.
        let (mut found, mut finder) = ([None; NAMES.len()], PromptFinder::default());
        let invalid = |error: JsonError| ApiError::bad_request("invalid_json", error.to_string());
        let read = ReadBody::read(body, |member| {
            finder.pass(&member);
            if let Some(at) = NAMES.iter().position(|name| member.is(name)) {
                found[at] = Some(member.value());
            }
        })
        .map_err(invalid)?;
        let get = |name: &str| found[NAMES.iter().position(|known| *known == name)?];
        let text = |name: &str| get(name).and_then(|value| value.as_str()).map(|text| text.into_owned());
        let number = |name: &str| get(name).and_then(|value| value.as_u64());
        let is_given = |name: &str| get(name).is_some_and(|value| !value.is_null());
        // vLLM reads numbers in quotes too.
        let is_one = |answers: Raw<'_>| answers.is_null() || answers.as_f64().is_some_and(|answers| answers <= 1.0);
        let is_true = |name: &str| get(name).and_then(|value| value.as_bool()) == Some(true);
        let Some(name) = text("model") else {
            return Err(ApiError::bad_request("missing_model", "the request names no `model`"));
        };
        let named = named(&name).ok_or_else(|| ApiError::unknown_model(&name))?;
        let (is_alias, is_adapter) = (named == NamedModel::Alias, matches!(named, NamedModel::Adapter(_)));
        let max_output = ["max_completion_tokens", "max_tokens", "max_output_tokens"].into_iter().find_map(number);
        let priority = get("priority").and_then(|value| value.as_f64()).map_or(0, |priority| priority as i32);
        let user_id = || get("metadata")?.object()?.get("user_id")?.as_str().map(|id| id.into_owned());
        let fields = Self {
            api: Api::default(),
            adapter: is_adapter.then_some(name),
            salt: text("cache_salt").filter(|salt| !salt.is_empty()),
            user: text("user").or_else(user_id),
            max_output_tokens: max_output.map(|tokens| u32::try_from(tokens).unwrap_or(u32::MAX)),
            priority,
            bypasses_cache: is_given("prompt_logprobs") || is_true("echo") && is_given("logprobs"),
            has_samples: ["n", "best_of"].into_iter().filter_map(get).any(|answers| !is_one(answers))
                || get("input").is_some_and(has_several),
            streams: read.streams(),
            truncate_prompt_tokens: number("truncate_prompt_tokens").and_then(|tokens| usize::try_from(tokens).ok()),
            truncates_end: text("truncation_side").as_deref() == Some("right"),
            prompt: Some(finder.finish(body)),
        };
        if !is_alias {
            return Ok((fields, read));
        }
        let object = Object::parse(body).map_err(invalid)?;
        let (edited, mut finder) =
            (Bytes::from(Edit::new(object).set("model", model).finish()), PromptFinder::default());
        // Its places are others.
        let read = ReadBody::read(&edited, |member| finder.pass(&member)).map_err(invalid)?;
        Ok((Self { prompt: Some(finder.finish(&edited)), ..fields }, read))
    }

    /// The same of a request of another API.
    #[must_use]
    pub fn api(self, api: Api) -> Self {
        Self { api, ..self }
    }

    /// The prompt's tokens, as many of them as the engine keeps; none where that fails. A count of tokens has none: nothing is
    /// computed for it.
    #[must_use]
    pub fn tokenize(&self, tokenizer: &dyn PromptTokenizer, body: &[u8]) -> Option<Vec<u32>> {
        let mut tokens = Vec::new();
        let api = match self.api {
            Api::Embeddings => PromptApi::Embeddings,
            Api::Responses => PromptApi::Responses,
            Api::Messages => PromptApi::Messages,
            Api::CountTokens => return Some(tokens),
            _ => PromptApi::Completions,
        };
        api.tokenize(tokenizer, body, &mut tokens).ok()?;
        if let Some(kept) = self.truncate_prompt_tokens {
            match self.truncates_end {
                true => tokens.truncate(kept),
                false => drop(tokens.drain(..tokens.len().saturating_sub(kept))),
            }
        }
        Some(tokens)
    }
}

impl LlmRequest {
    /// Reads a request for a router's model, and makes its tokens.
    pub(crate) fn read<const W: usize>(
        router: &Router<W>,
        parts: Parts,
        body: Bytes,
        seed: u64,
    ) -> Result<Self, ApiError> {
        let (fields, read) = RequestFields::read_body(&body, router.name(), |name| router.named_model(name))?;
        let body = read.body().clone();
        let fields = fields.api(Api::of(parts.uri.path()));
        let tokens = router.tokenizer().map(|tokenizer| {
            fields.tokenize(&**tokenizer, &body).unwrap_or_else(|| {
                // Relaxed: a count that publishes nothing.
                router.plugin_state().tokenize_failures.fetch_add(1, Ordering::Relaxed);
                Vec::new()
            })
        });
        Ok(Self { parts, body, read: Some(read), tokens, seed, fields, class: None, pods: None })
    }

    /// A request whose body is not read: no names, no prompt.
    pub(crate) fn opaque<const W: usize>(router: &Router<W>, parts: Parts, body: Bytes, seed: u64) -> Self {
        let fields = RequestFields::default().api(Api::of(parts.uri.path()));
        let tokens = router.tokenizer().map(|_| Vec::new());
        Self { parts, body, read: None, tokens, seed, fields, class: None, pods: None }
    }

    /// The same, with who it is of and how urgent it is, for flow control. Unless said, it is of nobody in particular and of priority 0:
    /// what its body says of that is a client's own word.
    #[must_use]
    pub fn classify(self, class: FlowClass) -> Self {
        Self { class: Some(class), ..self }
    }

    /// The same, for some pods alone.
    #[must_use]
    pub fn among(self, pods: impl IntoIterator<Item = Pod>) -> Self {
        Self { pods: Some(pods.into_iter().collect()), ..self }
    }

    /// The pods of a fleet that it may not go to: those that failed it, and those that its host rules out.
    pub(crate) fn excluded<const W: usize>(&self, fleet: &Fleet<W>, failed: &[Pod]) -> PodSet<W> {
        let failed: PodSet<W> = failed.iter().map(|pod| pod.id()).collect();
        let Some(pods) = &self.pods else { return failed };
        // A place that another pod has by now is not meant.
        let is_here = |pod: &&Pod| fleet.handle(pod.id()) == Some(**pod);
        let among: PodSet<W> = pods.iter().filter(is_here).map(|pod| pod.id()).collect();
        failed | (fleet.pods() - among)
    }

    /// Who it is of.
    #[must_use]
    pub fn class(&self) -> FlowClass {
        self.class.clone().unwrap_or_default()
    }

    /// The request as plugins see it.
    #[must_use]
    pub fn request<'r>(&'r self, model: &'r str, now: Instant) -> Request<'r> {
        let RequestFields { adapter, salt, user, max_output_tokens, priority, .. } = &self.fields;
        let mut request = Request::new(model, now).headers(&self.parts.headers).body(&self.body);
        request = request.seed(self.seed).priority(*priority);
        (request.tokens, request.prompt) = (self.tokens.as_deref(), self.fields.prompt.as_ref());
        (request.salt, request.tenant) = (salt.as_deref(), user.as_deref());
        (request.adapter, request.most_output) = (adapter.as_deref(), *max_output_tokens);
        request.client = self.class.as_ref().map(|class| &*class.key).filter(|key| !key.is_empty());
        request
    }

    /// Method, path and headers.
    #[must_use]
    pub fn parts(&self) -> &Parts {
        &self.parts
    }

    /// The body for pods: the client's own, but that an alias is the model's name now.
    #[must_use]
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// The prompt's tokens; none where there is no tokenizer, or it failed.
    #[must_use]
    pub fn tokens(&self) -> &[u32] {
        self.tokens.as_deref().unwrap_or_default()
    }

    /// Bytes that it keeps in memory: its body, and its prompt's tokens.
    pub(crate) fn kept_bytes(&self) -> u64 {
        (self.body.len() + size_of_val(self.tokens())) as u64
    }

    /// What decides its ties. Its identifiers are made of this and of what the router drew for itself.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The LoRA adapter that it asks for.
    #[must_use]
    pub fn adapter(&self) -> Option<&str> {
        self.fields.adapter.as_deref()
    }

    /// How many tokens it may generate, if it says so.
    #[must_use]
    pub fn max_output_tokens(&self) -> Option<u32> {
        self.fields.max_output_tokens
    }

    /// Whether the engine computes the whole prompt, whatever it has cached.
    pub(crate) fn bypasses_cache(&self) -> bool {
        self.fields.bypasses_cache
    }

    /// Whether several answers are wanted.
    pub(crate) fn has_samples(&self) -> bool {
        self.fields.has_samples
    }

    /// Whether the answer is streamed, so that its first byte is of its first token.
    pub(crate) fn streams(&self) -> bool {
        self.fields.streams
    }
}

/// Whether a body has several inputs.
fn has_several(input: Raw<'_>) -> bool {
    let mut inputs = input.array().into_iter().flatten();
    let is_one = |input: Raw<'_>| matches!(input.kind(), Kind::String | Kind::Array);
    inputs.next().is_some_and(is_one) && inputs.next().is_some()
}

/// The members that are read of a body.
const NAMES: [&str; 16] = [
    "model",
    "cache_salt",
    "user",
    "metadata",
    "max_completion_tokens",
    "max_tokens",
    "max_output_tokens",
    "priority",
    "prompt_logprobs",
    "echo",
    "logprobs",
    "n",
    "best_of",
    "input",
    "truncate_prompt_tokens",
    "truncation_side",
];

#[cfg(test)]
pub(crate) mod tests;
