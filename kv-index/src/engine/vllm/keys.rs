//! Extra keys of a block's hash: adapter, media, salt, embeddings.
//!
//! Which media items a block has is found by walking: vLLM keeps a cursor into the items and moves it as blocks pass
//! them. The walk is followed step by step, because it, not the geometry, decides where items overlap.

use smallvec::SmallVec;

use crate::engine::prompt::Media;

/// A block's extra keys.
#[derive(Clone, Debug, Default)]
pub(in crate::engine) struct Keys<'a> {
    pub(in crate::engine) adapter: Option<AdapterKey<'a>>,
    /// Identifiers, and where the items begin, counted from the block's start.
    pub(in crate::engine) media: SmallVec<[(&'a str, i64); 4]>,
    pub(in crate::engine) salt: Option<&'a str>,
    pub(in crate::engine) embeds: Option<[u8; 32]>,
}

/// An adapter, as it is hashed.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) struct AdapterKey<'a> {
    pub(in crate::engine) name: &'a str,
    /// Hashed from 0.31 on.
    pub(in crate::engine) path: &'a str,
}

impl<'a> Keys<'a> {
    /// How many there are.
    #[inline]
    pub(super) fn count(&self) -> usize {
        usize::from(self.adapter.is_some())
            + self.media.len()
            + usize::from(self.salt.is_some())
            + usize::from(self.embeds.is_some())
    }

    /// Takes over the media items of the block that begins at token `start`, walking on from `cursor`.
    pub(super) fn walk(&mut self, media: &[Media<'a>], cursor: &mut usize, start: usize, end: usize) {
        self.media.clear();
        let Some(last) = media.last() else { return };
        if item_end(last) < start {
            return;
        }
        while let Some(item) = media.get(*cursor) {
            if end <= item.offset {
                return;
            }
            if start < item_end(item) {
                self.media.push((item.identifier, item.offset as i64 - start as i64));
                if end < item_end(item) {
                    return;
                }
            }
            *cursor += 1;
        }
    }
}

fn item_end(item: &Media<'_>) -> usize {
    item.offset.saturating_add(item.length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_finds_what_overlaps_each_block() {
        let item = |identifier, offset, length| Media { identifier, offset, length };
        let media = [item("a", 1, 5), item("b", 6, 2), item("c", 8, 4), item("d", 13, 1)];
        let (mut keys, mut cursor) = (Keys::default(), 0);
        let mut blocks = Vec::new();
        for start in (0..20).step_by(4) {
            keys.walk(&media, &mut cursor, start, start + 4);
            blocks.push(keys.media.to_vec());
        }
        let expected = [vec![("a", 1)], vec![("a", -3), ("b", 2)], vec![("c", 0)], vec![("d", 1)], vec![]];
        assert_eq!(blocks, expected);
    }
}
