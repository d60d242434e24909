//! What of each key is being served: who has more than a fair share of it leaves headroom to others.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Tokens that were taken and are not served, by band and key. By names, since settings change while requests are served.
#[derive(Debug, Default)]
pub(super) struct InService {
    bands: BTreeMap<Arc<str>, ServedBand>,
}

#[derive(Debug, Default)]
struct ServedBand {
    keys: BTreeMap<Arc<str>, ServedKey>,
    tokens: u64,
    /// Of all keys.
    weights: f64,
}

#[derive(Debug)]
struct ServedKey {
    tokens: u64,
    weight: f64,
}

impl InService {
    pub(super) fn begin(&mut self, band: &Arc<str>, key: &Arc<str>, tokens: u64, weight: f64) {
        let band = self.bands.entry(Arc::clone(band)).or_default();
        let ServedBand { keys, tokens: all, weights } = band;
        let key = keys.entry(Arc::clone(key)).or_insert_with(|| {
            *weights += weight;
            ServedKey { tokens: 0, weight }
        });
        key.tokens += tokens.max(1);
        *all += tokens.max(1);
    }

    pub(super) fn end(&mut self, band: &str, key: &str, tokens: u64) {
        let Some(band) = self.bands.get_mut(band) else { return };
        let Some(known) = band.keys.get_mut(key) else { return };
        let tokens = tokens.max(1).min(known.tokens);
        known.tokens -= tokens;
        band.tokens -= tokens;
        if known.tokens == 0 {
            band.weights -= known.weight;
            band.keys.remove(key);
        }
        if band.keys.is_empty() {
            // Nothing is left of what rounding left.
            band.weights = 0.0;
        }
    }

    /// Whether a key has more than its share by weight, where so many keys of its band are waiting.
    pub(super) fn is_heavy(&self, band: &str, key: &str, waiting: usize) -> bool {
        let Some(band) = self.bands.get(band) else { return false };
        let Some(ServedKey { tokens, weight }) = band.keys.get(key) else { return false };
        // Those who wait and have nothing in service yet count as one each.
        let weights = band.weights + waiting.saturating_sub(band.keys.len()) as f64;
        *tokens as f64 * weights > band.tokens as f64 * weight * (1.0 + ROUNDING)
    }
}

/// Alone, a key has all of it by right, however sums of weights are rounded.
const ROUNDING: f64 = 1e-9;
