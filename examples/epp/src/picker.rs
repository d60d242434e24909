//! The picker: a router with what is around it, shared by all requests.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use bytes::Bytes;
use http::StatusCode;
use http::request::Parts;
use pointsman::exec::ClientFields;
use pointsman::exec::adapter::TokioTimer;
use pointsman::exec::handoff::Api;
use pointsman::index::Pod;
use pointsman::{ApiError, FlowClass, LlmRequest, Routed, Router};

use crate::endpoints::Endpoints;
use crate::headers::{FAIRNESS_ID, OBJECTIVE, TEST_SELECTION, first};
use crate::kv_events::EventStatuses;
use crate::metadata;
use crate::metrics::{Metrics, PageContext, RequestLabels};
use crate::model_rewrites::{Draw, ModelRewrites};
use crate::picker_config::{Fairness, Saturation, SessionToken};
use crate::saturation;

/// Priorities by the name of an objective, as somebody keeps them up to date.
pub type Objectives = Arc<ArcSwap<HashMap<String, i32>>>;

/// How a picker deals with requests.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PickerOptions {
    /// What metrics call the pool.
    pub pool_name: String,
    /// How many endpoints are named, the best one included.
    pub endpoints: usize,
    /// The longest body that is taken.
    pub max_body_bytes: usize,
    /// The bytes of all bodies together that are held until they are decided about.
    pub max_buffered_bytes: usize,
    /// Whether bodies are read; if not, they may be anything.
    pub reads_bodies: bool,
    /// What clients may say to engines.
    pub client_fields: ClientFields,
    /// The port at which a sidecar listens for all data-parallel ranks of a pod, where there is one.
    pub data_parallel_port: Option<u16>,
    /// Whether a proxy may say which endpoints it allows for a request.
    pub subsets: bool,
    /// Whether requests may name their endpoints in a header, as conformance tests do.
    pub test_selection: bool,
    /// Whose requests share a band's room, where requests wait.
    pub fairness: Fairness,
    /// What makes the pool full: requests of a priority below 0 are refused then, where none wait.
    pub saturation: Saturation,
    /// The headers of an answer that tell a client its pods, where sessions are kept by clients.
    pub session_tokens: Vec<SessionToken>,
    /// Headers that name an agent's session, in lower case: whose request it is, where its client does not say so itself.
    pub agent_headers: Vec<String>,
}

impl Default for PickerOptions {
    fn default() -> Self {
        Self {
            pool_name: "pool".to_owned(),
            endpoints: 1,
            max_body_bytes: 64 << 20,
            max_buffered_bytes: 1 << 30,
            reads_bodies: true,
            client_fields: ClientFields::default(),
            data_parallel_port: None,
            subsets: true,
            test_selection: false,
            fairness: Fairness::ByFlow,
            saturation: Saturation::default(),
            session_tokens: Vec::new(),
            agent_headers: Vec::new(),
        }
    }
}

/// What all requests share.
#[derive(Debug)]
pub struct Picker {
    router: Router,
    options: PickerOptions,
    endpoints: Endpoints,
    objectives: Objectives,
    model_rewrites: ModelRewrites,
    draw: Draw,
    events: EventStatuses,
    metrics: Metrics,
    /// Bytes of bodies that are held.
    buffered: AtomicUsize,
    said_blind: AtomicBool,
}

impl Picker {
    /// A picker over a router.
    #[must_use]
    pub fn new(router: Router, options: PickerOptions) -> Self {
        Self {
            router,
            options,
            endpoints: Endpoints::default(),
            objectives: Objectives::default(),
            model_rewrites: ModelRewrites::default(),
            draw: Draw::default(),
            events: EventStatuses::default(),
            metrics: Metrics::default(),
            buffered: AtomicUsize::new(0),
            said_blind: AtomicBool::new(false),
        }
    }

    /// The same with priorities that somebody keeps up to date.
    #[must_use]
    pub fn objectives(self, objectives: Objectives) -> Self {
        Self { objectives, ..self }
    }

    /// The same with rules for models' names that somebody keeps up to date.
    #[must_use]
    pub fn model_rewrites(self, model_rewrites: ModelRewrites) -> Self {
        Self { model_rewrites, ..self }
    }

    /// The same with how the following of pods' events stands.
    #[must_use]
    pub fn events(self, events: EventStatuses) -> Self {
        Self { events, ..self }
    }

    /// The page of metrics.
    #[must_use]
    pub fn metrics_page(&self) -> String {
        let saturation = saturation::share(&self.router, &self.options.saturation);
        let (events, pool) = (&*self.events.lock(), &*self.options.pool_name);
        self.metrics.page(&PageContext { router: &self.router, events, pool, saturation })
    }

    /// The router.
    #[must_use]
    pub fn router(&self) -> &Router {
        &self.router
    }

    /// What was counted.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    pub(crate) fn rewrite_rules(&self) -> &ModelRewrites {
        &self.model_rewrites
    }

    /// A number, each as likely as any other.
    pub(crate) fn draw(&self) -> u64 {
        self.draw.next()
    }

    pub(crate) fn options(&self) -> &PickerOptions {
        &self.options
    }

    /// Says once that Envoy shows no bodies before requests have to go.
    pub(crate) fn says_blind(&self) {
        // Relaxed: it only keeps the log short.
        if !self.said_blind.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "Envoy's request_body_mode shows no body in time: requests go by their headers alone, and count for nothing; set FULL_DUPLEX_STREAMED or BUFFERED"
            );
        }
    }

    /// Takes room for bytes of a body; false if there is none.
    pub(crate) fn take_room(&self, bytes: usize) -> bool {
        // Relaxed: a count that publishes nothing.
        let taken = self.buffered.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        let fits = taken <= self.options.max_buffered_bytes;
        if !fits {
            self.give_room(bytes);
        }
        fits
    }

    pub(crate) fn give_room(&self, bytes: usize) {
        self.buffered.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// The pods at these endpoints.
    pub(crate) fn pods_at<'e>(&self, endpoints: impl IntoIterator<Item = &'e str>) -> Vec<Pod> {
        endpoints.into_iter().flat_map(|endpoint| self.endpoints.find(&self.router, endpoint)).collect()
    }

    pub(crate) fn is_at(&self, pod: Pod, endpoint: &str) -> bool {
        self.endpoints.is_at(&self.router, pod, endpoint)
    }

    /// Routes a request that has a body, once a pod has room for it.
    pub(crate) async fn route(
        &self,
        parts: Parts,
        body: Bytes,
        among: Option<Vec<Pod>>,
    ) -> Result<(Routed, Bytes), ApiError> {
        let (class, among) = (self.class(&parts), self.selected(&parts, among));
        let (priority, waits) = (class.priority, self.router.flow_band(class.priority).is_some());
        if priority < 0 && !waits && saturation::is_saturated(&self.router, &self.options.saturation) {
            let error = ApiError::new(
                StatusCode::TOO_MANY_REQUESTS,
                "saturated",
                "the pool is full, and the request is sheddable",
            );
            return Err(error.retry_after(Duration::from_secs(1)));
        }
        let began = Instant::now();
        let (request, body) = self.read(parts, body).await?;
        let request = request.classify(class);
        self.metrics.read(began.elapsed());
        let request = match among {
            Some(pods) if pods.is_empty() => return Err(nobody()),
            Some(pods) => request.among(pods),
            None => request,
        };
        let began = Instant::now();
        let routed = self.router.admit_routed(request, &TokioTimer::default()).await;
        self.metrics.decided(&routed, began.elapsed(), waits.then_some(priority));
        Ok((routed?, body))
    }

    /// Routes a request without a body: a list of models, for one. It waits for nobody, and counts for nothing.
    pub(crate) fn route_bodiless(&self, parts: &Parts, among: Option<Vec<Pod>>) -> Result<Routed, ApiError> {
        let fleet = self.router.fleet();
        let excluded: Vec<Pod> = match self.selected(parts, among) {
            Some(pods) if pods.is_empty() => return Err(nobody()),
            Some(pods) => {
                let others = fleet.pods().iter().filter_map(|id| fleet.handle(id));
                others.filter(|pod| !pods.contains(pod)).collect()
            }
            None => Vec::new(),
        };
        let request = self.router.request(Instant::now()).headers(&parts.headers);
        Ok(self.router.route_with(&request, &excluded, None)?)
    }

    /// Whether a body is read, by what came `before`, which did not tell, and the next `piece`; none where that does not tell either. What
    /// is of no known API may be a form, or sound.
    pub(crate) fn reads(&self, parts: &Parts, before: &[u8], piece: &[u8]) -> Option<bool> {
        match Api::of(parts.uri.path()) {
            _ if !self.options.reads_bodies => Some(false),
            Api::Other if before.is_empty() => may_be_object(piece),
            Api::Other if before.len() < LONGEST_MARK => may_be_object(&[before, piece].concat()),
            Api::Other => opens(piece),
            _ => Some(true),
        }
    }

    /// The same of a body that is all there.
    pub(crate) fn reads_whole(&self, parts: &Parts, body: &[u8]) -> bool {
        self.reads(parts, &[], body).unwrap_or_default()
    }

    /// What a request is counted under, but for its model.
    pub(crate) fn labels(&self, parts: &Parts) -> RequestLabels {
        let fairness = self.flow(parts).unwrap_or(DEFAULT_FLOW);
        RequestLabels { fairness: fairness.into(), priority: self.class(parts).priority, ..RequestLabels::default() }
    }

    /// A request as it is decided about, and its body. One that is not read counts for nothing: most of it may still be on its way.
    async fn read(&self, parts: Parts, body: Bytes) -> Result<(LlmRequest, Bytes), ApiError> {
        if !self.reads_whole(&parts, &body) {
            return Ok((self.router.read_opaque(parts, Bytes::new()), body));
        }
        let router = self.router.clone();
        let request = aside(body.len(), move || router.read(parts, body)).await??;
        let body = request.body().clone();
        Ok((request, body))
    }

    /// Who a request is of, by its headers.
    fn class(&self, parts: &Parts) -> FlowClass {
        let priority = first(&parts.headers, &OBJECTIVE).and_then(|name| self.objectives.load().get(name).copied());
        let key = self.flow(parts).filter(|_| self.options.fairness != Fairness::GlobalStrict);
        FlowClass::new(priority.unwrap_or(0), key.unwrap_or_default())
    }

    /// Whose fair share a request is of, if its headers tell.
    fn flow<'p>(&self, parts: &'p Parts) -> Option<&'p str> {
        let agent = || self.options.agent_headers.iter().find_map(|name| first(&parts.headers, &[name]));
        first(&parts.headers, &FAIRNESS_ID).or_else(agent)
    }

    /// The pods that a request may go to: those that a test names, of those that the proxy allows.
    fn selected(&self, parts: &Parts, among: Option<Vec<Pod>>) -> Option<Vec<Pod>> {
        let wanted = first(&parts.headers, &[TEST_SELECTION]).filter(|_| self.options.test_selection);
        let Some(wanted) = wanted.map(|wanted| self.pods_at(metadata::split(wanted))) else { return among };
        let is_allowed = |pod: &Pod| among.as_ref().is_none_or(|among| among.contains(pod));
        Some(wanted.into_iter().filter(is_allowed).collect())
    }
}

fn nobody() -> ApiError {
    ApiError::unavailable("no_endpoints", "none of the endpoints that the proxy allows is a pod of this pool")
}

/// Whether an engine may read a body as an object that begins so, none if that is still to be seen. Engines take a byte-order mark too, and
/// UTF-16 and UTF-32, which have zeros around a brace and the space before it. Sound and pictures that begin with zeros are something else.
fn may_be_object(start: &[u8]) -> Option<bool> {
    if start.len() < LONGEST_MARK && MARKS.iter().any(|mark| mark.starts_with(start)) {
        return None;
    }
    opens(MARKS.iter().find_map(|mark| start.strip_prefix(*mark)).unwrap_or(start))
}

/// Whether the first of a text that is neither zero nor blank opens an object; none if there is no such thing.
fn opens(text: &[u8]) -> Option<bool> {
    text.iter().find(|byte| **byte != 0 && !byte.is_ascii_whitespace()).map(|first| *first == b'{')
}

/// Does what takes as long as a body is long: for a long one on a thread of its own, so that no other request waits for it.
pub(crate) async fn aside<T: Send + 'static>(
    bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ApiError> {
    if bytes < LONG_BODY {
        return Ok(work());
    }
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "the request could not be read"))
}

/// What llm-d calls the flow of requests that name none.
const DEFAULT_FLOW: &str = "default-flow";
/// Marks at the front of texts.
const MARKS: [&[u8]; 4] = [b"\xef\xbb\xbf", b"\xfe\xff", b"\xff\xfe", b"\0\0\xfe\xff"];
const LONGEST_MARK: usize = 4;
/// Bodies from here on are read on a thread of their own: tokenizing them takes a millisecond or more.
const LONG_BODY: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_known_in_every_encoding_that_engines_read() {
        let text = [" {", "\r\n\t {\"model\":1}", "{"];
        let encodings: [fn(char) -> Vec<u8>; 5] = [
            |char| vec![char as u8],
            |char| (char as u16).to_le_bytes().into(),
            |char| (char as u16).to_be_bytes().into(),
            |char| (char as u32).to_le_bytes().into(),
            |char| (char as u32).to_be_bytes().into(),
        ];
        let marks: [&[u8]; 5] = [b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff", b"\xff\xfe\0\0", b"\0\0\xfe\xff"];
        for (encode, mark) in encodings.into_iter().zip(marks) {
            for text in text {
                let body: Vec<u8> = text.chars().flat_map(encode).collect();
                let marked = [mark, &body].concat();
                for body in [body, marked] {
                    assert_eq!(may_be_object(&body), Some(true), "{body:?}");
                    // However little of it came first.
                    for start in 0..body.len() {
                        assert_ne!(may_be_object(&body[..start]), Some(false), "{:?}", &body[..start]);
                    }
                }
            }
        }
    }

    #[test]
    fn what_begins_with_zeros_or_as_a_mark_does_is_no_object_by_that() {
        let uploads: [&[u8]; 6] =
            [b"\0\0\0\x18ftypmp42", b"\0\0\0 ftypisom", b"\xff\xfe\x12\x34", b"\0\0\x01\xba", b"RIFF{", b""];
        for upload in uploads {
            assert_ne!(may_be_object(upload), Some(true), "{upload:?}");
        }
    }
}
