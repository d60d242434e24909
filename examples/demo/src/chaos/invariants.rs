//! Invariant checks after fault injection: results, and the index against the pods' caches.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use kv_index::{BlockHash, Digest, Index, Matches, Tier};
use tokio::time::{Instant, sleep};

/// An invariant, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Invariant {
    pub(crate) name: &'static str,
    /// What was checked, or how the invariant is violated.
    pub(crate) result: Result<String, String>,
}

impl Invariant {
    /// An invariant that holds if there are no violations.
    pub(crate) fn new(name: &'static str, checked: String, violations: &[String]) -> Self {
        let result = if violations.is_empty() { Ok(checked) } else { Err(violations.join("; ")) };
        Self { name, result }
    }

    pub(crate) fn holds(&self) -> bool {
        self.result.is_ok()
    }
}

/// How the index diverges from a pod's cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CacheDivergence {
    /// The pod.
    pub(crate) pod: String,
    /// Blocks it holds.
    pub(crate) held: usize,
    /// Blocks that the index holds for it from events.
    pub(crate) indexed: usize,
    /// Held and not in the index.
    pub(crate) missing: usize,
    /// In the index and not held.
    pub(crate) phantoms: usize,
    /// In the index by speculation alone.
    pub(crate) speculated: usize,
}

impl fmt::Display for CacheDivergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pod, held, indexed, missing, phantoms, speculated } = self;
        write!(f, "{pod} holds {held} blocks, {indexed} in the index: {missing} missing, {phantoms} phantoms")?;
        if *missing == 0 && *phantoms == 0 {
            write!(f, ", told twice")?;
        }
        if *speculated > 0 {
            write!(f, ", {speculated} speculated")?;
        }
        Ok(())
    }
}

/// Where the index differs from true caches, by pods' names, block by block.
///
/// Copies are not compared: the feed of an engine's events counts them itself, and tells the index of a block once, for as long
/// as there is a copy of it.
pub(crate) fn cache_divergences<'a>(
    index: &Index,
    caches: impl IntoIterator<Item = (&'a str, BTreeMap<BlockHash, u32>)>,
) -> Vec<CacheDivergence> {
    caches.into_iter().filter_map(|(pod, cache)| cache_divergence(index, pod, &cache)).collect()
}

fn cache_divergence(index: &Index, name: &str, cache: &BTreeMap<BlockHash, u32>) -> Option<CacheDivergence> {
    let mut held = Digest::EMPTY;
    for &hash in cache.keys() {
        held.add(hash, Tier::Gpu);
    }
    let pod = index.pod(name);
    let stats = pod.and_then(|pod| index.pod_stats(pod)).unwrap_or_default();
    if pod.is_some_and(|pod| index.digest(pod) == Ok(held)) && stats.speculated == 0 {
        return None;
    }
    let mut matches = Matches::default();
    let mut is_missing = |hash: &BlockHash| {
        index.scan(&[*hash], &mut matches);
        pod.is_none_or(|pod| matches.depth(pod.id()) == 0)
    };
    let missing = cache.keys().filter(|hash| is_missing(hash)).count();
    let indexed = stats.blocks - stats.speculated;
    let phantoms = indexed.saturating_sub(cache.len() - missing);
    Some(CacheDivergence {
        pod: name.to_owned(),
        held: cache.len(),
        indexed,
        missing,
        phantoms,
        speculated: stats.speculated,
    })
}

/// Polls until there are no violations, or until a timeout; the last violations.
pub(crate) async fn poll_until_empty(most: Duration, violations: impl FnMut() -> Vec<String>) -> Vec<String> {
    poll_until(most, violations, Vec::is_empty).await
}

/// Polls until a value is as it should be, or until a timeout; the last value.
pub(crate) async fn poll_until<T>(most: Duration, mut value: impl FnMut() -> T, is_done: impl Fn(&T) -> bool) -> T {
    let deadline = Instant::now() + most;
    loop {
        let now = value();
        if is_done(&now) || Instant::now() >= deadline {
            return now;
        }
        sleep(Duration::from_millis(20)).await;
    }
}

#[cfg(test)]
mod tests {
    use kv_index::{Config, Event, EventSemantics, Stored};

    use super::*;

    fn hash(n: u64) -> BlockHash {
        BlockHash::new(n)
    }

    fn index() -> Index {
        let index: Index = Index::new(Config::default());
        let pod = index.join("a").unwrap();
        let chain = [hash(1), hash(2), hash(3)];
        index.apply(pod, EventSemantics::Copies, &Event::Stored(Stored::prompt(&chain))).unwrap();
        index
    }

    fn found(cache: &[(u64, u32)]) -> Option<(usize, usize)> {
        let cache = cache.iter().map(|&(n, copies)| (hash(n), copies)).collect();
        let found = cache_divergences(&index(), [("a", cache)]);
        found.first().map(|divergence| (divergence.missing, divergence.phantoms))
    }

    #[test]
    fn blocks_are_compared_and_copies_are_not() {
        assert_eq!(found(&[(1, 1), (2, 1), (3, 1)]), None);
        assert_eq!(found(&[(1, 1), (2, 1)]), Some((0, 1)));
        assert_eq!(found(&[(1, 1), (2, 1), (3, 1), (9, 1)]), Some((1, 0)));
        assert_eq!(found(&[(1, 1), (2, 2), (3, 1)]), None, "copies are the feed's to count");
        assert_eq!(found(&[]), Some((0, 3)));
    }

    #[test]
    fn a_guess_that_stays_is_a_difference() {
        let (index, cache) = (index(), BTreeMap::from([1, 2, 3].map(|n| (hash(n), 1))));
        assert_eq!(cache_divergences(&index, [("a", cache.clone())]), []);
        let pod = index.pod("a").unwrap();
        let later = std::time::Instant::now() + Duration::from_secs(60);
        index.speculate(pod, &[hash(1), hash(2), hash(3), hash(4)], later).unwrap();
        let text = cache_divergences(&index, [("a", cache)])[0].to_string();
        assert!(text.ends_with("1 speculated"), "{text}");
    }

    #[test]
    fn a_pod_that_the_index_does_not_know_is_a_difference() {
        assert_eq!(cache_divergences(&index(), [("b", BTreeMap::from([(hash(5), 1)]))])[0].missing, 1);
    }

    #[tokio::test]
    async fn problems_have_time_to_settle() {
        let mut left = 3;
        let count_down = || {
            left -= 1;
            vec!["still".to_owned(); left]
        };
        assert_eq!(poll_until_empty(Duration::from_secs(10), count_down).await, Vec::<String>::new());
        assert_eq!(poll_until_empty(Duration::ZERO, || vec!["for ever".to_owned()]).await, ["for ever"]);
    }
}
