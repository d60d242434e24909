//! Did-you-mean suggestions by edit distance (Damerau-Levenshtein, restricted).

use std::fmt;

/// The known name nearest to a mistyped one, if one is near enough to be worth suggesting.
///
/// # Examples
///
/// ```
/// assert_eq!(routing_core::suggest("leats_load", ["least_load", "round_robin"]), Some("least_load"));
/// ```
pub fn suggest<'n>(name: &str, known: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let name = letters(name)?;
    let distances = known.into_iter().filter_map(|known| Some((distance(&name, &letters(known)?), known)));
    let (distance, suggestion) = distances.min_by_key(|(distance, _)| *distance)?;
    // Half of the letters may be wrong, not more.
    (distance <= name.len().max(suggestion.chars().count()) / 2).then_some(suggestion)
}

/// A suggestion as errors end in it; nothing without one.
pub(crate) struct DidYouMean<'n>(pub(crate) Option<&'n str>);

impl fmt::Display for DidYouMean<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |suggestion| write!(f, " (did you mean `{suggestion}`?)"))
    }
}

/// Longer names are hardly mistyped words, and comparing them takes the square of their length.
const LONGEST: usize = 64;

/// The letters of a name that is not too long.
fn letters(name: &str) -> Option<Vec<char>> {
    let letters: Vec<char> = name.chars().take(LONGEST + 1).collect();
    (letters.len() <= LONGEST).then_some(letters)
}

/// Letters to insert, remove, replace or swap with their neighbour.
fn distance(a: &[char], b: &[char]) -> usize {
    // A letter looks back two rows at most, where a swap began.
    let (mut before, mut last, mut row) =
        (vec![0; b.len() + 1], (0..=b.len()).collect::<Vec<_>>(), vec![0; b.len() + 1]);
    for (i, x) in a.iter().enumerate() {
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let mut best = (last[j] + usize::from(x != y)).min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y {
                best = best.min(before[j - 1] + 1);
            }
            row[j + 1] = best;
        }
        std::mem::swap(&mut before, &mut last);
        std::mem::swap(&mut last, &mut row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_suggested_and_a_far_one_is_not() {
        let known = ["least_load", "cache_affinity", "round_robin"];
        assert_eq!(suggest("leats_load", known), Some("least_load"));
        assert_eq!(suggest("cacheaffinity", known), Some("cache_affinity"));
        assert_eq!(suggest("zz", known), None);
        assert_eq!(suggest("x", []), None);
        let distance = |a, b| letters(a).zip(letters(b)).map(|(a, b)| distance(&a, &b));
        assert_eq!(distance("abc", "acb"), Some(1));
        assert_eq!(distance("", "abc"), Some(3));
        assert_eq!(distance("abc", ""), Some(3));
        assert_eq!(distance("kitten", "sitting"), Some(3));
    }

    #[test]
    fn a_name_that_is_too_long_is_not_compared() {
        let long = "a".repeat(LONGEST);
        let longer = format!("{long}b");
        assert_eq!(suggest(&long[1..], [&*long, &longer]), Some(&*long));
        assert_eq!(suggest(&longer, [&*long, &longer]), None);
    }
}
