//! Requests over time, as the Mooncake traces have them: one JSON object a line, plain or gzipped.

use std::collections::HashSet;
use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use serde::Deserialize;

/// Requests in the order of their arrival.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Trace {
    /// The requests.
    pub requests: Vec<Request>,
    /// Tokens that one of [`Request::ids`] stands for.
    pub id_tokens: usize,
}

/// One request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Request {
    /// When it came, in µs after the first.
    pub at: u64,
    /// Tokens of its prompt.
    pub input: usize,
    /// Tokens of its answer.
    pub output: usize,
    /// Its prompt: equal ids mean equal prompts up to there. The last one may be for fewer tokens.
    pub ids: Vec<u64>,
}

/// Why there is no trace.
#[derive(Debug)]
#[non_exhaustive]
pub enum TraceError {
    /// The file could not be opened or read.
    Read(io::Error),
    /// A line, counted from one, is not a request.
    Line(usize, serde_json::Error),
    /// A line, counted from one, has fewer or more ids than its tokens need, or comes before the one above it.
    Request(usize, &'static str),
    /// There is no line.
    Empty,
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(_) => f.write_str("cannot read the trace"),
            Self::Line(line, _) => write!(f, "line {line} of the trace is not a request"),
            Self::Request(line, what) => write!(f, "line {line} of the trace {what}"),
            Self::Empty => f.write_str("the trace has no line"),
        }
    }
}

impl std::error::Error for TraceError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Read(error) => Some(error),
            Self::Line(_, error) => Some(error),
            Self::Request(..) | Self::Empty => None,
        }
    }
}

#[derive(Deserialize)]
struct Row {
    /// In ms.
    timestamp: f64,
    input_length: usize,
    output_length: usize,
    hash_ids: Vec<u64>,
}

impl Trace {
    /// Reads a file, gzipped or not.
    ///
    /// # Errors
    ///
    /// Says which line is wrong.
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        let mut file = BufReader::new(File::open(path).map_err(TraceError::Read)?);
        let gzipped = file.fill_buf().map_err(TraceError::Read)?.starts_with(&[0x1f, 0x8b]);
        if gzipped { Self::read(MultiGzDecoder::new(file)) } else { Self::read(file) }
    }

    /// Reads lines.
    ///
    /// # Errors
    ///
    /// Says which line is wrong.
    pub fn read(from: impl Read) -> Result<Self, TraceError> {
        let (mut requests, mut at, mut first) = (Vec::<Request>::new(), 0, None);
        for (number, line) in (1..).zip(BufReader::new(from).lines()) {
            let line = line.map_err(TraceError::Read)?;
            let row: Row = serde_json::from_str(&line).map_err(|error| TraceError::Line(number, error))?;
            let start = *first.get_or_insert(row.timestamp);
            let now = ((row.timestamp - start) * 1_000.0) as u64;
            if row.timestamp < start || now < at {
                return Err(TraceError::Request(number, "comes before the one above it"));
            }
            if row.hash_ids.is_empty() || row.input_length == 0 {
                return Err(TraceError::Request(number, "has no prompt"));
            }
            at = now;
            requests.push(Request { at, input: row.input_length, output: row.output_length, ids: row.hash_ids });
        }
        let id_tokens = id_tokens(&requests)?;
        let mut trace = Self { requests, id_tokens };
        trace.spread();
        Ok(trace)
    }

    /// What there is to know about it, to compare traces by.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let (mut seen, mut parents, mut forks) = (HashSet::new(), HashSet::new(), HashSet::new());
        let (mut known, mut continued, mut widest) = (0, 0, std::collections::HashMap::<u64, usize>::new());
        for request in &self.requests {
            let depth = request.ids.iter().take_while(|id| seen.contains(*id)).count();
            known += depth;
            continued += usize::from(depth > 1);
            for pair in request.ids.windows(2) {
                if seen.insert(pair[1]) {
                    *widest.entry(pair[0]).or_default() += 1;
                    if !parents.insert(pair[0]) {
                        forks.insert(pair[0]);
                    }
                }
            }
            seen.insert(request.ids[0]);
        }
        let mut fans: Vec<usize> = widest.into_values().collect();
        fans.sort_unstable_by(|a, b| b.cmp(a));
        let total: usize = self.requests.iter().map(|request| request.ids.len()).sum();
        Stats {
            requests: self.requests.len(),
            seconds: self.requests.last().map_or(0.0, |request| request.at as f64 / 1e6),
            ids: quantiles(self.requests.iter().map(|request| request.ids.len())),
            output: quantiles(self.requests.iter().map(|request| request.output)),
            known: known as f64 / total.max(1) as f64,
            continued: continued as f64 / self.requests.len().max(1) as f64,
            fan: [fans.first().copied().unwrap_or(0), fans.get(1).copied().unwrap_or(0)],
            forks: forks.len(),
        }
    }

    /// Requests with one time are spread until the next: traces have their times in steps of seconds.
    fn spread(&mut self) {
        let mut from = 0;
        while from < self.requests.len() {
            let at = self.requests[from].at;
            let same = self.requests[from..].iter().take_while(|request| request.at == at).count();
            let next = self.requests.get(from + same).map_or(at, |request| request.at);
            for (i, request) in self.requests[from..from + same].iter_mut().enumerate() {
                request.at = at + (next - at) * i as u64 / same as u64;
            }
            from += same;
        }
    }
}

/// What a trace is like.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Stats {
    /// Requests.
    pub requests: usize,
    /// How long they take to come.
    pub seconds: f64,
    /// Ids a request: p25, p50, p75, p95, p99, and the mean.
    pub ids: [f64; 6],
    /// Tokens an answer: the same.
    pub output: [f64; 6],
    /// Share of ids that an earlier request had.
    pub known: f64,
    /// Share of requests that have more than their first id in common with an earlier one.
    pub continued: f64,
    /// Most children of one id, and of the next.
    pub fan: [usize; 2],
    /// Ids with more than one child.
    pub forks: usize,
}

fn quantiles(values: impl Iterator<Item = usize>) -> [f64; 6] {
    let mut values: Vec<usize> = values.collect();
    values.sort_unstable();
    let at = |share: f64| values.get((values.len() as f64 * share) as usize).map_or(0.0, |&value| value as f64);
    let mean = values.iter().sum::<usize>() as f64 / values.len().max(1) as f64;
    [at(0.25), at(0.5), at(0.75), at(0.95), at(0.99), mean]
}

/// The power of two that fits every request: so many ids for so many tokens, the last perhaps for fewer.
fn id_tokens(requests: &[Request]) -> Result<usize, TraceError> {
    let least = requests.iter().map(|request| request.input.div_ceil(request.ids.len())).max();
    let tokens = least.ok_or(TraceError::Empty)?.next_power_of_two();
    match requests.iter().position(|request| request.input.div_ceil(tokens) != request.ids.len()) {
        Some(at) => Err(TraceError::Request(at + 1, "has another number of ids than its tokens need")),
        None => Ok(tokens),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    const TWO: &str = r#"{"timestamp": 1000, "input_length": 1100, "output_length": 3, "hash_ids": [0, 7, 8]}
{"timestamp": 1000, "input_length": 20, "output_length": 1, "hash_ids": [9]}
{"timestamp": 3000.5, "input_length": 1024, "output_length": 1, "hash_ids": [0, 5]}
"#;

    #[test]
    fn lines_become_requests_spread_over_their_time() {
        let trace = Trace::read(TWO.as_bytes()).expect("sound");
        assert_eq!(trace.id_tokens, 512);
        assert_eq!(trace.requests.iter().map(|request| request.at).collect::<Vec<_>>(), [0, 1_000_250, 2_000_500]);
        assert_eq!(trace.requests[0].ids, [0, 7, 8]);
        let stats = trace.stats();
        assert_eq!((stats.known, stats.fan, stats.forks), (1.0 / 6.0, [2, 1], 1));
    }

    #[test]
    fn a_gzipped_file_reads_the_same() {
        let path = std::env::temp_dir().join(format!("pointsman-trace-{}.jsonl.gz", std::process::id()));
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(TWO.as_bytes()).expect("to memory");
        std::fs::write(&path, packed.finish().expect("to memory")).expect("a temporary file");
        let trace = Trace::open(&path);
        std::fs::remove_file(&path).expect("it is there");
        assert_eq!(trace.expect("sound").requests, Trace::read(TWO.as_bytes()).expect("sound").requests);
    }

    #[test]
    fn errors_name_the_line() {
        let broken = format!("{TWO}{{\"timestamp\": 1");
        assert!(matches!(Trace::read(broken.as_bytes()), Err(TraceError::Line(4, _))));
        let early = format!("{TWO}{}", TWO.lines().next().expect("a line"));
        let error = Trace::read(early.as_bytes()).expect_err("too early");
        assert_eq!(error.to_string(), "line 4 of the trace comes before the one above it");
        let short = TWO.replace("1024", "24");
        assert!(matches!(Trace::read(short.as_bytes()), Err(TraceError::Request(3, _))));
        let bare = TWO.replace("[9]", "[]");
        assert!(matches!(Trace::read(bare.as_bytes()), Err(TraceError::Request(2, "has no prompt"))));
        assert!(matches!(Trace::read(io::empty()), Err(TraceError::Empty)));
    }
}
