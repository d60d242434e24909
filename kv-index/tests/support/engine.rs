//! A simulated engine and its publisher as bytes on a wire, and a receiver.

use kv_index::engine::{EngineFeed, ReplayForm, Replayed, replay_request};
use kv_index::{BatchOutcome, Index, Pod};
use pointsman_test_support::SplitMix64;

use super::pool::Pool;
use super::publisher::{Frames, Publisher};
use super::traffic::Traffic;
use super::truth::Way;

pub type Feed<'i> = EngineFeed<&'i Index>;

/// An engine with its publisher, one incarnation after the other.
pub struct Engine {
    pub pool: Pool,
    pub publisher: Publisher,
    pub traffic: Traffic,
    pub rng: SplitMix64,
    pub time: f64,
    keeps: usize,
    form: ReplayForm,
}

impl Engine {
    pub fn new(seed: u64, keeps: usize, form: ReplayForm) -> Self {
        let publisher = Publisher::new(keeps, form);
        let pool = Pool::new(4, 64, None);
        Self { pool, publisher, traffic: Traffic::default(), rng: SplitMix64::new(seed), time: 0.0, keeps, form }
    }

    /// Works until there is something to publish.
    pub fn publish(&mut self) -> Frames {
        loop {
            self.time += 1.0;
            self.traffic.step(&mut self.pool, &mut self.rng);
            if let Some(payload) = self.pool.payload(self.time) {
                return self.publisher.publish(payload);
            }
        }
    }

    /// The process dies and comes back with an empty cache, numbering from 0.
    pub fn restart(&mut self) {
        let meaning = std::mem::take(&mut self.pool.meaning);
        self.pool = Pool::new(4, 64, None);
        self.pool.meaning = meaning;
        self.publisher = Publisher::new(self.keeps, self.form);
    }

    pub fn compare(&self, way: Way, index: &Index, pod: Pod, note: &str) {
        way.compare(index, pod, &self.pool, &self.traffic.prompts, note);
    }

    /// Asks for replays until there is nothing more to ask for; what became of each reply.
    pub fn replay(&self, feed: &Feed<'_>, mut ask: Option<u64>) -> Vec<BatchOutcome> {
        let mut verdicts = Vec::new();
        while let Some(from) = ask.take() {
            for reply in self.publisher.replay(&replay_request(from)) {
                match feed.receive_replay(&reply).expect("well-formed") {
                    Replayed::Batch(received) => verdicts.push(received.outcome),
                    Replayed::End { replay_from: again } => ask = again,
                    other => panic!("{other:?}"),
                }
            }
        }
        verdicts
    }

    /// Hands a live message over and answers what is asked for.
    pub fn deliver(&self, feed: &Feed<'_>, frames: &Frames) -> Vec<BatchOutcome> {
        let received = feed.receive(frames).expect("well-formed");
        let mut verdicts = vec![received.outcome];
        verdicts.extend(self.replay(feed, received.replay_from));
        verdicts
    }
}
