//! Sequencing: the order in which a pod does its share.
//!
//! A share falls into *units* that share next to nothing with each other, so that their order is free; within a unit,
//! trie order is kept. Units with deadlines come first, the most urgent one first. The others are halved into those
//! with most to generate and those with most to compute, and the halves take turns.
//!
//! Reordering units computes at most what they share again: their number times the depth at which they part, beyond what
//! all of the pod's requests share. Units are made no smaller than the budget for that allows.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use super::Mixing;
use super::layer::{Job, Layer};

/// A request in its pod's order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item {
    /// Its place in the queue.
    pub(super) at: u32,
    /// Blocks that are there when it begins.
    pub(super) cached: u32,
    /// Blocks that it shares with the one before.
    pub(super) near: u32,
    /// The layer that it is of, the most urgent one first.
    pub(super) tier: u32,
}

/// Appends a pod's share of a layer to its items.
pub(super) fn sequence(job: &Job<'_>, layer: &Layer, pod: usize, share: &[u32], items: &mut Vec<Item>) {
    if share.is_empty() {
        return;
    }
    let near: Vec<u32> = (0..share.len()).map(|j| layer.near_in(job, share, j)).collect();
    let (root, units) = units(job, layer, share, &near);
    let before = items.len();
    let mut writer = Writer { job, layer, pod, share, near: &near, root, first: true, items };
    let (mut urgent, free): (Vec<Unit>, Vec<Unit>) = units.into_iter().partition(|unit| unit.deadline.is_some());
    urgent.sort_by_key(|unit| (unit.deadline, unit.from));
    let mut end = None;
    for unit in &urgent {
        for j in unit.from..unit.to {
            writer.write(j, &mut end);
        }
    }
    match halves(job, layer, pod, share, free) {
        Ok(halves) => interleave(&mut writer, halves),
        Err(apart) => apart.iter().flat_map(|unit| unit.from..unit.to).for_each(|j| writer.write(j, &mut end)),
    }
    if urgent.is_empty() && job.config.mixing != Mixing::Apart {
        begin_long_answers_first(job, layer, pod, share, &mut items[before..]);
    }
}

/// Brings those to the front whose answers would go on when all others are done: what comes last keeps the pod waiting.
///
/// Only where the cache holds all of the share, so that nothing is computed again, and where not all begin at once anyway.
fn begin_long_answers_first(job: &Job<'_>, layer: &Layer, pod: usize, share: &[u32], items: &mut [Item]) {
    let of: HashMap<u32, usize> = share.iter().map(|&i| (layer.at[i as usize], i as usize)).collect();
    let held: f64 = share.iter().map(|&i| layer.adds[i as usize]).sum();
    if held > job.pods[pod].kv_tokens as f64 || items.len() <= job.config.most_running as usize {
        return;
    }
    let works: Vec<f64> = items.iter().map(|item| layer.work(job, pod, of[&item.at], false)).collect();
    let all: f64 = works.iter().sum();
    let mut begins = 0.0;
    let (mut long, mut rest) = (Vec::new(), Vec::new());
    for (item, work) in items.iter().zip(works) {
        let outlasts = begins + layer.residence(job, pod, of[&item.at]) > all;
        (if outlasts { &mut long } else { &mut rest }).push(*item);
        begins += work;
    }
    // All that was begun before is there; its neighbours in trie order share most with each.
    let mut begun: BTreeSet<u32> = BTreeSet::new();
    let mut before: Option<u32> = None;
    for (place, mut item) in items.iter_mut().zip(long.into_iter().chain(rest)) {
        let shared = |other: u32| job.queue.shared(other as usize, item.at as usize);
        let beside = begun.range(..item.at).next_back().into_iter().chain(begun.range(item.at..).next());
        let there = beside.map(|&other| shared(other)).max().unwrap_or(0);
        item.near = before.map_or(0, shared);
        item.cached = there.max(job.claim(item.at).on(pod));
        begun.insert(item.at);
        (*place, before) = (item, Some(item.at));
    }
}

/// A run of a share that shares little with what is around it.
#[derive(Clone, Copy, Debug)]
struct Unit {
    from: usize,
    to: usize,
    /// The earliest one in it.
    deadline: Option<Duration>,
}

/// How many blocks all of a share have in common, and its units.
fn units(job: &Job<'_>, layer: &Layer, share: &[u32], near: &[u32]) -> (u32, Vec<Unit>) {
    let mut depths = near[1..].to_vec();
    depths.sort_unstable();
    let root = depths.first().copied().unwrap_or(0);
    let part = match job.config.mixing {
        Mixing::Apart => root,
        Mixing::TwoEnds { most_recomputed } => {
            let block = f64::from(job.config.block_tokens.get());
            let tokens: f64 =
                share.iter().map(|&i| f64::from(job.new_tokens(layer.at[i as usize], layer.near[i as usize]))).sum();
            let budget = most_recomputed * tokens / block;
            let (mut part, mut units) = (root, 1);
            for same in depths.chunk_by(|a, b| a == b) {
                units += same.len();
                if units as f64 * f64::from(same[0] - root) > budget {
                    break;
                }
                part = same[0];
            }
            part
        }
    };
    let mut units: Vec<Unit> = Vec::new();
    for (j, &i) in share.iter().enumerate() {
        let deadline = job.deadline(layer.at[i as usize]);
        match units.last_mut() {
            Some(unit) if near[j] > part => {
                unit.to = j + 1;
                unit.deadline = unit.deadline.into_iter().chain(deadline).min();
            }
            _ => units.push(Unit { from: j, to: j + 1, deadline }),
        }
    }
    (root, units)
}

/// One end of the scan: units, and how far it is.
#[derive(Debug, Default)]
struct Half {
    units: Vec<Unit>,
    /// The unit at hand, and which of it is next.
    unit: usize,
    next: usize,
    work: f64,
    done: f64,
    /// The last that was written.
    end: Option<usize>,
}

impl Half {
    fn new(units: Vec<Unit>, work: f64) -> Self {
        Self { next: units.first().map_or(0, |unit| unit.from), units, work, ..Self::default() }
    }

    fn is_done(&self) -> bool {
        self.unit == self.units.len()
    }

    fn share_done(&self) -> f64 {
        if self.work > 0.0 { self.done / self.work } else { 1.0 }
    }

    /// Goes on to the next one; whether a unit ends with this one.
    fn advance(&mut self) -> bool {
        self.next += 1;
        if self.next < self.units[self.unit].to {
            return false;
        }
        self.unit += 1;
        self.next = self.units.get(self.unit).map_or(0, |unit| unit.from);
        true
    }
}

/// Those with most to generate, longest answers first, and those with most to compute; or the units as they are where
/// they hardly differ.
fn halves(job: &Job<'_>, layer: &Layer, pod: usize, share: &[u32], units: Vec<Unit>) -> Result<[Half; 2], Vec<Unit>> {
    if job.config.mixing == Mixing::Apart || units.len() < 2 {
        return Err(units);
    }
    let mut rated: Vec<(f64, f64, u32, Unit)> = units
        .iter()
        .map(|&unit| {
            let of = || share[unit.from..unit.to].iter().map(|&i| i as usize);
            let decode: f64 = of().map(|i| layer.decode(job, pod, i)).sum();
            let prefill: f64 = of().map(|i| layer.prefill(job, pod, i, false)).sum();
            let longest = of().map(|i| job.queue.request(layer.at[i] as usize).output_tokens).max().unwrap_or(0);
            (decode, decode + prefill, longest, unit)
        })
        .collect();
    let ratio = |decode: f64, work: f64| if work > 0.0 { decode / work } else { 0.0 };
    rated.sort_by(|a, b| ratio(b.0, b.1).total_cmp(&ratio(a.0, a.1)).then(a.3.from.cmp(&b.3.from)));
    let work: f64 = rated.iter().map(|unit| unit.1).sum();
    let mut sum = 0.0;
    let within = rated
        .iter()
        .take_while(|unit| {
            sum += unit.1;
            sum <= work / 2.0
        })
        .count();
    let prefill = rated.split_off(within.max(1));
    let of = |half: &[(f64, f64, u32, Unit)]| {
        half.iter().fold((0.0, 0.0), |(decode, work), unit| (decode + unit.0, work + unit.1))
    };
    let (long, heavy) = (of(&rated), of(&prefill));
    if ratio(long.0, long.1) - ratio(heavy.0, heavy.1) < ALIKE {
        return Err(units);
    }
    rated.sort_by_key(|unit| (std::cmp::Reverse(unit.2), unit.3.from));
    let mut prefill: Vec<Unit> = prefill.into_iter().map(|unit| unit.3).collect();
    prefill.sort_by_key(|unit| unit.from);
    Ok([Half::new(rated.into_iter().map(|unit| unit.3).collect(), long.1), Half::new(prefill, heavy.1)])
}

/// Halves whose shares of generating differ by less than this are left in trie order.
const ALIKE: f64 = 0.05;

/// How far one half gets ahead of the other before it is the other's turn, as a share of its work.
const AHEAD: f64 = 1.0 / 64.0;

/// Lets the halves take turns, so that both are at about the same share of their work. A turn ends with a unit, or
/// when it has filled its part of the cache.
fn interleave(writer: &mut Writer<'_>, mut halves: [Half; 2]) {
    let room = writer.job.pods[writer.pod].kv_tokens / 4;
    // With two paths open, what one end does in its turn must leave the other's path in the cache. Where single requests
    // are too large for that, turns end with units.
    let small = |&i: &u32| writer.job.queue.request(writer.layer.at[i as usize] as usize).room() <= room;
    let within_units = writer.share.iter().all(small);
    let mut turn = 0;
    while !(halves[0].is_done() && halves[1].is_done()) {
        if halves[turn].is_done() {
            turn = 1 - turn;
        }
        let other = if halves[1 - turn].is_done() { f64::INFINITY } else { halves[1 - turn].share_done() };
        let half = &mut halves[turn];
        let mut adds = 0.0;
        loop {
            let i = writer.share[half.next] as usize;
            adds += writer.layer.adds[i];
            half.done += writer.layer.work(writer.job, writer.pod, i, false);
            let next = half.next;
            writer.write(next, &mut half.end);
            let ends = half.advance();
            let full = other < f64::INFINITY && adds >= room as f64;
            let ahead = half.share_done() >= other + AHEAD;
            if half.is_done() || (ends && ahead) || ((ends || within_units) && full) {
                break;
            }
        }
        turn = 1 - turn;
    }
}

/// Writes a share in its new order, with what is there for each.
struct Writer<'a> {
    job: &'a Job<'a>,
    layer: &'a Layer,
    pod: usize,
    share: &'a [u32],
    near: &'a [u32],
    /// Blocks that all of the share have in common.
    root: u32,
    first: bool,
    items: &'a mut Vec<Item>,
}

impl Writer<'_> {
    /// Writes the `j`th of the share; `end` is the last one that was written at this end of the scan.
    fn write(&mut self, j: usize, end: &mut Option<usize>) {
        let at = self.layer.at[self.share[j] as usize];
        let near = self.items.last().map_or(0, |item| self.job.queue.shared(item.at as usize, at as usize));
        let behind = match *end {
            Some(end) if end + 1 == j => self.near[j],
            Some(end) => self.job.queue.shared(self.layer.at[self.share[end] as usize] as usize, at as usize),
            None => 0,
        };
        let root = if self.first { 0 } else { self.root };
        let cached = near.max(behind).max(root).max(self.job.claim(at).on(self.pod));
        self.items.push(Item { at, cached, near, tier: 0 });
        (*end, self.first) = (Some(j), false);
    }
}
