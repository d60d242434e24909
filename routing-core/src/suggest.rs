//! Did-you-mean suggestions by edit distance (Damerau-Levenshtein, restricted).

use std::cell::Cell;
use std::fmt;

use strsim::osa_distance;

/// The known name nearest to a mistyped one, if one is near enough to be worth suggesting.
///
/// # Examples
///
/// ```
/// assert_eq!(routing_core::suggest("leats_load", ["least_load", "round_robin"]), Some("least_load"));
/// ```
pub fn suggest<'n>(name: &str, known: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let letters = letters(name)?;
    let known = known.into_iter().filter_map(|known| Some((known, self::letters(known)?)));
    let distances = known.map(|(known, letters)| (osa_distance(name, known), known, letters));
    let (distance, suggestion, others) = distances.min_by_key(|(distance, ..)| *distance)?;
    // Half of the letters may be wrong, not more.
    (distance <= letters.max(others) / 2).then_some(suggestion)
}

/// Suggestions for all that is wrong with one document or workflow, with an end to how much is compared for them: each
/// wrong name is compared with all known ones, so that many of both would take the product.
#[derive(Debug)]
pub(crate) struct Suggestions {
    left: Cell<usize>,
}

impl Suggestions {
    pub(crate) fn new() -> Self {
        Self { left: Cell::new(MOST_COMPARED) }
    }

    /// The known name nearest to a mistyped one, as long as there is something left to spend.
    pub(crate) fn nearest<'n>(&self, name: &str, known: impl Iterator<Item = &'n str>) -> Option<&'n str> {
        let letters = name.len().min(LONGEST) + 1;
        let affordable = known.take_while(|known| {
            let left = self.left.get().checked_sub(letters * (known.len().min(LONGEST) + 1));
            self.left.set(left.unwrap_or_default());
            left.is_some()
        });
        suggest(name, affordable)
    }
}

/// Pairs of letters, a few nanoseconds each.
const MOST_COMPARED: usize = 20_000_000;

/// A suggestion as errors end in it; nothing without one.
pub(crate) struct DidYouMean<'n>(pub(crate) Option<&'n str>);

impl fmt::Display for DidYouMean<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |suggestion| write!(f, " (did you mean `{suggestion}`?)"))
    }
}

/// Longer names are hardly mistyped words, and comparing them takes the square of their length.
const LONGEST: usize = 64;

/// How many letters a name has, if it is not too long.
fn letters(name: &str) -> Option<usize> {
    Some(name.chars().take(LONGEST + 1).count()).filter(|letters| *letters <= LONGEST)
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
    }

    #[test]
    fn suggestions_end_where_too_much_would_be_compared() {
        let (suggestions, known) = (Suggestions::new(), vec!["least_load"; 1_000]);
        let nearest = || suggestions.nearest("leats_load", known.iter().copied());
        let made = (0..1_000).take_while(|_| nearest().is_some()).count();
        assert!((50..500).contains(&made), "{made}");
        assert_eq!(nearest(), None);
    }

    #[test]
    fn a_name_that_is_too_long_is_not_compared() {
        let long = "a".repeat(LONGEST);
        let longer = format!("{long}b");
        assert_eq!(suggest(&long[1..], [&*long, &longer]), Some(&*long));
        assert_eq!(suggest(&longer, [&*long, &longer]), None);
    }
}
