//! Log budget: a token bucket that bounds lines of one kind, and counts those that were left out.

use std::time::{Duration, Instant};

/// How many lines may be written.
#[derive(Debug)]
pub(crate) struct LogBudget {
    lines: u32,
    refilled: Option<Instant>,
    suppressed: u64,
}

impl LogBudget {
    pub(crate) fn new() -> Self {
        Self { lines: BURST, refilled: None, suppressed: 0 }
    }

    /// Asks for a line: how many were left out before it, or none if it is left out too.
    pub(crate) fn spend(&mut self, now: Instant) -> Option<u64> {
        let since = *self.refilled.get_or_insert(now);
        let refills = now.saturating_duration_since(since).as_millis() / REFILL.as_millis();
        if let Some(refills) = u32::try_from(refills).ok().filter(|refills| *refills > 0) {
            self.lines = self.lines.saturating_add(refills).min(BURST);
            self.refilled = Some(since + REFILL * refills);
        }
        if self.lines == 0 {
            self.suppressed += 1;
            return None;
        }
        self.lines -= 1;
        Some(std::mem::take(&mut self.suppressed))
    }
}

/// Lines at once.
const BURST: u32 = 50;
/// How long a line takes to come back.
const REFILL: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_cut_to_a_burst_and_a_few_lines_a_second_and_what_is_left_out_is_counted() {
        let (mut budget, start) = (LogBudget::new(), Instant::now());
        let flood = |budget: &mut LogBudget, at| (0..1000).filter(|_| budget.spend(at).is_some()).count();
        assert_eq!(flood(&mut budget, start), 50);
        assert_eq!(flood(&mut budget, start + Duration::from_secs(1)), 5);
        let later = start + Duration::from_secs(3600);
        assert_eq!(budget.spend(later), Some(995), "and told with the next line, as those before them were");
        assert_eq!(flood(&mut budget, later), 49, "no more than a burst comes back");
    }
}
