//! Results folder: Markdown with machine and command, JSON, and charts.

use std::fmt::Write as _;
use std::io;
use std::path::Path;

use crate::options::Options;
use crate::plot::Plot;
use crate::results::{self, ResultTable};

/// Writes `results.md`, `results.json` and the plots; the folder is made if it is not there.
///
/// # Errors
///
/// When the folder or a file of it cannot be written.
pub fn write(folder: &Path, command: &str, options: &Options, tables: &[ResultTable]) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let mut page = header(command, options);
    page.push_str(&verdicts(tables));
    for table in tables {
        let _ = writeln!(page, "{}", table.markdown());
        for plot in Plot::of(table) {
            let file = format!("{}.svg", plot.name);
            std::fs::write(folder.join(&file), &plot.svg)?;
            let _ = writeln!(page, "![{}]({file})\n", plot.name);
        }
    }
    std::fs::write(folder.join("results.md"), page)?;
    std::fs::write(folder.join("results.json"), results::json(command, tables))
}

fn header(command: &str, options: &Options) -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let (cpu, seed, rounds) = (cpu_model(), options.seed, options.rounds);
    format!(
        "# Ours beside the peers\n\n- command: `{command}`\n- cores: {cores}\n- cpu: {cpu}\n- seed: {seed}\n\
         - rounds: {rounds}; figures are medians, with the least and the greatest in brackets\n\n"
    )
}

/// Targets and disagreements of all tables in one place, what was missed first.
fn verdicts(tables: &[ResultTable]) -> String {
    let all = || tables.iter().flat_map(|table| table.findings.iter().map(move |finding| (&*table.id, finding)));
    let missed = |finding: &str| finding.contains("MISSED");
    let target = |finding: &str| finding.starts_with("target:");
    let wrong = |finding: &str| finding.starts_with("DISAGREES") || finding.starts_with("REFUSES");
    let mut out = String::from("## Targets and answers\n\n");
    let mut list = |wanted: &dyn Fn(&str) -> bool| {
        for (id, finding) in all().filter(|(_, finding)| wanted(finding)) {
            let _ = writeln!(out, "- {id}: {finding}");
        }
    };
    list(&|finding| target(finding) && missed(finding));
    list(&|finding| target(finding) && !missed(finding));
    list(&wrong);
    out.push_str("\n## Tables\n\n");
    out
}

/// What the machine says it is.
fn cpu_model() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    model_in(&text).unwrap_or("unknown").to_owned()
}

fn model_in(cpuinfo: &str) -> Option<&str> {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"))?;
    line.split_once(':').map(|(_, model)| model.trim())
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[test]
    fn a_folder_holds_tables_json_and_pictures() {
        let folder = std::env::temp_dir().join(format!("pointsman-output-{}", std::process::id()));
        let options = Options::parse_from(["pointsman-compare"]);
        let mut table = ResultTable::new("writes", "Writes (ns)", ["event", "smg ÷ ours"]);
        table.rows.push(vec!["store".into(), 0.5.into()]);
        for finding in ["target: a: held", "DISAGREES: smg at 1", "target: b: MISSED, worst 0.50"] {
            table.findings.push(finding.to_owned());
        }
        write(&folder, "compare --quick", &options, &[table]).expect("a temporary folder can be written");
        let read = |name: &str| std::fs::read_to_string(folder.join(name)).expect("it was written");
        let page = read("results.md");
        assert!(page.contains("command: `compare --quick`") && page.contains("- seed: 1\n"), "{page}");
        let order = ["target: b: MISSED", "target: a: held", "DISAGREES", "## Tables", "writes_ratios.svg"];
        let at = order.map(|part| page.find(part).unwrap_or_else(|| panic!("no `{part}` in {page}")));
        assert!(at.is_sorted(), "{page}");
        assert!(read("results.json").contains("\"writes\""));
        assert!(read("writes_ratios.svg").starts_with("<svg"));
        std::fs::remove_dir_all(&folder).expect("it was made here");
    }

    #[test]
    fn the_model_is_read_from_cpuinfo() {
        assert_eq!(model_in("processor : 0\nmodel name\t: Xeon 9\nmodel name\t: Xeon 9"), Some("Xeon 9"));
        assert_eq!(model_in(""), None);
    }
}
