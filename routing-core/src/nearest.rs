//! The name that was probably meant.

/// The known name nearest to a mistyped one, if one is near enough to be worth suggesting.
pub(crate) fn nearest<'n>(name: &str, known: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let distances = known.into_iter().map(|known| (distance(name, known), known));
    let (distance, nearest) = distances.min_by_key(|(distance, _)| *distance)?;
    // Half of the letters may be wrong, not more.
    (distance <= name.chars().count().max(nearest.chars().count()) / 2).then_some(nearest)
}

/// Letters to insert, remove, replace or swap with their neighbour.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![(0..=b.len()).collect::<Vec<_>>()];
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let mut best = (rows[i][j] + usize::from(x != y)).min(rows[i][j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y {
                best = best.min(rows[i - 1][j - 1] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_suggested_and_a_far_one_is_not() {
        let known = ["least_load", "cache_affinity", "round_robin"];
        assert_eq!(nearest("leats_load", known), Some("least_load"));
        assert_eq!(nearest("cacheaffinity", known), Some("cache_affinity"));
        assert_eq!(nearest("zz", known), None);
        assert_eq!(nearest("x", []), None);
        assert_eq!(distance("abc", "acb"), 1);
        assert_eq!(distance("", "abc"), 3);
    }
}
