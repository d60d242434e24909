//! Baseline of instruction counts, and the change since.

use std::fmt;
use std::path::Path;

/// Instructions by operation, and who compiled them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Baseline {
    pub(crate) toolchain: String,
    pub(crate) counts: Vec<(String, f64)>,
}

/// What has become of a count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Change {
    /// It is about what it was.
    Same(f64),
    /// It rose too far.
    Rose(f64),
    /// It fell, and the baseline should be lowered.
    Fell(f64),
    /// There was none.
    Missing,
}

impl Baseline {
    /// Reads a file.
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        Self::parse(&text).map_err(|line| format!("line {line} of {} is not a count", path.display()))
    }

    /// Reads what [`fmt::Display`] writes; the number of the first line that is wrong.
    fn parse(text: &str) -> Result<Self, usize> {
        let mut baseline = Self { toolchain: String::new(), counts: Vec::new() };
        for (number, line) in (1usize..).zip(text.lines()) {
            if let Some(toolchain) = line.strip_prefix(TOOLCHAIN) {
                baseline.toolchain = toolchain.to_owned();
            } else if !line.starts_with('#') {
                let (name, count) = line.split_once(' ').ok_or(number)?;
                baseline.counts.push((name.to_owned(), count.trim().parse().map_err(|_| number)?));
            }
        }
        Ok(baseline)
    }

    /// Every count of this one beside that of an earlier one.
    pub(crate) fn against<'a>(&'a self, before: &Self) -> impl Iterator<Item = (&'a str, f64, Change)> {
        self.counts.iter().map(|(name, count)| {
            let old = before.counts.iter().find(|(known, _)| known == name);
            (name.as_str(), *count, old.map_or(Change::Missing, |(_, old)| Change::of(*old, *count)))
        })
    }
}

impl Change {
    fn of(before: f64, now: f64) -> Self {
        let change = now / before - 1.0;
        match change {
            _ if change > MARGIN => Self::Rose(change),
            _ if change < -MARGIN => Self::Fell(change),
            _ => Self::Same(change),
        }
    }
}

impl fmt::Display for Baseline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "# Instructions of one run of each operation, by callgrind: cargo run --release -p pointsman-hot -- --bless"
        )?;
        writeln!(f, "{TOOLCHAIN}{}", self.toolchain)?;
        self.counts.iter().try_for_each(|(name, count)| writeln!(f, "{name} {count:.1}"))
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Same(change) => write!(f, "{:+.2}%", change * 100.0),
            Self::Rose(change) => write!(f, "{:+.2}%: FAILED, over {:.0}%", change * 100.0, MARGIN * 100.0),
            Self::Fell(change) => write!(f, "{:+.2}%: better; lower the baseline with --bless", change * 100.0),
            Self::Missing => f.write_str("FAILED, not in the baseline: enter it with --bless"),
        }
    }
}

const TOOLCHAIN: &str = "# Compiled by ";
/// By how much a count may differ.
const MARGIN: f64 = 0.03;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_baseline_reads_as_it_was_written() {
        let counts = vec![("search".to_owned(), 1_234.5), ("store".to_owned(), 7.0)];
        let baseline = Baseline { toolchain: "rustc 1.95.0".to_owned(), counts };
        assert_eq!(Baseline::parse(&baseline.to_string()), Ok(baseline));
        assert_eq!(Baseline::parse("# Compiled by rustc 1\nsearch 1.5\nstore many\n"), Err(3));
    }

    #[test]
    fn a_rise_over_three_in_a_hundred_fails_and_a_fall_is_told() {
        let of = |counts: &[(&str, f64)]| Baseline {
            toolchain: String::new(),
            counts: counts.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect(),
        };
        let (before, now) = (
            of(&[("a", 100.0), ("b", 100.0), ("c", 100.0)]),
            of(&[("a", 102.9), ("b", 103.1), ("c", 96.0), ("d", 1.0)]),
        );
        let verdicts: Vec<Change> = now.against(&before).map(|(.., change)| change).collect();
        assert!(matches!(verdicts[..], [Change::Same(_), Change::Rose(_), Change::Fell(_), Change::Missing]));
    }
}
