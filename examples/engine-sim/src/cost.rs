//! How long a step takes: interpolated between measurements, so that a simulated pod is as slow as a real one.
//!
//! The rule that must never break: more tokens, cached or new, and more sequences never take less time. The built-in
//! measurements are of one H200 with a Llama-8B-shaped model; those below about 37 ms are what launching a step costs,
//! with noise, and the model meets them within 8 ms. It meets the others within 1 in 100.

mod surface;
mod table;

use std::time::Duration;

use serde::Deserialize;

use surface::{Curve, Point, Surface, without_noise};

/// How long prefills and decode steps take.
#[derive(Clone, Debug)]
pub struct CostModel {
    /// By new tokens, with nothing cached.
    cold: Curve,
    /// What a cached part adds: by new tokens, then by cached ones.
    cached: Surface,
    /// By sequences, then by context.
    decode: Surface,
}

impl Default for CostModel {
    fn default() -> Self {
        let prefill = table::PREFILL.map(|[cached, new, cost]| Point { x: new, y: cached, cost });
        let decode = table::DECODE.map(|[batch, context, cost]| Point { x: batch, y: context, cost });
        Self::new(&prefill, &decode)
    }
}

impl CostModel {
    /// The costs of another machine or model: a JSON object with `prefill`, a list of `{cached, new, ms, cache_copy_ms}`, and
    /// `decode`, a list of `{batch, context, ms}`.
    ///
    /// # Errors
    ///
    /// If the text is something else, a list is empty, a figure is not above zero, or no prefill begins from nothing.
    pub fn from_json(json: &str) -> Result<Self, CostError> {
        let file: File = serde_json::from_str(json)
            .map_err(|error| CostError::Json { line: error.line(), column: error.column() })?;
        let prefill: Vec<Point> = file
            .prefill
            .iter()
            .map(|row| Point { x: row.new, y: row.cached, cost: row.ms - row.cache_copy_ms })
            .collect();
        let decode: Vec<Point> =
            file.decode.iter().map(|row| Point { x: row.batch, y: row.context, cost: row.ms }).collect();
        for (list, points) in [("prefill", &prefill), ("decode", &decode)] {
            let sound = |point: &Point| point.x > 0.0 && point.y >= 0.0 && point.cost > 0.0;
            if let Some(row) = points.iter().position(|point| !sound(point)) {
                return Err(CostError::Figure { list, row });
            }
        }
        if decode.is_empty() || !prefill.iter().any(|point| point.y == 0.0) {
            return Err(CostError::Missing);
        }
        Ok(Self::new(&prefill, &decode))
    }

    fn new(prefill: &[Point], decode: &[Point]) -> Self {
        let prefill = without_noise(prefill);
        let (cold, warm): (Vec<Point>, Vec<Point>) = prefill.iter().partition(|point| point.y == 0.0);
        let cold = Curve::new(cold.iter().map(|point| (point.x, point.cost)).collect(), 0.0);
        let surplus = |point: &Point| Point { cost: (point.cost - cold.at(point.x)).max(0.0), ..*point };
        let mut extra: Vec<Point> = warm.iter().map(surplus).collect();
        let origins: Vec<Point> = extra.iter().map(|point| Point { y: 0.0, cost: 0.0, ..*point }).collect();
        extra.extend(origins);
        extra.sort_by(|a, b| a.x.total_cmp(&b.x).then(a.y.total_cmp(&b.y)));
        extra.dedup_by(|a, b| a.x == b.x && a.y == b.y);
        Self { cold, cached: Surface::new(&extra), decode: Surface::new(&without_noise(decode)) }
    }

    /// One prefill of `new` tokens after `cached` ones.
    #[must_use]
    pub fn prefill(&self, cached: usize, new: usize) -> Duration {
        millis(if new == 0 { 0.0 } else { self.cold.at(new as f64) + self.cached.at(new as f64, cached as f64) })
    }

    /// One decode step of `batch` sequences with `context` tokens each.
    #[must_use]
    pub fn decode(&self, batch: usize, context: usize) -> Duration {
        millis(if batch == 0 { 0.0 } else { self.decode.at(batch as f64, context as f64) })
    }

    /// One step of a batch that has both: `chunks` of prompts as (cached, new), and the contexts of what decodes.
    ///
    /// Chunks count as one prefill of all their tokens, and what each one's cached part adds. A decode beside them rides along:
    /// launching a step and reading the weights is paid once.
    #[must_use]
    pub fn step(&self, chunks: &[(usize, usize)], contexts: &[usize]) -> Duration {
        self.batch(chunks, contexts.len(), contexts.iter().sum::<usize>() / contexts.len().max(1))
    }

    /// The same of so many sequences that decode with `context` tokens each, in the mean.
    #[must_use]
    pub fn batch(&self, chunks: &[(usize, usize)], decoding: usize, context: usize) -> Duration {
        let new = chunks.iter().map(|chunk| chunk.1).sum();
        let extra: f64 = chunks.iter().map(|&(cached, new)| self.cached.at(new as f64, cached as f64)).sum();
        let prefill = self.prefill(0, new) + millis(extra);
        let decode = self.decode(decoding, context);
        let shared = if new == 0 { Duration::ZERO } else { decode.min(self.decode(1, 0)) };
        prefill + decode - shared
    }
}

/// Why a file of costs was not taken. The operator's to mend.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CostError {
    /// Not JSON, or of another shape.
    #[error("costs cannot be read, line {line}, column {column}")]
    Json {
        /// Counted from 1.
        line: usize,
        /// Counted from 1.
        column: usize,
    },
    /// A size or a time that cannot be.
    #[error("row {row} of `{list}` has a size or a time that is not above zero")]
    Figure {
        /// Which list.
        list: &'static str,
        /// Counted from 0.
        row: usize,
    },
    /// Too little to go by.
    #[error("costs need a prefill with nothing cached and a decode step")]
    Missing,
}

fn millis(ms: f64) -> Duration {
    Duration::try_from_secs_f64(ms / 1e3).unwrap_or(Duration::MAX)
}

#[derive(Deserialize)]
struct File {
    prefill: Vec<PrefillRow>,
    decode: Vec<DecodeRow>,
}

#[derive(Deserialize)]
struct PrefillRow {
    cached: f64,
    new: f64,
    ms: f64,
    #[serde(default)]
    cache_copy_ms: f64,
}

#[derive(Deserialize)]
struct DecodeRow {
    batch: f64,
    context: f64,
    ms: f64,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn near(modelled: Duration, measured: f64) -> bool {
        let ms = modelled.as_secs_f64() * 1e3;
        (ms - measured).abs() <= if measured < 37.0 { 8.0 } else { 0.01 * measured }
    }

    #[test]
    fn every_measurement_is_met() {
        let model = CostModel::default();
        for [cached, new, ms] in table::PREFILL {
            let modelled = model.prefill(cached as usize, new as usize);
            assert!(near(modelled, ms), "{new} after {cached}: measured {ms} ms, modelled {modelled:?}");
        }
        for [batch, context, ms] in table::DECODE {
            let modelled = model.decode(batch as usize, context as usize);
            assert!(near(modelled, ms), "{batch} at {context}: measured {ms} ms, modelled {modelled:?}");
        }
    }

    #[test]
    fn a_file_of_the_same_form_gives_the_same_costs() {
        let prefill: Vec<String> = table::PREFILL
            .iter()
            .map(|[cached, new, ms]| {
                format!(r#"{{"cached":{cached},"new":{new},"ms":{},"cache_copy_ms":1}}"#, ms + 1.0)
            })
            .collect();
        let decode: Vec<String> = table::DECODE
            .iter()
            .map(|[batch, context, ms]| format!(r#"{{"batch":{batch},"context":{context},"ms":{ms}}}"#))
            .collect();
        let json = format!(r#"{{"device":"x","prefill":[{}],"decode":[{}]}}"#, prefill.join(","), decode.join(","));
        let (read, built) = (CostModel::from_json(&json).unwrap(), CostModel::default());
        for (cached, new) in [(0, 1), (0, 3_000), (5_000, 700), (90_000, 40_000)] {
            let (read, built) = (read.prefill(cached, new), built.prefill(cached, new));
            assert!(read.abs_diff(built) < Duration::from_micros(1));
        }
        assert_eq!(read.decode(20, 3_000), built.decode(20, 3_000));
    }

    #[test]
    fn a_file_that_says_too_little_or_nonsense_is_refused() {
        let refused = |json: &str| CostModel::from_json(json).unwrap_err();
        assert_eq!(refused("{"), CostError::Json { line: 1, column: 1 });
        assert_eq!(refused(r#"{"prefill":[],"decode":[]}"#), CostError::Missing);
        let negative = r#"{"prefill":[{"cached":0,"new":1,"ms":1,"cache_copy_ms":2}],"decode":[]}"#;
        assert_eq!(refused(negative), CostError::Figure { list: "prefill", row: 0 });
    }

    #[test]
    fn a_cached_prompt_costs_a_fraction() {
        let model = CostModel::default();
        assert!(model.prefill(0, 100_000) > 60 * model.prefill(75_000, 128));
    }

    #[test]
    fn a_decode_beside_a_prefill_costs_less_than_alone() {
        let model = CostModel::default();
        let (prefill, decode) = (model.step(&[(0, 4_096)], &[]), model.step(&[], &[1_024; 8]));
        let both = model.step(&[(0, 4_096)], &[1_024; 8]);
        assert!(both >= prefill && both < prefill + decode, "{both:?} of {prefill:?} and {decode:?}");
        assert_eq!(model.step(&[], &[]), Duration::ZERO);
    }

    proptest! {
        #[test]
        fn more_never_takes_less(a in 0_usize..120_000, b in 1_usize..120_000, more in 0_usize..20_000) {
            let model = CostModel::default();
            // Sums round: a nanosecond is nothing.
            let grows = |less: Duration, more: Duration| less <= more + Duration::from_nanos(1);
            prop_assert!(grows(model.prefill(a, b), model.prefill(a + more, b)));
            prop_assert!(grows(model.prefill(a, b), model.prefill(a, b + more)));
            let (batch, extra) = (1 + b % 300, more % 64);
            prop_assert!(grows(model.decode(batch, a), model.decode(batch + extra, a)));
            prop_assert!(grows(model.decode(batch, a), model.decode(batch, a + more)));
        }
    }
}
