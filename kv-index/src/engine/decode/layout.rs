//! Wire layouts of events: fields by name in maps, by position in arrays.
//!
//! nil is the same as not there, for every field. Of a field that a map has twice, the later counts. Fields that
//! no listed release has are passed over.

use super::Stop;
use super::field::Field;
use crate::engine::event::{EngineRemoved, EngineStored, FieldProblem};
use crate::engine::msgpack::{Head, Reader};

/// What an event is written as, and how many values or pairs of it are still to come.
#[derive(Clone, Copy, Debug)]
pub(super) enum Form {
    Array(u32),
    Map(u32),
}

/// Names of a kind of event's fields. Arrays have only the first of them, in this order.
struct Layout {
    names: &'static [&'static str],
    in_arrays: usize,
}

/// vLLM's arrays until 0.23, of which SGLang's until 0.5.19 are the beginning, but for the one place below.
const STORED: Layout = Layout {
    names: &[
        HASHES,
        "parent_block_hash",
        "token_ids",
        "block_size",
        "lora_id",
        "medium",
        ADAPTER,
        "extra_keys",
        "group_idx",
        "kv_cache_spec_kind",
        "kv_cache_spec_sliding_window",
        "locality",
        "ownership",
        "session_id",
        SALT,
    ],
    in_arrays: 11,
};

const REMOVED: Layout =
    Layout { names: &[HASHES, "medium", "group_idx", "locality", "ownership", "remaining_copy_counts"], in_arrays: 3 };

const NONE: Layout = Layout { names: &[], in_arrays: 0 };

/// The one field that has to be there. The others are missing from some source: Mooncake sends no tokens.
const HASHES: &str = "block_hashes";

/// In arrays a string is vLLM's name of an adapter, and a map is SGLang's metadata with the salt in it.
const ADAPTER: &str = "lora_name";

const SALT: &str = "cache_salt";

pub(super) fn stored<'a>(reader: &mut Reader<'a>, form: Form) -> Result<EngineStored<'a>, Stop> {
    let mut stored = EngineStored::default();
    let mut hashes = None;
    STORED.read(reader, form, |mut field| {
        match field.name {
            HASHES => hashes = Some(field.hashes()?),
            "parent_block_hash" => stored.parent = Some(field.hash()?),
            "token_ids" => stored.tokens = field.tokens()?,
            "block_size" => stored.block_size = field.number()?,
            "lora_id" => stored.lora_id = Some(field.number()?),
            "medium" => stored.medium = Some(field.text()?),
            ADAPTER if matches!(form, Form::Array(_)) && field.reader.at_map() => metadata(&mut field, &mut stored)?,
            ADAPTER => stored.lora_name = Some(field.text()?),
            "extra_keys" => stored.extra_keys = field.extra_keys()?,
            "group_idx" => stored.group = Some(field.number()?),
            "kv_cache_spec_kind" => stored.kind = Some(field.text()?),
            "kv_cache_spec_sliding_window" => stored.window = Some(field.number()?),
            "locality" => stored.locality = Some(field.text()?),
            "ownership" => stored.ownership = Some(field.text()?),
            "session_id" => stored.session = Some(field.text()?),
            SALT => stored.salt = Some(field.text()?),
            _ => field.reader.skip()?,
        }
        Ok(())
    })?;
    stored.hashes = hashes.ok_or(MISSING)?;
    Ok(stored)
}

pub(super) fn removed<'a>(reader: &mut Reader<'a>, form: Form) -> Result<EngineRemoved<'a>, Stop> {
    let mut removed = EngineRemoved::default();
    let mut hashes = None;
    REMOVED.read(reader, form, |mut field| {
        match field.name {
            HASHES => hashes = Some(field.hashes()?),
            "medium" => removed.medium = Some(field.text()?),
            "group_idx" => removed.group = Some(field.number()?),
            "locality" => removed.locality = Some(field.text()?),
            "ownership" => removed.ownership = Some(field.text()?),
            "remaining_copy_counts" => removed.remaining = field.numbers()?,
            _ => field.reader.skip()?,
        }
        Ok(())
    })?;
    removed.hashes = hashes.ok_or(MISSING)?;
    Ok(removed)
}

/// An event of which no field matters.
pub(super) fn cleared(reader: &mut Reader<'_>, form: Form) -> Result<(), Stop> {
    NONE.read(reader, form, |field| Ok(field.reader.skip()?))
}

/// SGLang's map at the end of a stored event's array.
fn metadata<'a>(field: &mut Field<'_, 'a>, stored: &mut EngineStored<'a>) -> Result<(), Stop> {
    let Head::Map(entries) = field.reader.head()? else { return field.wrong(FieldProblem::WrongType) };
    const METADATA: Layout = Layout { names: &[SALT], in_arrays: 0 };
    METADATA.read(field.reader, Form::Map(entries), |mut field| {
        stored.salt = Some(field.text()?);
        Ok(())
    })
}

impl Layout {
    /// Hands on each field that is known and not nil, and passes over the rest.
    fn read<'a>(
        &self,
        reader: &mut Reader<'a>,
        form: Form,
        mut each: impl FnMut(Field<'_, 'a>) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        let (Form::Array(count) | Form::Map(count)) = form;
        for place in 0..count as usize {
            let name = match form {
                Form::Array(_) => self.names[..self.in_arrays].get(place).copied(),
                Form::Map(_) => key(reader)?.and_then(|key| self.names.iter().copied().find(|n| n.as_bytes() == key)),
            };
            match name {
                Some(name) if !reader.nil() => each(Field { name, reader })?,
                Some(_) => {}
                None => reader.skip()?,
            }
        }
        Ok(())
    }
}

/// A map's next key, if it is a string. A key of another type is passed over.
pub(super) fn key<'a>(reader: &mut Reader<'a>) -> Result<Option<&'a [u8]>, Stop> {
    let start = reader.clone();
    if let Head::Text(key) = reader.head()? {
        return Ok(Some(key));
    }
    *reader = start;
    reader.skip()?;
    Ok(None)
}

const MISSING: Stop = Stop::Fault { field: HASHES, problem: FieldProblem::Missing };
