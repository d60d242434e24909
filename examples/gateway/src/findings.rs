//! What is probably wrong, as the routers diagnose it: new findings and those that are gone are logged, all are in `/state`.

use std::collections::BTreeMap;

use pointsman::{Finding, FindingKind};
use serde::Serialize;
use tracing::{info, warn};

use super::app_state::AppState;

/// What is probably wrong with a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ModelFinding {
    /// The model.
    pub model: String,
    /// What it is.
    #[serde(flatten)]
    pub finding: Finding,
}

/// The findings of all models now.
pub(super) fn gather(app: &AppState) -> Vec<ModelFinding> {
    let of = |model: &super::model::Model| {
        let name = model.router.name().to_owned();
        model.router.diagnosis().into_iter().map(move |finding| ModelFinding { model: name.clone(), finding })
    };
    app.models.iter().flat_map(of).collect()
}

/// Findings that were logged, and how often there was a new one.
#[derive(Debug, Default)]
pub(super) struct FindingLog {
    known: Vec<Key>,
    counts: BTreeMap<FindingKind, u64>,
}

type Key = (String, FindingKind, Option<String>);

impl FindingLog {
    /// Takes the findings of now. Returns those that were not there the last time, and those that are not there any more.
    fn take<'f>(&mut self, found: &'f [ModelFinding]) -> (Vec<&'f ModelFinding>, Vec<Key>) {
        let key = |found: &ModelFinding| (found.model.clone(), found.finding.kind, found.finding.pod.clone());
        let new: Vec<_> = found.iter().filter(|found| !self.known.contains(&key(found))).collect();
        new.iter().for_each(|found| *self.counts.entry(found.finding.kind).or_default() += 1);
        let known = std::mem::replace(&mut self.known, found.iter().map(key).collect());
        let gone = known.into_iter().filter(|known| !self.known.contains(known)).collect();
        (new, gone)
    }

    /// How often a finding of each kind was new.
    pub(super) fn counts(&self) -> &BTreeMap<FindingKind, u64> {
        &self.counts
    }
}

/// Logs what is new since the last time, and what is gone.
pub(super) fn log(app: &AppState) {
    let found = gather(app);
    let (new, gone) = app.findings.lock().take(&found);
    for ModelFinding { model, finding } in new {
        let (kind, pod) = (finding.kind.name(), finding.pod.as_deref());
        warn!(model, kind, pod, finding = finding.message, "something is probably wrong");
    }
    for (model, kind, pod) in gone {
        info!(model, kind = kind.name(), pod, "what was probably wrong is gone");
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use pointsman::core::Load;
    use pointsman::{PodSpec, Router};

    use super::*;

    #[test]
    fn what_stays_is_told_once_and_what_comes_again_is_told_again() {
        let router = Router::builder("m").pod(PodSpec::new("a", "a:1")).build().unwrap();
        let long_ago = Instant::now().checked_sub(Duration::from_secs(100)).unwrap();
        router.report_load(router.pod("a").unwrap(), Load::default(), long_ago);
        let found: Vec<_> =
            router.diagnosis().into_iter().map(|finding| ModelFinding { model: "m".to_owned(), finding }).collect();
        assert_eq!(found.len(), 1, "a stale load");
        let (mut log, kind) = (FindingLog::default(), found[0].finding.kind);
        assert_eq!(log.take(&found).0.len(), 1);
        assert_eq!(log.take(&found), (Vec::new(), Vec::new()));
        assert_eq!(log.take(&[]).1, [("m".to_owned(), kind, Some("a".to_owned()))]);
        log.take(&found);
        assert_eq!(log.counts()[&kind], 2);
    }
}
