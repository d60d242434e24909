//! What policies did, side by side: for the terminal, for tools, and as one page to read anywhere.
//!
//! | module | idea |
//! |---|---|
//! | [`table`] | a row a policy, the best of each column marked |
//! | [`json`] | everything, under names that stay |
//! | [`plots`] | pictures, each with what to look for |
//! | [`html`] | all of it on one page that needs nothing else |
//!
//! The rule: every figure comes from the [`Outcome`]s alone, so that table, JSON and pictures cannot disagree.

pub mod html;
pub mod json;
pub mod plots;
pub mod table;

use std::fmt::{self, Display};
use std::io;
use std::path::{Path, PathBuf};

use pointsman_lab::plot::axis::Unit;

use crate::outcome::Outcome;

/// How a run was made, in names and values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunSettings {
    /// What the run is about.
    pub title: String,
    /// The command that makes it again.
    pub command: String,
    /// Further settings, in the order in which they are shown: trace, seed, pods and so on.
    pub values: Vec<(String, String)>,
}

impl RunSettings {
    /// Without further settings.
    pub fn new(title: impl Into<String>, command: impl Into<String>) -> Self {
        Self { title: title.into(), command: command.into(), values: Vec::new() }
    }

    /// And this one.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: impl Display) -> Self {
        self.values.push((name.into(), value.to_string()));
        self
    }
}

/// Outcomes over something that was varied: a weight, or a share of the traffic. Outcomes of one policy are one line.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Sweep {
    /// What was varied.
    pub name: String,
    /// What its values are.
    pub unit: Unit,
    /// Its values, with what came of each.
    pub points: Vec<(f64, Outcome)>,
}

impl Sweep {
    /// Without points.
    pub fn new(name: impl Into<String>, unit: Unit) -> Self {
        Self { name: name.into(), unit, points: Vec::new() }
    }

    /// Adds what came of a value.
    pub fn add(&mut self, value: f64, outcome: Outcome) {
        self.points.push((value, outcome));
    }

    /// The outcomes, each named by its policy and value, as rows of a table.
    #[must_use]
    pub fn rows(&self) -> Vec<Outcome> {
        let several = self.policies().len() > 1;
        let named = |(value, outcome): &(f64, Outcome)| {
            let value = format!("{} = {}", self.name, self.unit.format(*value));
            let policy = if several { format!("{}, {value}", outcome.policy) } else { value };
            Outcome { policy, ..outcome.clone() }
        };
        self.points.iter().map(named).collect()
    }

    /// Its policies, in the order in which they came.
    #[must_use]
    pub fn policies(&self) -> Vec<&str> {
        let mut policies: Vec<&str> = Vec::new();
        for (_, outcome) in &self.points {
            if !policies.contains(&&*outcome.policy) {
                policies.push(&outcome.policy);
            }
        }
        policies
    }
}

/// Everything that a run found.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Report {
    /// How it was made.
    pub settings: RunSettings,
    /// What came of each policy.
    pub outcomes: Vec<Outcome>,
    /// What came of varying something.
    pub sweep: Option<Sweep>,
}

impl Report {
    /// Of these outcomes.
    #[must_use]
    pub const fn new(settings: RunSettings, outcomes: Vec<Outcome>) -> Self {
        Self { settings, outcomes, sweep: None }
    }

    /// With what came of varying something.
    #[must_use]
    pub fn with_sweep(mut self, sweep: Sweep) -> Self {
        self.sweep = Some(sweep);
        self
    }

    /// Writes `report.html`, `report.json`, `table.md` and a picture each into a folder, which is made if it is not
    /// there. Displays as a line a file. A file is there as a whole or not at all, whenever this is stopped.
    ///
    /// # Errors
    ///
    /// When the folder cannot be made or a file cannot be written.
    pub fn write_to(&self, folder: &Path) -> Result<Written, WriteError> {
        std::fs::create_dir_all(folder).map_err(|source| WriteError::Folder { folder: folder.to_owned(), source })?;
        let mut written = Written { files: Vec::new() };
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
            write(figure.file(), figure.picture.svg())?;
        }
        Ok(written)
    }

    /// The tables of outcomes and sweep as Markdown.
    fn markdown(&self) -> String {
        let mut tables = Vec::new();
        if !self.outcomes.is_empty() {
            tables.push(table::markdown(&self.outcomes));
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
#[non_exhaustive]
pub struct Written {
    /// Where they are, the page first.
    pub files: Vec<PathBuf>,
}

impl Display for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.files.iter().try_for_each(|file| writeln!(f, "wrote {}", file.display()))
    }
}

/// Why a report was not written. Whoever named the folder can act.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
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
