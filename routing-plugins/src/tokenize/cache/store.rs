//! Bounded store of the prefix cache, by bytes.
//!
//! The rule: an id of a piece is given once and never again, so a key that names a parent by its id means that parent,
//! even after it is gone.

use std::collections::{HashMap, VecDeque};
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ahash::RandomState;

/// What is held.
#[derive(Debug)]
pub(super) struct Store {
    bound: usize,
    nodes: HashMap<Key, Arc<Node>, RandomState>,
    /// Every key of `nodes` once, in the order in which they come up for eviction.
    queue: VecDeque<Key>,
    /// What the nodes take, without the tables.
    content: usize,
    /// How many nodes the table has places for. The table's own capacity leaves out places that removals spoilt.
    places: usize,
    next: NodeId,
    evicted: u64,
}

impl Store {
    pub(super) fn new(bound: usize) -> Self {
        let nodes = HashMap::with_hasher(RandomState::with_seed(0));
        Self { bound, nodes, queue: VecDeque::new(), content: 0, places: 0, next: NodeId(NonZeroU64::MIN), evicted: 0 }
    }

    /// Adds parts that follow one another, the first of them below a node. What finds no room is left out.
    pub(super) fn insert(&mut self, below: Option<&Arc<Node>>, parts: Vec<Part>) {
        let mut parent = below.cloned();
        let mut added = 0;
        for part in parts {
            let key = Key::new(parent.as_ref().map(|node| node.id), part.hash);
            if let Some(held) = self.nodes.get(&key) {
                // Another thread was faster, or another text has the same hash: then it keeps the place.
                if *held.text != *part.text {
                    break;
                }
                parent = Some(Arc::clone(held));
                continue;
            }
            // Below a node that is gone nothing is ever found. Making room may have taken it.
            let parent_lost = |store: &Self| parent.as_ref().is_some_and(|node| !store.holds(node));
            if parent_lost(self) || !self.make_room(part.bytes()) || parent_lost(self) {
                break;
            }
            parent = Some(self.add(key, part));
            added += 1;
        }
        self.reverse_last(added);
    }

    /// The node of a key, whose text is yet to be compared.
    pub(super) fn get(&self, key: Key) -> Option<Arc<Node>> {
        self.nodes.get(&key).cloned()
    }

    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(super) fn evicted(&self) -> u64 {
        self.evicted
    }

    pub(super) fn bytes(&self) -> usize {
        self.content + table_bytes(self.places) + queue_bytes(self.queue.capacity())
    }

    fn holds(&self, node: &Arc<Node>) -> bool {
        self.nodes.get(&node.key).is_some_and(|held| held.id == node.id)
    }

    fn add(&mut self, key: Key, part: Part) -> Arc<Node> {
        self.content += part.bytes();
        if self.queue.len() == self.queue.capacity() {
            // By the amount that `bytes_with_one_more` counted on.
            self.queue.reserve_exact(grown(self.queue.capacity()) - self.queue.len());
        }
        let node = Node { id: self.next, key, text: part.text, ids: part.ids, used: AtomicBool::new(false) };
        self.next = NodeId(self.next.0.saturating_add(1));
        let node = Arc::new(node);
        self.nodes.insert(key, Arc::clone(&node));
        self.places = self.places.max(self.nodes.capacity());
        self.queue.push_back(key);
        node
    }

    /// Evicts until so many bytes fit. False if they never do.
    fn make_room(&mut self, bytes: usize) -> bool {
        if bytes > self.bound {
            return false;
        }
        while self.bytes_with_one_more() + bytes > self.bound {
            if !self.evict() {
                return false;
            }
            self.shrink();
        }
        true
    }

    fn bytes_with_one_more(&self) -> usize {
        let (len, queue) = (self.nodes.len(), self.queue.capacity());
        // A table without a place left is tidied up while half of its places do, and grows otherwise.
        let grows = len == self.nodes.capacity() && len + 1 > self.places / 2;
        let places = if grows { grown(self.places) } else { self.places };
        let queue = if self.queue.len() == queue { grown(queue) } else { queue };
        self.content + table_bytes(places) + queue_bytes(queue)
    }

    /// Evicts one node; false if there is none. Nodes that were used since they last came up are spared once.
    fn evict(&mut self) -> bool {
        while let Some(key) = self.queue.pop_front() {
            let Some(node) = self.nodes.get(&key) else { continue };
            if node.used.swap(false, Ordering::Relaxed) {
                self.queue.push_back(key);
                continue;
            }
            self.content -= node.bytes();
            self.nodes.remove(&key);
            self.evicted += 1;
            return true;
        }
        false
    }

    /// Gives back tables that are mostly empty, or few long pieces would pay for many short ones of old.
    fn shrink(&mut self) {
        let len = self.nodes.len();
        if self.places > 16 && self.places / 4 > len {
            let mut nodes = HashMap::with_capacity_and_hasher(len * 2, RandomState::with_seed(0));
            nodes.extend(self.nodes.drain());
            self.nodes = nodes;
            self.places = self.nodes.capacity();
            self.queue.shrink_to(len * 2);
        }
    }

    /// Turns round the end of the queue, so that a prompt's last pieces go before those they hang on.
    fn reverse_last(&mut self, count: usize) {
        let end = self.queue.len();
        let count = count.min(end);
        for at in 0..count / 2 {
            self.queue.swap(end - count + at, end - 1 - at);
        }
    }
}

/// Where a piece hangs, and the hash of its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    parent: Option<NodeId>,
    hash: u64,
}

impl Key {
    pub(super) const fn new(parent: Option<NodeId>, hash: u64) -> Self {
        Self { parent, hash }
    }
}

/// Names one piece for as long as the cache lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct NodeId(NonZeroU64);

/// A piece that is held.
#[derive(Debug)]
pub(super) struct Node {
    id: NodeId,
    key: Key,
    text: Box<str>,
    ids: Box<[u32]>,
    used: AtomicBool,
}

impl Node {
    pub(super) fn id(&self) -> NodeId {
        self.id
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// Says that it was used. Looking first keeps the line of a piece that all share from going from core to core.
    pub(super) fn touch(&self) {
        if !self.used.load(Ordering::Relaxed) {
            self.used.store(true, Ordering::Relaxed);
        }
    }

    fn bytes(&self) -> usize {
        node_bytes(&self.text, &self.ids)
    }
}

/// A piece to be held.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) hash: u64,
    pub(super) text: Box<str>,
    pub(super) ids: Box<[u32]>,
}

impl Part {
    fn bytes(&self) -> usize {
        node_bytes(&self.text, &self.ids)
    }
}

/// What a node takes: itself with the two counts of its `Arc`, its text and its ids.
fn node_bytes(text: &str, ids: &[u32]) -> usize {
    2 * size_of::<usize>() + size_of::<Node>() + text.len() + size_of_val(ids)
}

/// What a hash table of the standard library takes: a power of two of places, one more byte for each, and a group of
/// such bytes at the end.
fn table_bytes(capacity: usize) -> usize {
    let places = match capacity {
        0 => return 0,
        1..8 => capacity + 1,
        _ => capacity / 7 * 8,
    };
    places * (size_of::<(Key, Arc<Node>)>() + 1) + 16
}

fn queue_bytes(capacity: usize) -> usize {
    capacity * size_of::<Key>()
}

/// The capacity after growing, of either table.
fn grown(capacity: usize) -> usize {
    match capacity {
        0 => 3,
        1..8 => capacity * 2 + 1,
        _ => capacity * 2,
    }
}
