//! Byte search in blocks that compilers turn into a few vector instructions: every chunk of a stream is looked through.

/// The first place of either of two bytes.
pub(crate) fn find_either(bytes: &[u8], [one, other]: [u8; 2]) -> Option<usize> {
    let mut at = 0;
    for block in bytes.chunks_exact(BLOCK) {
        // Without a way out of it: a comparison of all bytes, and one look at what came of it.
        if block.iter().fold(false, |found, byte| found | (*byte == one) | (*byte == other)) {
            break;
        }
        at += BLOCK;
    }
    while let Some(word) = word(bytes, at) {
        let found = zeros(word ^ splat(one)) | zeros(word ^ splat(other));
        if found != 0 {
            return Some(at + found.trailing_zeros() as usize / 8);
        }
        at += WORD;
    }
    let rest = bytes.get(at..)?;
    rest.iter().position(|byte| *byte == one || *byte == other).map(|offset| at + offset)
}

/// The first place of two bytes that follow each other.
pub(crate) fn find_pair(bytes: &[u8], [first, second]: [u8; 2]) -> Option<usize> {
    let mut at = 0;
    while let Some((block, next)) = bytes.get(at..at + BLOCK).zip(bytes.get(at + 1..at + 1 + BLOCK)) {
        let pairs = block.iter().zip(next);
        if pairs.fold(false, |found, (byte, next)| found | ((*byte == first) & (*next == second))) {
            break;
        }
        at += BLOCK;
    }
    while let Some((word, next)) = word(bytes, at).zip(word(bytes, at + 1)) {
        let found = zeros(word ^ splat(first)) & zeros(next ^ splat(second));
        if found != 0 {
            return Some(at + found.trailing_zeros() as usize / 8);
        }
        at += WORD;
    }
    let rest = bytes.get(at..)?;
    rest.windows(2).position(|pair| pair == [first, second]).map(|offset| at + offset)
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|word| u64::from_le_bytes(*word))
}

const fn splat(byte: u8) -> u64 {
    u64::from_ne_bytes([byte; WORD])
}

/// The high bit of every byte that is zero, and of no other: nothing is carried from one byte into the next.
const fn zeros(word: u64) -> u64 {
    const LOW: u64 = splat(0x7f);
    !(((word & LOW) + LOW) | word | LOW)
}

const WORD: usize = 8;
const BLOCK: usize = 32;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn places_are_those_that_a_loop_over_bytes_finds(bytes in prop::collection::vec(b'a'..=b'd', 0..160), rare in 0..160usize) {
            // Most of them are none that is searched for, so that there are long stretches.
            let bytes: Vec<u8> = bytes.iter().enumerate().map(|(at, byte)| if at < rare { b'x' } else { *byte }).collect();
            let either = bytes.iter().position(|byte| matches!(byte, b'a' | b'b'));
            prop_assert_eq!(find_either(&bytes, *b"ab"), either);
            let pair = bytes.windows(2).position(|pair| pair == b"ab");
            prop_assert_eq!(find_pair(&bytes, *b"ab"), pair);
        }

        #[test]
        fn no_byte_is_taken_for_another(bytes in prop::collection::vec(any::<u8>(), 0..80), needle in any::<[u8; 2]>()) {
            prop_assert_eq!(find_either(&bytes, needle), bytes.iter().position(|byte| needle.contains(byte)));
            prop_assert_eq!(find_pair(&bytes, needle), bytes.windows(2).position(|pair| pair == needle));
        }
    }
}
