//! Canonical CBOR encoder: shortest heads, definite lengths.

use crate::engine::prompt::TokenId;
use crate::engine::vllm::encode::{Encode, Object, Packed};

/// CBOR in the making.
#[derive(Debug)]
pub(super) struct Cbor<'b> {
    out: &'b mut Vec<u8>,
}

impl<'b> Cbor<'b> {
    /// Begins in `out`, whatever that held. What is written is complete at every moment.
    pub(super) fn new(out: &'b mut Vec<u8>) -> Self {
        out.clear();
        Self { out }
    }

    /// A major type with its argument, in the shortest form.
    #[inline]
    fn head(&mut self, major: u8, argument: u64) {
        let bytes = argument.to_be_bytes();
        let major = major << 5;
        match argument {
            0..24 => self.out.push(major | bytes[7]),
            24..=0xff => self.out.extend_from_slice(&[major | 24, bytes[7]]),
            0x100..=0xffff => self.out.extend_from_slice(&[major | 25, bytes[6], bytes[7]]),
            0x1_0000..=0xffff_ffff => {
                self.out.extend_from_slice(&[major | 26, bytes[4], bytes[5], bytes[6], bytes[7]]);
            }
            _ => {
                self.out.push(major | 27);
                self.out.extend_from_slice(&bytes);
            }
        }
    }

    /// A number beyond 64 bits: a tag, and its bytes without leading zeros.
    #[cold]
    fn big(&mut self, negative: bool, magnitude: u128) {
        let bytes = magnitude.to_be_bytes();
        let digits = &bytes[magnitude.leading_zeros() as usize / 8..];
        self.head(TAG, if negative { NEGATIVE_BIG } else { POSITIVE_BIG });
        self.head(BYTES, digits.len() as u64);
        self.out.extend_from_slice(digits);
    }
}

impl Encode for Cbor<'_> {
    #[inline]
    fn open(&mut self, items: usize) {
        self.head(ARRAY, items as u64);
    }

    #[inline]
    fn close(&mut self, _items: usize) {}

    fn bytes(&mut self, bytes: &[u8]) {
        self.head(BYTES, bytes.len() as u64);
        self.out.extend_from_slice(bytes);
    }

    fn text(&mut self, text: &str) -> Object {
        self.head(TEXT, text.len() as u64);
        self.out.extend_from_slice(text.as_bytes());
        Object(0)
    }

    fn again(&mut self, _object: Object, text: &str) {
        self.text(text);
    }

    #[inline]
    fn int(&mut self, value: i128) {
        let (major, magnitude) = if value < 0 { (NEGATIVE, !value as u128) } else { (POSITIVE, value as u128) };
        match u64::try_from(magnitude) {
            Ok(argument) => self.head(major, argument),
            Err(_) => self.big(value < 0, magnitude),
        }
    }

    fn none(&mut self) {
        self.out.push(NULL);
    }

    #[inline]
    fn ints<T: TokenId>(&mut self, values: &[T]) {
        let mut packed = Packed::new(self.out);
        for &value in values {
            let value: i128 = value.into();
            let Ok(bits) = u32::try_from(value) else {
                Cbor { out: packed.flush() }.int(value);
                continue;
            };
            // By table, not by branches: which width comes next in a prompt is anyone's guess.
            let (head, length) = HEADS[usize::from(bits > 23) + usize::from(bits > 0xff) + usize::from(bits > 0xffff)];
            packed.push(((head | u64::from(bits)) << (64 - 8 * length)).to_be_bytes(), length);
        }
        packed.flush();
    }
}

/// Positive integers in the head, of one, two and four bytes, each with the bytes it takes in all.
const HEADS: [(u64, usize); 4] = [(0, 1), (24 << 8, 2), (25 << 16, 3), (26 << 32, 5)];

const POSITIVE: u8 = 0;
const NEGATIVE: u8 = 1;
const BYTES: u8 = 2;
const TEXT: u8 = 3;
const ARRAY: u8 = 4;
const TAG: u8 = 6;
const NULL: u8 = 0xf6;
const POSITIVE_BIG: u64 = 2;
const NEGATIVE_BIG: u64 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of RFC 8949, appendix A.
    #[test]
    fn integers_are_as_the_standard_has_them() {
        for (value, bytes) in [
            (0, &[0x00][..]),
            (23, &[0x17]),
            (24, &[0x18, 0x18]),
            (1_000, &[0x19, 0x03, 0xe8]),
            (1_000_000, &[0x1a, 0x00, 0x0f, 0x42, 0x40]),
            (18_446_744_073_709_551_615, &[0x1b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
            (18_446_744_073_709_551_616, &[0xc2, 0x49, 1, 0, 0, 0, 0, 0, 0, 0, 0]),
            (-1, &[0x20]),
            (-100, &[0x38, 0x63]),
            (-1_000, &[0x39, 0x03, 0xe7]),
            (-18_446_744_073_709_551_616, &[0x3b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
            (-18_446_744_073_709_551_617, &[0xc3, 0x49, 1, 0, 0, 0, 0, 0, 0, 0, 0]),
        ] {
            let mut out = vec![1, 2, 3];
            Cbor::new(&mut out).int(value);
            assert_eq!(out, bytes, "{value}");
        }
    }
}
