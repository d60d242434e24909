//! CRC-32 (IEEE 802.3, reflected), as in gzip.

/// Updates a checksum; the initial one is 0.
pub(super) fn update(before: u32, bytes: &[u8]) -> u32 {
    let mut sum = crc32fast::Hasher::new_with_initial(before);
    sum.update(bytes);
    sum.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_value_is_that_of_crc_32() {
        assert_eq!(update(0, b"123456789"), 0xcbf4_3926);
        assert_eq!(update(update(0, b"1234"), b"56789"), 0xcbf4_3926, "in parts too");
    }
}
