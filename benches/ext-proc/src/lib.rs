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

/// The sample below which this share of all is: the middle at 0.5, and at 0.99 what one in a hundred exceeds. Of fewer than a hundred that is
/// the largest.
#[must_use]
pub fn late(samples: impl IntoIterator<Item = f64>, share: f64) -> f64 {
    let mut samples: Vec<f64> = samples.into_iter().collect();
    samples.sort_by(f64::total_cmp);
    let at = (samples.len() as f64 * share).floor() as usize;
    samples[at.min(samples.len() - 1)]
}

/// What requests took more than those of another system, each beside the one of the same turn.
#[must_use]
pub fn differences(own: &[f64], other: &[f64]) -> Vec<f64> {
    own.iter().zip(other).map(|(own, other)| own - other).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_late_is_what_so_few_exceed() {
        let samples = || (1..=200).rev().map(f64::from);
        assert_eq!([0.0, 0.5, 0.99, 1.0].map(|share| late(samples(), share)), [1.0, 101.0, 199.0, 200.0]);
        let above = |share: f64| samples().filter(|sample| *sample > late(samples(), share)).count();
        assert_eq!([above(0.5), above(0.99)], [99, 1], "of two hundred no more than two");
        assert_eq!(late([3.0, 1.0, 2.0], 0.99), 3.0, "of a few the largest");
        assert_eq!(late([3.0, 1.0, 2.0], 0.5), 2.0);
    }

    /// A machine that is slow for a while is slow for both: what is added is of each turn, and not of all turns together.
    #[test]
    fn what_is_added_is_the_difference_of_a_turn() {
        let (own, other) = ([110.0, 1_015.0, 120.0, 2_013.0], [100.0, 1_000.0, 100.0, 2_000.0]);
        let added = differences(&own, &other);
        assert_eq!(added, [10.0, 15.0, 20.0, 13.0]);
        assert_eq!((late(added.clone(), 0.5), late(added, 0.99)), (15.0, 20.0));
        assert!(late(own, 0.99) - late(other, 0.99) < 20.0, "the difference of what is late is something else");
    }

    #[test]
    fn a_range_is_the_middle_and_its_ends() {
        assert_eq!(range([3.0, 1.25, 2.0], 1), "2.0 (1.2..3.0)");
    }
}
