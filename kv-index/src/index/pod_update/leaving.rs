//! Blocks that leave a pod: looked up one by one, or found beside the one before, and taken out of their segments together.

use crate::blocks::{BlockHash, EventSemantics, Removed, Tier};
use crate::index::cache::Outcome;
use crate::index::pod_update::{AHEAD, PodUpdate};
use crate::segments::{BlockPosition, Gone, LONGEST, Span};

impl<const W: usize> PodUpdate<'_, W> {
    pub(crate) fn remove(&mut self, removed: &Removed<'_>, source: EventSemantics) {
        let blocks = removed.blocks;
        if matches!(blocks, [hash] if self.remove_plain(*hash, removed.tier)) {
            return;
        }
        self.cache.buffers.hashes.reserve(blocks.len());
        let mut at = 0;
        while let Some(&hash) = blocks.get(at) {
            if self.cache.is_plain() && removed.tier == Tier::Gpu {
                // One copy in one tier and nothing else to know: most blocks are like that.
                at += self.leave_beside(&blocks[at..]);
                self.prefetch_ahead(blocks, at);
                blocks.get(at).into_iter().for_each(|hash| self.leave_apart(*hash));
                at += 1;
                continue;
            }
            self.prefetch_ahead(blocks, at);
            at += 1;
            match self.cache.remove_copy(hash, removed.tier, source) {
                Outcome::Leaves => self.leave(hash),
                Outcome::Kept => self.applied.still_held += 1,
                Outcome::Missing => self.applied.not_held += 1,
            }
        }
    }

    /// Takes a block out at once that is one copy in GPU memory, in one place: most that leave one by one are like that. Whether it did.
    fn remove_plain(&mut self, hash: BlockHash, tier: Tier) -> bool {
        if tier != Tier::Gpu || !self.cache.is_plain() || !self.cache.buffers.spans.is_empty() {
            return false;
        }
        let segments = &self.index.segments;
        let Some((BlockPosition { segment, offset }, life)) = segments.place(hash, &self.pin) else { return false };
        let span = Span { segment, life, from: offset, to: offset + 1 };
        let (gone, _) = segments.remove(self.pod, &[span], &self.pin);
        self.applied.removed += gone.held;
        self.cache.len -= gone.held;
        self.index.room.give_back(self.pod, gone.dead);
        gone.held > 0
    }

    /// Takes blocks out whatever their copies.
    pub(crate) fn drop_blocks(&mut self, blocks: &[BlockHash]) {
        for (at, &hash) in blocks.iter().enumerate() {
            self.prefetch_ahead(blocks, at);
            self.drop_block(hash);
        }
    }

    /// Takes a block out whatever its copies.
    pub(crate) fn drop_block(&mut self, hash: BlockHash) {
        self.cache.forget(hash);
        self.leave(hash);
    }

    /// Asks for what will be looked up: all of it, where blocks are not beside each other.
    #[inline]
    fn prefetch_ahead(&self, blocks: &[BlockHash], at: usize) {
        let directory = &self.index.segments.directory;
        if self.cache.buffers.astray > 1 {
            blocks.get(at + AHEAD).into_iter().for_each(|ahead| directory.prefetch_to_write(*ahead));
        } else if self.cache.buffers.astray == 1 {
            blocks.iter().skip(at + 1).take(AHEAD).for_each(|hash| directory.prefetch_to_write(*hash));
        }
    }

    /// Notes a block that leaves, if the pod holds it.
    fn leave(&mut self, hash: BlockHash) {
        if self.leave_beside(&[hash]) == 0 {
            self.leave_apart(hash);
        }
    }

    /// Notes as many of `blocks` as lie in a row beside what was noted last, up or down its segment; how many.
    #[inline]
    fn leave_beside(&mut self, blocks: &[BlockHash]) -> usize {
        let Self { index, ref pin, ref mut cache, .. } = *self;
        let buffers = &mut cache.buffers;
        let is_worth_it = buffers.astray < ASTRAY || buffers.astray % ASTRAY == 0;
        let Some(span) = buffers.spans.last_mut().filter(|_| is_worth_it) else { return 0 };
        let segment = index.segments.view(span.segment, pin);
        let down = (0..span.from).rev().zip(blocks).take_while(|(at, hash)| segment.is_at(*at, **hash)).count();
        let up = || (span.to..).zip(blocks).take_while(|(at, hash)| segment.is_at(*at, **hash)).count();
        let up = if down == 0 { up() } else { 0 };
        if down + up == 0 || segment.life() != span.life || segment.is_doubled() || !segment.is_current() {
            return 0;
        }
        (span.from, span.to) = (span.from - down as u32, span.to + up as u32);
        buffers.astray = 0;
        buffers.hashes.extend_from_slice(&blocks[..down + up]);
        down + up
    }

    /// Notes a block that leaves, if the pod holds it, wherever it is.
    fn leave_apart(&mut self, hash: BlockHash) {
        let Self { index, pod, ref pin, ref mut cache, .. } = *self;
        let buffers = &mut cache.buffers;
        buffers.astray += 1;
        let span = loop {
            if let Some((BlockPosition { segment, offset: from }, life)) = index.segments.place(hash, pin) {
                break Some(Span { segment, life, from, to: from + 1 });
            }
            let at = match index.segments.places(hash, pin)[..] {
                [] => None,
                [at] => Some(at),
                _ => index.segments.find(pod, hash, pin),
            };
            let Some(BlockPosition { segment: id, offset }) = at else { break None };
            let segment = index.segments.view(id, pin);
            let (there, life) = (segment.is_at(offset, hash), segment.life());
            if segment.is_current() && there {
                break Some(Span { segment: id, life, from: offset, to: offset + 1 });
            }
        };
        match span {
            Some(span) => {
                buffers.spans.push(span);
                buffers.hashes.push(hash);
            }
            None => self.applied.not_held += 1,
        }
    }

    /// Takes what leaves out of its segments.
    pub(super) fn take_out(&mut self) {
        if self.cache.buffers.spans.is_empty() {
            return;
        }
        let mut buffers = std::mem::take(&mut self.cache.buffers);
        // In whatever order blocks were named, those of one segment go together.
        if buffers.spans.len() > 1 {
            join_spans(&mut buffers.spans);
        }
        let (mut left, mut dead, mut is_sure) = (0, 0, true);
        for spans in buffers.spans.chunk_by(|a, b| (a.segment, a.life) == (b.segment, b.life)) {
            self.pin.let_in();
            let (gone, is_all) = self.index.segments.remove(self.pod, spans, &self.pin);
            (left, dead) = (left + gone.held, dead + gone.dead);
            let named: usize = spans.iter().map(|span| (span.to - span.from) as usize).sum();
            is_sure &= is_all && gone.held == named;
        }
        if !is_sure {
            // What the pod did not hold there it may hold elsewhere: a segment may have gone between our looking and locking it.
            for &hash in &buffers.hashes {
                let gone = self.take_out_one(hash);
                (left, dead) = (left + gone.held, dead + gone.dead);
            }
        }
        self.applied.removed += left;
        self.applied.not_held += buffers.hashes.len() - left;
        self.cache.len -= left;
        self.index.room.give_back(self.pod, dead);
        buffers.clear();
        self.cache.buffers = buffers;
    }

    /// Takes a block out, wherever it is by now.
    #[cold]
    fn take_out_one(&self, hash: BlockHash) -> Gone {
        while let Some(BlockPosition { segment, offset }) = self.find(hash) {
            let view = self.index.segments.view(segment, &self.pin);
            let (there, life) = (view.is_at(offset, hash), view.life());
            if there && view.is_current() {
                let span = Span { segment, life, from: offset, to: offset + 1 };
                let (gone, _) = self.index.segments.remove(self.pod, &[span], &self.pin);
                if gone.held > 0 {
                    return gone;
                }
            }
        }
        Gone::default()
    }
}

/// The same for spans of one segment, without sorting them.
fn join_in_one_segment(spans: &mut Vec<Span>, of: Span) {
    let mut leaves = vec![false; LONGEST + 1];
    for span in spans.drain(..) {
        leaves[span.from as usize..span.to as usize].fill(true);
    }
    let mut at = 0;
    while let Some(skip) = leaves[at..].iter().position(|leaves| *leaves) {
        let from = at + skip;
        at = leaves[from..].iter().position(|leaves| !*leaves).map_or(leaves.len(), |count| from + count);
        spans.push(Span { from: from as u32, to: at as u32, ..of });
    }
}

/// Spans of one segment that are worth the bytes of all its blocks.
const MANY: usize = 1_000;

/// Blocks that are not beside the one before until that is looked for less often.
const ASTRAY: usize = 8;

/// Puts spans in order, and those that adjoin or overlap together.
fn join_spans(spans: &mut Vec<Span>) {
    let first = spans[0];
    if spans.len() > MANY && spans.iter().all(|span| (span.segment, span.life) == (first.segment, first.life)) {
        return join_in_one_segment(spans, first);
    }
    spans.sort_unstable_by_key(|span| u64::from(span.segment.raw()) << 32 | u64::from(span.from));
    spans.dedup_by(|next, span| {
        let adjoins = (next.segment, next.life) == (span.segment, span.life) && next.from <= span.to;
        span.to = if adjoins { span.to.max(next.to) } else { span.to };
        adjoins
    });
}
