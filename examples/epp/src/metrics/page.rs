//! A page of metrics in Prometheus' text format: families, samples, histograms.

use std::fmt::Write;

use super::histogram::Histogram;

/// A page as it is written, one family after the other.
#[derive(Debug, Default)]
pub(super) struct Page(String);

/// Names and values. A label whose value is empty is one that is not there.
pub(super) type Labels<'l> = &'l [(&'l str, &'l str)];

impl Page {
    /// Begins a family. All of its samples follow.
    pub(super) fn family(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a text does not fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    pub(super) fn sample(&mut self, name: &str, labels: Labels<'_>, value: f64) {
        self.0.push_str(name);
        for (at, (name, value)) in labels.iter().enumerate() {
            let _ = write!(self.0, "{}{name}=\"", if at == 0 { '{' } else { ',' });
            self.escape(value);
            self.0.push('"');
        }
        let _ = writeln!(self.0, "{} {value}", if labels.is_empty() { "" } else { "}" });
    }

    /// A family of one sample without labels.
    pub(super) fn single(&mut self, name: &str, kind: &str, help: &str, value: f64) {
        self.family(name, kind, help);
        self.sample(name, &[], value);
    }

    pub(super) fn histogram(&mut self, name: &str, labels: Labels<'_>, histogram: &Histogram) {
        let bucket = format!("{name}_bucket");
        for (bound, count) in histogram.cumulative() {
            let bound = bound.map_or_else(|| "+Inf".to_owned(), |bound| bound.to_string());
            let labels = [labels, &[("le", &bound)]].concat();
            self.sample(&bucket, &labels, count as f64);
        }
        self.sample(&format!("{name}_sum"), labels, histogram.sum());
        self.sample(&format!("{name}_count"), labels, histogram.count() as f64);
    }

    pub(super) fn finish(self) -> String {
        self.0
    }

    fn escape(&mut self, value: &str) {
        for letter in value.chars() {
            match letter {
                '\\' => self.0.push_str(r"\\"),
                '"' => self.0.push_str("\\\""),
                '\n' => self.0.push_str(r"\n"),
                letter => self.0.push(letter),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_calls_its_model_stays_inside_its_label() {
        let mut page = Page::default();
        page.sample("a", &[("model", "x\"} 1\n\\"), ("b", "c")], 2.5);
        page.single("d_total", "counter", "Help.", 3.0);
        assert_eq!(
            page.finish(),
            "a{model=\"x\\\"} 1\\n\\\\\",b=\"c\"} 2.5\n# HELP d_total Help.\n# TYPE d_total counter\nd_total 3\n"
        );
    }
}
