//! The picker: a router with what is around it, shared by all requests.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use bytes::Bytes;
use http::StatusCode;
use http::request::Parts;
use pointsman::exec::adapter::TokioTimer;
use pointsman::exec::handoff::Api;
use pointsman::index::Pod;
use pointsman::{ApiError, FlowClass, LlmRequest, Routed, Router};

use crate::endpoints::Endpoints;
use crate::headers::{FAIRNESS_ID, OBJECTIVE, TEST_SELECTION, first};
use crate::kv_events::EventStatuses;
use crate::metadata;
use crate::metrics::Metrics;
use crate::picker_config::{Fairness, Saturation, SessionToken};
use crate::saturation;

/// Priorities by the name of an objective, as somebody keeps them up to date.
pub type Objectives = Arc<ArcSwap<HashMap<String, i32>>>;

/// How a picker deals with requests.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PickerOptions {
    /// How many endpoints are named, the best one included.
    pub endpoints: usize,
    /// The longest body that is taken.
    pub max_body_bytes: usize,
    /// The bytes of all bodies together that are held until they are decided about.
    pub max_buffered_bytes: usize,
    /// Whether bodies are read; if not, they may be anything.
    pub reads_bodies: bool,
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
    /// The header of an answer that tells a client its pod, where sessions are kept by clients.
    pub session_token: Option<SessionToken>,
}

impl Default for PickerOptions {
    fn default() -> Self {
        Self {
            endpoints: 1,
            max_body_bytes: 64 << 20,
            max_buffered_bytes: 1 << 30,
            reads_bodies: true,
            data_parallel_port: None,
            subsets: true,
            test_selection: false,
            fairness: Fairness::ByFlow,
            saturation: Saturation::default(),
            session_token: None,
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

    /// The same with how the following of pods' events stands.
    #[must_use]
    pub fn events(self, events: EventStatuses) -> Self {
        Self { events, ..self }
    }

    /// The page of metrics.
    #[must_use]
    pub fn metrics_page(&self) -> String {
        self.metrics.page(&self.router, &self.events.lock())
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
        let sheds = class.priority < 0 && self.router.flow_band(class.priority).is_none();
        if sheds && saturation::is_saturated(&self.router, &self.options.saturation) {
            let error = ApiError::new(
                StatusCode::TOO_MANY_REQUESTS,
                "saturated",
                "the pool is full, and the request is sheddable",
            );
            return Err(error.retry_after(Duration::from_secs(1)));
        }
        let began = Instant::now();
        let request = self.read(parts, body).await?.classify(class);
        self.metrics.read(began.elapsed());
        let request = match among {
            Some(pods) if pods.is_empty() => return Err(nobody()),
            Some(pods) => request.among(pods),
            None => request,
        };
        let body = request.body().clone();
        let began = Instant::now();
        let routed = self.router.admit_routed(request, &TokioTimer::default()).await;
        self.metrics.decided(began.elapsed());
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

    async fn read(&self, parts: Parts, body: Bytes) -> Result<LlmRequest, ApiError> {
        // What is of no known API may be a form, or sound.
        let is_opaque = Api::of(parts.uri.path()) == Api::Other && !begins_object(&body);
        if !self.options.reads_bodies || is_opaque {
            return Ok(self.router.read_opaque(parts, body));
        }
        if body.len() < LONG_BODY {
            return self.router.read(parts, body);
        }
        let router = self.router.clone();
        let read = tokio::task::spawn_blocking(move || router.read(parts, body)).await;
        read.unwrap_or_else(|_| {
            Err(ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "the request could not be read"))
        })
    }

    /// Who a request is of, by its headers.
    fn class(&self, parts: &Parts) -> FlowClass {
        let priority = first(&parts.headers, &OBJECTIVE).and_then(|name| self.objectives.load().get(name).copied());
        let key = first(&parts.headers, &FAIRNESS_ID).filter(|_| self.options.fairness != Fairness::GlobalStrict);
        FlowClass::new(priority.unwrap_or(0), key.unwrap_or_default())
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

fn begins_object(body: &[u8]) -> bool {
    body.trim_ascii_start().first() == Some(&b'{')
}

/// Bodies from here on are read on a thread of their own: tokenizing them takes a millisecond or more.
const LONG_BODY: usize = 64 << 10;
