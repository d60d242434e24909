//! Tower service in front: HTTP requests in, streamed answers out, for one model or several.

use std::borrow::Cow;
use std::convert::Infallible;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body::Body;
use json_edit::Object;
use kv_index::DEFAULT_POD_WORDS;
use routing_exec::handoff::Api;
use routing_exec::{Executor, Timer, request_body};
use tower_service::Service;

use crate::api_error::ApiError;
use crate::execute::{AnswerBody, ensure_request_id};
use crate::flow_control::FlowClass;
use crate::host::RouterHost;
use crate::llm_request::LlmRequest;
use crate::model_list::{model_list, model_object, model_of_path};
use crate::request_encoding::check_encoding;
use crate::router::Router;
use crate::uploads::{UploadLimits, Uploads};

/// A gateway as a service: `axum::Router::new().fallback_service(service)` serves it. Cheap to clone.
///
/// A request's `model` picks the router, by the model's name, an alias or an adapter; a name that none knows gets OpenAI's 404.
/// `GET /v1/models` lists the names, and `GET /v1/models/{name}` tells of one. What is posted to the paths of completions,
/// embeddings, OpenAI's Responses and Anthropic's Messages is executed, and to those that are [added](Self::path): an engine's other
/// paths are its operator's. Everything else is a 404. Bodies are JSON, not compressed; others are a 415.
///
/// Where every pod that was tried answers with an error, the client gets the last one's own status and body; see
/// [`Router::execute`].
///
/// How many requests may be under way is not bounded here; tower has layers for that. A layer counts a request from its first byte
/// on, so clients that send slowly could fill it: how many bodies may be read at a time, and their bytes together, are bounded
/// [here](Self::upload_limits).
pub struct RouterService<E, C, const W: usize = DEFAULT_POD_WORDS> {
    routes: Arc<Vec<Route<E, W>>>,
    timer: Arc<C>,
    limits: BodyLimits,
    uploads: Uploads,
    upload_limits: UploadLimits,
    paths: Arc<Vec<String>>,
    classify: Option<Arc<Classify>>,
}

/// Says who a request is of.
type Classify = dyn Fn(&LlmRequest) -> FlowClass + Send + Sync;

/// One model, and what executes its plans: pods of two routers may share ids, so each has its own transport and breakers.
#[derive(Clone)]
struct Route<E, const W: usize> {
    router: Router<W>,
    executor: Arc<E>,
}

/// Bounds on the bodies of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BodyLimits {
    /// Bytes of a body; 32 MiB unless given.
    pub max_bytes: usize,
    /// Time between two chunks; 30 s unless given.
    pub idle_timeout: Duration,
    /// Time to the end of a body; two minutes unless given.
    pub total_timeout: Duration,
}

impl Default for BodyLimits {
    fn default() -> Self {
        let (idle_timeout, total_timeout) = (Duration::from_secs(30), Duration::from_secs(120));
        Self { max_bytes: 32 << 20, idle_timeout, total_timeout }
    }
}

impl BodyLimits {
    /// The same for bodies of so many bytes.
    #[must_use]
    pub fn max_bytes(self, bytes: usize) -> Self {
        Self { max_bytes: bytes, ..self }
    }

    /// The same with another time between two chunks.
    #[must_use]
    pub fn idle_timeout(self, timeout: Duration) -> Self {
        Self { idle_timeout: timeout, ..self }
    }

    /// The same with another time to the end of a body.
    #[must_use]
    pub fn total_timeout(self, timeout: Duration) -> Self {
        Self { total_timeout: timeout, ..self }
    }

    /// Reads a client's body to its end.
    ///
    /// # Errors
    ///
    /// 400, 408 or 413, after which the connection is closed: the rest of the body is not read.
    pub async fn collect<B: Body<Error: fmt::Display>>(self, body: B, timer: &impl Timer) -> Result<Bytes, ApiError> {
        let Self { max_bytes, idle_timeout, total_timeout } = self;
        let mut collecting = pin!(request_body::collect(body, max_bytes, idle_timeout, timer));
        let end = timer.now().checked_add(total_timeout);
        let mut expired = pin!(async {
            match end {
                Some(end) => timer.sleep_until(end).await,
                None => std::future::pending().await,
            }
        });
        let collected = poll_fn(|cx| match collecting.as_mut().poll(cx) {
            Poll::Ready(body) => Poll::Ready(Some(body)),
            Poll::Pending => expired.as_mut().poll(cx).map(|()| None),
        });
        let refused = |status, message: String| ApiError::new(status, "request_body", message).closing();
        match collected.await {
            Some(body) => body.map_err(|error| refused(error.status(), error.to_string())),
            None => Err(refused(StatusCode::REQUEST_TIMEOUT, "timeout of the request body".to_owned())),
        }
    }
}

impl<E: Executor, C: Timer, const W: usize> RouterService<E, C, W> {
    /// A service of one model, and what executes its plans: made of the router, by [`Router::executor`] or with its breakers.
    ///
    /// # Errors
    ///
    /// When the executor was made of another router: requests would go to the other's pods, which have the same ids. An
    /// executor that does not tell ([`Executor::breakers_id`]) is taken.
    pub fn new(router: Router<W>, executor: E, timer: C) -> Result<Self, ForeignExecutor> {
        let is_foreign = executor.breakers_id().is_some_and(|id| id != router.breakers().id());
        if is_foreign { Err(ForeignExecutor(router.name().into())) } else { Ok(Self::of(router, executor, timer)) }
    }

    /// The same of an executor that is known to be the router's.
    pub(crate) fn of(router: Router<W>, executor: E, timer: C) -> Self {
        let routes = Arc::new(vec![Route { router, executor: Arc::new(executor) }]);
        let paths = Arc::new(PATHS.map(str::to_owned).to_vec());
        let (limits, uploads, upload_limits) = Default::default();
        Self { routes, timer: Arc::new(timer), limits, uploads, upload_limits, paths, classify: None }
    }

    /// The same with another model behind the same door, and what executes its plans: made of its router, since pods of two
    /// routers have the same ids.
    ///
    /// # Errors
    ///
    /// When a name of it is another model's already: requests for it could mean either.
    pub fn and(self, router: Router<W>, executor: impl FnOnce(&Router<W>) -> E) -> Result<Self, NameTaken> {
        if let Some(name) = router.names().find(|name| self.router(name).is_some()) {
            return Err(NameTaken(name.into()));
        }
        let mut routes: Vec<Route<E, W>> = self
            .routes
            .iter()
            .map(|Route { router, executor }| Route { router: router.clone(), executor: Arc::clone(executor) })
            .collect();
        let executor = Arc::new(executor(&router));
        routes.push(Route { router, executor });
        Ok(Self { routes: Arc::new(routes), ..self })
    }

    /// The same, executing what is posted to another path too, such as `/v1/rerank`.
    #[must_use]
    pub fn path(self, path: impl Into<String>) -> Self {
        let mut paths = (*self.paths).clone();
        paths.push(path.into());
        Self { paths: Arc::new(paths), ..self }
    }

    /// The same, with who requests are of and how urgent they are, where a router has flow control. Unless given, all are of nobody in
    /// particular and of priority 0, whatever they say.
    #[must_use]
    pub fn classify(self, classify: impl Fn(&LlmRequest) -> FlowClass + Send + Sync + 'static) -> Self {
        Self { classify: Some(Arc::new(classify)), ..self }
    }

    /// The same with other bounds on bodies.
    #[must_use]
    pub fn limits(self, limits: BodyLimits) -> Self {
        Self { limits, ..self }
    }

    /// The same with other bounds on all bodies that are being read at a time.
    #[must_use]
    pub fn upload_limits(self, limits: UploadLimits) -> Self {
        Self { upload_limits: limits, ..self }
    }

    /// The bodies that are being read.
    #[must_use]
    pub fn uploads(&self) -> &Uploads {
        &self.uploads
    }

    /// The router of a name.
    #[must_use]
    pub fn router(&self, name: &str) -> Option<&Router<W>> {
        self.routes.iter().map(|route| &route.router).find(|router| router.named_model(name).is_some())
    }

    /// The routers.
    pub fn routers(&self) -> impl Iterator<Item = &Router<W>> {
        self.routes.iter().map(|route| &route.router)
    }

    async fn answer<B: Body<Error: fmt::Display>>(self, request: Request<B>) -> Answered<E, W> {
        let api = Api::of(request.uri().path());
        match self.try_answer(request).await {
            Ok(answer) => answer,
            Err(error) => error.response_for(api).map(AnswerBody::whole),
        }
    }

    async fn try_answer<B: Body<Error: fmt::Display>>(&self, request: Request<B>) -> Result<Answered<E, W>, ApiError> {
        let path = request.uri().path();
        if request.method() == Method::GET && path == "/v1/models" {
            return Ok(json(model_list(self.routers().flat_map(Router::names))));
        }
        if let Some(name) = model_of_path(path).filter(|_| request.method() == Method::GET) {
            return match self.router(&name) {
                Some(_) => Ok(json(model_object(&name))),
                None => Err(ApiError::unknown_model(&name)),
            };
        }
        if request.method() != Method::POST || !self.paths.iter().any(|known| known == path) {
            let message = format!("there is no {} {}", request.method(), request.uri().path());
            return Err(ApiError::new(StatusCode::NOT_FOUND, "not_found", message));
        }
        check_encoding(request.headers())?;
        let (mut parts, body) = request.into_parts();
        let mut upload = self.uploads.begin(self.upload_limits)?;
        let body = upload.collect(body, self.limits, &*self.timer).await?;
        drop(upload);
        let Route { router, executor } = self.route_of(&body)?;
        let id = ensure_request_id(&mut parts.headers, router.identity(router.seed()));
        let api = Api::of(parts.uri.path());
        let prepared = match router.read_async(parts, body).await {
            Ok(request) => {
                let request = match self.classify.as_ref().map(|classify| classify(&request)) {
                    Some(class) => request.classify(class),
                    None => request,
                };
                router.admit(request, false, &*self.timer).await.map(|admitted| admitted.prepared)
            }
            Err(error) => Err(error),
        };
        Ok(router.execute_prepared(prepared, api, id, &**executor).await)
    }

    /// The route that a body's `model` names.
    fn route_of(&self, body: &[u8]) -> Result<&Route<E, W>, ApiError> {
        if let [only] = &self.routes[..] {
            // It tells what is wrong with the name, or with the body.
            return Ok(only);
        }
        let name = requested_model(body)?;
        let route = self.routes.iter().find(|route| route.router.named_model(&name).is_some());
        route.ok_or_else(|| ApiError::unknown_model(&name))
    }
}

impl<const W: usize> Router<W> {
    /// [Reads](Self::read) a request; a long one on a blocking thread, where there is a runtime that has some.
    ///
    /// # Errors
    ///
    /// As [`Self::read`].
    pub async fn read_async(&self, parts: Parts, body: Bytes) -> Result<LlmRequest, ApiError> {
        #[cfg(feature = "tokio")]
        if body.len() >= LONG_BODY && tokio::runtime::Handle::try_current().is_ok() {
            let router = self.clone();
            let read = tokio::task::spawn_blocking(move || router.read(parts, body)).await;
            let broken =
                |_| ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "tokenize_failed", "the prompt could not be read");
            return read.map_err(broken)?;
        }
        self.read(parts, body)
    }
}

/// The model that the body of a request names.
///
/// # Errors
///
/// 400 where it is no JSON object, or names none.
pub fn requested_model(body: &[u8]) -> Result<Cow<'_, str>, ApiError> {
    let model =
        Object::find(body, "model").map_err(|error| ApiError::bad_request("invalid_json", error.to_string()))?;
    let named = model.and_then(|model| model.as_str());
    named.ok_or_else(|| ApiError::bad_request("missing_model", "the request names no `model`"))
}

/// A whole answer.
fn json<B: Body<Data = Bytes>>(json: String) -> Response<AnswerBody<B>> {
    let mut response = Response::new(AnswerBody::whole(Bytes::from(json)));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Where requests for tokens are posted to.
const PATHS: [&str; 6] = [
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/embeddings",
    "/v1/responses",
    "/v1/messages",
    "/v1/messages/count_tokens",
];
/// Bytes from which a prompt is tokenized on a blocking thread: about a millisecond of work.
#[cfg(feature = "tokio")]
const LONG_BODY: usize = 64 << 10;

/// The answer of an executor over a router.
type Answered<E, const W: usize> = Response<AnswerBody<<E as Executor>::Body<RouterHost<W>>>>;

/// A model's name, alias or adapter is another model's already.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the name `{0}` is another model's already: a request for it could mean either")]
#[non_exhaustive]
pub struct NameTaken(pub Box<str>);

/// An executor was made of another router than the one whose plans it is to execute.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the executor of model `{0}` was made of another router: requests would go to that one's pods; make it by this router's `executor`"
)]
#[non_exhaustive]
pub struct ForeignExecutor(pub Box<str>);

impl<E: Executor, C: Timer, B, const W: usize> Service<Request<B>> for RouterService<E, C, W>
where
    B: Body<Data: Send, Error: fmt::Display> + Send + 'static,
{
    type Response = Answered<E, W>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move { Ok(service.answer(request).await) })
    }
}

impl<E, C, const W: usize> Clone for RouterService<E, C, W> {
    fn clone(&self) -> Self {
        let (routes, timer, paths) = (Arc::clone(&self.routes), Arc::clone(&self.timer), Arc::clone(&self.paths));
        let (limits, uploads, upload_limits) = (self.limits, self.uploads.clone(), self.upload_limits);
        Self { routes, timer, limits, uploads, upload_limits, paths, classify: self.classify.clone() }
    }
}

impl<E, C, const W: usize> fmt::Debug for RouterService<E, C, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.routes.iter().map(|route| &route.router)).finish()
    }
}

#[cfg(test)]
#[cfg(feature = "tokio")]
mod tests;
