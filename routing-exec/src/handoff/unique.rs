//! Names that follow from a random number.

/// Spreads a number over all bits; different ones stay different.
pub(super) fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// A version 4 UUID that follows from a number.
pub(super) fn uuid(number: u64) -> String {
    let (high, low) = (mix(number), mix(!number));
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
