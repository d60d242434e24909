//! Msgpack writer, as much as vLLM's publisher needs, byte for byte.

/// Bytes under construction. Heads are the shortest that fit, as msgspec writes them.
#[derive(Clone, Debug, Default)]
pub struct Packer(pub Vec<u8>);

impl Packer {
    pub fn nil(&mut self) -> &mut Self {
        self.0.push(0xc0);
        self
    }

    pub fn uint(&mut self, value: u64) -> &mut Self {
        match value {
            0..=0x7f => self.0.push(value as u8),
            0x80..=0xff => self.head(0xcc, &[value as u8]),
            0x100..=0xffff => self.head(0xcd, &(value as u16).to_be_bytes()),
            0x1_0000..=0xffff_ffff => self.head(0xce, &(value as u32).to_be_bytes()),
            _ => self.head(0xcf, &value.to_be_bytes()),
        }
        self
    }

    pub fn float(&mut self, value: f64) -> &mut Self {
        self.head(0xcb, &value.to_be_bytes());
        self
    }

    pub fn text(&mut self, text: &str) -> &mut Self {
        match text.len() {
            len @ 0..=31 => self.0.push(0xa0 | len as u8),
            len @ 32..=255 => self.head(0xd9, &[len as u8]),
            len => self.head(0xda, &(len as u16).to_be_bytes()),
        }
        self.0.extend(text.as_bytes());
        self
    }

    pub fn array(&mut self, len: usize) -> &mut Self {
        match len {
            0..=15 => self.0.push(0x90 | len as u8),
            16..=0xffff => self.head(0xdc, &(len as u16).to_be_bytes()),
            _ => self.head(0xdd, &(len as u32).to_be_bytes()),
        }
        self
    }

    pub fn map(&mut self, len: usize) -> &mut Self {
        assert!(len < 16, "no event has so many fields");
        self.0.push(0x80 | len as u8);
        self
    }

    pub fn uints(&mut self, values: impl ExactSizeIterator<Item = u64>) -> &mut Self {
        self.array(values.len());
        values.for_each(|value| {
            self.uint(value);
        });
        self
    }

    pub fn option(&mut self, value: Option<u64>) -> &mut Self {
        match value {
            Some(value) => self.uint(value),
            None => self.nil(),
        }
    }

    fn head(&mut self, marker: u8, rest: &[u8]) {
        self.0.push(marker);
        self.0.extend(rest);
    }
}
