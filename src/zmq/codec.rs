//! ZMTP framing, sans-IO: bytes to messages and commands, and back.
//!
//! A frame is a byte of flags (more, long, command), a length of one byte or eight, and a body. The rule: an announced
//! length never allocates. It is compared with the bounds, and memory then grows with what arrives, to at most twice that.

use super::error::ZmqError;
use super::limits::{Limits, MAX_COMMAND_BYTES};

/// The frames of a message.
pub(super) type Frames = Vec<Vec<u8>>;

/// What a peer sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Item {
    Message(Frames),
    /// The body of a command.
    Command(Vec<u8>),
}

/// Reads frames from bytes that come in any pieces.
#[derive(Debug)]
pub(super) struct Decoder {
    limits: Limits,
    header: Vec<u8>,
    body: Option<Body>,
    /// The frames of a message that is not complete.
    frames: Frames,
    /// The bytes that they announced.
    announced: u64,
}

/// A body on its way.
#[derive(Debug)]
struct Body {
    flags: u8,
    length: usize,
    bytes: Vec<u8>,
}

impl Decoder {
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits, header: Vec::with_capacity(LONG_HEADER), body: None, frames: Vec::new(), announced: 0 }
    }

    /// Takes bytes from the front of `input`, up to the end of a message or command at most.
    ///
    /// Returns none when `input` is used up. After an error the connection is of no use any more.
    pub(super) fn decode(&mut self, input: &mut &[u8]) -> Result<Option<Item>, ZmqError> {
        loop {
            let Some(body) = &mut self.body else {
                let Some((&byte, rest)) = input.split_first() else { return Ok(None) };
                *input = rest;
                self.header.push(byte);
                self.body = self.begin_body()?;
                continue;
            };
            body.fill(input);
            if body.bytes.len() < body.length {
                return Ok(None);
            }
            let Some(body) = self.body.take() else { return Ok(None) };
            if body.flags & COMMAND != 0 {
                // Also in the middle of a message: libzmq's heartbeats come there.
                return Ok(Some(Item::Command(body.bytes)));
            }
            self.frames.push(body.bytes);
            if body.flags & MORE == 0 {
                self.announced = 0;
                return Ok(Some(Item::Message(std::mem::take(&mut self.frames))));
            }
        }
    }

    /// Begins a body once the header is complete.
    fn begin_body(&mut self) -> Result<Option<Body>, ZmqError> {
        let flags = self.header[0];
        let is_malformed = flags & !(MORE | LONG | COMMAND) != 0 || flags & COMMAND != 0 && flags & MORE != 0;
        if is_malformed {
            return Err(ZmqError::Frame);
        }
        let length = match (flags & LONG != 0, &self.header[1..]) {
            (false, [length]) => u64::from(*length),
            (true, &[a, b, c, d, e, f, g, h]) => u64::from_be_bytes([a, b, c, d, e, f, g, h]),
            _ => return Ok(None),
        };
        self.header.clear();
        let length = if flags & COMMAND != 0 { command_length(length)? } else { self.frame_length(length)? };
        Ok(Some(Body { flags, length, bytes: Vec::new() }))
    }

    /// Counts a frame of the message under way against the bounds.
    fn frame_length(&mut self, length: u64) -> Result<usize, ZmqError> {
        let Limits { max_message_bytes: most, max_frames } = self.limits;
        if self.frames.len() >= max_frames {
            return Err(ZmqError::TooManyFrames { most: max_frames });
        }
        self.announced = self.announced.saturating_add(length);
        match usize::try_from(self.announced) {
            // What is announced of all frames fits, so this one does.
            Ok(announced) if announced <= most => Ok(length as usize),
            _ => Err(ZmqError::MessageTooLarge { announced: self.announced, most }),
        }
    }

    /// Bytes that are allocated for what has arrived.
    #[cfg(test)]
    fn allocated(&self) -> usize {
        let bodies = self.frames.iter().chain(self.body.as_ref().map(|body| &body.bytes));
        self.header.capacity()
            + bodies.map(Vec::capacity).sum::<usize>()
            + self.frames.capacity() * size_of::<Vec<u8>>()
    }
}

impl Body {
    /// Takes what it lacks, as far as that is there.
    fn fill(&mut self, input: &mut &[u8]) {
        let missing = self.length - self.bytes.len();
        let (taken, rest) = input.split_at(missing.min(input.len()));
        if self.bytes.capacity() - self.bytes.len() < taken.len() {
            // Doubles like a vector, but never beyond what was announced.
            self.bytes.reserve_exact(taken.len().max(self.bytes.len()).min(missing));
        }
        self.bytes.extend_from_slice(taken);
        *input = rest;
    }
}

fn command_length(length: u64) -> Result<usize, ZmqError> {
    match usize::try_from(length) {
        Ok(length) if length <= MAX_COMMAND_BYTES => Ok(length),
        _ => Err(ZmqError::CommandTooLarge { announced: length, most: MAX_COMMAND_BYTES }),
    }
}

/// Appends a message.
pub(super) fn encode_message<F: AsRef<[u8]>>(frames: &[F], out: &mut Vec<u8>) {
    for (at, frame) in frames.iter().enumerate() {
        let more = if at + 1 < frames.len() { MORE } else { 0 };
        encode_frame(more, frame.as_ref(), out);
    }
}

/// Appends a command.
pub(super) fn encode_command(body: &[u8], out: &mut Vec<u8>) {
    encode_frame(COMMAND, body, out);
}

fn encode_frame(flags: u8, body: &[u8], out: &mut Vec<u8>) {
    match u8::try_from(body.len()) {
        Ok(length) => out.extend([flags, length]),
        Err(_) => {
            out.push(flags | LONG);
            out.extend((body.len() as u64).to_be_bytes());
        }
    }
    out.extend_from_slice(body);
}

const MORE: u8 = 1;
const LONG: u8 = 2;
const COMMAND: u8 = 4;
const LONG_HEADER: usize = 9;

#[cfg(test)]
mod tests;
