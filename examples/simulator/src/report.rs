//! Comparison report: text and Markdown tables, JSON, plots, and one HTML page.
//!
//! | module | content |
//! |---|---|
//! | [`table`] | table of policies |
//! | [`json`] | JSON with stable names |
//! | [`plots`] | plots with captions |
//! | [`html`] | self-contained HTML page |
//!
//! Invariant: every figure comes from the [`PolicyResult`]s alone, so that table, JSON and pictures cannot disagree.

pub(crate) mod html;
pub(crate) mod json;
pub(crate) mod plots;
pub(crate) mod table;

use std::io;
use std::path::{Path, PathBuf};

use pointsman_lab::format::Unit;
use serde::Serialize;

use crate::SimulateError;
use crate::results::PolicyResult;

/// Settings of a run, for reproduction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct RunSettings {
    /// What the run is about.
    pub(crate) title: String,
    /// The command that makes it again.
    pub(crate) command: String,
    /// Further settings, in the order in which they are shown: trace, seed, pods and so on.
    pub(crate) values: Vec<(&'static str, String)>,
}

/// Outcomes over something that was varied: a weight, or a share of the traffic. Outcomes of one policy are one line.
#[derive(Clone, Debug)]
pub(crate) struct SweepResult {
    /// What was varied.
    pub(crate) name: String,
    /// What its values are.
    pub(crate) unit: Unit,
    /// Its values, with what came of each.
    pub(crate) points: Vec<(f64, PolicyResult)>,
}

impl SweepResult {
    /// The results, each named by its policy and value, as rows of a table.
    pub(crate) fn rows(&self) -> Vec<PolicyResult> {
        let several = self.policies().len() > 1;
        let named = |(value, result): &(f64, PolicyResult)| {
            let value = format!("{} = {}", self.name, self.unit.format(*value));
            let policy = if several { format!("{}, {value}", result.policy) } else { value };
            PolicyResult { policy, ..result.clone() }
        };
        self.points.iter().map(named).collect()
    }

    /// Its policies, in the order in which they came.
    pub(crate) fn policies(&self) -> Vec<&str> {
        let mut policies: Vec<&str> = Vec::new();
        for (_, result) in &self.points {
            if !policies.contains(&&*result.policy) {
                policies.push(&result.policy);
            }
        }
        policies
    }
}

/// A comparison with its settings and sweep.
#[derive(Clone, Debug, Default)]
pub(crate) struct ComparisonReport {
    /// How it was made.
    pub(crate) settings: RunSettings,
    /// What came of each policy.
    pub(crate) results: Vec<PolicyResult>,
    /// What came of varying something.
    pub(crate) sweep: Option<SweepResult>,
}

impl ComparisonReport {
    /// Writes `report.html`, `report.json`, `table.md` and a picture each into a folder, which is made if it is not
    /// there. Returns the files, the page first. A file is there as a whole or not at all, whenever this is stopped.
    pub(crate) fn write_to(&self, folder: &Path) -> Result<Vec<PathBuf>, SimulateError> {
        std::fs::create_dir_all(folder).map_err(|error| SimulateError::Folder(folder.to_owned(), error))?;
        let mut written = Vec::new();
        let mut write = |name: String, text: String| {
            let path = folder.join(name);
            whole(&path, &text).map_err(|error| SimulateError::ReportFile(path.clone(), error))?;
            written.push(path);
            Ok::<_, SimulateError>(())
        };
        let figures = plots::all(self);
        write("report.html".to_owned(), html::page(self, &figures))?;
        write("report.json".to_owned(), json::text(self))?;
        write("table.md".to_owned(), self.markdown())?;
        for figure in &figures {
            write(figure.file(), figure.picture.clone())?;
        }
        Ok(written)
    }

    /// The tables of results and sweep as Markdown.
    fn markdown(&self) -> String {
        let mut tables = Vec::new();
        if !self.results.is_empty() {
            tables.push(table::markdown(&self.results));
        }
        if let Some(sweep) = &self.sweep {
            tables.push(table::markdown(&sweep.rows()));
        }
        tables.join("\n")
    }
}

/// Writes a file beside its place, and moves it there once it is whole.
fn whole(path: &Path, text: &str) -> io::Result<()> {
    let beside = path.with_extension(format!("{}.unfinished", std::process::id()));
    let written = std::fs::write(&beside, text).and_then(|()| std::fs::rename(&beside, path));
    if written.is_err() {
        // It may never have been there.
        let _ = std::fs::remove_file(&beside);
    }
    written
}

#[cfg(test)]
mod tests;
