//! Readiness of a discovery: whether a first list of pods came.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pointsman::{Discovery, PodSpec};

/// Tells whether a discovery has had a list, be it an empty one. Once it has, that stays so.
#[derive(Clone, Debug, Default)]
pub struct Synced(Arc<AtomicBool>);

impl Synced {
    /// The discovery, observed.
    pub fn of<D: Discovery>(discovery: D) -> (Self, WithSynced<D>) {
        let synced = Self::default();
        (synced.clone(), WithSynced { discovery, synced })
    }

    /// Whether a list came.
    pub fn has_synced(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A discovery whose first list is noted.
#[derive(Debug)]
pub struct WithSynced<D> {
    discovery: D,
    synced: Synced,
}

impl<D: Discovery> Discovery for WithSynced<D> {
    type Error = D::Error;

    async fn next(&mut self) -> Result<Vec<PodSpec>, D::Error> {
        let pods = self.discovery.next().await?;
        self.synced.0.store(true, Ordering::Relaxed);
        Ok(pods)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Failing(usize);

    impl Discovery for Failing {
        type Error = &'static str;

        async fn next(&mut self) -> Result<Vec<PodSpec>, &'static str> {
            self.0 += 1;
            if self.0 == 2 { Ok(Vec::new()) } else { Err("away") }
        }
    }

    #[tokio::test]
    async fn an_error_is_no_list_an_empty_list_is_one_and_a_later_error_changes_nothing() {
        let (synced, mut discovery) = Synced::of(Failing(0));
        for expected in [false, true, true] {
            let _ = discovery.next().await;
            assert_eq!(synced.has_synced(), expected);
        }
    }
}
