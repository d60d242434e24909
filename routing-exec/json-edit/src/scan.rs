//! One pass over a text, checking it on the way.
//!
//! The same pass serves to check a text and to find its parts again. Nesting is counted in bits rather than by recursion, so
//! that no text can exhaust the stack. Strings are what bodies mostly consist of; they are passed a word at a time.

use super::error::{Expected, JsonError};
use super::raw::Raw;

/// How deep arrays and objects may be nested, the outermost counted.
pub const MAX_DEPTH: usize = 128;

/// The text in bytes, if it is one.
pub(super) fn text(bytes: &[u8]) -> Result<&str, JsonError> {
    std::str::from_utf8(bytes).map_err(|error| JsonError { at: error.valid_up_to(), expected: Expected::Utf8 })
}

/// A place in a text, and what may come next.
#[derive(Clone, Debug)]
pub(super) struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scanner<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    /// Passes a value, inside so many arrays and objects.
    pub(super) fn value(&mut self, outer: usize) -> Result<(), JsonError> {
        let mut nesting = Nesting { outer, depth: 0, objects: 0 };
        loop {
            let opens = self.opening(&mut nesting)?;
            if !opens && self.closing(&mut nesting)? {
                return Ok(());
            }
        }
    }

    /// Passes whitespace.
    pub(super) fn space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.at += 1;
        }
    }

    /// Passes one byte if it is this one.
    pub(super) fn eat(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    /// Passes one byte that must be this one.
    pub(super) fn expect(&mut self, byte: u8, expected: Expected) -> Result<(), JsonError> {
        if self.eat(byte) { Ok(()) } else { Err(self.error(expected)) }
    }

    /// Passes a member's name.
    pub(super) fn name(&mut self) -> Result<(), JsonError> {
        self.expect(b'"', Expected::Name)?;
        self.string()
    }

    /// Passes the colon after a name, and the whitespace around it.
    pub(super) fn colon(&mut self) -> Result<(), JsonError> {
        self.space();
        self.expect(b':', Expected::Colon)?;
        self.space();
        Ok(())
    }

    /// Checks that there is nothing more.
    pub(super) fn end(&mut self) -> Result<(), JsonError> {
        self.space();
        if self.at == self.text.len() { Ok(()) } else { Err(self.error(Expected::End)) }
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// The value that was passed since a place.
    pub(super) fn since(&self, start: usize) -> Raw<'a> {
        // Values begin and end with ASCII, so both are boundaries of characters.
        Raw::checked(self.text.get(start..self.at).unwrap_or_default())
    }

    pub(super) fn error(&self, expected: Expected) -> JsonError {
        JsonError { at: self.at, expected }
    }

    /// Passes the start of a value, or the whole of one without others in it. True if it opened one with others in it; the
    /// next of them follows.
    fn opening(&mut self, nesting: &mut Nesting) -> Result<bool, JsonError> {
        match self.peek() {
            Some(b'"') => {
                self.at += 1;
                self.string()?;
            }
            Some(b'{') => {
                nesting.room().ok_or_else(|| self.error(Expected::LessDepth))?;
                self.at += 1;
                self.space();
                if self.eat(b'}') {
                    return Ok(false);
                }
                if self.peek() != Some(b'"') {
                    return Err(self.error(Expected::NameOrBrace));
                }
                nesting.push(true);
                self.name()?;
                self.colon()?;
                return Ok(true);
            }
            Some(b'[') => {
                nesting.room().ok_or_else(|| self.error(Expected::LessDepth))?;
                self.at += 1;
                self.space();
                if self.eat(b']') {
                    return Ok(false);
                }
                nesting.push(false);
                return Ok(true);
            }
            Some(b'-' | b'0'..=b'9') => self.number()?,
            Some(b't') => self.literal("true")?,
            Some(b'f') => self.literal("false")?,
            Some(b'n') => self.literal("null")?,
            _ => return Err(self.error(Expected::Value)),
        }
        Ok(false)
    }

    /// Passes what follows a value: all that is closed there, and the comma before the next one. True if all is closed.
    fn closing(&mut self, nesting: &mut Nesting) -> Result<bool, JsonError> {
        while let Some(in_object) = nesting.top() {
            self.space();
            match (self.peek(), in_object) {
                (Some(b','), _) => {
                    self.at += 1;
                    self.space();
                    if in_object {
                        self.name()?;
                        self.colon()?;
                    }
                    return Ok(false);
                }
                (Some(b'}'), true) | (Some(b']'), false) => {
                    self.at += 1;
                    nesting.pop();
                }
                (_, true) => return Err(self.error(Expected::CommaOrBrace)),
                (_, false) => return Err(self.error(Expected::CommaOrBracket)),
            }
        }
        Ok(true)
    }

    /// Passes the rest of a string whose first quote was passed.
    fn string(&mut self) -> Result<(), JsonError> {
        loop {
            self.at = plain_until(self.text.as_bytes(), self.at);
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => self.escape()?,
                _ => return Err(self.error(Expected::Quote)),
            }
        }
    }

    fn escape(&mut self) -> Result<(), JsonError> {
        self.at += 1;
        match self.peek() {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 1,
            Some(b'u') => {
                self.at += 1;
                for _ in 0..4 {
                    if !self.peek().is_some_and(|byte| byte.is_ascii_hexdigit()) {
                        return Err(self.error(Expected::HexDigit));
                    }
                    self.at += 1;
                }
            }
            _ => return Err(self.error(Expected::Escape)),
        }
        Ok(())
    }

    fn number(&mut self) -> Result<(), JsonError> {
        self.eat(b'-');
        // A number does not begin with a zero, unless that is all of its whole part.
        if !self.eat(b'0') {
            self.digits()?;
        }
        if self.eat(b'.') {
            self.digits()?;
        }
        if self.eat(b'e') || self.eat(b'E') {
            let _sign = self.eat(b'+') || self.eat(b'-');
            self.digits()?;
        }
        Ok(())
    }

    /// Passes one digit or more.
    fn digits(&mut self) -> Result<(), JsonError> {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        if self.at > start { Ok(()) } else { Err(self.error(Expected::Digit)) }
    }

    fn literal(&mut self, word: &str) -> Result<(), JsonError> {
        let is_next = self.text.as_bytes().get(self.at..).is_some_and(|rest| rest.starts_with(word.as_bytes()));
        if !is_next {
            return Err(self.error(Expected::Value));
        }
        self.at += word.len();
        Ok(())
    }
}

/// Which arrays and objects are open: one bit for each, the innermost lowest.
#[derive(Debug)]
struct Nesting {
    outer: usize,
    depth: usize,
    objects: u128,
}

// Deeper nesting would push bits out.
const _: () = assert!(MAX_DEPTH <= u128::BITS as usize, "a bit for each level");

impl Nesting {
    /// Something if one more may be opened.
    fn room(&self) -> Option<()> {
        (self.outer + self.depth < MAX_DEPTH).then_some(())
    }

    fn push(&mut self, is_object: bool) {
        self.objects = self.objects << 1 | u128::from(is_object);
        self.depth += 1;
    }

    fn pop(&mut self) {
        self.objects >>= 1;
        self.depth -= 1;
    }

    /// Whether the innermost is an object, if one is open.
    fn top(&self) -> Option<bool> {
        (self.depth > 0).then_some(self.objects & 1 == 1)
    }
}

/// The first place from `at` on that is a quote, a backslash or a control character, or the end.
fn plain_until(bytes: &[u8], mut at: usize) -> usize {
    // Long stretches in blocks that compilers turn into a few vector instructions: three times as fast as words alone.
    while let Some(block) = bytes.get(at..).and_then(|rest| rest.first_chunk::<BLOCK>()) {
        if block.iter().fold(u8::MAX, |least, byte| least.min(unless_special(*byte))) == 0 {
            break;
        }
        at += BLOCK;
    }
    while let Some(word) = bytes.get(at..).and_then(|rest| rest.first_chunk()) {
        let special = special(u64::from_le_bytes(*word));
        if special != 0 {
            return at + special.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    bytes.get(at..).and_then(|rest| rest.iter().position(is_special)).map_or(bytes.len(), |offset| at + offset)
}

const BLOCK: usize = 64;

/// 0 for what ends plain text, and something else for all other bytes: by a minimum, which vectors have.
fn unless_special(byte: u8) -> u8 {
    (byte ^ b'"').min(byte ^ b'\\').min(byte.saturating_sub(b' ' - 1))
}

fn is_special(byte: &u8) -> bool {
    (*byte == b'"') | (*byte == b'\\') | (*byte < b' ')
}

/// The high bit of the lowest byte that ends plain text. Bytes above that one may be marked wrongly: subtraction borrows.
fn special(word: u64) -> u64 {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGH: u64 = ONES << 7;
    let below = |word: u64, bound: u8| word.wrapping_sub(ONES * u64::from(bound)) & !word;
    let is = |byte: u8| below(word ^ (ONES * u64::from(byte)), 1);
    (is(b'"') | is(b'\\') | below(word, b' ')) & HIGH
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_ends_where_a_loop_over_bytes_says() {
        for byte in 0..=u8::MAX {
            for at in 0..156 {
                let mut text = [b'a'; 160];
                text[at] = byte;
                // A byte beyond, so that borrows upwards are seen to do no harm, and high bytes below.
                text[at + 2] = b'"';
                text[at.saturating_sub(1)] = if at > 0 { 0xbf } else { byte };
                let expected = text.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..=0x1f)).unwrap_or(160);
                assert_eq!(plain_until(&text, 0), expected, "byte {byte:#x} at {at}");
            }
        }
        assert_eq!(plain_until(b"abc", 7), 3, "a place beyond the end is the end");
    }
}
