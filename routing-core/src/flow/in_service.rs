//! What of each key is being served: who has more than a fair share of it leaves headroom to others.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Tokens that were taken and are not served, by band and key.
#[derive(Debug, Default)]
pub(super) struct InService {
    keys: BTreeMap<(usize, Arc<str>), u64>,
    tokens: BTreeMap<usize, u64>,
}

impl InService {
    pub(super) fn begin(&mut self, band: usize, key: &Arc<str>, tokens: u64) {
        *self.keys.entry((band, Arc::clone(key))).or_default() += tokens.max(1);
        *self.tokens.entry(band).or_default() += tokens.max(1);
    }

    pub(super) fn end(&mut self, band: usize, key: &Arc<str>, tokens: u64) {
        let place = (band, Arc::clone(key));
        let Some(known) = self.keys.get_mut(&place) else { return };
        let tokens = tokens.max(1).min(*known);
        *known -= tokens;
        if *known == 0 {
            self.keys.remove(&place);
        }
        self.tokens.entry(band).and_modify(|all| *all -= tokens);
    }

    /// Whether a key of this weight has more than its share, where so many other keys of its band are waiting.
    pub(super) fn is_heavy(&self, band: usize, key: &Arc<str>, weight: f64, waiting: usize) -> bool {
        let Some(own) = self.keys.get(&(band, Arc::clone(key))) else { return false };
        let busy = self.keys.range((band, Arc::from(""))..(band + 1, Arc::from(""))).count();
        let others = (busy - 1).max(waiting.saturating_sub(1));
        let all = self.tokens.get(&band).copied().unwrap_or(0);
        // Alone, it has all of it by right.
        others > 0 && *own as f64 * (others as f64 + weight) > all as f64 * weight
    }
}
