//! UUIDs, derived from a random number.

use crate::splitmix64;

/// A version 4 UUID that follows from a number.
pub(super) fn uuid(number: u64) -> String {
    let (high, low) = (splitmix64::step(number), splitmix64::step(!number));
    let (version, variant) = (high & !0xf000 | 0x4000, low & !(3 << 62) | 1 << 63);
    let (a, b, c) = (version >> 32, version >> 16 & 0xffff, version & 0xffff);
    format!("{a:08x}-{b:04x}-{c:04x}-{:04x}-{:012x}", variant >> 48, variant & 0xffff_ffff_ffff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_are_well_formed_and_differ() {
        let uuids: std::collections::BTreeSet<String> = (0..1000).map(uuid).collect();
        assert_eq!(uuids.len(), 1000);
        for uuid in uuids {
            let lengths: Vec<usize> = uuid.split('-').map(str::len).collect();
            assert_eq!(lengths, [8, 4, 4, 4, 12], "{uuid}");
            assert_eq!(&uuid[14..15], "4");
            assert!("89ab".contains(&uuid[19..20]));
        }
    }
}
