//! Figures of engines that plugins ask for by name: samples of their metrics, as they were told last.

use std::collections::{BTreeMap, HashMap};

use parking_lot::RwLock;
use pointsman::core::PodId;
use pointsman::index::Pod;
use pointsman::plugins::extra::Metrics;

/// Figures of pods by the names that plugins ask for.
#[derive(Debug, Default)]
pub struct Figures(RwLock<HashMap<(Box<str>, PodId), f64>>);

impl Metrics for Figures {
    fn figure(&self, metric: &str, pod: PodId) -> Option<f64> {
        // Looked up by a key of its own type: few profiles ask, and names are short.
        self.0.read().get(&(metric.into(), pod)).copied()
    }
}

impl Figures {
    /// Takes a pod's metrics in: of each attribute the metric that it is.
    pub(crate) fn learn(&self, pod: Pod, metrics: &str, attributes: &BTreeMap<String, String>) {
        for (name, metric) in attributes {
            let (key, mut figures) = ((name.as_str().into(), pod.id()), self.0.write());
            // What is not told any more is not known any more.
            match figure(metrics, metric) {
                Some(figure) => figures.insert(key, figure),
                None => figures.remove(&key),
            };
        }
    }
}

/// The first sample of a metric, by its name and, in braces, labels that it must have.
fn figure(metrics: &str, wanted: &str) -> Option<f64> {
    let (name, labels) = wanted.split_once('{').unwrap_or((wanted, ""));
    let labels: Vec<&str> =
        labels.trim_end_matches('}').split(',').map(str::trim).filter(|label| !label.is_empty()).collect();
    metrics.lines().find_map(|line| {
        let rest = line.strip_prefix(name)?;
        let (found, value) = match rest.strip_prefix('{') {
            Some(rest) => rest.rsplit_once('}')?,
            None => ("", rest.strip_prefix(' ')?),
        };
        let has = labels.iter().all(|label| found.split(',').any(|found| found.trim() == *label));
        let value: f64 = value.split_ascii_whitespace().next()?.parse().ok()?;
        (has && value.is_finite()).then_some(value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_found_by_its_name_and_its_labels() {
        let text = "# HELP a:b x\na:b_total 9\na:b{x=\"1\",y=\"2\"} 3.5\na:b{x=\"2\"} 4 170000\nc 5\nd NaN\n";
        assert_eq!((figure(text, "a:b"), figure(text, "a:b{x=\"2\"}")), (Some(3.5), Some(4.0)));
        assert_eq!((figure(text, "c"), figure(text, "d"), figure(text, "a")), (Some(5.0), None, None));
        assert_eq!(figure(text, "a:b{y=\"2\", x=\"1\"}"), Some(3.5));
    }
}
