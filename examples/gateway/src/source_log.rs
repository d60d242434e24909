//! Log of event sources: gaps, replays, restarts and events given up, a line a pod and second at most.
//!
//! Sources of all transports are compared with what they were a second ago, so that a publisher that loses every other batch costs
//! no more lines than one that loses one.

use std::collections::BTreeMap;

use pointsman_reporter::source_status::{SourceState, SourceView};
use tracing::{info, warn};

use super::app_state::AppState;

/// What was last known of each pod's source.
#[derive(Debug, Default)]
pub(super) struct SourceLog {
    known: BTreeMap<String, SourceView>,
}

/// What is new of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SourceNews {
    before: SourceState,
    after: SourceState,
    gaps: u64,
    restarts: u64,
    /// Gaps that were given up.
    lost: u64,
    unreadable: u64,
}

impl SourceNews {
    /// Whether it is bad news: events are missing, or may be.
    fn is_bad(&self) -> bool {
        let is_behind = self.before != self.after && matches!(self.after, SourceState::Connecting | SourceState::Lost);
        is_behind || self.lost > 0 || self.unreadable > 0
    }
}

impl SourceLog {
    /// Takes how a pod's source is now. Returns what is new.
    pub(super) fn take(&mut self, pod: &str, now: SourceView) -> Option<SourceNews> {
        let before = self.known.remove(pod).unwrap_or_default();
        // A source that was made anew counts from nothing.
        let more = |now: u64, before: u64| now.checked_sub(before).unwrap_or(now);
        let news = SourceNews {
            before: before.state,
            after: now.state,
            gaps: more(now.gaps, before.gaps),
            restarts: more(now.restarts, before.restarts),
            lost: more(now.lost, before.lost),
            unreadable: more(now.errors, before.errors),
        };
        self.known.insert(pod.to_owned(), now);
        let counted = news.gaps + news.restarts + news.lost + news.unreadable;
        (news.before != news.after || counted > 0).then_some(news)
    }

    /// Forgets pods that left.
    fn retain(&mut self, pods: &[(String, SourceView)]) {
        self.known.retain(|known, _| pods.iter().any(|(name, _)| name == known));
    }
}

/// Logs what is new since the last time.
pub(super) fn log(app: &AppState) {
    let names = app.models.iter().flat_map(|model| model.router.pods()).map(|entry| entry.spec.name);
    let views: Vec<(String, SourceView)> = {
        let sources = app.sources.lock();
        names.map(|name| (sources.view(&name), name)).map(|(view, name)| (name, view)).collect()
    };
    let mut log = app.observers.source_log.lock();
    log.retain(&views);
    let (mut lines, mut left_out) = (0, 0);
    for (pod, view) in views {
        let source = view.source;
        let Some(news) = log.take(&pod, view) else { continue };
        if lines == MAX_LINES {
            left_out += 1;
            continue;
        }
        lines += 1;
        let SourceNews { before, after, gaps, restarts, lost, unreadable } = &news;
        let (before, after) = (name(*before), name(*after));
        if news.is_bad() {
            warn!(pod, source, before, after, gaps, restarts, lost, unreadable, "events of a pod");
        } else {
            info!(pod, source, before, after, gaps, restarts, lost, unreadable, "events of a pod");
        }
    }
    if left_out > 0 {
        warn!(pods = left_out, "events of more pods changed than are logged");
    }
}

fn name(state: SourceState) -> &'static str {
    match state {
        SourceState::Off => "off",
        SourceState::Connecting => "connecting",
        SourceState::Live => "live",
        SourceState::Replaying => "replaying",
        SourceState::Lost => "lost",
    }
}

/// Lines a second.
const MAX_LINES: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn view(state: SourceState, [gaps, restarts, lost, errors]: [u64; 4]) -> SourceView {
        let mut view = SourceView::default();
        (view.state, view.gaps, view.restarts, view.lost, view.errors) = (state, gaps, restarts, lost, errors);
        view
    }

    #[test]
    fn what_changed_is_told_once_and_what_stays_is_not() {
        let mut log = SourceLog::default();
        assert_eq!(log.take("a", view(SourceState::Off, [0; 4])), None);
        let news = log.take("a", view(SourceState::Connecting, [0; 4])).unwrap();
        assert!(news.is_bad());
        let news = log.take("a", view(SourceState::Live, [0; 4])).unwrap();
        assert!(!news.is_bad());
        assert_eq!(log.take("a", view(SourceState::Live, [0; 4])), None);
        // Many gaps between two looks, and all is well again: one line.
        let news = log.take("a", view(SourceState::Live, [7, 1, 0, 0])).unwrap();
        assert_eq!((news.gaps, news.restarts, news.is_bad()), (7, 1, false));
        let news = log.take("a", view(SourceState::Lost, [8, 1, 1, 3])).unwrap();
        assert_eq!((news.gaps, news.restarts, news.lost, news.unreadable, news.is_bad()), (1, 0, 1, 3, true));
        // Another source of the same pod.
        assert_eq!(log.take("a", view(SourceState::Lost, [2, 0, 0, 0])).unwrap().gaps, 2);
        log.retain(&[]);
        assert!(log.known.is_empty());
    }
}
