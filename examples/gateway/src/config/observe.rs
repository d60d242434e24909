//! Settings of what an operator sees: log, access log, traces.

use std::path::PathBuf;

use serde::{Deserialize, Deserializer, de};

use super::{Config, Problem};
use crate::logging::parse_filter;

/// The log, on standard error.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct LogSettings {
    /// How lines are written.
    pub format: LogFormat,
    /// What is written: a level, or levels by target, such as `info,pointsman=debug`. The environment's `RUST_LOG` goes before it.
    pub level: String,
}

impl Default for LogSettings {
    fn default() -> Self {
        Self { format: LogFormat::Text, level: "info".to_owned() }
    }
}

/// How lines of the log are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// A JSON object a line.
    Json,
}

/// Where the access log goes: `true`, `false`, or the path of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum AccessLog {
    /// There is none.
    #[default]
    Off,
    /// Into the log, as events of the target `access`.
    Log,
    /// Appended to a file, a JSON object a line.
    File(PathBuf),
}

impl AccessLog {
    /// The file, if it is one.
    #[must_use]
    pub fn file(&self) -> Option<&PathBuf> {
        match self {
            Self::File(path) => Some(path),
            _ => None,
        }
    }
}

impl<'de> Deserialize<'de> for AccessLog {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = AccessLog;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("true, false, or the path of a file")
            }

            fn visit_bool<E: de::Error>(self, is_on: bool) -> Result<AccessLog, E> {
                Ok(if is_on { AccessLog::Log } else { AccessLog::Off })
            }

            fn visit_str<E: de::Error>(self, path: &str) -> Result<AccessLog, E> {
                Ok(AccessLog::File(path.into()))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// Export of traces to an OpenTelemetry collector, by OTLP over gRPC.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct OtlpSettings {
    /// The collector: `http://host:4317`.
    pub endpoint: String,
    /// The share of traces that begin here and are recorded; a client's own trace is recorded if its client says so.
    #[serde(default = "all")]
    pub sample_ratio: f64,
    /// The name of this service in traces.
    #[serde(default = "service_name")]
    pub service_name: String,
}

impl OtlpSettings {
    /// All traces to a collector.
    #[must_use]
    pub fn new(endpoint: &str) -> Self {
        Self { endpoint: endpoint.to_owned(), sample_ratio: all(), service_name: service_name() }
    }

    /// Checks it, and the log beside it.
    pub(super) fn check(config: &Config, found: &mut Vec<Problem>) {
        if let Err(reason) = parse_filter(&config.log.level) {
            let level = &config.log.level;
            found.push(Problem::new(
                "log.level",
                format!("`{level}`: {reason}; write `info`, or `info,pointsman=debug`"),
            ));
        }
        let Some(otlp) = &config.otlp else { return };
        if !otlp.endpoint.starts_with("http://") {
            let endpoint = &otlp.endpoint;
            found.push(Problem::new("otlp.endpoint", format!("`{endpoint}` is no address; write `http://host:4317`")));
        }
        if !(0.0..=1.0).contains(&otlp.sample_ratio) {
            let ratio = otlp.sample_ratio;
            found.push(Problem::new("otlp.sample_ratio", format!("{ratio} is no share; write a number from 0 to 1")));
        }
    }
}

fn all() -> f64 {
    1.0
}

fn service_name() -> String {
    "pointsman-gateway".to_owned()
}
