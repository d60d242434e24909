//! CRC-32 (IEEE 802.3, reflected), as in gzip.

/// Updates a checksum; the initial one is 0.
pub(super) fn update(before: u32, bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!before, |sum, byte| TABLE[usize::from(sum as u8 ^ byte)] ^ sum >> 8)
}

const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut at = 0;
    while at < 256 {
        let (mut sum, mut bit) = (at as u32, 0);
        while bit < 8 {
            sum = if sum & 1 == 1 { 0xedb8_8320 ^ sum >> 1 } else { sum >> 1 };
            bit += 1;
        }
        table[at] = sum;
        at += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_value_is_that_of_crc_32() {
        assert_eq!(update(0, b"123456789"), 0xcbf4_3926);
        assert_eq!(update(update(0, b"1234"), b"56789"), 0xcbf4_3926, "in parts too");
    }
}
