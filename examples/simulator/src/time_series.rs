//! Time series of hits and load, downsampled to a bounded number of buckets.

use pointsman_engine_sim::scheduler::Scheduler;

use crate::results::TimeBucket;

/// Moments of equal length; when there are too many, two become one.
#[derive(Debug)]
pub(crate) struct TimeSeries {
    length: u64,
    buckets: Vec<TimeBucket>,
}

impl Default for TimeSeries {
    fn default() -> Self {
        Self { length: SHORTEST, buckets: Vec::new() }
    }
}

impl TimeSeries {
    /// Counts blocks of prompts, and those of them that were hits.
    pub(crate) fn hits(&mut self, now: u64, blocks: u64, hit: u64) {
        let moment = self.at(now);
        moment.blocks += blocks;
        moment.blocks_hit += hit;
    }

    /// Notes how many requests the pods have.
    pub(crate) fn loads(&mut self, now: u64, engines: &[Scheduler]) {
        let loads = || engines.iter().map(|engine| engine.requests()).map(|(running, waiting)| running + waiting);
        let (most, sum) = (loads().max().unwrap_or(0), loads().sum::<usize>());
        let moment = self.at(now);
        moment.most_load = moment.most_load.max(most as u32);
        moment.mean_load = moment.mean_load.max(sum as f64 / engines.len().max(1) as f64);
    }

    pub(crate) fn buckets(self) -> Vec<TimeBucket> {
        self.buckets
    }

    fn at(&mut self, now: u64) -> &mut TimeBucket {
        while now / self.length >= MOST {
            self.length *= 2;
            self.buckets = self.buckets.chunks(2).map(join).collect();
        }
        let at = (now / self.length) as usize;
        while self.buckets.len() <= at {
            let at_us = (self.buckets.len() as u64 + 1) * self.length;
            self.buckets.push(TimeBucket { at_us, ..TimeBucket::default() });
        }
        &mut self.buckets[at]
    }
}

fn join(pair: &[TimeBucket]) -> TimeBucket {
    pair.iter()
        .copied()
        .reduce(|a, b| TimeBucket {
            at_us: b.at_us,
            blocks: a.blocks + b.blocks,
            blocks_hit: a.blocks_hit + b.blocks_hit,
            mean_load: a.mean_load.max(b.mean_load),
            most_load: a.most_load.max(b.most_load),
        })
        .unwrap_or_default()
}

/// Most buckets.
const MOST: u64 = 240;
/// The shortest moment, in µs.
const SHORTEST: u64 = 1_000_000;
