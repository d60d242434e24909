//! Snapshot file: the models' indexes with the position of the event stream, replaced by an atomic rename.
//!
//! The position is read before the indexes are: events in between are in both, and a source that resumes at the position repeats
//! them, which changes nothing.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use kv_index::{Config, Index};

/// A restored snapshot.
#[derive(Debug, Default)]
pub(super) struct Restored {
    /// By the names of their models.
    pub(super) indexes: BTreeMap<String, Index>,
    /// The position of the fleet-wide stream, if there is one.
    pub(super) position: Option<u64>,
}

/// Why a snapshot is not used. The gateway starts with an empty index then, which is slower and never wrong.
#[derive(Debug, thiserror::Error)]
pub(super) enum RestoreError {
    #[error("cannot read `{}`: {kind}", path.display())]
    File { path: PathBuf, kind: io::ErrorKind },
    #[error("`{}` is not a snapshot of a gateway", path.display())]
    Foreign { path: PathBuf },
    #[error("`{}`: {source}", path.display())]
    Index { path: PathBuf, source: kv_index::SnapshotError },
}

/// Reads a snapshot; none if there is no file.
pub(super) fn restore(path: &Path) -> Result<Option<Restored>, RestoreError> {
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(RestoreError::File { path: path.to_owned(), kind: error.kind() }),
    };
    let foreign = || RestoreError::Foreign { path: path.to_owned() };
    let rest = bytes.strip_prefix(MAGIC).ok_or_else(foreign)?;
    let (known, rest) = rest.split_first().ok_or_else(foreign)?;
    let (position, rest) = rest.split_first_chunk::<8>().ok_or_else(foreign)?;
    let (count, mut rest) = rest.split_first_chunk::<8>().ok_or_else(foreign)?;
    let mut indexes = BTreeMap::new();
    for _ in 0..u64::from_le_bytes(*count) {
        let name = part(&mut rest).and_then(|name| String::from_utf8(name.to_vec()).ok()).ok_or_else(foreign)?;
        let index = Index::restore(Config::default(), part(&mut rest).ok_or_else(foreign)?)
            .map_err(|source| RestoreError::Index { path: path.to_owned(), source })?;
        indexes.insert(name, index);
    }
    Ok(Some(Restored { indexes, position: (*known == 1).then_some(u64::from_le_bytes(*position)) }))
}

/// The next part of a file: its length, and so many bytes.
fn part<'b>(rest: &mut &'b [u8]) -> Option<&'b [u8]> {
    let (length, behind) = rest.split_first_chunk::<8>()?;
    let (part, behind) = behind.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
    *rest = behind;
    Some(part)
}

/// Writes a snapshot in place of the last one.
pub(super) fn write<'i>(
    path: &Path,
    indexes: impl ExactSizeIterator<Item = (&'i str, &'i Index)>,
    position: Option<u64>,
) -> io::Result<()> {
    let mut bytes = MAGIC.to_vec();
    bytes.push(u8::from(position.is_some()));
    bytes.extend_from_slice(&position.unwrap_or(0).to_le_bytes());
    bytes.extend_from_slice(&(indexes.len() as u64).to_le_bytes());
    for (name, index) in indexes {
        for part in [name.as_bytes(), &index.snapshot()] {
            bytes.extend_from_slice(&(part.len() as u64).to_le_bytes());
            bytes.extend_from_slice(part);
        }
    }
    let mut aside = path.as_os_str().to_owned();
    aside.push(".new");
    let aside = PathBuf::from(aside);
    std::fs::write(&aside, bytes)?;
    std::fs::File::open(&aside)?.sync_all()?;
    std::fs::rename(&aside, path)
}

const MAGIC: &[u8] = b"pointsman gateway snapshot 2\n";

#[cfg(test)]
mod tests {
    use kv_index::{BlockHash, Event, EventSemantics, Stored};

    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("pointsman-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn what_was_written_comes_back() {
        let (folder, index) = (folder("snapshot"), Index::new(Config::default()));
        let path = folder.join("index");
        assert!(restore(&path).unwrap().is_none());
        let pod = index.join("a").unwrap();
        let hashes = [BlockHash::new(1), BlockHash::new(2)];
        index.apply(pod, EventSemantics::Copies, &Event::Stored(Stored::prompt(&hashes))).unwrap();
        for position in [None, Some(42)] {
            let empty = Index::new(Config::default());
            write(&path, [("m", &index), ("n", &empty)].into_iter(), position).unwrap();
            let restored = restore(&path).unwrap().unwrap();
            assert_eq!((restored.position, restored.indexes.len()), (position, 2));
            let index = &restored.indexes["m"];
            assert_eq!(index.pod_stats(index.pod("a").unwrap()).unwrap().blocks, 2);
        }
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn damaged_files_are_refused() {
        let (folder, index) = (folder("damaged"), <Index>::new(Config::default()));
        let path = folder.join("index");
        index.join("a").unwrap();
        write(&path, [("m", &index)].into_iter(), None).unwrap();
        let whole = std::fs::read(&path).unwrap();
        for length in 0..whole.len() {
            std::fs::write(&path, &whole[..length]).unwrap();
            assert!(restore(&path).is_err(), "{length} of {} bytes", whole.len());
        }
        std::fs::remove_dir_all(folder).unwrap();
    }
}
