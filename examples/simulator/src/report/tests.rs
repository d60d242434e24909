use pointsman_lab::SplitMix64;
use pointsman_lab::html::fault;
use serde_json::Value;

use super::table::{Cell, PolicyTable};
use super::*;
use crate::results::TimeBucket;
use pointsman_engine_sim::virtual_time::EngineTotals;

/// Made-up results that look like those of a run; `at` says how far from the best.
fn result(policy: &str, at: u64) -> PolicyResult {
    let mut rng = SplitMix64::new(at + 1);
    let mut uniform = || -> f64 { (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64 };
    let skill = 1.0 / (1.0 + 0.18 * at as f64);
    let mut result = PolicyResult { policy: policy.to_owned(), span_us: 1_830_000_000, ..PolicyResult::default() };
    for _ in 0..1_000 {
        result.ttft.record((55_000.0 / skill * (1.4 * (uniform() + uniform() + uniform() - 1.2)).exp()) as u64);
        result.between.record_many((9_000.0 + 9_000.0 * uniform() / skill) as u64, 120);
    }
    (result.requests, result.refused) = (1_000, at / 3);
    (result.prompt_tokens, result.output_tokens) = (32_000_000, 900_000);
    for moment in 1..=60u64 {
        let blocks_hit = (30_000.0 * (1.0 - (-(moment as f64) / 9.0).exp()) * skill.sqrt() * 0.56) as u64;
        let mean_load = 5.0 / skill * (0.9 + 0.2 * uniform());
        let most_load = (mean_load * (1.3 + uniform())) as u32;
        result.series.push(TimeBucket { at_us: moment * 30_000_000, blocks: 30_000, blocks_hit, mean_load, most_load });
    }
    result.blocks = result.series.iter().map(|at| at.blocks).sum();
    result.blocks_hit = result.series.iter().map(|at| at.blocks_hit).sum();
    result.blocks_known = result.blocks * 6 / 10;
    result.prefill_tokens = (32e6 * (1.0 - result.hit_rate())) as u64;
    for _ in 0..16 {
        let busy = 1.83e9 * (0.5 + 0.2 / skill * uniform()).min(1.0);
        result.pods.push(EngineTotals { requests: 62, busy_us: busy as u64, ..EngineTotals::default() });
    }
    (result.decisions, result.decision_ns) = (1_000, 1_000 * (900 + 310 * at));
    result
}

fn results(count: u64) -> Vec<PolicyResult> {
    (0..count).map(|at| result(&format!("policy {at}"), at)).collect()
}

fn report(results: Vec<PolicyResult>) -> ComparisonReport {
    let settings = RunSettings {
        title: "A run".to_owned(),
        command: "simulate --seed 7".to_owned(),
        values: vec![("seed", "7".to_owned()), ("pods", "16".to_owned())],
    };
    let points = (0..).zip([0.0, 0.5, 2.0, 8.0]);
    let points = points.flat_map(|(at, weight)| [(weight, result("split", at)), (weight, result("mixed", at + 1))]);
    let sweep = SweepResult { name: "prefix weight".to_owned(), unit: Unit::Plain, points: points.collect() };
    ComparisonReport { settings, results, sweep: Some(sweep) }
}

fn page(report: &ComparisonReport) -> String {
    html::page(report, &plots::all(report))
}

/// A cell of the terminal's table, by its column's name and its row.
fn read<'a>(table: &'a PolicyTable, column: &str, row: usize) -> &'a Cell {
    let found = table.columns.iter().find(|found| found.name == column);
    &found.unwrap_or_else(|| panic!("no column {column}")).cells[row]
}

#[test]
fn the_table_says_what_the_outcome_says() {
    let results = results(3);
    let table = PolicyTable::of(&results);
    for (row, result) in results.iter().enumerate() {
        let number = |column: &str| -> f64 { read(&table, column, row).text.replace(',', "").parse().expect("digits") };
        let near = |column: &str, truth: f64| {
            let said = number(column);
            assert!((said - truth).abs() <= 0.051 + 0.006 * truth, "{column}: {said} for {truth}");
        };
        near("hit rate", 100.0 * result.blocks_hit as f64 / result.blocks as f64);
        near("of bound", 100.0 * result.blocks_hit as f64 / result.blocks_known as f64);
        near("prefill", result.prefill_tokens as f64 / 1e6);
        for (column, share) in [("TTFT p50", 0.5), ("TTFT p90", 0.9), ("TTFT p99", 0.99)] {
            near(column, result.ttft.quantile(share).expect("some") / 1e3);
        }
        near("inter-token p99", result.between.quantile(0.99).expect("some") / 1e3);
        near("requests", result.requests as f64 / (result.span_us as f64 / 1e6));
        near("output", result.output_tokens as f64 / (result.span_us as f64 / 1e6));
        near("router", result.decision_ns as f64 / result.decisions as f64 / 1e3);
        near("refused", result.refused as f64);
        let busy = || result.pods.iter().map(|pod| pod.busy_us as f64);
        near("max/mean load", busy().fold(0.0, f64::max) / (busy().sum::<f64>() / 16.0));
    }
}

#[test]
fn the_best_is_marked_and_alike_are_marked_alike() {
    let mut results = results(4);
    // Alike in all that is printed.
    (results[0].decision_ns, results[1].decision_ns) = (900_000, 900_001);
    let table = PolicyTable::of(&results);
    let best = |column| (0..4).map(|row| read(&table, column, row).best).collect::<Vec<_>>();
    assert_eq!(best("hit rate"), [true, false, false, false]);
    assert_eq!(best("TTFT p99"), [true, false, false, false]);
    assert_eq!(best("router"), [true, true, false, false]);
    assert_eq!(best("refused"), [true, true, true, false]);
    assert_eq!(best("requests"), [false; 4], "all alike: no best");
    let best = read(&table, "hit rate", 0).text.clone();
    assert!(table::text(&results).contains(&format!("{best}*")));
    assert!(table::markdown(&results).contains(&format!("| **{best}** |")));
    assert!(page(&report(results)).contains(&format!(">{best}</td>")));
}

#[test]
fn tables_of_one_and_of_thirty_line_up() {
    for count in [0, 1, 30] {
        let mut results = results(count);
        if let Some(first) = results.first_mut() {
            first.policy = "a | b, with a name that is longer than others, and ünïcode".to_owned();
        }
        let text = table::text(&results);
        assert_eq!(text.lines().count() as u64, count + 3, "{text}");
        // Each column ends where its unit ends, but for the star's place.
        let unit = text
            .lines()
            .nth(1)
            .and_then(|line| line.find('%'))
            .map(|at| text.lines().nth(1).map(|l| l[..at].chars().count()));
        for line in text.lines().skip(3) {
            let cell = unit.flatten().and_then(|at| line.chars().nth(at));
            assert!(cell.is_some_and(|cell| cell.is_ascii_digit()), "{text}");
        }
        let markdown = table::markdown(&results);
        let bars = |line: &str| line.replace("\\|", "").matches('|').count();
        assert!(markdown.lines().all(|line| bars(line) == 18), "{markdown}");
    }
}

#[test]
fn what_was_not_measured_is_a_dash_in_tables_and_null_in_json() {
    let empty = vec![PolicyResult { policy: "nothing".to_owned(), ..PolicyResult::default() }];
    let table = PolicyTable::of(&empty);
    for column in ["hit rate", "of bound", "TTFT p50", "inter-token p99", "max/mean load", "router"] {
        assert_eq!(read(&table, column, 0).text, "–", "{column}");
    }
    let report = ComparisonReport { results: empty, ..ComparisonReport::default() };
    assert_eq!(plots::all(&report).len(), 0);
    let json = json::value(&report);
    assert_eq!(json["outcomes"][0]["ttft_us"]["p99"], Value::Null);
    assert_eq!(json["outcomes"][0]["share_of_bound"], Value::Null);
    assert_eq!(fault(&page(&report)), None);
}

#[test]
fn json_has_everything_under_its_name() {
    let report = report(results(2));
    let json: Value = serde_json::from_str(&json::text(&report)).expect("well-formed");
    assert_eq!(json["format"], 1);
    assert_eq!(json["settings"]["values"]["pods"], "16");
    assert_eq!(json["settings"]["command"], "simulate --seed 7");
    let (said, truth) = (&json["outcomes"][1], &report.results[1]);
    assert_eq!(said["policy"], "policy 1");
    assert_eq!(said["prefill_tokens"], truth.prefill_tokens);
    assert_eq!(said["hit_rate"], truth.hit_rate());
    for (name, share) in [("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99), ("p99_9", 0.999), ("max", 1.0)] {
        assert_eq!(said["ttft_us"][name].as_f64(), truth.ttft.quantile(share), "{name}");
        assert_eq!(said["inter_token_us"][name].as_f64(), truth.between.quantile(share), "{name}");
    }
    assert_eq!(said["series"][59]["blocks_hit"], truth.series[59].blocks_hit);
    assert_eq!(said["pods"][15]["busy_us"], truth.pods[15].busy_us);
    let steps = said["ttft_distribution"].as_array().expect("steps");
    assert!((50..=201).contains(&steps.len()), "{}", steps.len());
    assert_eq!(steps.last().map(|step| step[1].as_f64()), Some(Some(1.0)));
    assert_eq!(json["sweep"]["points"][7]["value"], 8.0);
    assert_eq!(json["sweep"]["points"][7]["outcome"]["policy"], "mixed");
}

#[test]
fn every_name_in_json_is_documented() {
    fn names<'a>(value: &'a Value, into: &mut Vec<&'a str>) {
        match value {
            Value::Object(map) => map.iter().for_each(|(name, value)| {
                into.push(name);
                names(value, into);
            }),
            Value::Array(values) => values.iter().take(1).for_each(|value| names(value, into)),
            _ => {}
        }
    }
    let mut report = report(results(1));
    report.settings.values.clear();
    let json = json::value(&report);
    let docs: String = include_str!("json.rs").lines().take_while(|line| line.starts_with("//!")).collect();
    let documented: Vec<&str> = docs.split(|char: char| !char.is_ascii_alphanumeric() && char != '_').collect();
    let mut found = Vec::new();
    names(&json, &mut found);
    assert!(found.len() > 40);
    for name in found {
        assert!(documented.contains(&name), "`{name}` is not documented");
    }
}

#[test]
fn pictures_are_well_formed_for_one_and_for_thirty() {
    for count in [1, 2, 30] {
        let report = report(results(count));
        let figures = plots::all(&report);
        assert_eq!(figures.len(), if count == 1 { 6 + 4 } else { 7 + 4 });
        for figure in &figures {
            assert_eq!(fault(&figure.picture), None, "{} of {count}", figure.name);
            if !figure.sweep {
                let last = format!("policy {}", count - 1);
                assert!(&figure.picture.contains(&last), "{} of {count}", figure.name);
            }
        }
    }
}

#[test]
fn a_picture_of_time_has_a_limited_number_of_points() {
    let mut long = result("long", 0);
    let moment = long.series[59];
    long.series = (1..=10_000).map(|at| TimeBucket { at_us: at * 1_000_000, ..moment }).collect();
    let report = ComparisonReport { results: vec![long], ..ComparisonReport::default() };
    for figure in plots::all(&report).iter().filter(|figure| figure.name.starts_with("load")) {
        let svg = &figure.picture;
        let lines = svg.split(" points=\"").skip(1).filter_map(|part| part.split('"').next());
        let most = lines.map(|line| line.split_whitespace().count()).max();
        assert!((50..=60).contains(&most.unwrap_or(0)), "{most:?} in {}", figure.name);
        assert!(svg.contains("virtual time, min"), "10,000 s read as minutes");
    }
}

#[test]
fn the_page_is_whole_and_needs_nothing_else() {
    let report = report(results(5));
    let page = page(&report);
    assert_eq!(fault(&page), None);
    for outside in ["http://", "https://", "src=", "href=", "@import", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
    for part in
        ["<h1>A run</h1>", "<dt>pods</dt><dd>16</dd>", "<code>simulate --seed 7</code>", "Sweep of prefix weight"]
    {
        assert!(page.contains(part), "{part}");
    }
    for figure in plots::all(&report) {
        assert!(page.contains(&format!("<figure id=\"{}\">", figure.name)), "{}", figure.name);
        assert!(figure.caption.len() > 60, "a caption says what to look for");
    }
    // Rows of the table, and of the sweep's.
    assert_eq!(page.matches("<th scope=\"row\">").count(), 5 + 8);
}

#[test]
fn text_of_a_run_cannot_become_markup() {
    let nasty = "<script>alert('x')</script> & \"more\"";
    let (title, command) = (nasty.to_owned(), nasty.to_owned());
    let settings = RunSettings { title, command, values: vec![(nasty, nasty.to_owned())] };
    let sweep = SweepResult { name: nasty.to_owned(), unit: Unit::Share, points: vec![(0.5, result(nasty, 0))] };
    let report = ComparisonReport { settings, results: vec![result(nasty, 0), result(nasty, 1)], sweep: Some(sweep) };
    let page = page(&report);
    assert_eq!(fault(&page), None);
    assert!(!page.contains("alert('x')"));
    assert_eq!(page.matches("<script>").count(), 1, "the page's own");
    plots::all(&report).iter().for_each(|figure| assert_eq!(fault(&figure.picture), None));
}

#[test]
fn a_report_is_written_and_says_so() {
    let folder = std::env::temp_dir().join(format!("pointsman-report-{}", std::process::id()));
    let report = report(results(2));
    let written = report.write_to(&folder.join("deep")).expect("a temporary folder can be written");
    assert_eq!(written.len(), 3 + 7 + 4);
    assert!(written[0].ends_with("report.html") && written.iter().any(|file| file.ends_with("ttft_cdf.svg")));
    assert!(written.iter().all(|file| file.metadata().is_ok_and(|data| data.len() > 100)));
    let tables = std::fs::read_to_string(folder.join("deep/table.md")).expect("written");
    assert!(tables.contains("| policy 1 |") && tables.contains("| mixed, prefix weight = 8 |"), "{tables}");
    // A file is in the way of the folder.
    let error = report.write_to(&written[0]).expect_err("a file is no folder");
    assert!(matches!(error, SimulateError::Folder(..)) && error.to_string().contains("report.html"), "{error}");
    std::fs::remove_dir_all(&folder).expect("it was made here");
}
