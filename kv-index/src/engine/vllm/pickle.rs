//! Pickle encoder, protocol 5, as CPython writes tuples, bytes, texts and integers.
//!
//! Every object but an integer is numbered as it is written (`MEMOIZE`), and one that comes again is written as its
//! number. Everything after the protocol's header lies in frames: one is closed before the first object that finds
//! 64 KiB in it, and a text of 64 KiB or more stands between frames.

use crate::engine::prompt::TokenId;
use crate::engine::vllm::encode::{Encode, Object, Packed};

/// A pickle in the making.
#[derive(Debug)]
pub(super) struct Pickle<'b> {
    out: &'b mut Vec<u8>,
    /// Where the open frame's header is, if one is open.
    frame: Option<usize>,
    /// Objects numbered so far.
    memo: u32,
}

impl<'b> Pickle<'b> {
    /// Begins a pickle in `out`, whatever that held.
    pub(super) fn new(out: &'b mut Vec<u8>) -> Self {
        out.clear();
        out.extend_from_slice(&[PROTO, 5]);
        Self { out, frame: None, memo: 0 }
    }

    /// Ends the pickle: it is complete in its buffer.
    pub(super) fn finish(mut self) {
        self.write(&[STOP]);
        self.commit();
    }

    /// Before every object: closes a frame that is full.
    fn boundary(&mut self) {
        if self.framed() >= FRAME_FULL {
            self.commit();
        }
    }

    /// Bytes in the open frame.
    fn framed(&self) -> usize {
        self.frame.map_or(0, |header| self.out.len() - header - FRAME_HEADER)
    }

    fn commit(&mut self) {
        let framed = self.framed();
        let Some(header) = self.frame.take() else { return };
        if framed < FRAME_LEAST {
            self.out.drain(header..header + FRAME_HEADER);
        } else {
            self.out[header] = FRAME;
            self.out[header + 1..header + FRAME_HEADER].copy_from_slice(&(framed as u64).to_le_bytes());
        }
    }

    /// Writes into the open frame, or a new one.
    fn write(&mut self, bytes: &[u8]) {
        self.ensure_frame();
        self.out.extend_from_slice(bytes);
    }

    fn ensure_frame(&mut self) {
        if self.frame.is_none() {
            self.frame = Some(self.out.len());
            self.out.extend_from_slice(&[0; FRAME_HEADER]);
        }
    }

    fn memoize(&mut self) -> Object {
        self.write(&[MEMOIZE]);
        self.memo += 1;
        Object(self.memo - 1)
    }

    /// Something long, with its head: in the frame, or between frames if it would fill one.
    fn payload(&mut self, head: &[u8], payload: &[u8]) {
        if payload.len() >= FRAME_FULL {
            self.commit();
        } else {
            self.ensure_frame();
        }
        self.out.extend_from_slice(head);
        self.out.extend_from_slice(payload);
    }
}

impl Encode for Pickle<'_> {
    fn open(&mut self, items: usize) {
        self.boundary();
        if items > 3 {
            self.write(&[MARK]);
        }
    }

    fn close(&mut self, items: usize) {
        let code = match items {
            1 => TUPLE1,
            2 => TUPLE2,
            3 => TUPLE3,
            _ => TUPLE,
        };
        self.write(&[code]);
        self.memoize();
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.boundary();
        // Digests only, all far below 256 bytes.
        self.payload(&[SHORT_BINBYTES, bytes.len() as u8], bytes);
        self.memoize();
    }

    fn text(&mut self, text: &str) -> Object {
        self.boundary();
        let length = (text.len() as u64).to_le_bytes();
        let mut head = [BINUNICODE8; 9];
        head[1..].copy_from_slice(&length);
        let head = match text.len() {
            0..=0xff => &[SHORT_BINUNICODE, length[0]][..],
            0x100..=0xffff_ffff => {
                head[0] = BINUNICODE;
                &head[..5]
            }
            _ => &head,
        };
        self.payload(head, text.as_bytes());
        self.memoize()
    }

    fn again(&mut self, object: Object, _text: &str) {
        self.boundary();
        match u8::try_from(object.0) {
            Ok(number) => self.write(&[BINGET, number]),
            Err(_) => {
                self.write(&[LONG_BINGET]);
                self.write(&object.0.to_le_bytes());
            }
        }
    }

    fn int(&mut self, value: i128) {
        self.boundary();
        self.ints(&[value]);
    }

    fn none(&mut self) {
        self.boundary();
        self.write(&[NONE]);
    }

    fn ints<T: TokenId>(&mut self, values: &[T]) {
        if values.len() > 1 && self.framed() + values.len().saturating_mul(INT_MOST) >= FRAME_FULL {
            return values.iter().for_each(|&value| self.int(value.into()));
        }
        // No frame can fill in here: none needs looking at between integers.
        self.ensure_frame();
        let mut packed = Packed::new(self.out);
        for &value in values {
            let value: i128 = value.into();
            if !(-0x8000_0000..=0x7fff_ffff).contains(&value) {
                long(packed.flush(), value);
                continue;
            }
            // By table, not by branches: which width comes next in a prompt is anyone's guess.
            let bits = value as u32;
            let (code, length) = INTS[usize::from(bits > 0xff) + usize::from(bits > 0xffff)];
            packed.push((u64::from(bits) << 8 | u64::from(code)).to_le_bytes(), length);
        }
        packed.flush();
    }
}

/// Two's complement, little endian, in as few bytes as keep the sign.
#[cold]
fn long(out: &mut Vec<u8>, value: i128) {
    let signs = if value < 0 { value.leading_ones() } else { value.leading_zeros() };
    let length = (128 - signs) as usize / 8 + 1;
    out.extend_from_slice(&[LONG1, length as u8]);
    out.extend_from_slice(&value.to_le_bytes()[..length]);
}

/// Bytes after which a frame is closed.
const FRAME_FULL: usize = 64 * 1024;
/// Fewer bytes than this get no frame.
const FRAME_LEAST: usize = 4;
/// A frame's opcode and length.
const FRAME_HEADER: usize = 9;
/// An integer's most bytes: opcode, length, and 16 of content.
const INT_MOST: usize = 18;

const PROTO: u8 = 0x80;
const FRAME: u8 = 0x95;
const MEMOIZE: u8 = 0x94;
const BINGET: u8 = b'h';
const LONG_BINGET: u8 = b'j';
const STOP: u8 = b'.';
const MARK: u8 = b'(';
const NONE: u8 = b'N';
const TUPLE: u8 = b't';
const TUPLE1: u8 = 0x85;
const TUPLE2: u8 = 0x86;
const TUPLE3: u8 = 0x87;
const BININT1: u8 = b'K';
const BININT2: u8 = b'M';
const BININT: u8 = b'J';
const LONG1: u8 = 0x8a;
/// Integers of one, two and four bytes, each with the bytes it takes in all.
const INTS: [(u8, usize); 3] = [(BININT1, 2), (BININT2, 3), (BININT, 5)];
const SHORT_BINBYTES: u8 = b'C';
const SHORT_BINUNICODE: u8 = 0x8c;
const BINUNICODE: u8 = b'X';
const BINUNICODE8: u8 = 0x8d;

#[cfg(test)]
mod tests;
