//! Attempt: one request to one pod, in flight.

use std::time::Instant;

use bytes::Bytes;
use http::{Method, response};
use routing_core::Pod;

use crate::action::{AttemptId, BreakerSample};
use crate::answer::AnswerReader;
use crate::handoff::Api;
use crate::report::{AttemptOutcome, AttemptRecord};
use crate::sse::{self, FirstEvent, Opening};

#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) id: AttemptId,
    pub(super) pod: Pod,
    /// The index of its record.
    pub(super) record: usize,
    /// Reads its response as it passes.
    pub(super) answer: AnswerReader,
    /// The head of its response, until that is forwarded.
    pub(super) head: Option<response::Parts>,
    /// The buffered body: all of it if it is not forwarded, else an incomplete first event.
    pub(super) buffered: Vec<u8>,
    /// Where the first event of an SSE stream ends.
    pub(super) first_event: FirstEvent,
    /// The chunks of an answer that goes to the client once all of it is there.
    pub(super) held: Vec<Bytes>,
    /// When its first-byte timeout started; `None` while it waits for another leg.
    pub(super) timed_from: Option<Instant>,
    /// When it times out; `None` while it waits for another leg.
    pub(super) due: Option<Instant>,
    /// Whether its response is forwarded unchanged: an error that no other pod would change.
    pub(super) passes_through: bool,
    /// Whether its failure may be another pod's.
    pub(super) is_unattributable: bool,
    /// Whether its transport has ended.
    pub(super) ended: bool,
}

impl Attempt {
    pub(super) fn new(id: AttemptId, pod: Pod, record: usize, api: Api) -> Self {
        Self {
            id,
            pod,
            record,
            answer: AnswerReader::new(api),
            head: None,
            buffered: Vec::new(),
            first_event: FirstEvent::default(),
            held: Vec::new(),
            timed_from: None,
            due: None,
            passes_through: false,
            is_unattributable: false,
            ended: false,
        }
    }

    /// Takes the head of its response.
    pub(super) fn set_head(&mut self, head: response::Parts, method: &Method) {
        self.answer.head(head.status, &head.headers, method);
        self.head = Some(head);
    }

    /// Whether its response is kept from the client until all of it is there: an answer whose length is known and within a limit.
    /// Half of it is of no use to anybody, and as long as nothing was sent another pod may be asked.
    pub(super) fn is_held(&self, limit: usize) -> bool {
        let length = self.answer.length;
        let fits = length.is_some_and(|length| usize::try_from(length).is_ok_and(|length| length <= limit));
        fits && !self.answer.is_stream() && !self.passes_through
    }

    /// Whether the buffered stream begins with an error event.
    pub(super) fn begins_with_error(&self) -> bool {
        self.answer.is_stream() && sse::opening(&self.buffered) == Opening::Error
    }

    /// Takes the buffered body.
    pub(super) fn take_buffered(&mut self) -> Bytes {
        std::mem::take(&mut self.buffered).into()
    }

    /// The sample for its pod's breaker; `None` if it shows nothing of the pod: the request was at fault, another pod may be, or it
    /// was cancelled.
    ///
    /// Only a stream's first byte, and a prefill's response, measure a pod's latency: other responses take as long as their
    /// generation.
    pub(super) fn sample(
        &self,
        record: &AttemptRecord,
        outcome: &AttemptOutcome,
        is_last: bool,
    ) -> Option<BreakerSample> {
        match outcome {
            _ if self.is_unattributable => None,
            AttemptOutcome::Failed(failure) if failure.is_pushback() => {
                Some(BreakerSample::Overloaded(self.answer.retry_after))
            }
            AttemptOutcome::Failed(failure) => failure.is_pod_fault().then(|| BreakerSample::Failure(failure.clone())),
            AttemptOutcome::Completed => {
                let from = self.timed_from.filter(|_| !is_last || self.answer.is_stream());
                let first_byte =
                    from.zip(record.first_byte).and_then(|(from, first)| first.checked_duration_since(from));
                self.answer.sample_of_whole(first_byte)
            }
            _ => None,
        }
    }
}
