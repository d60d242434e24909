//! The command line of `replay`: flags, their ranges and defaults in one table.

use std::ops::RangeInclusive;
use std::time::Duration;

use kv_index::BlockSize;

use crate::replay::conversation::Lengths;
use crate::replay::usage::UsageError;

/// What a run is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// Pods in the fleet.
    pub pods: u64,
    /// Conversations in all.
    pub conversations: u64,
    /// Turns of each conversation.
    pub turns: u64,
    /// System prompts that the conversations share.
    pub prompts: u64,
    /// Blocks each pod can cache.
    pub capacity: u64,
    /// Tokens in a block.
    pub block_size: u64,
    /// Engines that start anew in the course of the run.
    pub restarts: u64,
    /// Pods that are retired, each while another joins.
    pub retirements: u64,
    /// Prompts checked in the end.
    pub samples: u64,
    /// Seconds after which no further turn begins; 0 for no limit.
    pub seconds_budget: u64,
    /// What all chance comes from.
    pub seed: u64,
}

impl Options {
    /// Reads the arguments that follow the program's name.
    ///
    /// # Errors
    ///
    /// When a flag is unknown or its value is missing or makes no sense. The user can act.
    pub fn parse(args: impl IntoIterator<Item = String>) -> Result<Command, UsageError> {
        let mut options = Self::default();
        let mut args = args.into_iter();
        while let Some(arg) = args.next() {
            if arg == "--help" || arg == "-h" {
                return Ok(Command::Help);
            }
            let (name, inline) = match arg.split_once('=') {
                Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
                None => (arg, None),
            };
            let Some(flag) = FLAGS.iter().find(|flag| flag.name == name) else {
                return Err(UsageError::Unknown(name));
            };
            let value = inline.or_else(|| args.next()).ok_or(UsageError::NoValue(flag.name))?;
            *(flag.field)(&mut options) = flag.read(value)?;
        }
        options.check()?;
        Ok(Command::Run(options))
    }

    /// What `--help` prints.
    #[must_use]
    pub fn help() -> String {
        let mut text = String::from(ABOUT);
        for flag in &FLAGS {
            let default = *(flag.field)(&mut Self::default());
            text.push_str(&format!("  {:<18} {} [{default}]\n", flag.name, flag.help));
        }
        text.push_str("  --help             print this\n");
        text
    }

    /// Tokens in a block.
    #[must_use]
    pub fn size(&self) -> BlockSize {
        u32::try_from(self.block_size).ok().and_then(BlockSize::new).unwrap_or(DEFAULT_SIZE)
    }

    /// The time limit, if there is one.
    #[must_use]
    pub fn budget(&self) -> Option<Duration> {
        (self.seconds_budget > 0).then(|| Duration::from_secs(self.seconds_budget))
    }

    /// Refuses flags that contradict each other.
    fn check(&self) -> Result<(), UsageError> {
        let tokens = Lengths::default().longest(self.turns as usize);
        let needed = tokens.div_ceil(self.size().tokens()) as u64;
        if needed > self.capacity {
            return Err(UsageError::TooSmall { capacity: self.capacity, turns: self.turns, needed });
        }
        Ok(())
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            pods: 64,
            conversations: 12_000,
            turns: 6,
            prompts: 24,
            capacity: 4_096,
            block_size: DEFAULT_SIZE.tokens() as u64,
            restarts: 4,
            retirements: 2,
            samples: 1_000,
            seconds_budget: 0,
            seed: 1,
        }
    }
}

/// What the arguments ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Command {
    /// A run.
    Run(Options),
    /// The help text.
    Help,
}

struct Flag {
    name: &'static str,
    help: &'static str,
    range: RangeInclusive<u64>,
    field: fn(&mut Options) -> &mut u64,
}

impl Flag {
    fn read(&self, value: String) -> Result<u64, UsageError> {
        match value.replace(['_', ','], "").parse() {
            Ok(number) if self.range.contains(&number) => Ok(number),
            _ => Err(UsageError::BadValue { flag: self.name, value, range: self.range.clone() }),
        }
    }
}

const ABOUT: &str = "\
Plays multi-turn traffic over a fleet of modelled engines, routes it by an index that the engines'
events keep up to date, and checks the index against the engines. Exits with 1 if they differ.

Usage: replay [flag value]...

";

// Up to 240 pods, so that retired ones keep their ids until they are swept: an index has 256.
const FLAGS: [Flag; 11] = [
    Flag { name: "--pods", help: "pods in the fleet", range: 1..=240, field: |o| &mut o.pods },
    Flag {
        name: "--conversations",
        help: "conversations in all",
        range: 1..=10_000_000,
        field: |o| &mut o.conversations,
    },
    Flag { name: "--turns", help: "turns of each", range: 1..=1_000, field: |o| &mut o.turns },
    Flag { name: "--prompts", help: "system prompts they share", range: 1..=100_000, field: |o| &mut o.prompts },
    Flag { name: "--capacity", help: "blocks each pod can cache", range: 1..=4_000_000, field: |o| &mut o.capacity },
    Flag { name: "--block-size", help: "tokens in a block", range: 1..=1_024, field: |o| &mut o.block_size },
    Flag {
        name: "--restarts",
        help: "engines that start anew on the way",
        range: 0..=1_000,
        field: |o| &mut o.restarts,
    },
    Flag { name: "--retirements", help: "pods replaced on the way", range: 0..=1_000, field: |o| &mut o.retirements },
    Flag { name: "--samples", help: "prompts checked in the end", range: 1..=100_000, field: |o| &mut o.samples },
    Flag {
        name: "--seconds-budget",
        help: "begin no turn after so many seconds, 0 for no limit",
        range: 0..=86_400,
        field: |o| &mut o.seconds_budget,
    },
    Flag { name: "--seed", help: "what all chance comes from", range: 0..=u64::MAX, field: |o| &mut o.seed },
];

const DEFAULT_SIZE: BlockSize = BlockSize::new(16).expect("not zero");

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Command, UsageError> {
        Options::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn flags_change_what_they_name_and_nothing_else() {
        let expected = Options { pods: 8, seed: 77, conversations: 12_000, ..Options::default() };
        assert_eq!(parse("--pods 8 --seed=77 --conversations 12_000"), Ok(Command::Run(expected)));
        assert_eq!(parse(""), Ok(Command::Run(Options::default())));
        assert_eq!(parse("--pods 8 --help"), Ok(Command::Help));
    }

    #[test]
    fn mistakes_are_named() {
        let text = |line: &str| parse(line).unwrap_err().to_string();
        assert_eq!(text("--pod 8"), "unknown argument `--pod`");
        assert_eq!(text("--pods"), "`--pods` needs a value");
        assert_eq!(text("--pods 0"), "`--pods` takes a whole number from 1 to 240, not `0`");
        assert_eq!(text("--seed -1"), "`--seed` takes a whole number from 0 on, not `-1`");
        let small = "`--capacity 100` is too small: a conversation of 6 turns may need 392 blocks";
        assert_eq!(text("--capacity 100"), small);
    }

    #[test]
    fn the_help_names_every_flag_with_its_default() {
        let help = Options::help();
        assert!(FLAGS.iter().all(|flag| help.contains(flag.name)));
        assert!(help.contains("pods in the fleet [64]"));
    }
}
