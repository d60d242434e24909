//! "Did you mean": the known name at the least edit distance.

/// The known name that was probably meant, if few letters differ.
pub(super) fn suggest<'n>(name: &str, known: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let letters: Vec<char> = name.chars().take(64).collect();
    let near = known.into_iter().map(|known| (distance(&letters, &known.chars().collect::<Vec<_>>()), known));
    near.min_by_key(|(distance, _)| *distance).filter(|(distance, _)| *distance <= name.len() / 2).map(|(_, name)| name)
}

/// Levenshtein distance.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let best = (diagonal + usize::from(x != y)).min(row[j] + 1).min(row[j + 1] + 1);
            diagonal = std::mem::replace(&mut row[j + 1], best);
        }
    }
    row[b.len()]
}
