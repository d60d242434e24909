//! Trace files in Mooncake's format: JSON lines, plain or gzipped.
//!
//! A row has `timestamp` (ms), `input_length` and `output_length` (tokens), `hash_ids`, and perhaps `session_id`.
//!
//! **Without `session_id`** (Mooncake) rows come at their times, whatever became of others. Times are in steps of
//! seconds; rows of one time are spread evenly until the next. Conversations are inferred: a row belongs to that of the
//! earlier ones with which it shares more than what many share. What many share is its first id, and all up to its last
//! id that more than [`MOST_BRANCHES`] different ids follow somewhere in the trace: a system prompt or a template, not
//! a conversation, which branches into few. Since ids are chained, rows of one conversation are those with the same id
//! right after that; a row with none there is one of its own.
//!
//! **With `session_id`** (agents) only the first row of a session has a time; the next follow its answer and a think
//! time. How long the answer took was not recorded. The think time is the recorded gap less [`ANSWER_US`] for every
//! token of the answer, at least 0 and at most [`MOST_THINK_US`]: too long by what the recording engine took longer
//! than that, so a lower bound on how fast turns come. Sessions keep their recorded starts; agents' were recorded
//! nearly one after the other, so lay them out by [`Trace::at_rate`].
//!
//! Rows without tokens are left out and counted ([`Trace::skipped`]); turns around one are chained over it, its time
//! being think time. The rule: what is read keeps the rule of [`crate::trace`], or is refused with the number of its
//! line.
//!
//! [`ANSWER_US`]: super::order::ANSWER_US

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use serde::Deserialize;

use super::id_map::Ids;
use super::order::answer;
use super::{Request, Start, Trace};

/// Why there is no trace.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The file could not be opened or read.
    #[error("cannot read the trace")]
    Read(#[source] io::Error),
    /// A line, counted from one, is not a request.
    #[error("line {0} of the trace is not a request")]
    Line(usize, #[source] serde_json::Error),
    /// A line, counted from one, contradicts itself or others.
    #[error("line {0} of the trace {1}")]
    Request(usize, Fault),
    /// There is no request.
    #[error("the trace has no request")]
    Empty,
}

/// What is wrong with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// Times fall.
    #[error("comes before the one above it")]
    Early,
    /// A time further from the first than [`MOST_US`].
    #[error("comes too long after the first one to be counted")]
    Late,
    /// There is no number of tokens a block that fits it and the others.
    #[error("has another number of ids than its tokens need")]
    Length,
    /// Equal ids would not mean equal prompts.
    #[error("has an id that followed another one before")]
    Unchained,
    /// Other lines name their session.
    #[error("names no session, or is the first to name one")]
    Session,
}

/// µs that a trace has at most, some 285 years: up to there times as they are written are exact, and sums of them have room.
pub const MOST_US: u64 = 1 << 53;

/// A longer think time than this is cut: whoever was away does not come back in the time of a simulation.
pub const MOST_THINK_US: u64 = 60_000_000;

/// An id that more different ids follow than this is no part of a conversation but what many share.
///
/// In Mooncake's `conversation_trace` the first id has 7,373 and no other has more than 11.
pub const MOST_BRANCHES: usize = 16;

impl Trace {
    /// Reads a file, gzipped or not.
    ///
    /// # Errors
    ///
    /// Says which line is wrong.
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        Self::read(File::open(path).map_err(TraceError::Read)?)
    }

    /// Reads lines, gzipped or not.
    ///
    /// # Errors
    ///
    /// Says which line is wrong.
    pub fn read(from: impl Read) -> Result<Self, TraceError> {
        let mut from = BufReader::new(from);
        let gzipped = from.fill_buf().map_err(TraceError::Read)?.starts_with(&[0x1f, 0x8b]);
        let (rows, skipped) = if gzipped { rows(BufReader::new(MultiGzDecoder::new(from)))? } else { rows(from)? };
        let first = rows.first().ok_or(TraceError::Empty)?;
        let closed = first.session_id.is_some();
        if let Some(row) = rows.iter().find(|row| row.session_id.is_some() != closed) {
            return Err(TraceError::Request(row.line, Fault::Session));
        }
        let block = block(&rows)?;
        let children = chained(&rows)?;
        let requests = if closed { turns(rows)? } else { arrivals(rows, &children)? };
        Ok(Self { skipped, ..Self::new(block, requests) })
    }
}

#[derive(Deserialize)]
struct Row {
    #[serde(skip)]
    line: usize,
    /// In ms.
    timestamp: f64,
    session_id: Option<Name>,
    input_length: u32,
    output_length: u32,
    #[serde(default)]
    hash_ids: Vec<u64>,
}

#[derive(PartialEq, Eq, Hash, Deserialize)]
#[serde(untagged)]
enum Name {
    Number(u64),
    Text(String),
}

impl Row {
    fn request(self, start: Start, session: u32) -> Request {
        Request { start, session, input: self.input_length, output: self.output_length.max(1), ids: self.hash_ids }
    }
}

/// The rows that have tokens, and how many had none.
fn rows(from: impl BufRead) -> Result<(Vec<Row>, usize), TraceError> {
    let (mut rows, mut skipped) = (Vec::new(), 0);
    for (number, line) in (1..).zip(from.lines()) {
        let line = line.map_err(TraceError::Read)?;
        let row: Row = serde_json::from_str(&line).map_err(|error| TraceError::Line(number, error))?;
        if row.input_length > 0 {
            rows.push(Row { line: number, ..row });
        } else if row.hash_ids.is_empty() {
            skipped += 1;
        } else {
            return Err(TraceError::Request(number, Fault::Length));
        }
    }
    Ok((rows, skipped))
}

/// The power of two that fits every row: an id for every so many tokens, and one for the rest in all or in none.
fn block(rows: &[Row]) -> Result<usize, TraceError> {
    let each = || rows.iter().map(|row| (row.input_length as usize, row.hash_ids.len().max(1)));
    let least = each().map(|(tokens, ids)| tokens.div_ceil(ids)).max().unwrap_or(1).next_power_of_two();
    let misfit = rows.iter().find(|row| (row.input_length as usize).div_ceil(least) != row.hash_ids.len());
    let Some(misfit) = misfit else { return Ok(least) };
    let full = rows.iter().filter(|row| !row.hash_ids.is_empty());
    let most = full.map(|row| row.input_length as usize / row.hash_ids.len()).min().unwrap_or(0);
    let most = most.checked_ilog2().map(|bits| 1 << bits);
    let fits = |tokens: &usize| rows.iter().all(|row| row.input_length as usize / tokens == row.hash_ids.len());
    most.filter(fits).ok_or(TraceError::Request(misfit.line, Fault::Length))
}

/// Each id has one parent, or is always the first. By id, how many others follow it.
fn chained(rows: &[Row]) -> Result<Ids<usize>, TraceError> {
    let (mut parents, mut children) = (Ids::default(), Ids::default());
    for row in rows {
        let mut parent = None;
        for &id in &row.hash_ids {
            match parents.entry(id) {
                Entry::Occupied(known) if *known.get() == parent => {}
                Entry::Occupied(_) => return Err(TraceError::Request(row.line, Fault::Unchained)),
                Entry::Vacant(new) => {
                    new.insert(parent);
                    if let Some(parent) = parent {
                        *children.entry(parent).or_default() += 1;
                    }
                }
            }
            parent = Some(id);
        }
    }
    Ok(children)
}

/// Rows that come at their times.
fn arrivals(rows: Vec<Row>, children: &Ids<usize>) -> Result<Vec<Request>, TraceError> {
    let mut times = Vec::with_capacity(rows.len());
    let (mut before, first) = (0, rows.first().map_or(0.0, |row| row.timestamp));
    for row in &rows {
        let at = micros(row, first)?;
        if at < before {
            return Err(TraceError::Request(row.line, Fault::Early));
        }
        before = at;
        times.push(at);
    }
    spread(&mut times);
    let (mut homes, mut sessions) = (Ids::default(), 0);
    let mut session = |row: &Row| {
        let wide = |id: &u64| children.get(id).is_some_and(|&children| children > MOST_BRANCHES);
        let shared = row.hash_ids.iter().rposition(wide).unwrap_or(0) + 1;
        let home = row.hash_ids.get(shared).map_or(sessions, |&own| *homes.entry(own).or_insert(sessions));
        sessions += u32::from(home == sessions);
        home
    };
    let each = rows.into_iter().zip(times).map(|(row, at)| {
        let session = session(&row);
        row.request(Start::At(at), session)
    });
    Ok(each.collect())
}

/// Rows that follow the answer of the one before.
fn turns(rows: Vec<Row>) -> Result<Vec<Request>, TraceError> {
    let mut sessions = HashMap::<Option<Name>, (u32, u32, f64)>::new();
    let first = rows.iter().map(|row| row.timestamp).fold(f64::INFINITY, f64::min);
    let mut requests = Vec::<Request>::with_capacity(rows.len());
    for (place, mut row) in (0..).zip(rows) {
        let (number, name) = (sessions.len() as u32, row.session_id.take());
        let (start, session) = match sessions.get(&name) {
            None => (Start::At(micros(&row, first)?), number),
            Some(&(session, before, at)) => {
                let gap = micros(&row, at)?;
                let think = gap.saturating_sub(answer(requests[before as usize].output));
                (Start::After(before, think.min(MOST_THINK_US)), session)
            }
        };
        sessions.insert(name, (session, place, row.timestamp));
        requests.push(row.request(start, session));
    }
    Ok(requests)
}

/// When a row comes, in µs after another time in ms.
fn micros(row: &Row, after: f64) -> Result<u64, TraceError> {
    match (row.timestamp - after) * 1e3 {
        us if us < 0.0 => Err(TraceError::Request(row.line, Fault::Early)),
        us if us <= MOST_US as f64 => Ok(us as u64),
        _ => Err(TraceError::Request(row.line, Fault::Late)),
    }
}

/// Equal times are spread until the next.
fn spread(times: &mut [u64]) {
    let mut from = 0;
    while from < times.len() {
        let at = times[from];
        let same = times[from..].iter().take_while(|&&time| time == at).count();
        let next = times.get(from + same).copied().unwrap_or(at);
        for (i, time) in times[from..from + same].iter_mut().enumerate() {
            // The quotient is below the factor; the product may be more than 64 bits.
            *time = at + (u128::from(next - at) * i as u128 / same as u128) as u64;
        }
        from += same;
    }
}

#[cfg(test)]
mod tests;
