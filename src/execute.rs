//! Execution: a client's request in, the streamed answer out.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use http_body::{Body, Frame, SizeHint};
use kv_index::DEFAULT_POD_WORDS;
use routing_core::Trace;
use routing_exec::handoff::Api;
use routing_exec::handoff::headers::strip_own_headers;
use routing_exec::{ClientRequest, Dispatch, Executor, GatheredBody, Timer};

use crate::api_error::ApiError;
use crate::flow_control::{Admitted, Decided, Patience};
use crate::host::RouterHost;
use crate::llm_request::LlmRequest;
use crate::routed::Routed;
use crate::router::Router;

/// A request that is routed and ready to be dispatched, by [`Executor::execute`].
#[derive(Debug)]
#[non_exhaustive]
pub struct Prepared<const W: usize = DEFAULT_POD_WORDS> {
    /// The dispatch.
    pub dispatch: Dispatch,
    /// Its host: counts loads, makes new plans when pods fail, compares what engines report. A host of your own may wrap it.
    pub host: RouterHost<W>,
}

impl<const W: usize> Prepared<W> {
    /// The same for a host that sends it itself: its plan, with what counts it towards the load of its pods, and what flow control charged.
    #[must_use]
    pub fn into_routed(self) -> Routed<W> {
        let plan = self.dispatch.plan().clone();
        self.host.into_routed(plan)
    }
}

impl<const W: usize> Router<W> {
    /// Routes a client's request and executes the plan: the streamed answer of a pod, or an error in the form of the
    /// request's API.
    ///
    /// A pod's error is retried on the next pod where the policy says so. Where every pod answers with one, such as 500, the answer is
    /// the last pod's own: its status and its body, as it wrote them. Only where none answered is the error the router's.
    ///
    /// It does not wait for a pod to have room: where there is flow control and none has, the answer is a 429. `RouterService` waits, and so
    /// does [`Self::admit`].
    ///
    /// Reading and routing happen at once, everything else in the future; dropping the future or the body cancels what is in
    /// flight. Where prompts are long, [`Self::read`] them on a blocking thread and [`Self::prepare`] the dispatch.
    pub fn execute<E: Executor>(
        &self,
        request: Request<Bytes>,
        executor: &E,
    ) -> impl Future<Output = Response<AnswerBody<E::Body<RouterHost<W>>>>> + Send + use<E, W> {
        let (mut parts, body) = request.into_parts();
        let id = ensure_request_id(&mut parts.headers, self.identity(self.seed()));
        let api = Api::of(parts.uri.path());
        self.execute_read(self.read(parts, body), api, id, executor)
    }

    /// The same of a request that was read, or why it could not be; the answer has the id.
    pub(crate) fn execute_read<E: Executor>(
        &self,
        request: Result<LlmRequest, ApiError>,
        api: Api,
        id: HeaderValue,
        executor: &E,
    ) -> impl Future<Output = Response<AnswerBody<E::Body<RouterHost<W>>>>> + Send + use<E, W> {
        self.execute_prepared(request.and_then(|request| self.prepare(request, None)), api, id, executor)
    }

    /// The same of a request that is ready, or why it is not.
    pub(crate) fn execute_prepared<E: Executor>(
        &self,
        prepared: Result<Prepared<W>, ApiError>,
        api: Api,
        id: HeaderValue,
        executor: &E,
    ) -> impl Future<Output = Response<AnswerBody<E::Body<RouterHost<W>>>>> + Send + use<E, W> {
        let executed = prepared.map(|Prepared { dispatch, host }| {
            // Boxed: it borrows nothing of the executor, which the compiler does not see through the trait.
            let executing: Pin<Box<dyn Future<Output = _> + Send>> = Box::pin(executor.execute(dispatch, host));
            executing
        });
        async move {
            let mut response = match executed {
                Ok(executing) => executing.await.map(AnswerBody::of_pod),
                Err(error) => error.response_for(api).map(AnswerBody::whole),
            };
            response.headers_mut().insert(REQUEST_ID, id);
            response
        }
    }

    /// Routes a request that was read, and makes its dispatch. Where there is flow control and no pod has room, it is shed:
    /// [`Self::admit`] waits.
    ///
    /// What a client says in headers that begin with `x-pointsman-` is the host's to read, before this: neither plugins nor pods
    /// see it.
    ///
    /// # Errors
    ///
    /// 503 where no pod is left for it; 429 where none has room, or others wait.
    pub fn prepare(&self, request: LlmRequest, trace: Option<&mut Trace<W>>) -> Result<Prepared<W>, ApiError> {
        let request = self.begin(request);
        let decided = match self.pass(&self.live(), &request, trace.is_some(), self.now())? {
            Some(decided) => decided,
            // Where keys are counted, only the queue knows who may go.
            None => {
                let waiting = self.enqueue(Arc::clone(&request), trace.is_some(), Patience::NowOrNever, self.now())?;
                self.pump();
                waiting.now()?
            }
        };
        let Admitted { prepared, trace: reasons, .. } = self.prepared(request, decided);
        if let Some((trace, reasons)) = trace.zip(reasons) {
            *trace = reasons;
        }
        Ok(prepared)
    }

    /// The same, waiting for its turn and for a pod that has room, where there is flow control. Dropped, it leaves the queue at once.
    ///
    /// # Errors
    ///
    /// 503 where no pod is left for it, or it waited for too long; 429 where too many wait. Either says when to come again.
    pub async fn admit<C: Timer>(
        &self,
        request: LlmRequest,
        is_traced: bool,
        timer: &C,
    ) -> Result<Admitted<W>, ApiError> {
        let request = self.begin(request);
        let decided = self.decided_in_turn(&request, is_traced, timer).await?;
        Ok(self.prepared(request, decided))
    }

    /// The same as [`Self::admit`], for hosts that send the request themselves: the plan, with what counts it.
    ///
    /// # Errors
    ///
    /// As [`Self::admit`].
    pub async fn admit_routed<C: Timer>(&self, request: LlmRequest, timer: &C) -> Result<Routed<W>, ApiError> {
        let request = self.begin(request);
        let decided = self.decided_in_turn(&request, false, timer).await?;
        let Decided { live, plan, at, charge, reserved, turn, .. } = decided;
        let prompt = self.prompt_size(&request.request(self.name(), at)).of_samples(request.has_samples());
        Ok(Routed::decided(self.clone(), live, plan, prompt, at).turn(turn).reserved(reserved, charge))
    }

    /// Decides about a request, once it is its turn.
    async fn decided_in_turn<C: Timer>(
        &self,
        request: &Arc<LlmRequest>,
        is_traced: bool,
        timer: &C,
    ) -> Result<Decided<W>, ApiError> {
        if let Some(decided) = self.pass(&self.live(), request, is_traced, self.now())? {
            return Ok(decided);
        }
        let waiting = self.enqueue(Arc::clone(request), is_traced, Patience::Waits, self.now())?;
        self.pump();
        waiting.outcome(timer).await
    }

    /// A request without what is between gateway and client, and with an id.
    fn begin(&self, mut request: LlmRequest) -> Arc<LlmRequest> {
        // So that no plugin takes a client's word for the gateway's.
        strip_own_headers(&mut request.parts.headers);
        let identity = self.identity(request.seed);
        ensure_request_id(&mut request.parts.headers, identity);
        Arc::new(request)
    }

    /// The dispatch of what was decided.
    fn prepared(&self, request: Arc<LlmRequest>, decided: Decided<W>) -> Admitted<W> {
        let Decided { live, plan, at, mut trace, flow, charge, reserved, turn } = decided;
        if let Some(trace) = &mut trace {
            trace.flow.clone_from(&flow);
        }
        let (identity, fields) = (self.identity(request.seed), &live.client_fields);
        let client = match &request.read {
            Some(read) => ClientRequest::of_read(&request.parts, read, identity, fields),
            None => ClientRequest::with_fields(&request.parts, request.body.clone(), identity, fields),
        };
        let dispatch = Dispatch::new(live.dispatch.clone(), client, plan, Vec::new());
        let host =
            RouterHost::new(self.clone(), live, request, dispatch.plan(), at).reserved(reserved, charge).turn(turn);
        Admitted { prepared: Prepared { dispatch, host }, trace, flow }
    }
}

/// Gives a request its id, in the header `x-request-id`: the client's own if it is a short text, or one made of a number.
pub fn ensure_request_id(headers: &mut HeaderMap, number: u64) -> HeaderValue {
    let is_sound = |id: &&HeaderValue| id.len() <= LONGEST_ID && id.to_str().is_ok_and(|id| !id.is_empty());
    let own = headers.get(REQUEST_ID).filter(is_sound).cloned();
    let made = || HeaderValue::try_from(format!("req-{number:016x}"));
    let id = own.or_else(|| made().ok()).unwrap_or(HeaderValue::from_static("req"));
    // One of them, whatever came.
    headers.insert(REQUEST_ID, id.clone());
    id
}

/// The body of an answer: a pod's, of which chunks that arrive together leave together, or an error's.
#[derive(Debug)]
pub struct AnswerBody<B: Body>(Answer<B>);

#[derive(Debug)]
enum Answer<B: Body> {
    Pod(GatheredBody<B>),
    /// None once it was read.
    Whole(Option<Bytes>),
}

impl<B: Body<Data = Bytes>> AnswerBody<B> {
    fn of_pod(body: B) -> Self {
        Self(Answer::Pod(GatheredBody::new(body)))
    }

    pub(crate) fn whole(body: Bytes) -> Self {
        Self(Answer::Whole(Some(body)))
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for AnswerBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        match &mut self.0 {
            Answer::Pod(body) => Pin::new(body).poll_frame(cx),
            Answer::Whole(body) => Poll::Ready(body.take().map(|body| Ok(Frame::data(body)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Answer::Pod(body) => body.is_end_stream(),
            Answer::Whole(body) => body.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Answer::Pod(body) => body.size_hint(),
            Answer::Whole(body) => SizeHint::with_exact(body.as_ref().map_or(0, |body| body.len() as u64)),
        }
    }
}

/// The header of the request id, towards clients and pods.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const LONGEST_ID: usize = 128;
