//! One band: start-time fair queueing among keys, by the tokens that they were charged.
//!
//! The key with the lowest counter is next. A key that begins to wait starts at the *virtual time*: no lower than the lowest of those that wait, so
//! nobody saves up turns, and further by what is served, shared among who waits by weight, so that keys which come and go do not keep one from its
//! turn; but never behind more than the next request of who is the lowest, however much was served in one go. What a key was charged beyond that is
//! remembered, so nobody loses debts by waiting for an instant. A counter that is no higher says nothing, and is forgotten: memory is bounded by
//! who waits and who was served more than those.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use super::QueueLimits;

/// The waiting requests of a band.
#[derive(Debug)]
pub(super) struct Band<T> {
    keys: BTreeMap<Arc<str>, Key<T>>,
    /// Keys that wait, in the order of their turn.
    turns: BTreeSet<Turn>,
    /// Keys that wait, by the tokens that wait, and by the requests.
    largest: BTreeSet<Turn>,
    most: BTreeSet<Turn>,
    /// Keys that do not wait, by their counters.
    idle: BTreeSet<(u64, Arc<str>)>,
    /// The counter that anybody begins with: the virtual time.
    floor: u64,
    /// The weights of keys that wait.
    weights: u64,
    size: Size,
}

/// A figure, the ticket by which the key began to wait, and the key.
type Turn = (u64, u64, Arc<str>);

#[derive(Debug)]
struct Key<T> {
    /// Tokens that it was charged, by its weight.
    counter: u64,
    weight: f64,
    /// The ticket by which it began to wait.
    since: u64,
    size: Size,
    items: BTreeMap<ItemKey, Item<T>>,
}

/// What keys are compared by when there is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Figure {
    Requests,
    Tokens,
}

impl Figure {
    /// The one of which there is too much.
    pub(super) fn exceeded(size: Size, limits: &QueueLimits) -> Self {
        if size.requests > limits.requests { Self::Requests } else { Self::Tokens }
    }

    fn of(self, size: Size) -> u64 {
        match self {
            Self::Requests => size.requests as u64,
            Self::Tokens => size.tokens,
        }
    }
}

/// Where an item is in its key: rank and ticket.
pub(super) type ItemKey = (u64, u64);

/// What waits.
#[derive(Debug)]
pub(super) struct Item<T> {
    pub(super) item: T,
    pub(super) size: Size,
    pub(super) prompt_tokens: u64,
    pub(super) came: Instant,
    pub(super) deadline: Option<Instant>,
}

/// How much waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) requests: usize,
    pub(super) tokens: u64,
    pub(super) bytes: u64,
}

impl Size {
    pub(super) fn fits(self, limits: &QueueLimits) -> bool {
        self.requests <= limits.requests && self.tokens <= limits.tokens && self.bytes <= limits.bytes
    }

    pub(super) fn plus(self, other: Self) -> Self {
        let Self { requests, tokens, bytes } = other;
        Self {
            requests: self.requests + requests,
            tokens: self.tokens.saturating_add(tokens),
            bytes: self.bytes.saturating_add(bytes),
        }
    }

    pub(super) fn minus(self, other: Self) -> Self {
        let Self { requests, tokens, bytes } = other;
        Self {
            requests: self.requests.saturating_sub(requests),
            tokens: self.tokens.saturating_sub(tokens),
            bytes: self.bytes.saturating_sub(bytes),
        }
    }
}

impl<T> Default for Band<T> {
    fn default() -> Self {
        let (turns, largest, most, idle) = Default::default();
        Self { keys: BTreeMap::new(), turns, largest, most, idle, floor: 0, weights: 0, size: Size::default() }
    }
}

impl<T> Band<T> {
    pub(super) fn size(&self) -> Size {
        self.size
    }

    pub(super) fn is_empty(&self) -> bool {
        self.size.requests == 0
    }

    /// Keys that wait, with how much does.
    pub(super) fn keys(&self) -> impl Iterator<Item = (&Arc<str>, Size)> {
        self.keys.iter().filter(|(_, key)| key.size.requests > 0).map(|(name, key)| (name, key.size))
    }

    /// How many of them there are.
    pub(super) fn waiting_keys(&self) -> usize {
        self.turns.len()
    }

    /// What waits of a key.
    pub(super) fn key_size(&self, key: &str) -> Size {
        self.keys.get(key).map(|key| key.size).unwrap_or_default()
    }

    pub(super) fn item(&self, key: &str, at: ItemKey) -> Option<&Item<T>> {
        self.keys.get(key)?.items.get(&at)
    }

    /// Keys in the order of their turn, with their items in theirs.
    pub(super) fn keys_in_order(
        &self,
    ) -> impl DoubleEndedIterator<Item = (&Arc<str>, impl DoubleEndedIterator<Item = (&ItemKey, &Item<T>)>)> {
        self.turns.iter().filter_map(|(_, _, name)| {
            let key = self.keys.get(name)?;
            Some((name, key.items.iter()))
        })
    }

    /// Items in the order of their turn.
    pub(super) fn in_order(&self) -> impl DoubleEndedIterator<Item = (&ItemKey, &Item<T>)> {
        self.keys_in_order().flat_map(|(_, items)| items)
    }

    pub(super) fn insert(&mut self, name: &Arc<str>, weight: f64, at: ItemKey, item: Item<T>) {
        let floor = self.floor;
        let new = || Key { counter: floor, weight, since: at.1, size: Size::default(), items: BTreeMap::new() };
        let key = self.keys.entry(Arc::clone(name)).or_insert_with(new);
        if key.items.is_empty() {
            self.idle.remove(&(key.counter, Arc::clone(name)));
            (key.counter, key.since) = (key.counter.max(floor), at.1);
            self.weights += whole_weight(key.weight);
        } else {
            self.turns.remove(&(key.counter, key.since, Arc::clone(name)));
            self.largest.remove(&(key.size.tokens, key.since, Arc::clone(name)));
            self.most.remove(&(key.size.requests as u64, key.since, Arc::clone(name)));
        }
        key.size = key.size.plus(item.size);
        self.size = self.size.plus(item.size);
        key.items.insert(at, item);
        self.turns.insert((key.counter, key.since, Arc::clone(name)));
        self.largest.insert((key.size.tokens, key.since, Arc::clone(name)));
        self.most.insert((key.size.requests as u64, key.since, Arc::clone(name)));
    }

    /// Moves an item of a key to another rank.
    pub(super) fn move_item(&mut self, name: &str, at: ItemKey, rank: u64) {
        let Some(key) = self.keys.get_mut(name) else { return };
        if let Some(item) = key.items.remove(&at) {
            key.items.insert((rank, at.1), item);
        }
    }

    /// Removes an item. If it is served, its key is charged its tokens.
    pub(super) fn remove(&mut self, name: &Arc<str>, at: ItemKey, is_served: bool) -> Option<Item<T>> {
        let (lowest, weights) = (self.turns.first().map(|(counter, ..)| *counter), self.weights);
        let key = self.keys.get_mut(name)?;
        let item = key.items.remove(&at)?;
        self.turns.remove(&(key.counter, key.since, Arc::clone(name)));
        self.largest.remove(&(key.size.tokens, key.since, Arc::clone(name)));
        self.most.remove(&(key.size.requests as u64, key.since, Arc::clone(name)));
        key.size = key.size.minus(item.size);
        self.size = self.size.minus(item.size);
        if is_served {
            key.counter = key.counter.saturating_add(virtual_tokens(item.size.tokens, key.weight));
        }
        if key.items.is_empty() {
            self.idle.insert((key.counter, Arc::clone(name)));
            self.weights -= whole_weight(key.weight);
        } else {
            self.turns.insert((key.counter, key.since, Arc::clone(name)));
            self.largest.insert((key.size.tokens, key.since, Arc::clone(name)));
            self.most.insert((key.size.requests as u64, key.since, Arc::clone(name)));
        }
        if is_served {
            self.pass(item.size.tokens, weights, lowest.unwrap_or(0));
        }
        self.forget();
        Some(item)
    }

    /// Lets virtual time pass: tokens were served while keys of so much weight waited, of which one was the `lowest`.
    fn pass(&mut self, tokens: u64, weights: u64, lowest: u64) {
        // Even if all that is served is of keys that have just come, each as low as the last: who waits comes to be the lowest.
        let passed = self.floor.saturating_add(shared_tokens(tokens, weights).max(1));
        // What was served in one go is no newcomer's fault: it waits for one request of who has waited.
        let next = self.turns.first().and_then(|(counter, _, name)| {
            let key = self.keys.get(name)?;
            let (_, item) = key.items.first_key_value()?;
            Some(counter.saturating_add(virtual_tokens(item.size.tokens, key.weight)))
        });
        self.floor = self.floor.max(lowest).max(next.map_or(passed, |next| passed.min(next)));
    }

    /// Charges a key more for a request that was served, or less. One that was forgotten was no further than the others.
    pub(super) fn correct(&mut self, name: &Arc<str>, weight: f64, charged: u64, served: u64) {
        if self.is_empty() {
            return;
        }
        let (floor, is_more) = (self.floor, served > charged);
        if is_more && !self.keys.contains_key(name) {
            let new = Key { counter: floor, weight, since: 0, size: Size::default(), items: BTreeMap::new() };
            self.keys.insert(Arc::clone(name), new);
            self.idle.insert((floor, Arc::clone(name)));
        }
        // Time may be ahead of who waits.
        let other = self.turns.iter().find(|(_, _, other)| other != name).map(|(counter, ..)| *counter);
        let Some(key) = self.keys.get_mut(name) else { return };
        let (before, weight) = (key.counter, key.weight);
        let more = before.saturating_add(virtual_tokens(served, weight));
        // Nobody is ahead of all who wait for what was given back.
        let least = other.unwrap_or(floor).min(floor).min(before);
        key.counter = more.saturating_sub(virtual_tokens(charged, weight)).max(least);
        if key.items.is_empty() {
            self.idle.remove(&(before, Arc::clone(name)));
            self.idle.insert((key.counter, Arc::clone(name)));
        } else {
            self.turns.remove(&(before, key.since, Arc::clone(name)));
            self.turns.insert((key.counter, key.since, Arc::clone(name)));
        }
        self.forget();
    }

    /// The last items of the key with the most, as few as `suffice` with what they free; none if that key would then have no more
    /// than `least` left before the last of them goes, or is `not`.
    pub(super) fn tail_of_largest(
        &self,
        not: &str,
        figure: Figure,
        least: Size,
        suffice: impl Fn(Size) -> bool,
    ) -> Option<(Vec<u64>, Size)> {
        let (_, _, name) = if figure == Figure::Requests { &self.most } else { &self.largest }.last()?;
        let key = self.keys.get(name).filter(|_| **name != *not)?;
        let (mut tail, mut freed) = (Vec::new(), Size::default());
        for ((_, ticket), item) in key.items.iter().rev() {
            if figure.of(key.size.minus(freed)) <= figure.of(least) {
                return None;
            }
            tail.push(*ticket);
            freed = freed.plus(item.size);
            if suffice(freed) {
                return Some((tail, freed));
            }
        }
        None
    }

    /// Forgets counters that say nothing; all of them, once nobody waits.
    fn forget(&mut self) {
        if self.is_empty() {
            (self.keys, self.idle, self.floor) = Default::default();
            return;
        }
        while self.idle.first().is_some_and(|(counter, _)| *counter <= self.floor || self.idle.len() > MOST_IDLE) {
            if let Some((_, name)) = self.idle.pop_first() {
                self.keys.remove(&name);
            }
        }
    }
}

/// What a key of a weight is charged for tokens.
fn virtual_tokens(tokens: u64, weight: f64) -> u64 {
    // A cast from a float saturates.
    (tokens as f64 * UNIT / weight) as u64
}

/// What every key that waits is served, by its weight, of tokens that those of so much weight in all share.
fn shared_tokens(tokens: u64, weights: u64) -> u64 {
    let shared = u128::from(tokens) * (UNIT * WEIGHT) as u128 / u128::from(weights.max(1));
    shared.try_into().unwrap_or(u64::MAX)
}

/// A weight as a whole number, so that sums stay exact as keys come and go.
fn whole_weight(weight: f64) -> u64 {
    ((weight * WEIGHT) as u64).clamp(1, HEAVIEST)
}

/// What weight 1 is as a whole number, and the most that any is.
const WEIGHT: f64 = 1_048_576.0;
const HEAVIEST: u64 = 1 << 40;
/// What a token counts at weight 1, so that those of heavy keys are not rounded to nothing.
const UNIT: f64 = 1024.0;
/// Keys that are remembered though they do not wait. Beyond, those are forgotten that were charged least.
const MOST_IDLE: usize = 16_384;
