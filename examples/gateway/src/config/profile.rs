//! Routing profile: a stock profile by name, or a document.

use std::path::PathBuf;

use serde::Deserialize;

/// A profile, or where it is.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged, expecting = "the name of a stock profile, `file`, or a document with `plugins` and `profiles`")]
#[non_exhaustive]
pub enum Profile {
    /// A ready profile of `routing_plugins::profiles`.
    Stock(String),
    /// A document in a file of its own.
    File(ProfileFile),
    /// A document, right here.
    Document(serde_yaml_ng::Mapping),
}

impl Profile {
    /// A stock profile.
    #[must_use]
    pub fn stock(name: &str) -> Self {
        Self::Stock(name.to_owned())
    }

    /// What pages and metrics call it.
    pub(crate) fn label(&self) -> String {
        match self {
            Self::Stock(name) => name.clone(),
            Self::File(file) => file.file.display().to_string(),
            Self::Document(_) => "document".to_owned(),
        }
    }
}

impl Default for Profile {
    fn default() -> Self {
        Self::stock("total_latency")
    }
}

/// Where a document is.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ProfileFile {
    /// The path.
    pub file: PathBuf,
}
