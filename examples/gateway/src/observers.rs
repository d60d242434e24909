//! Observers: who is told of requests and of what happens to pods: decision log, access log, sources, truncations, traces.

use std::time::Instant;

use parking_lot::Mutex;
use pointsman::RouterHost;

use super::config::{AccessLog, Config};
use super::error::StartError;
#[cfg(feature = "otlp")]
use super::otlp::Otlp;
#[cfg(feature = "otlp")]
pub(super) use super::otlp::RequestSpans;
use super::record_log::{Order, RecordLog};
use super::request_record::RequestRecord;
use super::source_log::SourceLog;
use super::truncation_log::TruncationLog;

/// All of them, as configured.
#[derive(Debug)]
pub(super) struct Observers {
    decision_log: Option<RecordLog>,
    access_log: Option<AccessSink>,
    pub(super) source_log: Mutex<SourceLog>,
    pub(super) truncation_log: TruncationLog,
    #[cfg(feature = "otlp")]
    otlp: Option<std::sync::Arc<Otlp>>,
}

/// Where the access log goes.
#[derive(Debug)]
enum AccessSink {
    Log,
    File(Box<RecordLog>),
}

impl Observers {
    /// Opens files, and begins to export traces.
    ///
    /// # Errors
    ///
    /// When a file cannot be written, or traces cannot be exported.
    pub(super) fn start(config: &Config) -> Result<Self, StartError> {
        #[cfg(not(feature = "otlp"))]
        if config.otlp.is_some() {
            return Err(StartError::Feature { setting: "otlp", feature: "otlp" });
        }
        let decisions = config.decision_log.as_deref();
        let decisions = decisions.map(|path| RecordLog::open("decision_log", path, Order::WithCauses));
        let access_log = match &config.access_log {
            AccessLog::Off => None,
            AccessLog::Log => Some(AccessSink::Log),
            AccessLog::File(path) => {
                Some(AccessSink::File(Box::new(RecordLog::open("access_log", path, Order::AsTheyEnd)?)))
            }
        };
        Ok(Self {
            decision_log: decisions.transpose()?,
            access_log,
            source_log: Mutex::default(),
            truncation_log: TruncationLog::default(),
            #[cfg(feature = "otlp")]
            otlp: config.otlp.as_ref().map(Otlp::start).transpose()?.map(std::sync::Arc::new),
        })
    }

    /// Whether records of requests are wanted: they are made only then.
    pub(super) fn wants_records(&self) -> bool {
        self.decision_log.is_some() || self.access_log.is_some()
    }

    /// Takes the record of a request that ended.
    pub(super) fn take(&self, record: RequestRecord) {
        match &self.access_log {
            Some(AccessSink::Log) => record.log(),
            Some(AccessSink::File(log)) => log.push(record.clone()),
            None => {}
        }
        // A request that was rejected was not decided on.
        if let Some(log) = self.decision_log.as_ref().filter(|_| record.profile.is_some()) {
            log.push(record);
        }
    }

    /// Writes the records that are done; all of them, if told so.
    pub(super) async fn flush(&self, all: bool) {
        if let Some(log) = &self.decision_log {
            log.flush(all).await;
        }
        if let Some(AccessSink::File(log)) = &self.access_log {
            log.flush(all).await;
        }
    }

    /// The spans of a request whose decision began at `deciding`, if traces are exported.
    #[cfg(feature = "otlp")]
    pub(super) fn spans(&self, host: &RouterHost, operation: &'static str, deciding: Instant) -> Option<RequestSpans> {
        self.otlp.as_ref().map(|otlp| otlp.request(host, operation, deciding))
    }

    /// Sends the last spans.
    #[cfg(feature = "otlp")]
    pub(super) async fn shutdown(&self) {
        let Some(otlp) = self.otlp.clone() else { return };
        // It blocks, and what it waits for runs on this runtime.
        let _ = tokio::task::spawn_blocking(move || otlp.shutdown()).await;
    }

    #[cfg(not(feature = "otlp"))]
    pub(super) fn spans(&self, _: &RouterHost, _: &'static str, _: Instant) -> Option<RequestSpans> {
        None
    }

    #[cfg(not(feature = "otlp"))]
    pub(super) async fn shutdown(&self) {}
}

/// Spans of a gateway that exports none.
#[cfg(not(feature = "otlp"))]
pub(super) enum RequestSpans {}

#[cfg(not(feature = "otlp"))]
impl RequestSpans {
    pub(super) fn attempt(&mut self, _: routing_core::Pod, _: &str, _: &str, _: &mut http::HeaderMap) {
        match *self {}
    }

    pub(super) fn finish(self, _: &routing_exec::DispatchReport) {
        match self {}
    }
}
