//! Binary snapshots: warm restart, and bootstrap of a new replica.
//!
//! ```text
//! label 8 | version 4 | length of the body 8 | checksum of the body 8 | body
//! body:   pods 4, then per pod: name, generation 4, slow path 1, streams 4 × (id 4, incarnation 8, next 8), feeds 8 × feed, blocks 8 × block
//! feed:   stream 4, length 8, what an engine feed knows beside the index
//! block:  hash 8, what follows 1, [parent 8], tiers 1, [copies 4 × tiers], [locations]
//! ```
//!
//! All numbers are little endian. Every pod is written under its lock together with the positions of its
//! streams and what its feeds know, so replaying batches that the snapshot already has changes nothing. Speculation is left
//! out.

pub(crate) mod bytes;

use self::bytes::{Reader, put_u32, put_u64};
use crate::blocks::{BlockHash, Location, Parent, Tier, chain};
use crate::index::Index;
use crate::index::config::Config;
use crate::index::detail::Detail;
use crate::index::pod_update::RestoredBlock;
use crate::index::streams::{Cursor, SavedInUse, StreamId, with_all_saved};
use crate::pods::{Pod, SnapshotError};
use crate::reclamation::pin;

impl<const WORDS: usize> Index<WORDS> {
    /// Writes the live pods, what they hold, and what their engine feeds need to go on from there.
    #[must_use]
    pub fn snapshot(&self) -> Vec<u8> {
        let mut body = Vec::new();
        let live: Vec<_> = self.registry.live().collect();
        let mut written = 0u32;
        put_u32(&mut body, 0);
        for pod in live {
            let Ok(feeds) = self.cache(pod).map(|cache| cache.feeds.in_use()) else { continue };
            // Each waits for its feed before it waits for the pod, as a batch does.
            with_all_saved(&feeds, &mut Vec::new(), &mut |saved| {
                written += u32::from(self.put_pod(&mut body, pod, saved));
            });
        }
        body[..4].copy_from_slice(&written.to_le_bytes());
        with_header(&body)
    }

    /// Writes a pod, unless it is retired meanwhile; whether it did.
    fn put_pod(&self, body: &mut Vec<u8>, pod: Pod, saved: &[SavedInUse]) -> bool {
        let (Some(name), Ok(cache)) = (self.registry.name(pod), self.cache(pod)) else { return false };
        let pin = pin();
        put_u32(body, name.len() as u32);
        body.extend_from_slice(name.as_bytes());
        put_u32(body, pod.generation());
        let loose = body.len();
        body.push(0);
        let cursors: Vec<_> = cache.cursors.iter().collect();
        put_u32(body, cursors.len() as u32);
        for (stream, cursor) in cursors {
            put_u32(body, stream.0);
            put_u64(body, cursor.incarnation);
            put_u64(body, cursor.next);
        }
        // What a feed knows that has not noticed yet that its pod was cleared is past. What the last snapshot had of feeds that
        // were not made since is still what there is to say.
        let in_use = saved.iter().filter(|saved| saved.clears == cache.clears).map(|saved| &saved.feed);
        let unused = cache.feeds.saved.iter().filter(|(stream, _)| saved.iter().all(|saved| saved.feed.0 != *stream));
        let feeds: Vec<_> = in_use.chain(unused).collect();
        put_u64(body, feeds.len() as u64);
        for (stream, bytes) in feeds {
            put_u32(body, stream.0);
            put_u64(body, bytes.len() as u64);
            body.extend_from_slice(bytes);
        }
        put_u64(body, (cache.len - cache.speculated()) as u64);
        {
            let _still = self.segments.hold_still();
            for segment in cache.segments() {
                self.segments.for_held(pod.id(), segment, &pin, |_, parent, blocks| {
                    let mut parent = parent;
                    for &hash in blocks {
                        if let Some(detail) = cache.real(hash) {
                            put_block(body, hash, parent, &detail);
                        }
                        parent = Parent::Block(hash);
                    }
                });
            }
        }
        // After its blocks: a merge of another pod's may have put some behind what it never said that they follow, and said so before.
        body[loose] = u8::from(self.segments.loose().contains(pod.id()));
        true
    }

    /// Makes an index from a snapshot. Pods keep their names and get new handles ([`Index::pod`]).
    ///
    /// Blocks beyond the bounds of `config` are left out and counted as refused.
    ///
    /// # Errors
    ///
    /// When the bytes are not a whole, undamaged snapshot of this version, or have too many pods. Any bytes
    /// are safe to pass.
    pub fn restore(config: Config, bytes: &[u8]) -> Result<Self, SnapshotError> {
        let mut reader = Reader::new(bytes);
        check_header(&mut reader)?;
        let index = Self::with_width(config);
        let pods = reader.u32()? as usize;
        if pods > index.config.max_pods {
            return Err(SnapshotError::TooManyPods { found: pods, room: index.config.max_pods });
        }
        for _ in 0..pods {
            index.restore_pod(&mut reader)?;
        }
        if reader.at == bytes.len() { Ok(index) } else { Err(reader.malformed()) }
    }

    fn restore_pod(&self, reader: &mut Reader<'_>) -> Result<(), SnapshotError> {
        let at = reader.at;
        let length = reader.u32()? as usize;
        let name = std::str::from_utf8(reader.take(length)?).map_err(|_| SnapshotError::Malformed { at })?;
        let generation = reader.u32()?;
        if generation == u32::MAX {
            return Err(SnapshotError::Malformed { at });
        }
        let pod = self.registry.join_after(name, generation).map_err(|_| SnapshotError::Malformed { at })?;
        let mut change = self.change(pod).map_err(|_| SnapshotError::Malformed { at })?;
        let loose = reader.u8()? != 0;
        if loose {
            self.segments.set_loose(pod.id());
        }
        for _ in 0..reader.u32()? {
            let stream = StreamId(reader.u32()?);
            let cursor = Cursor { incarnation: reader.u64()?, next: reader.u64()? };
            change.cache().cursors.push(stream, cursor);
        }
        for _ in 0..reader.count(LEAST_FEED)? {
            let stream = StreamId(reader.u32()?);
            let length = reader.count(1)?;
            change.cache().feeds.saved.push((stream, reader.take(length)?.into()));
        }
        let count = reader.count(LEAST_BLOCK)?;
        let mut blocks = Vec::with_capacity(count);
        for _ in 0..count {
            blocks.push(read_block(reader)?);
        }
        if !change.restore(&blocks) {
            return Err(reader.malformed());
        }
        if loose {
            // Which of its blocks it did not say to follow what lay before them is not written.
            change.cache().segments().into_iter().for_each(|segment| self.segments.set_unsaid(segment, &pin()));
        }
        change.finish();
        Ok(())
    }
}

pub(crate) fn with_header(body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER + body.len());
    bytes.extend_from_slice(LABEL);
    put_u32(&mut bytes, VERSION);
    put_u64(&mut bytes, body.len() as u64);
    put_u64(&mut bytes, chain::checksum(body));
    bytes.extend_from_slice(body);
    bytes
}

fn check_header(reader: &mut Reader<'_>) -> Result<(), SnapshotError> {
    if reader.take(LABEL.len()).ok() != Some(&LABEL[..]) {
        return Err(SnapshotError::Magic);
    }
    let short =
        |reader: &Reader<'_>| SnapshotError::Length { expected: HEADER as u64, found: reader.bytes.len() as u64 };
    let version = reader.u32().map_err(|_| short(reader))?;
    if version != VERSION {
        return Err(SnapshotError::Version { found: version, known: VERSION });
    }
    let length = reader.u64().map_err(|_| short(reader))?;
    let expected = reader.u64().map_err(|_| short(reader))?;
    let body = &reader.bytes[HEADER..];
    if body.len() as u64 != length {
        let total = |body: u64| body.saturating_add(HEADER as u64);
        return Err(SnapshotError::Length { expected: total(length), found: total(body.len() as u64) });
    }
    let found = chain::checksum(body);
    if found != expected {
        return Err(SnapshotError::Checksum { expected, found });
    }
    Ok(())
}

fn put_block(out: &mut Vec<u8>, hash: BlockHash, parent: Parent, detail: &Detail) {
    let copied = detail.copies.iter().any(|&copies| copies > 1);
    let mut follows = match parent {
        Parent::Root => 0,
        Parent::Block(_) => 1,
        Parent::Unknown => 2,
    };
    follows |= u8::from(copied) << 3;
    follows |= (detail.locations.len() as u8) << 4;
    put_u64(out, hash.get());
    out.push(follows);
    if let Parent::Block(parent) = parent {
        put_u64(out, parent.get());
    }
    out.push((0..4).filter(|&tier| detail.copies[tier] > 0).fold(0, |tiers, tier| tiers | 1 << tier));
    if copied {
        detail.copies.iter().for_each(|&copies| put_u32(out, copies));
    }
    for (tier, location) in &detail.locations {
        out.push(*tier as u8);
        put_u32(out, location.device);
        put_u64(out, location.offset);
        put_u64(out, location.length);
    }
}

fn read_block(reader: &mut Reader<'_>) -> Result<RestoredBlock, SnapshotError> {
    let hash = BlockHash::new(reader.u64()?);
    let follows = reader.u8()?;
    let parent = match follows & 7 {
        0 => Parent::Root,
        1 => Parent::Block(BlockHash::new(reader.u64()?)),
        2 => Parent::Unknown,
        _ => return Err(reader.malformed()),
    };
    let tiers = reader.u8()?;
    if tiers == 0 || tiers > 0xF {
        return Err(reader.malformed());
    }
    let mut detail = Detail::default();
    for (tier, copies) in detail.copies.iter_mut().enumerate() {
        *copies = if follows & 8 != 0 { reader.u32()? } else { u32::from(tiers >> tier & 1) };
        if (*copies > 0) != (tiers >> tier & 1 == 1) {
            return Err(reader.malformed());
        }
    }
    for _ in 0..follows >> 4 {
        let tier = *Tier::ALL.get(reader.u8()? as usize).ok_or(reader.malformed())?;
        let location = Location { device: reader.u32()?, offset: reader.u64()?, length: reader.u64()? };
        detail.relocate(tier, Some(location));
    }
    Ok((hash, parent, detail))
}

const LABEL: &[u8; 8] = b"pmkvidx\n";
const VERSION: u32 = 4;
const HEADER: usize = 28;
/// Stream and length.
const LEAST_FEED: usize = 12;
/// Hash, what follows, tiers.
const LEAST_BLOCK: usize = 10;

#[cfg(all(test, not(routing_loom)))]
mod tests;
