//! Fixed-width bitset of pods, shared by every layer.
//!
//! A pod is a bit. A set has no heap and no pointer; the width is a const parameter.

use std::fmt;
use std::ops::{BitAnd, BitOr, Sub};

use crate::pods::PodId;

/// Words of a [`PodSet`] where no width is named: 64 pods each, so 256 pods.
///
/// The one place to change for fleets of another size; every type that is generic over a width defaults to it.
pub const DEFAULT_POD_WORDS: usize = 4;

/// A set of pods: `WORDS × 64` bits, four words and 256 pods by default.
///
/// # Examples
///
/// ```
/// use kv_index::{PodId, PodSet};
///
/// let warm: PodSet = [PodId::new(3), PodId::new(200)].into_iter().collect();
/// let alive: PodSet = [PodId::new(3), PodId::new(4)].into_iter().collect();
/// assert_eq!((warm & alive).iter().collect::<Vec<_>>(), [PodId::new(3)]);
/// assert_eq!((warm - alive).len(), 1);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct PodSet<const WORDS: usize = DEFAULT_POD_WORDS> {
    words: [u64; WORDS],
}

impl<const WORDS: usize> PodSet<WORDS> {
    /// No pod.
    pub const EMPTY: Self = Self { words: [0; WORDS] };

    /// How many pods a set of this width can tell apart.
    pub const CAPACITY: usize = WORDS * 64;

    /// A set from its words, lowest pods first.
    #[must_use]
    pub const fn from_words(words: [u64; WORDS]) -> Self {
        Self { words }
    }

    /// Adds `pod`; true if it was not there.
    ///
    /// # Panics
    ///
    /// When `pod` is not below [`Self::CAPACITY`]. An index never issues such an id.
    pub fn insert(&mut self, pod: PodId) -> bool {
        let (word, bit) = place(pod);
        let before = self.words[word];
        self.words[word] = before | bit;
        before & bit == 0
    }

    /// Takes `pod` out; true if it was there.
    pub fn remove(&mut self, pod: PodId) -> bool {
        let (word, bit) = place(pod);
        let Some(slot) = self.words.get_mut(word) else { return false };
        let before = *slot;
        *slot = before & !bit;
        before & bit != 0
    }

    #[inline]
    pub(crate) fn of_one(pod: PodId) -> Self {
        let mut set = Self::EMPTY;
        set.insert(pod);
        set
    }

    /// The set as words, lowest pods first.
    #[must_use]
    pub const fn words(&self) -> &[u64; WORDS] {
        &self.words
    }

    /// Whether `pod` is in the set. A pod beyond the width is in no set.
    #[must_use]
    pub fn contains(&self, pod: PodId) -> bool {
        let (word, bit) = place(pod);
        self.words.get(word).is_some_and(|w| w & bit != 0)
    }

    /// Whether the set has no pod.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|&w| w == 0)
    }

    /// How many pods are in the set.
    #[must_use]
    pub fn len(&self) -> usize {
        self.words.iter().map(|w| w.count_ones() as usize).sum()
    }

    /// Whether every pod of `self` is in `other`.
    #[must_use]
    pub fn is_subset(&self, other: &Self) -> bool {
        (*self - *other).is_empty()
    }

    /// The lowest pod of the set.
    #[must_use]
    pub fn first(&self) -> Option<PodId> {
        self.iter().next()
    }

    /// The pods of the set, lowest first.
    pub fn iter(&self) -> PodSetIter<WORDS> {
        PodSetIter { rest: *self, word: 0 }
    }

    fn zip(self, other: Self, join: impl Fn(u64, u64) -> u64) -> Self {
        let mut words = self.words;
        for (word, other) in words.iter_mut().zip(other.words) {
            *word = join(*word, other);
        }
        Self { words }
    }
}

impl<const WORDS: usize> Default for PodSet<WORDS> {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl<const WORDS: usize> BitAnd for PodSet<WORDS> {
    type Output = Self;
    fn bitand(self, other: Self) -> Self {
        self.zip(other, |a, b| a & b)
    }
}

impl<const WORDS: usize> BitOr for PodSet<WORDS> {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        self.zip(other, |a, b| a | b)
    }
}

impl<const WORDS: usize> Sub for PodSet<WORDS> {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        self.zip(other, |a, b| a & !b)
    }
}

impl<const WORDS: usize> FromIterator<PodId> for PodSet<WORDS> {
    fn from_iter<I: IntoIterator<Item = PodId>>(pods: I) -> Self {
        let mut set = Self::EMPTY;
        for pod in pods {
            set.insert(pod);
        }
        set
    }
}

impl<const WORDS: usize> IntoIterator for PodSet<WORDS> {
    type Item = PodId;
    type IntoIter = PodSetIter<WORDS>;
    fn into_iter(self) -> PodSetIter<WORDS> {
        self.iter()
    }
}

impl<const WORDS: usize> fmt::Debug for PodSet<WORDS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter().map(PodId::index)).finish()
    }
}

/// The pods of a [`PodSet`], lowest first.
#[derive(Clone, Debug)]
pub struct PodSetIter<const WORDS: usize> {
    rest: PodSet<WORDS>,
    word: usize,
}

impl<const WORDS: usize> Iterator for PodSetIter<WORDS> {
    type Item = PodId;

    fn next(&mut self) -> Option<PodId> {
        while self.word < WORDS {
            let bits = &mut self.rest.words[self.word];
            if *bits != 0 {
                let bit = bits.trailing_zeros() as usize;
                *bits &= *bits - 1;
                return Some(PodId::from_index(self.word * 64 + bit));
            }
            self.word += 1;
        }
        None
    }
}

fn place(pod: PodId) -> (usize, u64) {
    (pod.index() / 64, 1 << (pod.index() % 64))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn agrees<const W: usize>(a: &[u16], b: &[u16]) {
        let cut = |pods: &[u16]| -> BTreeSet<PodId> { pods.iter().map(|&p| PodId::new(p % (W as u16 * 64))).collect() };
        let (a, b) = (cut(a), cut(b));
        let (x, y): (PodSet<W>, PodSet<W>) = (a.iter().copied().collect(), b.iter().copied().collect());
        let list = |set: PodSet<W>| set.iter().collect::<Vec<_>>();
        assert_eq!(list(x | y), a.union(&b).copied().collect::<Vec<_>>());
        assert_eq!(list(x & y), a.intersection(&b).copied().collect::<Vec<_>>());
        assert_eq!(list(x - y), a.difference(&b).copied().collect::<Vec<_>>());
        assert_eq!(x | y, y | x, "union commutes");
        assert_eq!((x - y) | (x & y), x, "difference and intersection split a set");
        assert_eq!(x.is_subset(&y), a.is_subset(&b));
        assert_eq!((x.len(), x.is_empty(), x.first()), (a.len(), a.is_empty(), a.first().copied()));
        let mut z = x;
        for pod in &b {
            assert_eq!(z.insert(*pod), !a.contains(pod));
        }
        for pod in &b {
            assert!(z.remove(*pod) && !z.contains(*pod));
        }
        assert_eq!(z, x - y);
    }

    proptest! {
        #[test]
        fn the_algebra_is_that_of_sets(a in prop::collection::vec(0u16..1024, 0..90), b in prop::collection::vec(0u16..1024, 0..90)) {
            agrees::<1>(&a, &b);
            agrees::<4>(&a, &b);
            agrees::<16>(&a, &b);
        }
    }

    #[test]
    fn a_pod_beyond_the_width_is_in_no_set() {
        let mut set = PodSet::<1>::from_words([u64::MAX]);
        assert!(!set.contains(PodId::new(64)));
        assert!(!set.remove(PodId::new(64)));
    }
}
