//! A watched answer: an attempt that learns from the response that passes by a host which sent the request itself.

use std::fmt;

use http::{HeaderMap, Method, StatusCode};
use kv_index::{DEFAULT_POD_WORDS, Pod};
use routing_exec::handoff::Api;
use routing_exec::{AnswerReader, BreakerSample, Failure, TokenUsage};

use crate::routed::Attempt;

/// An [`Attempt`] whose answer is read as it passes, by [`Attempt::watch`].
///
/// Dropped before its [end](Self::end), it was cancelled, which says nothing of the pod.
#[must_use = "a request counts while its answer is watched"]
pub struct WatchedAnswer<const W: usize = DEFAULT_POD_WORDS> {
    attempt: Attempt<W>,
    answer: AnswerReader,
    method: Method,
}

impl<const W: usize> WatchedAnswer<W> {
    pub(crate) fn new(attempt: Attempt<W>, api: Api, method: Method) -> Self {
        Self { attempt, answer: AnswerReader::new(api), method }
    }

    /// The pod.
    #[must_use]
    pub fn pod(&self) -> Pod {
        self.attempt.pod()
    }

    /// Its status and headers came.
    pub fn head(&mut self, status: StatusCode, headers: &HeaderMap) {
        self.answer.head(status, headers, &self.method);
    }

    /// A piece of its body came. True with the first one of a stream: the prompt is computed.
    pub fn chunk(&mut self, chunk: &[u8]) -> bool {
        let is_served = self.answer.status().is_some_and(|status| status.is_success());
        // Of an answer that is not streamed the first byte comes with the last token.
        let is_first = is_served && self.answer.is_stream() && !self.attempt.has_first_token();
        if is_first && !chunk.is_empty() {
            self.attempt.first_token();
        }
        self.answer.chunk(chunk);
        is_first && !chunk.is_empty()
    }

    /// What it told of its tokens, so far.
    #[must_use]
    pub fn usage(&self) -> Option<TokenUsage> {
        self.answer.usage()
    }

    /// Its end came: pod and load are judged by all that passed.
    ///
    /// # Errors
    ///
    /// How the pod failed.
    pub fn end(mut self) -> Result<(), Failure> {
        let usage = self.answer.usage();
        if let Some(tokens) = usage.and_then(|usage| usage.completion_tokens) {
            self.attempt.answered(tokens);
        }
        let sample = self.answer.sample(self.attempt.time_to_first_token());
        if let Some(sample) = &sample {
            self.attempt.record(sample);
        }
        match sample {
            Some(BreakerSample::Failure(failure)) => Err(failure),
            Some(BreakerSample::Overloaded(_)) => {
                Err(Failure::Status(self.answer.status().map_or(503, |status| status.as_u16())))
            }
            _ => {
                self.attempt.settle(usage.and_then(taken));
                self.attempt.learn();
                Ok(())
            }
        }
    }

    /// The attempt, of an answer that is read no further: whoever knows more of it says what became of it.
    pub fn into_attempt(self) -> Attempt<W> {
        self.attempt
    }

    /// Its status, once that came.
    #[must_use]
    pub fn status(&self) -> Option<StatusCode> {
        self.answer.status()
    }

    /// The pod failed before its answer ended.
    pub fn failed(self, failure: Failure) {
        self.attempt.failed(failure);
    }
}

impl<const W: usize> fmt::Debug for WatchedAnswer<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchedAnswer").field("attempt", &self.attempt).field("answer", &self.answer).finish()
    }
}

/// The tokens that a request took, where that is known.
pub(crate) fn taken(usage: TokenUsage) -> Option<u64> {
    Some(usage.prompt_tokens?.saturating_add(usage.completion_tokens.unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use bytes::Bytes;
    use http::header::CONTENT_TYPE;
    use http::{HeaderValue, Request};
    use routing_core::flow::{FlowConfig, FlowControl};
    use routing_exec::BreakerState;
    use routing_plugins::flow::{ConcurrencyDetector, ConcurrencyLimits};

    use super::*;
    use crate::{LlmRequest, PodSpec, Router};

    /// Two pods that take one request each, of whatever model.
    fn router() -> Router {
        let pods = ["a", "b"].map(|name| PodSpec::new(name, format!("{name}:1")));
        let router = Router::builder("m").any_adapter().pods(pods).flow_control(|state| {
            let limits = ConcurrencyLimits::default().requests(NonZeroU32::MIN);
            Ok(FlowControl::new(FlowConfig::default()).detector(ConcurrencyDetector::new(limits, state)))
        });
        router.build().unwrap()
    }

    fn read(router: &Router, body: &'static str) -> LlmRequest {
        let (parts, ()) = Request::post("/v1/completions").body(()).unwrap().into_parts();
        router.read(parts, Bytes::from_static(body.as_bytes())).unwrap()
    }

    const BODY: &str = r#"{"model":"m","prompt":"p"}"#;

    fn begin(router: &Router, request: LlmRequest) -> Option<WatchedAnswer> {
        let mut routed = router.prepare(request, None).ok()?.into_routed();
        let pod = routed.first_pod().unwrap();
        Some(routed.begin(0, pod).unwrap().watch(Api::Completions, Method::POST))
    }

    fn in_flight(router: &Router) -> u32 {
        let load = &router.plugin_state().load;
        router.pods().iter().map(|entry| load.in_flight(entry.pod.id()).requests).sum()
    }

    #[test]
    fn whoever_sends_it_itself_takes_a_place_until_the_answer_ends() {
        let router = router();
        let (first, second) = (begin(&router, read(&router, BODY)), begin(&router, read(&router, BODY)));
        assert_ne!(first.as_ref().unwrap().pod(), second.as_ref().unwrap().pod());
        assert!(begin(&router, read(&router, BODY)).is_none(), "both pods are full");
        drop(first);
        assert!(begin(&router, read(&router, BODY)).is_some());
        // A plan that nobody sends gives back what was kept for it.
        drop(router.prepare(read(&router, BODY), None).unwrap().into_routed());
        assert!(begin(&router, read(&router, BODY)).is_some());
        drop(second);
        assert_eq!(in_flight(&router), 0);
    }

    #[test]
    fn a_request_goes_to_no_pod_that_its_host_rules_out() {
        let router = router();
        let only = router.pod("b").unwrap();
        let answer = begin(&router, read(&router, BODY).among([only])).unwrap();
        assert_eq!(answer.pod(), only);
        assert!(begin(&router, read(&router, BODY).among([only])).is_none(), "the other one is idle");
        let nowhere = router.prepare(read(&router, BODY).among([]), None).unwrap_err();
        assert_eq!(nowhere.status, StatusCode::SERVICE_UNAVAILABLE);
    }

    #[test]
    fn any_other_name_is_an_adapters() {
        let router = router();
        let request = read(&router, r#"{"model":"sql","prompt":"p"}"#);
        assert_eq!((request.adapter(), &request.body()[..9]), (Some("sql"), &br#"{"model":"#[..]));
        assert_eq!(read(&router, BODY).adapter(), None);
    }

    #[test]
    fn a_pod_is_judged_by_what_passed() {
        let router = router();
        let stream = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"))]);
        let mut answer = begin(&router, read(&router, BODY)).unwrap();
        answer.head(StatusCode::OK, &stream);
        assert!(answer.chunk(b"data: {\"usage\":{\"prompt_tokens\":2,\"completion_tokens\":5}}\n\n"));
        assert!(!answer.chunk(b"data: [DONE]\n\n"), "the first token comes once");
        assert_eq!(answer.usage().unwrap().completion_tokens, Some(5));
        assert_eq!(answer.end(), Ok(()));
        for _ in 0..40 {
            let mut answer = begin(&router, read(&router, BODY).among(router.pod("a"))).unwrap();
            answer.head(StatusCode::OK, &stream);
            answer.chunk(b"data: {}\n\n");
            let failure = answer.end().unwrap_err();
            assert_eq!(failure, Failure::Truncated("stream ended without [DONE]".into()));
            let status = router.breakers().status(router.pod("a").unwrap()).unwrap();
            if status.state != BreakerState::Closed {
                return;
            }
        }
        panic!("its breaker stays closed");
    }
}
