//! Command line of `pointsman-compare`.

use std::fmt;
use std::path::PathBuf;

/// What to measure, and how long.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// Sections to run.
    pub sections: Vec<Section>,
    /// Distinct blocks in the table while anything but searches and memory is measured, about.
    pub table: usize,
    /// Distinct blocks in the tables that are searched, about: one that caches hold and one that they do not.
    pub tables: Vec<usize>,
    /// Distinct blocks while memory is measured, about.
    pub memory_blocks: Vec<usize>,
    /// Seed of every workload.
    pub seed: u64,
    /// Rounds that medians are taken over.
    pub rounds: usize,
    /// A few cells of each section, for a look.
    pub quick: bool,
    /// Most threads that search at once; as many as there are cores if it is not said.
    pub threads: Option<usize>,
    /// A Mooncake trace to replay, JSONL, plain or gzipped; without one, a synthetic one with its statistics.
    pub trace: Option<PathBuf>,
    /// Where to write JSON.
    pub json: Option<PathBuf>,
    /// A folder for everything: tables, JSON and plots.
    pub out: Option<PathBuf>,
}

/// One question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Section {
    /// What does a search cost?
    Search,
    /// What does a decision cost from tokens on?
    Tokens,
    /// What does an event cost per block?
    Writes,
    /// What does it cost to forget a conversation?
    Evict,
    /// How do searches scale with threads, alone and beside writers?
    Threads,
    /// What rate of requests and events is kept up with?
    Replay,
    /// What does a block weigh?
    Memory,
    /// What does a decision cost by pods and plugins?
    Decision,
    /// What does forwarding a chunk cost?
    Execution,
}

impl Section {
    /// Every section, in the order they run.
    pub const ALL: [Self; 9] = [
        Self::Search,
        Self::Tokens,
        Self::Writes,
        Self::Evict,
        Self::Threads,
        Self::Replay,
        Self::Memory,
        Self::Decision,
        Self::Execution,
    ];

    /// Its name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Search => "search",
            Self::Tokens => "tokens",
            Self::Writes => "writes",
            Self::Evict => "evict",
            Self::Threads => "threads",
            Self::Replay => "replay",
            Self::Memory => "memory",
            Self::Decision => "decision",
            Self::Execution => "execution",
        }
    }
}

/// A parsed command line.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Command {
    /// Measure.
    Run(Options),
    /// Print the usage.
    Help,
}

/// What is wrong with a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OptionsError {
    /// No such flag.
    Unknown(String),
    /// A flag came last that wants a value.
    NoValue(String),
    /// A flag's value is not a number above zero.
    NotANumber(String, String),
    /// No such section.
    NoSection(String),
}

impl fmt::Display for OptionsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(flag) => write!(f, "unknown option `{flag}`, see --help"),
            Self::NoValue(flag) => write!(f, "`{flag}` wants a value"),
            Self::NotANumber(flag, value) => {
                write!(f, "`{flag}` wants a number above zero, not `{value}`")
            }
            Self::NoSection(name) => {
                let names: Vec<&str> = Section::ALL.into_iter().map(Section::name).collect();
                write!(f, "no section `{name}`: there are {}", names.join(", "))
            }
        }
    }
}

impl std::error::Error for OptionsError {}

impl Command {
    /// Reads a command line, without the program's name.
    ///
    /// # Errors
    ///
    /// Says what is wrong with the first argument that is.
    pub fn parse(args: impl IntoIterator<Item = String>) -> Result<Self, OptionsError> {
        let mut args = args.into_iter();
        let mut only = Vec::new();
        let (mut table, mut memory_blocks, mut seed, mut rounds) = (None, None, 1, None);
        let (mut quick, mut threads, mut trace, mut json, mut out) = (false, None, None, None, None);
        while let Some(flag) = args.next() {
            match flag.as_str() {
                "-h" | "--help" => return Ok(Self::Help),
                "--quick" => quick = true,
                "--only" => only.extend(sections(&value(&flag, args.next())?)?),
                "--json" => json = Some(PathBuf::from(value(&flag, args.next())?)),
                "--out" => out = Some(PathBuf::from(value(&flag, args.next())?)),
                "--trace" => trace = Some(PathBuf::from(value(&flag, args.next())?)),
                "--threads" => threads = Some(number(&flag, args.next())?),
                "--table" => table = Some(number(&flag, args.next())?),
                "--memory-blocks" => memory_blocks = Some(number(&flag, args.next())?),
                "--seed" => seed = number(&flag, args.next())? as u64,
                "--rounds" => rounds = Some(number(&flag, args.next())?),
                _ => return Err(OptionsError::Unknown(flag)),
            }
        }
        Ok(Self::Run(Options {
            sections: Section::ALL.into_iter().filter(|section| only.is_empty() || only.contains(section)).collect(),
            table: table.unwrap_or(if quick { 50_000 } else { 200_000 }),
            tables: sizes(table, if quick { [20_000, 100_000] } else { [100_000, 5_000_000] }),
            memory_blocks: sizes(memory_blocks, if quick { [50_000, 200_000] } else { [1_000_000, 5_000_000] }),
            seed,
            rounds: rounds.unwrap_or(if quick { 3 } else { 9 }),
            quick,
            threads,
            trace,
            json,
            out,
        }))
    }
}

/// The one that was asked for, or both.
fn sizes(asked: Option<usize>, both: [usize; 2]) -> Vec<usize> {
    asked.map_or_else(|| both.to_vec(), |size| vec![size])
}

fn value(flag: &str, value: Option<String>) -> Result<String, OptionsError> {
    value.ok_or_else(|| OptionsError::NoValue(flag.to_owned()))
}

fn number(flag: &str, text: Option<String>) -> Result<usize, OptionsError> {
    let text = value(flag, text)?;
    let number = text.replace('_', "").parse().ok().filter(|&number| number > 0);
    number.ok_or_else(|| OptionsError::NotANumber(flag.to_owned(), text))
}

fn sections(names: &str) -> Result<Vec<Section>, OptionsError> {
    let find = |name: &str| Section::ALL.into_iter().find(|section| section.name() == name);
    names.split(',').map(|name| find(name).ok_or_else(|| OptionsError::NoSection(name.to_owned()))).collect()
}

/// What `--help` prints.
pub const HELP: &str = "\
Compares this index with its peers. Tables go to stdout as Markdown, progress to stderr.

Usage: pointsman-compare [options]

  --only SECTIONS    search, tokens, writes, evict, threads, replay, memory, decision, execution;
                     several with commas; all by default
  --table N          distinct blocks in the table (searches: 100000, then 5000000; else 200000)
  --memory-blocks N  distinct blocks while memory is measured (1000000, then 5000000)
  --seed S           seed of every workload (1)
  --rounds R         rounds that medians are taken over (9)
  --quick            a few cells of each section, smaller and with 3 rounds
  --threads N        most threads that search at once (as many as there are cores)
  --trace PATH       a Mooncake trace to replay, JSONL, plain or .gz (else a synthetic one with its statistics)
  --json PATH        writes the tables there as JSON too
  --out FOLDER       writes results.md, results.json and a plot of each table there
  -h, --help         prints this
";

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Command, OptionsError> {
        Command::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn a_full_line_is_understood() {
        let Ok(Command::Run(options)) = parse("--only memory,search --table 5_000 --seed 9 --rounds 2 --json x.json")
        else {
            panic!("refused");
        };
        assert_eq!(options.sections, [Section::Search, Section::Memory]);
        assert_eq!((options.table, options.seed, options.rounds), (5_000, 9, 2));
        assert_eq!((options.tables, options.memory_blocks), (vec![5_000], vec![1_000_000, 5_000_000]));
        assert_eq!(options.json, Some(PathBuf::from("x.json")));
    }

    #[test]
    fn one_size_can_be_asked_for_and_a_look_takes_smaller_ones() {
        let Ok(Command::Run(options)) = parse("--memory-blocks 7 --out folder") else { panic!("refused") };
        assert_eq!((options.tables, options.memory_blocks), (vec![100_000, 5_000_000], vec![7]));
        assert_eq!(options.out, Some(PathBuf::from("folder")));
        let Ok(Command::Run(quick)) = parse("--quick") else { panic!("refused") };
        assert!(quick.tables.iter().chain(&quick.memory_blocks).all(|&size| size <= 200_000));
        assert_eq!(quick.sections, Section::ALL);
    }

    #[test]
    fn a_wrong_line_is_refused_with_what_is_wrong() {
        assert_eq!(parse("--table"), Err(OptionsError::NoValue("--table".to_owned())));
        assert_eq!(parse("--rounds 0"), Err(OptionsError::NotANumber("--rounds".to_owned(), "0".to_owned())));
        assert_eq!(parse("--only seek"), Err(OptionsError::NoSection("seek".to_owned())));
        assert_eq!(parse("fast"), Err(OptionsError::Unknown("fast".to_owned())));
        assert_eq!(parse("--quick --help"), Ok(Command::Help));
    }
}
