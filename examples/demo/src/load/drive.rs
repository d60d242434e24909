//! Many conversations at once, each a closed loop: the next turn is asked when the last one is answered.
//!
//! A conversation whose turn fails is given up: what it would say next depends on an answer that nobody has.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::load::client::{Answer, Client};
use crate::load::failure::Failure;
use crate::load::ledger::{Ledger, RequestId};
use crate::load::script::{Script, Turn};
use crate::load::tally::Tally;
use crate::load::workload::Workload;

/// What the whole answer to a body is, for a client that can know.
pub type Expect = Arc<dyn Fn(&[u8]) -> String + Send + Sync>;

/// How a workload is asked of a gateway.
#[derive(Clone)]
#[non_exhaustive]
pub struct Drive {
    /// Who asks.
    pub client: Client,
    /// What is asked.
    pub workload: Workload,
    /// The model that is asked for.
    pub model: String,
    /// Scripts in all; what is cancelled first ends it too.
    pub scripts: usize,
    /// Conversations at once.
    pub at_once: usize,
    /// Between the beginnings of the first ones.
    pub stagger: Duration,
    /// What answers are held against.
    pub expect: Option<Expect>,
    /// Begins and ends are entered here.
    pub ledger: Arc<Ledger>,
    /// No turn begins after this; turns under way end.
    pub stop: CancellationToken,
}

impl Drive {
    /// All of `scripts` scripts, 16 at once.
    #[must_use]
    pub fn new(client: Client, workload: Workload, model: &str, scripts: usize) -> Self {
        Self {
            client,
            workload,
            model: model.to_owned(),
            scripts,
            at_once: 16,
            stagger: Duration::ZERO,
            expect: None,
            ledger: Arc::default(),
            stop: CancellationToken::new(),
        }
    }
}

impl std::fmt::Debug for Drive {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Drive").field("scripts", &self.scripts).field("at_once", &self.at_once).finish_non_exhaustive()
    }
}

/// The end of a request.
#[derive(Debug)]
#[non_exhaustive]
pub struct Ended {
    /// Which.
    pub id: RequestId,
    /// With what.
    pub end: Result<Answer, Failure>,
}

/// Holds the conversations. Every end is shown to `see` as it comes.
pub async fn drive(drive: Drive, mut see: impl FnMut(&Ended)) -> Tally {
    let (ends, mut ended) = mpsc::unbounded_channel();
    let (drive, next, mut clients) = (Arc::new(drive), Arc::new(AtomicUsize::new(0)), JoinSet::new());
    for nth in 0..drive.at_once {
        let (drive, next, ends) = (Arc::clone(&drive), Arc::clone(&next), ends.clone());
        clients.spawn(async move {
            let wait = drive.stagger * u32::try_from(nth).unwrap_or(u32::MAX);
            let stopped = drive.stop.run_until_cancelled(tokio::time::sleep(wait)).await.is_none();
            while !stopped && !drive.stop.is_cancelled() {
                let nth = next.fetch_add(1, Ordering::Relaxed);
                if nth >= drive.scripts {
                    return;
                }
                converse(&drive, drive.workload.script(nth), &ends).await;
            }
        });
    }
    drop(ends);
    let mut tally = Tally::default();
    while let Some(ended) = ended.recv().await {
        tally.add(&ended.end);
        see(&ended);
    }
    // The channel closes when the last client is gone.
    while clients.join_next().await.is_some() {}
    tally
}

async fn converse(drive: &Drive, script: Script, ends: &mpsc::UnboundedSender<Ended>) {
    let mut said = script.opening();
    for turn in &script.turns {
        if drive.stop.run_until_cancelled(tokio::time::sleep(turn.think)).await.is_none() {
            return;
        }
        let body = turn.begin(&drive.model, &mut said);
        let id = drive.ledger.begin();
        let end = drive.client.ask(id, body.clone()).await.and_then(|answer| checked(drive, &body, answer));
        drive.ledger.end(id);
        let text = end.as_ref().ok().map(|answer| answer.text.clone());
        // Nobody looks any more: then nobody counts either.
        let _ = ends.send(Ended { id, end });
        let Some(text) = text else { return };
        Turn::end(&mut said, text);
    }
}

fn checked(drive: &Drive, body: &Bytes, answer: Answer) -> Result<Answer, Failure> {
    let Some(expect) = &drive.expect else { return Ok(answer) };
    let expected = expect(body);
    if expected == answer.text {
        return Ok(answer);
    }
    let tokens = |text: &str| text.split_ascii_whitespace().count();
    Err(Failure::Wrong { got: tokens(&answer.text), expected: tokens(&expected) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::fake::{FakeServer, Mood, reply};
    use crate::load::workload::Shape;

    const SHAPE: Shape = Shape {
        systems: 2,
        system: (40, 60),
        turns: (3, 3),
        user: (4, 9),
        answer: (4, 4),
        think_ms: (0, 2),
        one_document_in: 5,
        document: (100, 120),
        one_whole_in: 4,
    };

    fn driver(server: &FakeServer, scripts: usize) -> Drive {
        let client = Client::new(&server.base(), Duration::from_secs(10));
        Drive { at_once: 4, ..Drive::new(client, Workload::new(SHAPE, 1), "sim", scripts) }
    }

    #[tokio::test]
    async fn every_turn_of_every_script_is_asked_and_ends_once() {
        let server = FakeServer::start(Mood::Well).await;
        let mut seen = Vec::new();
        let expect: Expect = Arc::new(|_| reply(4));
        let driver = Drive { expect: Some(expect), ..driver(&server, 10) };
        let ledger = Arc::clone(&driver.ledger);
        let tally = drive(driver, |ended| seen.push(ended.id)).await;
        // Two of the ten are documents, of one turn.
        assert_eq!((tally.answered, tally.failures(), seen.len()), (8 * 3 + 2, 0, 26));
        assert_eq!((ledger.audit().holds(), ledger.audit().begun), (true, 26));
        assert!(tally.firsts.len() < 26, "some answers are asked for in one piece");
        server.stop().await;
    }

    #[tokio::test]
    async fn a_failed_turn_ends_its_conversation() {
        let server = FakeServer::start(Mood::Status(503)).await;
        let tally = drive(driver(&server, 10), |_| {}).await;
        assert_eq!((tally.answered, tally.failures(), tally.failed["status 503"]), (0, 10, 10));
        server.stop().await;
    }

    #[tokio::test]
    async fn another_answer_is_a_failure() {
        let server = FakeServer::start(Mood::Well).await;
        let expect: Expect = Arc::new(|_| reply(5));
        let tally = drive(Drive { expect: Some(expect), ..driver(&server, 5) }, |_| {}).await;
        assert_eq!(tally.unclean[0], Failure::Wrong { got: 4, expected: 5 });
        server.stop().await;
    }

    #[tokio::test]
    async fn a_stop_lets_turns_end_and_begins_none() {
        let server = FakeServer::start(Mood::Well).await;
        let driver = driver(&server, usize::MAX);
        let (stop, ledger) = (driver.stop.clone(), Arc::clone(&driver.ledger));
        let mut ends = 0;
        let tally = drive(driver, |_| {
            ends += 1;
            if ends == 20 {
                stop.cancel();
            }
        })
        .await;
        assert!(tally.answered >= 20 && ledger.audit().holds());
        server.stop().await;
    }
}
