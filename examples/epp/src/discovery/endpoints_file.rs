//! llm-d's `file-discovery`: a YAML or JSON file that lists endpoints, read once or followed.
//!
//! A file that is wrong in any entry is refused whole, with every fault in it: a list with pods missing would pass for a
//! smaller fleet.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::io::{self, Read};
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use pointsman::{Discovery, PodSpec};
use serde::Deserialize;
use tokio::time::sleep;

use super::role_label::role_of;

/// The pods of a file with `endpoints`, each of which has `name`, `address` (an IP address), `port`, and maybe `namespace` and
/// `labels`.
///
/// A pod is called by its name, with `namespace/` before it where that is given and is not `default`. Its role is that of the
/// label `llm-d.ai/role`.
///
/// # Examples
///
/// ```
/// use pointsman_epp::discovery::EndpointsFile;
///
/// let pods = EndpointsFile::new("/etc/epp/endpoints.yaml").watch_file(true);
/// # let _ = pods;
/// ```
#[derive(Clone, Debug)]
pub struct EndpointsFile {
    path: PathBuf,
    watch: bool,
    period: Duration,
    last: Option<Vec<u8>>,
    listed: bool,
}

impl EndpointsFile {
    /// The pods of a file, which is read until it has given a list, and then no more.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), watch: false, period: Duration::from_secs(1), last: None, listed: false }
    }

    /// The same, whether it is read again when it changed: llm-d's parameter `watchFile`.
    #[must_use]
    pub fn watch_file(self, watch: bool) -> Self {
        Self { watch, ..self }
    }

    /// The same, looked at again after another time than a second.
    #[must_use]
    pub fn period(self, period: Duration) -> Self {
        Self { period, ..self }
    }

    async fn read(&self) -> Result<Vec<u8>, EndpointsFileError> {
        let path = self.path.clone();
        let read = tokio::task::spawn_blocking(move || {
            let mut bytes = Vec::new();
            std::fs::File::open(path)?.take(LIMIT + 1).read_to_end(&mut bytes)?;
            Ok(bytes)
        });
        let bytes = read.await.map_err(io::Error::other).and_then(|bytes: io::Result<_>| bytes);
        bytes.map_err(|error| EndpointsFileError::Unreadable { path: self.path.clone(), why: error.to_string() })
    }
}

impl Discovery for EndpointsFile {
    type Error = EndpointsFileError;

    async fn next(&mut self) -> Result<Vec<PodSpec>, EndpointsFileError> {
        loop {
            if self.listed && !self.watch {
                std::future::pending::<()>().await;
            }
            let bytes = self.read().await?;
            if self.last.as_ref() == Some(&bytes) {
                sleep(self.period).await;
                continue;
            }
            let pods = parse(&bytes);
            self.last = Some(bytes);
            self.listed |= pods.is_ok();
            return pods;
        }
    }
}

/// Why a file gave no list.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EndpointsFileError {
    /// It cannot be read.
    #[error("cannot read `{}`: {why}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the operating system says.
        why: String,
    },
    /// It is larger than llm-d allows.
    #[error("endpoints file is larger than 1 MiB")]
    TooLarge,
    /// It is not a document with a list called `endpoints`. The text has line and column where these are known.
    #[error("not an endpoints file: {0}")]
    Malformed(String),
    /// Entries are wrong: all faults, in their order.
    #[error("{}", Joined(.0))]
    Entries(Vec<EntryError>),
}

/// What is wrong with an entry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("endpoints[{entry}].{field}: {why}")]
#[non_exhaustive]
pub struct EntryError {
    /// Which entry, from 0.
    pub entry: usize,
    /// Which field of it.
    pub field: &'static str,
    /// What is wrong.
    pub why: String,
}

struct Joined<'a>(&'a [EntryError]);

impl fmt::Display for Joined<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().enumerate().try_for_each(|(at, error)| {
            f.write_str(if at == 0 { "" } else { "; " })?;
            error.fmt(f)
        })
    }
}

#[derive(Deserialize)]
struct Document {
    endpoints: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    #[serde(default)]
    name: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    address: String,
    port: Option<Port>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

/// llm-d wants a string; a number is what many write.
#[derive(Deserialize)]
#[serde(untagged)]
enum Port {
    Text(String),
    Number(i64),
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => text.fmt(f),
            Self::Number(number) => number.fmt(f),
        }
    }
}

fn parse(bytes: &[u8]) -> Result<Vec<PodSpec>, EndpointsFileError> {
    if bytes.len() as u64 > LIMIT {
        return Err(EndpointsFileError::TooLarge);
    }
    let document: Document =
        serde_yaml_ng::from_slice(bytes).map_err(|error| EndpointsFileError::Malformed(error.to_string()))?;
    let (mut pods, mut faults, mut names) = (Vec::new(), Vec::new(), HashSet::new());
    for (at, entry) in document.endpoints.iter().enumerate() {
        let before = faults.len();
        let mut wrong = |field, why| faults.push(EntryError { entry: at, field, why });
        let name = match &*entry.namespace {
            "" | "default" => entry.name.clone(),
            namespace => format!("{namespace}/{}", entry.name),
        };
        if entry.name.is_empty() {
            wrong("name", "is missing".to_owned());
        } else if !names.insert(name.clone()) {
            wrong("name", format!("`{name}` is listed twice"));
        }
        let address: Option<IpAddr> = entry.address.parse().ok();
        if address.is_none() {
            wrong("address", format!("`{}` is no IP address", entry.address));
        }
        let port = entry.port.as_ref().map(ToString::to_string).unwrap_or_default();
        let number = port.parse::<u16>().ok().filter(|port| *port != 0);
        if number.is_none() {
            wrong("port", format!("`{port}` is not between 1 and 65535"));
        }
        if let (Some(address), Some(port), true) = (address, number, faults.len() == before) {
            let mut pod = PodSpec::new(name, std::net::SocketAddr::new(address, port).to_string());
            pod.role = role_of(&entry.labels);
            pod.labels = entry.labels.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
            pods.push(pod);
        }
    }
    if faults.is_empty() { Ok(pods) } else { Err(EndpointsFileError::Entries(faults)) }
}

const LIMIT: u64 = 1 << 20;

#[cfg(test)]
#[path = "endpoints_file/tests.rs"]
mod tests;
