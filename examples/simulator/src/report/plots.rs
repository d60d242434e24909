//! Plots of a report, each with a caption.
//!
//! The rule: a policy keeps its colour in all of them.

use pointsman_lab::format::Unit;
use pointsman_lab::plot::{Axis, LineChart, Panels};
use serde::Serialize;

use super::{ComparisonReport, SweepResult};
use crate::results::{PolicyResult, TimeBucket};

/// A picture, its file's name and what to look for.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Figure {
    /// Its name, in letters that every file system takes.
    pub(crate) name: &'static str,
    /// What to look for.
    pub(crate) caption: &'static str,
    /// The picture.
    pub(crate) picture: String,
    /// Whether it is of the sweep.
    pub(crate) sweep: bool,
}

impl Figure {
    /// Its file's name.
    pub(crate) fn file(&self) -> String {
        format!("{}.svg", self.name)
    }
}

/// Every picture that there is something to draw in.
pub(crate) fn all(report: &ComparisonReport) -> Vec<Figure> {
    let mut figures = of_outcomes(&report.results);
    figures.extend(report.sweep.iter().filter(|sweep| !sweep.points.is_empty()).flat_map(of_sweep));
    figures
}

fn of_outcomes(results: &[PolicyResult]) -> Vec<Figure> {
    let mut figures = Vec::new();
    let mut add = |name, caption, picture| figures.push(Figure { name, caption, picture, sweep: false });
    if results.iter().any(|result| !result.ttft.is_empty()) {
        if results.len() > 1 {
            add(
                "tradeoff",
                "Each dot is a policy. The best are at the upper left: many hits and a short tail. A policy that is \
                 high but far to the right finds the cache and makes requests queue for it.",
                tradeoff(results),
            );
        }
        add(
            "ttft_cdf",
            "How many requests have their first token within a time. A line further left and higher is better; where \
             two cross, one policy helps most requests and hurts the rest.",
            distribution(results),
        );
        add(
            "ttft_tail",
            "The same from the other end: how many requests wait longer. Read 1% for p99 and 0.1% for p99.9; a line \
             that stays to the left all the way down has no unlucky requests.",
            tail(results),
        );
    }
    if results.iter().any(|result| !result.series.is_empty()) {
        add(
            "hit_rate",
            "Whole blocks of prompts that were held by the pod that was asked. Caches fill at first; a line that \
             falls later loses blocks to eviction, or spreads one prefix over many pods.",
            over_time(results, "Hit rate over time", Unit::Share, "blocks hit", |buckets| {
                let (hit, blocks) =
                    buckets.iter().fold((0, 0), |(hit, blocks), at| (hit + at.blocks_hit, blocks + at.blocks));
                (blocks > 0).then(|| hit as f64 / blocks as f64)
            }),
        );
        add(
            "load_mean",
            "Requests in a pod, waiting or running, in the mean. A line that climbs and does not come back is a fleet \
             that cannot keep up under that policy.",
            over_time(results, "Mean load over time", Unit::Plain, "requests in a pod, mean", |buckets| {
                Some(buckets.iter().map(|at| at.mean_load).sum::<f64>() / buckets.len() as f64)
            }),
        );
        add(
            "load_most",
            "Requests in the fullest pod. Compare with the mean: peaks that the mean does not have are hot spots, and \
             they are what the tail of the first token is made of.",
            over_time(
                results,
                "Load of the fullest pod over time",
                Unit::Plain,
                "requests in the fullest pod",
                |all| all.iter().map(|at| f64::from(at.most_load)).reduce(f64::max),
            ),
        );
    }
    if results.iter().any(|result| !result.pods.is_empty()) {
        add(
            "pods",
            "Each bar is a pod, the busiest first: the share of the run in which it worked. The dashed line is the \
             mean. An even top is a balanced fleet; lower bars at the same throughput are work that was saved.",
            pods(results),
        );
    }
    figures
}

/// A line for each policy.
fn chart(title: &str, x: Axis, y: Axis, results: &[PolicyResult], points: impl Fn(&PolicyResult) -> Points) -> String {
    let mut lines = LineChart::new(title, x, y);
    for result in results {
        lines.add(&*result.policy, points(result));
    }
    lines.draw()
}

type Points = Vec<(f64, f64)>;

fn tradeoff(results: &[PolicyResult]) -> String {
    let x = Axis::new("time to first token, p99").unit(Unit::Micros).fitting();
    let y = Axis::new("blocks hit").unit(Unit::Share);
    chart("Hit rate against TTFT p99", x, y, results, |result| {
        result.ttft.quantile(0.99).map(|p99| (p99, result.hit_rate())).into_iter().collect()
    })
}

fn distribution(results: &[PolicyResult]) -> String {
    let (x, y) = ttft_axes();
    let y = y.within(0.0, 1.0);
    chart("Time to first token: share of requests within", x, y, results, |result| result.ttft.distribution().collect())
}

fn tail(results: &[PolicyResult]) -> String {
    let (x, y) = ttft_axes();
    let least = results.iter().map(|result| 1.0 / result.ttft.len().max(1) as f64).fold(0.1, f64::min);
    let y = y.log(10.0).within(least.max(1e-4), 1.0);
    chart("Time to first token: share of requests beyond", x, y, results, |result| {
        result.ttft.distribution().map(|(us, share)| (us, 1.0 - share)).collect()
    })
}

fn ttft_axes() -> (Axis, Axis) {
    (Axis::new("time to first token").unit(Unit::Micros).log(10.0), Axis::new("share of requests").unit(Unit::Share))
}

fn over_time(
    results: &[PolicyResult],
    title: &str,
    unit: Unit,
    about: &str,
    value: impl Fn(&[TimeBucket]) -> Option<f64>,
) -> String {
    let last = results.iter().flat_map(|result| result.series.last()).map(|at| at.at_us).max().unwrap_or(0);
    let (name, us) = match last as f64 / 1e6 {
        seconds if seconds < 600.0 => ("virtual time, s", 1e6),
        seconds if seconds < 36_000.0 => ("virtual time, min", 60e6),
        _ => ("virtual time, h", 3_600e6),
    };
    let x = Axis::new(name).within(0.0, (last as f64 / us).max(1e-6));
    let y = Axis::new(about).unit(unit);
    let y = if unit == Unit::Share { y.within(0.0, 1.0) } else { y };
    chart(title, x, y, results, |result| {
        let each = result.series.len().div_ceil(MOMENTS).max(1);
        let point = |buckets: &[TimeBucket]| Some((buckets.last()?.at_us as f64 / us, value(buckets)?));
        result.series.chunks(each).filter_map(point).collect()
    })
}

fn pods(results: &[PolicyResult]) -> String {
    let mut panels = Panels::new("Share of the run in which each pod worked", Unit::Share);
    for result in results {
        let span = result.span_us.max(1) as f64;
        let note = format!("busiest {:.2}× the mean", result.imbalance());
        panels.add(&*result.policy, note, result.pods.iter().map(|pod| pod.busy_us as f64 / span));
    }
    panels.draw()
}

fn of_sweep(sweep: &SweepResult) -> Vec<Figure> {
    let figure = |name, caption, title: &str, y: Axis, value: fn(&PolicyResult) -> Option<f64>| {
        let x = Axis::new(&*sweep.name).unit(sweep.unit).fitting();
        let mut lines = LineChart::new(format!("{title} against {}", sweep.name), x, y);
        for policy in sweep.policies() {
            let points = sweep.points.iter().filter(|(_, result)| result.policy == policy);
            let mut points: Vec<(f64, f64)> = points.filter_map(|(at, result)| Some((*at, value(result)?))).collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            lines.add(policy, points);
        }
        Figure { name, caption, picture: lines.draw(), sweep: true }
    };
    vec![
        figure(
            "sweep_ttft_p99",
            "The tail of the first token. Lower is better; a flat valley is a value that need not be exact.",
            "TTFT p99",
            Axis::new("time to first token, p99").unit(Unit::Micros).fitting(),
            |result| result.ttft.quantile(0.99),
        ),
        figure(
            "sweep_hit_rate",
            "Blocks that were held. Higher is better, as long as the tail beside it does not pay for it.",
            "Hit rate",
            Axis::new("blocks hit").unit(Unit::Share).within(0.0, 1.0),
            |result| (result.blocks > 0).then(|| result.hit_rate()),
        ),
        figure(
            "sweep_inter_token_p99",
            "The slowest gaps between tokens of an answer. Prompts computed beside running answers stretch them.",
            "Inter-token p99",
            Axis::new("time between tokens, p99").unit(Unit::Micros).fitting(),
            |result| result.between.quantile(0.99),
        ),
        figure(
            "sweep_throughput",
            "Requests answered in a virtual second. Where arrivals set the pace, only a fleet that falls behind shows.",
            "Throughput",
            Axis::new("requests a second"),
            |result| Some(result.throughput()),
        ),
    ]
}

/// So many points of a line over time; what lies between is taken together.
const MOMENTS: usize = 60;
