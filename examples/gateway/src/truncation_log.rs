//! Log of truncated responses: streams that broke off after the client had a part of them, a line a second at most.

use std::sync::Arc;

use parking_lot::Mutex;
use routing_exec::{DispatchOutcome, DispatchReport};
use tracing::warn;

/// Truncated responses since the last line.
#[derive(Debug, Default)]
pub(super) struct TruncationLog(Mutex<Option<Truncated>>);

#[derive(Debug)]
struct Truncated {
    count: u64,
    /// Of the last one.
    id: Arc<str>,
    pod: Option<Arc<str>>,
    error: String,
}

impl TruncationLog {
    /// Takes a request that ended on a pod, and notes it if its response was truncated.
    pub(super) fn take(&self, id: &Arc<str>, pod: Option<&Arc<str>>, report: &DispatchReport) {
        let DispatchOutcome::Failed(error) = &report.outcome else { return };
        if report.bytes == 0 {
            return;
        }
        let mut log = self.0.lock();
        let count = log.as_ref().map_or(0, |truncated| truncated.count) + 1;
        *log = Some(Truncated { count, id: Arc::clone(id), pod: pod.cloned(), error: error.to_string() });
    }

    /// Logs those since the last time: how many, and the last of them.
    pub(super) fn log(&self) {
        let Some(Truncated { count, id, pod, error }) = self.0.lock().take() else { return };
        warn!(responses = count, %id, pod = pod.as_deref(), error, "responses were truncated");
    }
}

#[cfg(test)]
mod tests {
    use routing_exec::DispatchError;

    use super::*;

    #[test]
    fn only_what_a_client_has_a_part_of_is_truncated() {
        let log = TruncationLog::default();
        let count = || log.0.lock().as_ref().map(|truncated| truncated.count);
        for (bytes, outcome, expected) in [
            (0, DispatchOutcome::Failed(DispatchError::DeadlineExceeded), None),
            (10, DispatchOutcome::Completed(200), None),
            (10, DispatchOutcome::Failed(DispatchError::DeadlineExceeded), Some(1)),
            (10, DispatchOutcome::Failed(DispatchError::DeadlineExceeded), Some(2)),
        ] {
            let mut report = DispatchReport::new(outcome);
            report.bytes = bytes;
            log.take(&"req".into(), None, &report);
            assert_eq!(count(), expected);
        }
        log.log();
        assert_eq!(count(), None);
    }
}
