//! Decisions as lines, and a recording of them in a file: of each section its digest and its first lines.

use std::error::Error;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::Path;

use routing_core::{DecideError, Fleet, RoutingPlan};

/// Lines of each section that stand in the file; the digest stands for the others.
const VERBATIM: usize = 10;

const PREAMBLE: &str = "\
# What was decided; see main.rs. Of each section: how many lines there are, the FNV-1a digest of all, and the first ones.
# A step is: name role [pod score, …] held/blocks policy, *2 where the request went to the second pod.
";

/// What one profile decided.
pub(crate) struct Section {
    pub(crate) name: String,
    pub(crate) lines: Vec<String>,
}

impl Section {
    fn title(&self) -> String {
        format!("== {}: {} lines, {:016x}", self.name, self.lines.len(), digest(&self.lines))
    }
}

/// FNV-1a over lines and their ends.
fn digest(lines: &[String]) -> u64 {
    let bytes = lines.iter().flat_map(|line| line.bytes().chain([b'\n']));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

fn written(sections: &[Section]) -> String {
    let mut text = PREAMBLE.to_owned();
    for section in sections {
        let _ = writeln!(text, "\n{}", section.title());
        section.lines.iter().take(VERBATIM).for_each(|line| text.extend([line, "\n"]));
    }
    text
}

/// What whoever runs the test wants besides.
#[expect(clippy::disallowed_methods, reason = "a test is asked by its environment")]
fn wish(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

/// Panics where the file says otherwise, and says where first. Writes what the environment asks for.
pub(crate) fn hold_against(file: &Path, sections: &[Section]) {
    if let Some(whole) = wish("POINTSMAN_RECORD") {
        let lines: Vec<&str> = sections.iter().flat_map(|section| &section.lines).map(String::as_str).collect();
        std::fs::write(whole, lines.join("\n") + "\n").expect("POINTSMAN_RECORD names a file that can be written");
    }
    if wish("POINTSMAN_BLESS").is_some_and(|bless| bless == "1") {
        return std::fs::write(file, written(sections)).expect("the recording can be written");
    }
    let recorded = std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let mut differing = String::new();
    for section in sections {
        let title = format!("== {}: ", section.name);
        let mut known = recorded.lines().skip_while(|line| !line.starts_with(&title));
        if known.next() == Some(&section.title()) {
            continue;
        }
        let _ = writeln!(differing, "{}", section.name);
        let first = section.lines.iter().zip(known.take(VERBATIM)).find(|(now, then)| now != then);
        let _ = match first {
            Some((now, then)) => writeln!(differing, "  then: {then}\n  now:  {now}"),
            None => writeln!(differing, "  the digest differs, the first lines do not"),
        };
    }
    let sections_then = recorded.lines().filter(|line| line.starts_with("== ")).count();
    assert_eq!(sections_then, sections.len(), "profiles came or went; differing:\n{differing}");
    assert!(
        differing.is_empty(),
        "decided otherwise than recorded in {}:\n{differing}\
         POINTSMAN_RECORD=FILE writes all lines: do so at both revisions and compare the files. If the change is meant, \
         POINTSMAN_BLESS=1 records it.",
        file.display(),
    );
}

/// A plan as a line. Scores are written so that each reads back as the same number.
pub(crate) fn plan(plan: &RoutingPlan, fleet: &Fleet) -> String {
    let steps = plan.steps().iter().map(|step| {
        let candidates = step.candidates.iter().map(|candidate| {
            let name = fleet.pod(candidate.pod.id()).map_or("unknown", |info| &*info.name);
            format!("{name} {:?}", candidate.score)
        });
        let candidates: Vec<String> = candidates.collect();
        let held = step.cache.map_or("-".to_owned(), |cache| format!("{}/{}", cache.held, cache.blocks));
        format!("{} {:?} [{}] {held} {:?}", step.name, step.role, candidates.join(", "), step.on_failure)
    });
    steps.collect::<Vec<_>>().join(" | ")
}

/// Why there is no plan, as a line.
pub(crate) fn error(error: &DecideError) -> String {
    let causes = std::iter::successors(Some(error as &dyn Error), |&cause| cause.source());
    format!("error: {}", causes.map(ToString::to_string).collect::<Vec<_>>().join(": "))
}
