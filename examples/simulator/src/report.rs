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

use std::fmt::{self, Display};
use std::io;
use std::path::{Path, PathBuf};

use pointsman_lab::format::Unit;

use crate::results::PolicyResult;

/// Settings of a run, for reproduction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RunSettings {
    /// What the run is about.
    pub(crate) title: String,
    /// The command that makes it again.
    pub(crate) command: String,
    /// Further settings, in the order in which they are shown: trace, seed, pods and so on.
    pub(crate) values: Vec<(String, String)>,
}

impl RunSettings {
    /// Without further settings.
    pub(crate) fn new(title: impl Into<String>, command: impl Into<String>) -> Self {
        Self { title: title.into(), command: command.into(), values: Vec::new() }
    }

    /// And this one.
    pub(crate) fn with(mut self, name: impl Into<String>, value: impl Display) -> Self {
        self.values.push((name.into(), value.to_string()));
        self
    }
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
    /// Without points.
    pub(crate) fn new(name: impl Into<String>, unit: Unit) -> Self {
        Self { name: name.into(), unit, points: Vec::new() }
    }

    /// Adds what came of a value.
    pub(crate) fn add(&mut self, value: f64, result: PolicyResult) {
        self.points.push((value, result));
    }

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
    /// Of these results.
    pub(crate) const fn new(settings: RunSettings, results: Vec<PolicyResult>) -> Self {
        Self { settings, results, sweep: None }
    }

    /// With what came of varying something.
    pub(crate) fn with_sweep(mut self, sweep: SweepResult) -> Self {
        self.sweep = Some(sweep);
        self
    }

    /// Writes `report.html`, `report.json`, `table.md` and a picture each into a folder, which is made if it is not
    /// there. Displays as a line a file. A file is there as a whole or not at all, whenever this is stopped.
    pub(crate) fn write_to(&self, folder: &Path) -> Result<WrittenFiles, WriteError> {
        std::fs::create_dir_all(folder).map_err(|source| WriteError::Folder { folder: folder.to_owned(), source })?;
        let mut written = WrittenFiles { files: Vec::new() };
        let mut write = |name: String, text: String| {
            let path = folder.join(name);
            whole(&path, &text).map_err(|source| WriteError::File { path: path.clone(), source })?;
            written.files.push(path);
            Ok(())
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

/// Files that were written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WrittenFiles {
    /// Where they are, the page first.
    pub(crate) files: Vec<PathBuf>,
}

impl Display for WrittenFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.files.iter().try_for_each(|file| writeln!(f, "wrote {}", file.display()))
    }
}

/// Why a report was not written. Whoever named the folder can act.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WriteError {
    /// The folder could not be made.
    #[error("folder `{}` could not be made", folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file could not be written.
    #[error("file `{}` could not be written", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

#[cfg(test)]
mod tests;
