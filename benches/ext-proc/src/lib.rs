//! What the programs here share: requests, and figures with their spread.

use bytes::Bytes;
use pointsman_test_support::SplitMix64;

/// A request whose prompt nobody has seen.
#[must_use]
pub fn body(kilobytes: usize, random: &mut SplitMix64) -> Bytes {
    let mut text = String::with_capacity(kilobytes * 1024 + 100);
    text.push_str(r#"{"model":"m","stream":true,"max_tokens":50,"prompt":""#);
    while text.len() < kilobytes * 1024 {
        text.push_str(&format!("{:x} ", random.next_u64()));
    }
    text.push_str("\"}");
    text.into()
}

/// The middle.
#[must_use]
pub fn middle(samples: impl IntoIterator<Item = f64>) -> f64 {
    let mut samples: Vec<f64> = samples.into_iter().collect();
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}

/// The middle with its ends, to so many digits.
#[must_use]
pub fn range(samples: impl IntoIterator<Item = f64>, digits: usize) -> String {
    let mut samples: Vec<f64> = samples.into_iter().collect();
    samples.sort_by(f64::total_cmp);
    format!(
        "{:.digits$} ({:.digits$}..{:.digits$})",
        samples[samples.len() / 2],
        samples[0],
        samples[samples.len() - 1]
    )
}
