//! How long programs take: from the first request of a conversation to its last answer.

use std::collections::HashMap;

use pointsman_lab::trace::Trace;

/// Programs that are not over.
#[derive(Debug)]
pub(super) struct ProgramTimes {
    /// When each began, if it did, and how many of its requests are not over.
    left: HashMap<u32, (Option<u64>, u32)>,
}

impl ProgramTimes {
    pub(super) fn new(trace: &Trace) -> Self {
        let mut left = HashMap::<u32, (Option<u64>, u32)>::new();
        trace.requests.iter().for_each(|request| left.entry(request.session).or_default().1 += 1);
        Self { left }
    }

    pub(super) fn arrive(&mut self, session: u32, now: u64) {
        if let Some((began, _)) = self.left.get_mut(&session) {
            began.get_or_insert(now);
        }
    }

    /// A request is over; µs that its program took, if it was the last one.
    pub(super) fn over(&mut self, session: u32, now: u64) -> Option<u64> {
        let (began, left) = self.left.get_mut(&session)?;
        *left = left.saturating_sub(1);
        let took = now - (*began)?;
        (*left == 0).then(|| self.left.remove(&session)).flatten().map(|_| took)
    }
}
