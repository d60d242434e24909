//! Field decoder: one typed field of an event.

use std::borrow::Cow;

use super::Stop;
use crate::engine::event::{EngineHash, ExtraKey, FieldProblem, TokenIds};
use crate::engine::msgpack::{Head, Reader};

/// A field whose value is next, and not nil.
#[derive(Debug)]
pub(super) struct Field<'r, 'a> {
    pub(super) name: &'static str,
    pub(super) reader: &'r mut Reader<'a>,
}

impl<'a> Field<'_, 'a> {
    pub(super) fn text(&mut self) -> Result<Cow<'a, str>, Stop> {
        let text = self.reader.head()?.text().map(Cow::Borrowed);
        text.map_or_else(|| self.wrong(FieldProblem::WrongType), Ok)
    }

    pub(super) fn number<T: TryFrom<i128>>(&mut self) -> Result<T, Stop> {
        let Some(number) = self.reader.head()?.integer() else { return self.wrong(FieldProblem::WrongType) };
        number.try_into().or_else(|_| self.wrong(FieldProblem::OutOfRange))
    }

    pub(super) fn seconds(&mut self) -> Result<f64, Stop> {
        let seconds = match self.reader.head()? {
            Head::Float(seconds) => Some(seconds),
            head => head.integer().map(|seconds| seconds as f64),
        };
        seconds.map_or_else(|| self.wrong(FieldProblem::WrongType), Ok)
    }

    /// A block's name: a number with a sign or without, or a digest of eight bytes or more.
    pub(super) fn hash(&mut self) -> Result<EngineHash, Stop> {
        let hash = match self.reader.head()? {
            Head::Unsigned(number) => Some(EngineHash::new(number)),
            Head::Negative(number) => Some(EngineHash::from_signed(number)),
            Head::Bytes(digest) => EngineHash::from_bytes(digest),
            _ => None,
        };
        hash.map_or_else(|| self.wrong(FieldProblem::WrongType), Ok)
    }

    pub(super) fn hashes(&mut self) -> Result<Vec<EngineHash>, Stop> {
        self.list(Self::hash)
    }

    pub(super) fn numbers(&mut self) -> Result<Vec<u32>, Stop> {
        self.list(Self::number)
    }

    /// Token ids, alone or in pairs. Ids beyond 32 bits, and a mixture of both forms, are only counted.
    pub(super) fn tokens(&mut self) -> Result<TokenIds, Stop> {
        let count = self.array()?;
        let mut tokens = TokenIds::Plain(Vec::with_capacity(room(count)));
        for read in 0..count {
            let token = self.token()?;
            match (&mut tokens, token) {
                (TokenIds::Plain(ids), Token::One(id)) => ids.push(id),
                (TokenIds::Pairs(pairs), Token::Pair(pair)) => pairs.push(pair),
                (TokenIds::Plain(_), Token::Pair(pair)) if read == 0 => {
                    let mut pairs = Vec::with_capacity(room(count));
                    pairs.push(pair);
                    tokens = TokenIds::Pairs(pairs);
                }
                _ => tokens = TokenIds::Wide(count as usize),
            }
        }
        Ok(tokens)
    }

    /// What else went into each block's hash: nil or a list of keys for each.
    pub(super) fn extra_keys(&mut self) -> Result<Vec<Vec<ExtraKey<'a>>>, Stop> {
        self.list(|field| if field.reader.nil() { Ok(Vec::new()) } else { field.list(Self::key) })
    }

    pub(super) fn wrong<T>(&self, problem: FieldProblem) -> Result<T, Stop> {
        Err(Stop::Fault { field: self.name, problem })
    }

    fn list<T>(&mut self, mut element: impl FnMut(&mut Self) -> Result<T, Stop>) -> Result<Vec<T>, Stop> {
        let count = self.array()?;
        let mut list = Vec::with_capacity(room(count));
        for _ in 0..count {
            list.push(element(self)?);
        }
        Ok(list)
    }

    pub(super) fn array(&mut self) -> Result<u32, Stop> {
        match self.reader.head()? {
            Head::Array(count) => Ok(count),
            _ => self.wrong(FieldProblem::WrongType),
        }
    }

    fn token(&mut self) -> Result<Token, Stop> {
        match self.reader.head()? {
            Head::Array(2) => {
                let (first, second) = (self.reader.head()?, self.reader.head()?);
                Ok(match (self.id(first)?, self.id(second)?) {
                    (Some(first), Some(second)) => Token::Pair([first, second]),
                    _ => Token::Wide,
                })
            }
            head => Ok(self.id(head)?.map_or(Token::Wide, Token::One)),
        }
    }

    /// A token's id, if it fits.
    fn id(&self, head: Head<'a>) -> Result<Option<u32>, Stop> {
        match head {
            Head::Unsigned(id) => Ok(id.try_into().ok()),
            Head::Negative(_) => Ok(None),
            _ => self.wrong(FieldProblem::WrongType),
        }
    }

    /// A key as events carry it, without a tag. Whatever else is there counts as one unknown key, tagged forms
    /// such as `["mm", identifier, offset]` included: releases that hash tags announce their keys without them.
    fn key(&mut self) -> Result<ExtraKey<'a>, Stop> {
        let start = self.reader.clone();
        if let Some(key) = self.known_key()? {
            return Ok(key);
        }
        *self.reader = start;
        self.reader.skip()?;
        Ok(ExtraKey::Other)
    }

    fn known_key(&mut self) -> Result<Option<ExtraKey<'a>>, Stop> {
        Ok(match self.reader.head()? {
            Head::Bytes(digest) => Some(ExtraKey::Digest(digest.into())),
            Head::Array(2) => {
                let (identifier, offset) = (self.reader.head()?.text(), self.reader.head()?.integer());
                let offset = offset.and_then(|offset| offset.try_into().ok());
                identifier.zip(offset).map(|(text, offset)| ExtraKey::Media { identifier: text.into(), offset })
            }
            head => match head.integer() {
                Some(number) => number.try_into().ok().map(ExtraKey::Number),
                None => head.text().map(|text| ExtraKey::Text(text.into())),
            },
        })
    }
}

enum Token {
    One(u32),
    Pair([u32; 2]),
    Wide,
}

/// How much to set aside for a list that claims this many elements. The claim was checked against the payload;
/// beyond the ordinary a list grows with what is really there.
fn room(claimed: u32) -> usize {
    (claimed as usize).min(4_096)
}
