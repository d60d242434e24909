//! A peer's share of a pod's load: what another gateway sent there counts as what was sent from here.
//!
//! So a report is compared with both, and nothing counts twice. The rule for figures of different moments: the first that a peer
//! tells after a report is of the report's moment: what it adds was in the report, and what it has less was others'.

use std::sync::atomic::Ordering;

use super::{InFlight, Writer};

impl Writer<'_> {
    /// Puts what a peer tells now in the place of what it told before. `seen` is the report that was there then; returns the one
    /// that is there now.
    pub(in crate::load) fn retell(&self, before: InFlight, now: InFlight, seen: Option<i64>) -> Option<i64> {
        let report = self.report_at();
        if report.is_some() && report != seen {
            self.change_others(now.without(&before), u32::saturating_sub, u64::saturating_sub);
            self.change_others(before.without(&now), u32::saturating_add, u64::saturating_add);
        }
        if before != now {
            self.take(before);
            self.add(now);
        }
        report
    }

    /// A peer tells no more. What it told last is of nobody known, if there is a report to have it in.
    pub(in crate::load) fn untell(&self, before: InFlight) {
        self.take(before);
        if self.report_at().is_some() {
            self.change_others(before, u32::saturating_add, u64::saturating_add);
        }
    }

    fn report_at(&self) -> Option<i64> {
        let reported = self.cell.reported;
        reported.known.load(Ordering::Relaxed).then(|| reported.at.load(Ordering::Relaxed))
    }

    /// Changes what of a report is not from here and of no peer.
    fn change_others(&self, by: InFlight, short: fn(u32, u32) -> u32, long: fn(u64, u64) -> u64) {
        let reported = self.cell.reported;
        let requests = short(reported.others.load(Ordering::Relaxed), by.requests);
        let waiting = short(reported.others_waiting.load(Ordering::Relaxed), by.prefilling).min(requests);
        let tokens = long(reported.other_tokens.load(Ordering::Relaxed), by.tokens());
        reported.others.store(requests, Ordering::Relaxed);
        reported.others_waiting.store(waiting, Ordering::Relaxed);
        reported.other_tokens.store(tokens, Ordering::Relaxed);
        self.cell.hide();
    }
}
