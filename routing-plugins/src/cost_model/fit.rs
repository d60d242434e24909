//! Least squares of the relative error (Levenberg–Marquardt): a cost model from measurements.

use std::cmp::Ordering;

use super::{CostModel, Measurements, Products, StepWork};
use crate::parameters::Amount;

/// A fitted model, and how far off it is.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Fit {
    /// The model.
    pub model: CostModel,
    /// Over the prefill rows.
    pub prefill_error: RelativeError,
    /// Over the decode rows.
    pub decode_error: RelativeError,
    /// Over the mixed rows, where there are any.
    pub mixed_error: Option<RelativeError>,
}

/// Absolute values of `modelled / measured − 1`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct RelativeError {
    /// The mean.
    pub mean: f64,
    /// The 90th percentile.
    pub p90: f64,
    /// The largest.
    pub max: f64,
}

/// Why measurements give no model. The operator's to fix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FitError {
    /// A size or a time that cannot be.
    #[error("row {row} of `{list}` has a size or a time that is not above zero")]
    Row {
        /// `prefill`, `decode` or `mixed`.
        list: &'static str,
        /// Counted from 0.
        row: usize,
    },
    /// Fewer rows than coefficients.
    #[error("a fit takes 3 or more rows of `prefill` and of `decode`")]
    TooFew,
}

impl CostModel {
    /// The model of a form that is closest to measurements, by least squares of the relative error over all rows, so that
    /// short steps count as much as long ones.
    ///
    /// [`per_cached`](Self::per_cached) is fitted with [`Products::Roofline`] and 0 with [`Products::Additive`];
    /// [`step_tokens`](Self::step_tokens) is a setting of the engine and stays at its default.
    ///
    /// # Errors
    ///
    /// If a row has a size or a time of zero or below, or there are too few rows.
    pub fn fit(table: &Measurements, products: Products) -> Result<Fit, FitError> {
        let samples = samples(table)?;
        let mut coefficients = start(&samples, products);
        minimize(&mut coefficients, |point| residuals(&model(point, products), &samples));
        let model = model(&coefficients, products);
        let (prefill, rest) = samples.split_at(table.prefill.len());
        let (decode, mixed) = rest.split_at(table.decode.len());
        Ok(Fit {
            model,
            prefill_error: RelativeError::of(&model, prefill),
            decode_error: RelativeError::of(&model, decode),
            mixed_error: (!mixed.is_empty()).then(|| RelativeError::of(&model, mixed)),
        })
    }
}

impl RelativeError {
    fn of(model: &CostModel, samples: &[Sample]) -> Self {
        let mut errors: Vec<f64> = residuals(model, samples).into_iter().map(f64::abs).collect();
        errors.sort_by(f64::total_cmp);
        let last = errors.len() - 1;
        let place = last as f64 * 0.9;
        let (low, high) = (errors[place.floor() as usize], errors[place.ceil() as usize]);
        let mean = errors.iter().sum::<f64>() / errors.len() as f64;
        Self { mean, p90: low + (high - low) * place.fract(), max: errors[last] }
    }
}

/// A step and its measured seconds.
#[derive(Clone, Copy, Debug)]
struct Sample {
    work: StepWork,
    seconds: f64,
}

/// All rows as samples: prefill, decode, mixed.
fn samples(table: &Measurements) -> Result<Vec<Sample>, FitError> {
    if table.prefill.len() < 3 || table.decode.len() < 3 {
        return Err(FitError::TooFew);
    }
    let decoding = |batch: u32, context: u32| StepWork {
        sequences: f64::from(batch),
        context: f64::from(batch) * f64::from(context),
        ..StepWork::default()
    };
    let prefill = table.prefill.iter().map(|row| {
        let work = StepWork::default().chunk(f64::from(row.cached), f64::from(row.new));
        ("prefill", row.new > 0, work, row.ms - row.cache_copy_ms)
    });
    let decode = table.decode.iter().map(|row| ("decode", row.batch > 0, decoding(row.batch, row.context), row.ms));
    let mixed = table.mixed.iter().filter(|row| row.batch > 0).map(|row| {
        let work = decoding(row.batch, row.context).chunk(f64::from(row.cached), f64::from(row.new));
        ("mixed", row.new > 0, work, row.ms)
    });
    let numbered = prefill.enumerate().chain(decode.enumerate()).chain(mixed.enumerate());
    numbered
        .map(|(row, (list, sized, work, ms))| {
            let sound = sized && ms > 0.0 && ms.is_finite();
            if sound { Ok(Sample { work, seconds: ms / 1e3 }) } else { Err(FitError::Row { list, row }) }
        })
        .collect()
}

fn residuals(model: &CostModel, samples: &[Sample]) -> Vec<f64> {
    samples.iter().map(|sample| model.seconds(&sample.work) / sample.seconds - 1.0).collect()
}

/// The coefficients of a form in the order of [`model`], each at its largest: where it alone makes no step too long.
fn start(samples: &[Sample], products: Products) -> Vec<f64> {
    let most = |amount: fn(&StepWork) -> f64| {
        let paces = samples.iter().filter(|sample| amount(&sample.work) > 0.0);
        paces.map(|sample| sample.seconds / amount(&sample.work)).fold(f64::MAX, f64::min)
    };
    let fixed = most(|work| f64::from(work.new > 0.0));
    let decode_step = most(|work| f64::from(work.sequences > 0.0));
    let mut coefficients = vec![
        fixed,
        most(|work| work.new),
        most(|work| work.pairs),
        decode_step,
        most(|work| work.sequences),
        most(|work| work.context),
    ];
    if products == Products::Roofline && samples.iter().any(|sample| sample.work.cached > 0.0) {
        coefficients.push(most(|work| work.cached));
    }
    coefficients
}

/// Coefficients of either sign stand for their size, so that a search need not mind the border at 0.
fn model(coefficients: &[f64], products: Products) -> CostModel {
    let at = |place: usize| {
        let coefficient = coefficients.get(place).copied().unwrap_or_default();
        Amount::new(coefficient.abs()).unwrap_or_default()
    };
    CostModel {
        products,
        fixed: at(0),
        per_token: at(1),
        per_pair: at(2),
        decode_step: at(3),
        per_sequence: at(4),
        per_context: at(5),
        per_cached: at(6),
        ..CostModel::default()
    }
}

/// Levenberg–Marquardt with forward differences: steps that lessen the sum of squares, until none does.
fn minimize(point: &mut Vec<f64>, residuals: impl Fn(&[f64]) -> Vec<f64>) {
    let squares = |of: &[f64]| of.iter().map(|value| value * value).sum::<f64>();
    let mut here = residuals(point);
    let mut damping = 1e-3;
    for _ in 0..500 {
        let columns = jacobian(point, &here, &residuals);
        let (normal, gradient) = normal_equations(&columns, &here);
        let Some(step) = solve(&normal, &gradient, damping) else { break };
        let next: Vec<f64> = point.iter().zip(&step).map(|(value, step)| value - step).collect();
        let there = residuals(&next);
        if squares(&there) < squares(&here) {
            (*point, here, damping) = (next, there, damping * 0.3);
        } else if damping > 1e12 {
            break;
        } else {
            damping *= 4.0;
        }
    }
}

/// A column for each coefficient: what the residuals change by with it.
fn jacobian(point: &[f64], here: &[f64], residuals: impl Fn(&[f64]) -> Vec<f64>) -> Vec<Vec<f64>> {
    let column = |place: usize| {
        let mut moved = point.to_vec();
        let step = (moved[place].abs() * 1e-7).max(f64::MIN_POSITIVE);
        moved[place] += step;
        residuals(&moved).iter().zip(here).map(|(there, here)| (there - here) / step).collect()
    };
    (0..point.len()).map(column).collect()
}

fn normal_equations(columns: &[Vec<f64>], residuals: &[f64]) -> (Vec<Vec<f64>>, Vec<f64>) {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let normal = columns.iter().map(|a| columns.iter().map(|b| dot(a, b)).collect()).collect();
    (normal, columns.iter().map(|column| dot(column, residuals)).collect())
}

/// Cholesky of the damped normal matrix, scaled to a unit diagonal; nothing where a coefficient changes nothing.
fn solve(normal: &[Vec<f64>], gradient: &[f64], damping: f64) -> Option<Vec<f64>> {
    let count = gradient.len();
    let scale: Vec<f64> = (0..count).map(|at| normal[at][at].sqrt()).collect();
    let mut lower = vec![vec![0.0_f64; count]; count];
    for row in 0..count {
        for column in 0..=row {
            let own = normal[row][column] / (scale[row] * scale[column]) + if row == column { damping } else { 0.0 };
            let rest: f64 = own - (0..column).map(|k| lower[row][k] * lower[column][k]).sum::<f64>();
            lower[row][column] = if row == column { rest.sqrt() } else { rest / lower[column][column] };
        }
        // Not above zero, or no number.
        if lower[row][row].partial_cmp(&0.0) != Some(Ordering::Greater) {
            return None;
        }
    }
    let mut step = vec![0.0_f64; count];
    for row in 0..count {
        let known: f64 = (0..row).map(|k| lower[row][k] * step[k]).sum();
        step[row] = (gradient[row] / scale[row] - known) / lower[row][row];
    }
    for row in (0..count).rev() {
        let known: f64 = (row + 1..count).map(|k| lower[k][row] * step[k]).sum();
        step[row] = (step[row] - known) / lower[row][row];
    }
    Some(step.iter().zip(&scale).map(|(step, scale)| step / scale).collect())
}
