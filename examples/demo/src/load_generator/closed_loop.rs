//! Closed-loop load generator: concurrent conversations, each turn sent when the one before it is answered.
//!
//! A conversation ends with its first failed turn, because the next prompt would hold an answer that never came.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::client::{Answer, Client};
use super::conversation::{Conversation, Turn};
use super::failure::Failure;
use super::load_stats::LoadStats;
use super::request_tracker::{Outcome, RequestId, RequestTracker};
use super::workload::Workload;

/// The answer that a request body must get.
pub(crate) type ExpectedAnswer = Arc<dyn Fn(&[u8]) -> String + Send + Sync>;

/// A closed-loop load generator.
#[derive(Clone)]
pub(crate) struct LoadGenerator {
    pub(crate) client: Client,
    pub(crate) workload: Workload,
    pub(crate) model: String,
    /// Conversations in all.
    pub(crate) conversations: usize,
    /// Conversations at once.
    pub(crate) concurrency: usize,
    /// Ramp-up: between the starts of the first conversations.
    pub(crate) stagger: Duration,
    /// Checks every answer.
    pub(crate) expected: Option<ExpectedAnswer>,
    /// Records the start and end of every request.
    pub(crate) tracker: Arc<RequestTracker>,
    /// While it is set, every third request is left by its client half way.
    pub(crate) leaves: Arc<AtomicBool>,
    /// Cancelled, no further turn starts; requests in flight end.
    pub(crate) stop: CancellationToken,
}

impl LoadGenerator {
    /// A load generator with a concurrency of 16.
    pub(crate) fn new(client: Client, workload: Workload, model: &str, conversations: usize) -> Self {
        Self {
            client,
            workload,
            model: model.to_owned(),
            conversations,
            concurrency: 16,
            stagger: Duration::ZERO,
            expected: None,
            tracker: Arc::default(),
            leaves: Arc::default(),
            stop: CancellationToken::new(),
        }
    }

    /// Holds the conversations; `on_end` is called after every request.
    pub(crate) async fn run(self, mut on_end: impl FnMut()) -> LoadStats {
        let (ends, mut ended) = mpsc::unbounded_channel();
        let (generator, next, mut clients) = (Arc::new(self), Arc::new(AtomicUsize::new(0)), JoinSet::new());
        for nth in 0..generator.concurrency {
            let (generator, next, ends) = (Arc::clone(&generator), Arc::clone(&next), ends.clone());
            clients.spawn(async move {
                let wait = generator.stagger * u32::try_from(nth).unwrap_or(u32::MAX);
                let stopped = generator.stop.run_until_cancelled(tokio::time::sleep(wait)).await.is_none();
                while !stopped && !generator.stop.is_cancelled() {
                    let nth = next.fetch_add(1, Ordering::Relaxed);
                    if nth >= generator.conversations {
                        return;
                    }
                    generator.converse(generator.workload.conversation(nth), &ends).await;
                }
            });
        }
        drop(ends);
        let mut stats = LoadStats::default();
        while let Some(result) = ended.recv().await {
            stats.add(&result);
            on_end();
        }
        // The channel closes when the last client is gone.
        while clients.join_next().await.is_some() {}
        stats
    }

    async fn converse(&self, conversation: Conversation, ends: &mpsc::UnboundedSender<Result<Answer, Failure>>) {
        let mut messages = conversation.opening();
        for turn in &conversation.turns {
            if self.stop.run_until_cancelled(tokio::time::sleep(turn.think)).await.is_none() {
                return;
            }
            let body = turn.begin(&self.model, &mut messages);
            let id = self.tracker.begin();
            let Some(result) = self.ask(id, &body).await else { return self.tracker.end(id, Outcome::Left) };
            let outcome =
                result.as_ref().map_or_else(|failure| Outcome::Failed(failure.clone()), |_| Outcome::Answered);
            self.tracker.end(id, outcome);
            let text = result.as_ref().ok().map(|answer| answer.text.clone());
            // The receiver is gone only if the run was dropped.
            let _ = ends.send(result);
            let Some(text) = text else { return };
            Turn::end(&mut messages, text);
        }
    }

    /// Asks; none if the client left before there was an end.
    async fn ask(&self, id: RequestId, body: &Bytes) -> Option<Result<Answer, Failure>> {
        let asked = async { self.client.ask(id, body.clone()).await.and_then(|answer| self.checked(body, answer)) };
        // Relaxed: a wish, and no more.
        if !self.leaves.load(Ordering::Relaxed) || !id.0.is_multiple_of(3) {
            return Some(asked.await);
        }
        let stays = Duration::from_millis(id.0 * 7 % LONGEST_STAY);
        tokio::time::timeout(stays, asked).await.ok()
    }

    fn checked(&self, body: &Bytes, answer: Answer) -> Result<Answer, Failure> {
        let Some(expected) = &self.expected else { return Ok(answer) };
        let expected = expected(body);
        if expected == answer.text {
            return Ok(answer);
        }
        let tokens = |text: &str| text.split_ascii_whitespace().count();
        Err(Failure::Mismatch { got: tokens(&answer.text), expected: tokens(&expected) })
    }
}

/// Clients that leave do so within so many milliseconds: in all stages of a request.
const LONGEST_STAY: u64 = 500;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load_generator::testing::{Behavior, MockServer, reply};
    use crate::load_generator::workload::WorkloadShape;

    const SHAPE: WorkloadShape = WorkloadShape {
        system_prompts: 2,
        system_tokens: (40, 60),
        turns: (3, 3),
        user_tokens: (4, 9),
        answer_tokens: (4, 4),
        think_ms: (0, 2),
        document_every: 5,
        document_tokens: (100, 120),
        unstreamed_every: 4,
    };

    fn generator(server: &MockServer, conversations: usize) -> LoadGenerator {
        let client = Client::new(&server.base(), Duration::from_secs(10));
        LoadGenerator { concurrency: 4, ..LoadGenerator::new(client, Workload::new(SHAPE, 1), "sim", conversations) }
    }

    #[tokio::test]
    async fn every_turn_of_every_script_is_asked_and_ends_once() {
        let server = MockServer::start(Behavior::Healthy).await;
        let mut seen = 0;
        let expected: ExpectedAnswer = Arc::new(|_| reply(4));
        let generator = LoadGenerator { expected: Some(expected), ..generator(&server, 10) };
        let tracker = Arc::clone(&generator.tracker);
        let stats = generator.run(|| seen += 1).await;
        // Two of the ten are documents, of one turn.
        assert_eq!((stats.answered, stats.failures(), seen), (8 * 3 + 2, 0, 26));
        assert_eq!((tracker.audit().violations(), tracker.audit().begun), (Vec::new(), 26));
        assert!(stats.ttft.len() < 26, "some answers are asked for in one piece");
        server.stop().await;
    }

    #[tokio::test]
    async fn a_failed_turn_ends_its_conversation() {
        let server = MockServer::start(Behavior::Status(503)).await;
        let stats = generator(&server, 10).run(|| {}).await;
        assert_eq!((stats.answered, stats.failures(), stats.failed["status 503"]), (0, 10, 10));
        server.stop().await;
    }

    #[tokio::test]
    async fn clients_that_leave_have_neither_answer_nor_failure() {
        let server = MockServer::start(Behavior::Silent).await;
        let generator = generator(&server, 1);
        generator.leaves.store(true, Ordering::Relaxed);
        let tracker = Arc::clone(&generator.tracker);
        let stats = generator.run(|| {}).await;
        assert_eq!((stats.requests(), tracker.audit().violations()), (0, Vec::new()));
        assert_eq!(tracker.records()[0].outcome, Outcome::Left);
        server.stop().await;
    }

    #[tokio::test]
    async fn another_answer_is_a_failure() {
        let server = MockServer::start(Behavior::Healthy).await;
        let expected: ExpectedAnswer = Arc::new(|_| reply(5));
        let stats = LoadGenerator { expected: Some(expected), ..generator(&server, 5) }.run(|| {}).await;
        assert_eq!(stats.unreported[0], Failure::Mismatch { got: 4, expected: 5 });
        server.stop().await;
    }

    #[tokio::test]
    async fn a_stop_lets_turns_end_and_begins_none() {
        let server = MockServer::start(Behavior::Healthy).await;
        let generator = generator(&server, usize::MAX);
        let (stop, tracker) = (generator.stop.clone(), Arc::clone(&generator.tracker));
        let mut ends = 0;
        let stats = generator
            .run(|| {
                ends += 1;
                if ends == 20 {
                    stop.cancel();
                }
            })
            .await;
        assert!(stats.answered >= 20 && tracker.audit().violations().is_empty());
        server.stop().await;
    }
}
