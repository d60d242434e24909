//! Faults of event publishing: batches dropped, duplicated, reordered, corrupted, oversized, partitioned.
//!
//! Invariant: a fault touches only live batches. The replay buffer is left alone, so what was lost can be
//! replayed, except during a partition, when replays are not answered either.

use bytes::Bytes;

use super::replay_buffer::Batch;
use crate::http::config::Fault;

/// The faults that are due.
#[derive(Debug, Default)]
pub(super) struct EventFaults {
    drop: u32,
    duplicate: u32,
    corrupt: u32,
    oversize: u32,
    reorder: Reorder,
    partitioned: bool,
}

#[derive(Debug, Default)]
enum Reorder {
    #[default]
    No,
    /// The next batch waits for the one after it.
    Next,
    /// This one waits.
    Waiting(Batch),
}

impl EventFaults {
    /// Notes a fault. Batches that had been held back and go out now.
    pub(super) fn fault(&mut self, fault: Fault) -> Option<Batch> {
        match fault {
            Fault::DropEvents(count) => self.drop = self.drop.saturating_add(count),
            Fault::DuplicateEvents(count) => self.duplicate = self.duplicate.saturating_add(count),
            Fault::CorruptEvents(count) => self.corrupt = self.corrupt.saturating_add(count),
            Fault::OversizeEvents(count) => self.oversize = self.oversize.saturating_add(count),
            Fault::ReorderEvents if matches!(self.reorder, Reorder::No) => self.reorder = Reorder::Next,
            Fault::PartitionEvents => self.partitioned = true,
            Fault::Recover => {
                if let Reorder::Waiting(batch) = std::mem::take(self).reorder {
                    return Some(batch);
                }
            }
            _ => {}
        }
        None
    }

    /// What goes out when a batch is published, in this order.
    pub(super) fn pass(&mut self, batch: Batch) -> Vec<Batch> {
        if self.partitioned {
            return Vec::new();
        }
        if self.drop > 0 {
            self.drop -= 1;
            return Vec::new();
        }
        let batch = self.damaged(batch);
        let mut out = match std::mem::take(&mut self.reorder) {
            Reorder::No => vec![batch],
            Reorder::Next => {
                self.reorder = Reorder::Waiting(batch);
                return Vec::new();
            }
            Reorder::Waiting(first) => vec![batch, first],
        };
        if self.duplicate > 0 {
            self.duplicate -= 1;
            out.extend(out.clone());
        }
        out
    }

    /// The batch with another payload, if that is due.
    fn damaged(&mut self, batch: Batch) -> Batch {
        if self.oversize > 0 {
            self.oversize -= 1;
            return Batch { payload: Bytes::from(vec![0; OVERSIZE]), ..batch };
        }
        if self.corrupt > 0 {
            self.corrupt -= 1;
            return Batch { payload: corrupt(&batch), ..batch };
        }
        batch
    }

    /// Forgets a batch that waits: its incarnation is over.
    pub(super) fn begin(&mut self) {
        if matches!(self.reorder, Reorder::Waiting(_)) {
            self.reorder = Reorder::No;
        }
    }

    /// Whether replays are answered.
    pub(super) fn answers(&self) -> bool {
        !self.partitioned
    }
}

/// A payload that no decoder takes for another: half of it, or a byte that MessagePack never uses.
fn corrupt(batch: &Batch) -> Bytes {
    let payload = &batch.payload;
    if batch.sequence.is_multiple_of(2) { payload.slice(..payload.len() / 2) } else { vec![0xc1; payload.len()].into() }
}

/// More than any subscriber is set up to take: the router's takes 64 MiB.
const OVERSIZE: usize = (64 << 20) + 1;

#[cfg(test)]
mod tests {
    use kv_index::engine::decode_batch;

    use super::*;

    fn published(faults: &mut EventFaults, numbers: std::ops::Range<u64>) -> Vec<u64> {
        let batches = numbers.map(|sequence| Batch { sequence, payload: Bytes::new() });
        batches.flat_map(|batch| faults.pass(batch)).map(|batch| batch.sequence).collect()
    }

    #[test]
    fn each_fault_does_what_it_says_and_ends() {
        let mut faults = EventFaults::default();
        assert_eq!(published(&mut faults, 0..3), [0, 1, 2]);
        faults.fault(Fault::DropEvents(2));
        assert_eq!(published(&mut faults, 3..7), [5, 6]);
        faults.fault(Fault::DuplicateEvents(2));
        assert_eq!(published(&mut faults, 7..10), [7, 7, 8, 8, 9]);
        faults.fault(Fault::ReorderEvents);
        assert_eq!(published(&mut faults, 10..13), [11, 10, 12]);
    }

    #[test]
    fn a_damaged_batch_keeps_its_number_and_cannot_be_read() {
        let mut faults = EventFaults::default();
        let payload = Bytes::from(super::super::encode::batch(1.0, &[crate::http::events::CacheEvent::Cleared]));
        decode_batch(&payload).unwrap();
        faults.fault(Fault::CorruptEvents(2));
        for sequence in 0..3 {
            let out = faults.pass(Batch { sequence, payload: payload.clone() });
            assert_eq!(out.len(), 1);
            assert_eq!(out[0].sequence, sequence);
            assert_eq!(decode_batch(&out[0].payload).is_err(), sequence < 2, "{sequence}");
        }
        faults.fault(Fault::OversizeEvents(1));
        assert_eq!(faults.pass(Batch { sequence: 3, payload: payload.clone() })[0].payload.len(), OVERSIZE);
        assert_eq!(faults.pass(Batch { sequence: 4, payload: payload.clone() })[0].payload, payload);
    }

    #[test]
    fn a_partition_lasts_until_it_is_ended() {
        let mut faults = EventFaults::default();
        faults.fault(Fault::PartitionEvents);
        assert!(published(&mut faults, 0..3).is_empty());
        assert!(!faults.answers());
        faults.fault(Fault::Recover);
        assert!(faults.answers());
        assert_eq!(published(&mut faults, 3..5), [3, 4]);
    }

    #[test]
    fn a_batch_that_waits_goes_out_when_all_is_well_again_and_not_in_another_life() {
        let mut faults = EventFaults::default();
        faults.fault(Fault::ReorderEvents);
        assert!(published(&mut faults, 0..1).is_empty());
        assert_eq!(faults.fault(Fault::Recover).map(|batch| batch.sequence), Some(0));
        faults.fault(Fault::ReorderEvents);
        assert!(published(&mut faults, 1..2).is_empty());
        faults.begin();
        assert_eq!(published(&mut faults, 0..2), [0, 1]);
    }
}
