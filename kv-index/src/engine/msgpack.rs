//! Msgpack pull parser: one value at a time, from any bytes, without allocating.
//!
//! Written by hand: it is about a page, it borrows from the payload, and its errors say where. The one rule: a
//! length is checked against the bytes that are left before anyone sees it, so a claim can cost no more than the
//! payload that makes it.

use super::decode::{DecodeError, DecodeProblem};

/// A place in a payload.
#[derive(Clone, Debug)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// A value, or of an array or a map only how many values follow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Head<'a> {
    Nil,
    Bool,
    /// Any integer that is not negative, whatever its encoding.
    Unsigned(u64),
    /// An integer below zero.
    Negative(i64),
    Float(f64),
    /// Supposed to be UTF-8; whoever needs it checks.
    Text(&'a [u8]),
    Bytes(&'a [u8]),
    /// That many values follow.
    Array(u32),
    /// That many keys follow, each with its value.
    Map(u32),
    Extension,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Reads one value, or the head of an array or a map.
    pub(crate) fn head(&mut self) -> Result<Head<'a>, DecodeError> {
        let start = self.at;
        let marker = self.take(start, 1)?[0];
        Ok(match marker {
            0x00..=0x7f => Head::Unsigned(marker.into()),
            0x80..=0x8f => self.map(start, u32::from(marker & 0x0f))?,
            0x90..=0x9f => self.array(start, u32::from(marker & 0x0f))?,
            0xa0..=0xbf => Head::Text(self.take(start, usize::from(marker & 0x1f))?),
            0xc0 => Head::Nil,
            0xc1 => return Err(DecodeError { at: start, problem: DecodeProblem::Reserved }),
            0xc2 | 0xc3 => Head::Bool,
            0xc4..=0xc6 => Head::Bytes(self.sized(start, 1 << (marker - 0xc4), 0)?),
            // The type of an extension is one more byte.
            0xc7..=0xc9 => self.sized(start, 1 << (marker - 0xc7), 1).map(|_| Head::Extension)?,
            0xca => Head::Float(f32::from_bits(self.number(start, 4)? as u32).into()),
            0xcb => Head::Float(f64::from_bits(self.number(start, 8)?)),
            0xcc..=0xcf => Head::Unsigned(self.number(start, 1 << (marker - 0xcc))?),
            0xd0..=0xd3 => self.signed(start, 1 << (marker - 0xd0))?,
            0xd4..=0xd8 => self.take(start, 1 + (1 << (marker - 0xd4))).map(|_| Head::Extension)?,
            0xd9..=0xdb => Head::Text(self.sized(start, 1 << (marker - 0xd9), 0)?),
            0xdc | 0xdd => {
                let count = self.number(start, 2 << (marker - 0xdc))? as u32;
                self.array(start, count)?
            }
            0xde | 0xdf => {
                let count = self.number(start, 2 << (marker - 0xde))? as u32;
                self.map(start, count)?
            }
            0xe0..=0xff => Head::Negative((marker as i8).into()),
        })
    }

    /// Passes over one value with all that is in it, however deep: what is owed is a number, not a stack.
    pub(crate) fn skip(&mut self) -> Result<(), DecodeError> {
        let mut owed = 1u64;
        while owed > 0 {
            // Every value takes a byte at least. It also keeps the number from growing beyond the payload.
            self.require(self.at, owed)?;
            owed -= 1;
            owed += match self.head()? {
                Head::Array(count) => u64::from(count),
                Head::Map(count) => 2 * u64::from(count),
                _ => 0,
            };
        }
        Ok(())
    }

    /// Passes over a nil if one is next, and says whether it was.
    pub(crate) fn nil(&mut self) -> bool {
        let nil = self.bytes.get(self.at) == Some(&0xc0);
        self.at += usize::from(nil);
        nil
    }

    /// Whether a map is next.
    pub(crate) fn at_map(&self) -> bool {
        matches!(self.bytes.get(self.at), Some(0x80..=0x8f | 0xde | 0xdf))
    }

    /// The offset of the next byte.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// Bytes not yet read.
    pub(crate) fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    fn array(&self, start: usize, count: u32) -> Result<Head<'a>, DecodeError> {
        self.require(start, count.into()).map(|()| Head::Array(count))
    }

    fn map(&self, start: usize, count: u32) -> Result<Head<'a>, DecodeError> {
        self.require(start, 2 * u64::from(count)).map(|()| Head::Map(count))
    }

    fn signed(&mut self, start: usize, width: usize) -> Result<Head<'a>, DecodeError> {
        let unused = 64 - 8 * width as u32;
        let value = ((self.number(start, width)? << unused) as i64) >> unused;
        Ok(u64::try_from(value).map_or(Head::Negative(value), Head::Unsigned))
    }

    /// Bytes after their length, of which there are `more` than the length says.
    fn sized(&mut self, start: usize, width: usize, more: usize) -> Result<&'a [u8], DecodeError> {
        let length = self.number(start, width)? as usize;
        self.take(start, length.saturating_add(more))
    }

    fn number(&mut self, start: usize, width: usize) -> Result<u64, DecodeError> {
        Ok(self.take(start, width)?.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    fn take(&mut self, start: usize, count: usize) -> Result<&'a [u8], DecodeError> {
        self.require(start, count as u64)?;
        let taken = &self.bytes[self.at..self.at + count];
        self.at += count;
        Ok(taken)
    }

    /// Makes sure that `count` more bytes are there for the value that begins at `start`.
    fn require(&self, start: usize, count: u64) -> Result<(), DecodeError> {
        if count <= self.left() as u64 {
            return Ok(());
        }
        let needed = ((self.at - start) as u64).saturating_add(count);
        let left = (self.bytes.len() - start) as u64;
        Err(DecodeError { at: start, problem: DecodeProblem::EndsEarly { needed, left } })
    }
}

impl<'a> Head<'a> {
    /// The number, if it is a whole one.
    pub(crate) fn integer(self) -> Option<i128> {
        match self {
            Self::Unsigned(number) => Some(number.into()),
            Self::Negative(number) => Some(number.into()),
            _ => None,
        }
    }

    /// The text, if it is one.
    pub(crate) fn text(self) -> Option<&'a str> {
        if let Self::Text(bytes) = self { std::str::from_utf8(bytes).ok() } else { None }
    }

    /// What it is, for errors.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Nil => "nil",
            Self::Bool => "a boolean",
            Self::Unsigned(_) | Self::Negative(_) => "an integer",
            Self::Float(_) => "a float",
            Self::Text(_) => "a string",
            Self::Bytes(_) => "bytes",
            Self::Array(_) => "an array",
            Self::Map(_) => "a map",
            Self::Extension => "an extension",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(bytes: &[u8]) -> Result<Head<'_>, DecodeError> {
        let mut reader = Reader::new(bytes);
        let head = reader.head();
        if !matches!(head, Err(_) | Ok(Head::Array(_) | Head::Map(_))) {
            assert_eq!(reader.left(), 0, "{bytes:02x?}");
        }
        head
    }

    fn ends_early(at: usize, needed: u64, left: u64) -> DecodeError {
        DecodeError { at, problem: DecodeProblem::EndsEarly { needed, left } }
    }

    #[test]
    fn every_encoding_of_a_value_is_read() {
        for (bytes, expected) in [
            (&b"\x00"[..], Head::Unsigned(0)),
            (b"\x7f", Head::Unsigned(127)),
            (b"\xcc\xff", Head::Unsigned(255)),
            (b"\xcd\x01\x00", Head::Unsigned(256)),
            (b"\xce\xff\xff\xff\xff", Head::Unsigned(u64::from(u32::MAX))),
            (b"\xcf\xff\xff\xff\xff\xff\xff\xff\xff", Head::Unsigned(u64::MAX)),
            (b"\xff", Head::Negative(-1)),
            (b"\xe0", Head::Negative(-32)),
            (b"\xd0\x05", Head::Unsigned(5)),
            (b"\xd0\x80", Head::Negative(-128)),
            (b"\xd1\x80\x00", Head::Negative(-32_768)),
            (b"\xd2\x80\x00\x00\x00", Head::Negative(i64::from(i32::MIN))),
            (b"\xd3\x80\x00\x00\x00\x00\x00\x00\x00", Head::Negative(i64::MIN)),
            (b"\xd3\x7f\xff\xff\xff\xff\xff\xff\xff", Head::Unsigned(i64::MAX as u64)),
            (b"\xca\x3f\xc0\x00\x00", Head::Float(1.5)),
            (b"\xcb\x3f\xf8\x00\x00\x00\x00\x00\x00", Head::Float(1.5)),
            (b"\xc0", Head::Nil),
            (b"\xc2", Head::Bool),
            (b"\xc3", Head::Bool),
            (b"\xa0", Head::Text(b"")),
            (b"\xa2hi", Head::Text(b"hi")),
            (b"\xd9\x02hi", Head::Text(b"hi")),
            (b"\xda\x00\x02hi", Head::Text(b"hi")),
            (b"\xdb\x00\x00\x00\x02hi", Head::Text(b"hi")),
            (b"\xc4\x01\xfe", Head::Bytes(b"\xfe")),
            (b"\xc5\x00\x01\xfe", Head::Bytes(b"\xfe")),
            (b"\xc6\x00\x00\x00\x01\xfe", Head::Bytes(b"\xfe")),
            (b"\xd4\x01x", Head::Extension),
            (b"\xd8\x010123456789abcdef", Head::Extension),
            (b"\xc7\x02\x01xy", Head::Extension),
            (b"\xc8\x00\x00\x01", Head::Extension),
            (b"\xc9\x00\x00\x00\x01\x01x", Head::Extension),
            (b"\x92\xc0\xc0", Head::Array(2)),
            (b"\xdc\x00\x01\xc0", Head::Array(1)),
            (b"\xdd\x00\x00\x00\x01\xc0", Head::Array(1)),
            (b"\x81\xc0\xc0", Head::Map(1)),
            (b"\xde\x00\x01\xc0\xc0", Head::Map(1)),
            (b"\xdf\x00\x00\x00\x01\xc0\xc0", Head::Map(1)),
        ] {
            assert_eq!(head(bytes), Ok(expected), "{bytes:02x?}");
        }
    }

    #[test]
    fn a_claim_beyond_the_payload_is_refused_where_it_is_made() {
        let most = u64::from(u32::MAX);
        for (bytes, expected) in [
            (&b""[..], ends_early(0, 1, 0)),
            (b"\xcd\x01", ends_early(0, 3, 2)),
            (b"\xa5abc", ends_early(0, 6, 4)),
            (b"\x92\x01", ends_early(0, 3, 2)),
            (b"\x81\x01", ends_early(0, 3, 2)),
            (b"\xdd\xff\xff\xff\xff", ends_early(0, 5 + most, 5)),
            (b"\xdf\xff\xff\xff\xff", ends_early(0, 5 + 2 * most, 5)),
            (b"\xdb\xff\xff\xff\xff", ends_early(0, 5 + most, 5)),
            (b"\xc6\xff\xff\xff\xff", ends_early(0, 5 + most, 5)),
            (b"\xc9\xff\xff\xff\xff", ends_early(0, 6 + most, 5)),
            (b"\xc1", DecodeError { at: 0, problem: DecodeProblem::Reserved }),
        ] {
            assert_eq!(head(bytes), Err(expected), "{bytes:02x?}");
            assert_eq!(Reader::new(bytes).skip(), Err(expected), "{bytes:02x?}");
        }
    }

    #[test]
    fn a_skip_goes_as_deep_as_the_payload_and_stops_after_the_value() {
        let mut deep = vec![0x91; 1 << 20];
        assert_eq!(Reader::new(&deep).skip(), Err(ends_early((1 << 20) - 1, 2, 1)));
        deep.extend([0xc0, 0x07]);
        let mut reader = Reader::new(&deep);
        assert_eq!(reader.skip(), Ok(()));
        assert_eq!(reader.head(), Ok(Head::Unsigned(7)));

        let mut maps = Reader::new(b"\x82\xa1a\x92\x01\x81\xc0\xc0\x05\xd4\x01x\xc3");
        assert_eq!(maps.skip(), Ok(()));
        assert_eq!(maps.left(), 1);
    }

    #[test]
    fn a_skip_notices_that_several_claims_together_go_too_far() {
        // Each array could be there alone; of the nine values after the inner heads only eight are.
        assert_eq!(Reader::new(b"\x94\x93\x93\x01\x02\x03\x04\x05").skip(), Err(ends_early(3, 8, 5)));
    }
}
