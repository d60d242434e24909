//! Command line of `compare`.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};

/// Compares this index with its peers. Tables go to stdout as Markdown, progress to stderr.
#[derive(Clone, Debug, PartialEq, Eq, Parser)]
#[command(name = "compare")]
#[non_exhaustive]
pub struct Options {
    /// Sections to run, several with commas; all by default.
    #[arg(long, value_name = "SECTIONS", value_delimiter = ',')]
    only: Vec<Section>,
    /// Distinct blocks in the table, about (searches: 100000, then 5000000; else 200000).
    #[arg(long, value_name = "N", value_parser = number)]
    table: Option<usize>,
    /// Distinct blocks while memory is measured, about (1000000, then 5000000).
    #[arg(long, value_name = "N", value_parser = number)]
    memory_blocks: Option<usize>,
    /// Seed of every workload.
    #[arg(long, value_name = "S", default_value = "1", value_parser = |text: &str| number(text).map(|seed| seed as u64))]
    pub seed: u64,
    /// Rounds that medians are taken over.
    #[arg(long, value_name = "R", default_value = "9", default_value_if("quick", "true", "3"), value_parser = number)]
    pub rounds: usize,
    /// A few cells of each section, smaller and with 3 rounds.
    #[arg(long)]
    pub quick: bool,
    /// Most threads that search at once; as many as there are cores by default.
    #[arg(long, value_name = "N", value_parser = number)]
    pub threads: Option<usize>,
    /// A Mooncake trace to replay, JSONL, plain or .gz; else a synthetic one with its statistics.
    #[arg(long, value_name = "PATH")]
    pub trace: Option<PathBuf>,
    /// Writes the tables there as JSON too.
    #[arg(long, value_name = "PATH")]
    pub json: Option<PathBuf>,
    /// Writes results.md, results.json and a plot of each table there.
    #[arg(long, value_name = "FOLDER")]
    pub out: Option<PathBuf>,
}

/// One question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[non_exhaustive]
pub enum Section {
    /// What does a search cost?
    Search,
    /// What does a decision cost from tokens on?
    Tokens,
    /// What does an event cost per block?
    Writes,
    /// How many blocks a second from an engine's messages to the index?
    Bytes,
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

impl Options {
    /// Sections to run, in their order.
    #[must_use]
    pub fn sections(&self) -> Vec<Section> {
        let wanted = |section: &Section| self.only.is_empty() || self.only.contains(section);
        Section::value_variants().iter().copied().filter(wanted).collect()
    }

    /// Distinct blocks in the table while anything but searches and memory is measured, about.
    #[must_use]
    pub fn table(&self) -> usize {
        self.table.unwrap_or(if self.quick { 50_000 } else { 200_000 })
    }

    /// Distinct blocks in the tables that are searched, about: one that caches hold and one that they do not.
    #[must_use]
    pub fn tables(&self) -> Vec<usize> {
        sizes(self.table, if self.quick { [20_000, 100_000] } else { [100_000, 5_000_000] })
    }

    /// Distinct blocks while memory is measured, about.
    #[must_use]
    pub fn memory_blocks(&self) -> Vec<usize> {
        sizes(self.memory_blocks, if self.quick { [50_000, 200_000] } else { [1_000_000, 5_000_000] })
    }
}

/// The one that was asked for, or both.
fn sizes(asked: Option<usize>, both: [usize; 2]) -> Vec<usize> {
    asked.map_or_else(|| both.to_vec(), |size| vec![size])
}

/// A number above zero, perhaps with underscores.
fn number(text: &str) -> Result<usize, &'static str> {
    text.replace('_', "").parse().ok().filter(|&number| number > 0).ok_or("not a number above zero")
}

#[cfg(test)]
mod tests {
    use clap::error::ErrorKind;

    use super::*;

    fn parse(line: &str) -> Result<Options, clap::Error> {
        Options::try_parse_from(std::iter::once("pointsman-compare").chain(line.split_whitespace()))
    }

    #[test]
    fn a_full_line_is_understood() {
        let line = "--only memory,search --table 5_000 --seed 9 --rounds 2 --json x.json";
        let options = parse(line).expect("it is right");
        assert_eq!(options.sections(), [Section::Search, Section::Memory]);
        assert_eq!((options.table(), options.seed, options.rounds), (5_000, 9, 2));
        assert_eq!((options.tables(), options.memory_blocks()), (vec![5_000], vec![1_000_000, 5_000_000]));
        assert_eq!(options.json, Some(PathBuf::from("x.json")));
    }

    #[test]
    fn one_size_can_be_asked_for_and_a_look_takes_smaller_ones() {
        let options = parse("--memory-blocks 7 --out folder").expect("it is right");
        assert_eq!((options.tables(), options.memory_blocks()), (vec![100_000, 5_000_000], vec![7]));
        assert_eq!((options.out, options.rounds), (Some(PathBuf::from("folder")), 9));
        let quick = parse("--quick").expect("it is right");
        assert!(quick.tables().iter().chain(&quick.memory_blocks()).all(|&size| size <= 200_000));
        assert_eq!((quick.sections().as_slice(), quick.rounds), (Section::value_variants(), 3));
        assert_eq!(parse("--quick --rounds 5").map(|options| options.rounds).ok(), Some(5));
    }

    #[test]
    fn a_wrong_line_is_refused_with_what_is_wrong() {
        for (line, kind, named) in [
            ("--table", ErrorKind::InvalidValue, "--table"),
            ("--rounds 0", ErrorKind::ValueValidation, "not a number above zero"),
            ("--only seek", ErrorKind::InvalidValue, "search, tokens, writes"),
            ("fast", ErrorKind::UnknownArgument, "fast"),
            ("--quick --help", ErrorKind::DisplayHelp, "--memory-blocks"),
        ] {
            let error = parse(line).expect_err(line);
            assert_eq!(error.kind(), kind, "{line}");
            assert!(error.to_string().contains(named), "{error}");
        }
    }
}
