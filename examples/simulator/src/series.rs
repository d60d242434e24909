//! How a run was, time after time, in a bounded number of moments.

use crate::engine::Engine;
use crate::outcome::Moment;

/// Moments of equal length; when there are too many, two become one.
#[derive(Debug)]
pub(super) struct Series {
    length: u64,
    moments: Vec<Moment>,
}

impl Default for Series {
    fn default() -> Self {
        Self { length: SHORTEST, moments: Vec::new() }
    }
}

impl Series {
    /// Counts blocks that were asked for, and those that were held.
    pub(super) fn hits(&mut self, now: u64, blocks: u64, hit: u64) {
        let moment = self.at(now);
        moment.blocks += blocks;
        moment.blocks_hit += hit;
    }

    /// Notes how many requests the pods have.
    pub(super) fn loads(&mut self, now: u64, engines: &[Engine]) {
        let loads = || engines.iter().map(|engine| engine.requests()).map(|(running, waiting)| running + waiting);
        let (most, sum) = (loads().max().unwrap_or(0), loads().sum::<usize>());
        let moment = self.at(now);
        moment.most_load = moment.most_load.max(most as u32);
        moment.mean_load = moment.mean_load.max(sum as f64 / engines.len().max(1) as f64);
    }

    pub(super) fn moments(self) -> Vec<Moment> {
        self.moments
    }

    fn at(&mut self, now: u64) -> &mut Moment {
        while now / self.length >= MOST {
            self.length *= 2;
            self.moments = self.moments.chunks(2).map(join).collect();
        }
        let at = (now / self.length) as usize;
        while self.moments.len() <= at {
            let at_us = (self.moments.len() as u64 + 1) * self.length;
            self.moments.push(Moment { at_us, ..Moment::default() });
        }
        &mut self.moments[at]
    }
}

fn join(pair: &[Moment]) -> Moment {
    pair.iter()
        .copied()
        .reduce(|a, b| Moment {
            at_us: b.at_us,
            blocks: a.blocks + b.blocks,
            blocks_hit: a.blocks_hit + b.blocks_hit,
            mean_load: a.mean_load.max(b.mean_load),
            most_load: a.most_load.max(b.most_load),
        })
        .unwrap_or_default()
}

/// Most moments.
const MOST: u64 = 240;
/// The shortest moment, in µs.
const SHORTEST: u64 = 1_000_000;
