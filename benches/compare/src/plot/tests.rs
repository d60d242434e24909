use super::*;
use crate::results::Value;
use pointsman_benches::measure::Spread;

fn check(svg: &str) {
    assert_eq!(pointsman_lab::html::fault(svg), None, "{svg}");
}

fn spread(value: f64) -> Value {
    Spread::of(vec![value * 0.9, value, value * 1.1]).into()
}

#[test]
fn ratios_are_dots_with_the_rows_names() {
    let mut table =
        ResultTable::new("search_7", "Search <fast> & \"right\"", ["pods", "query", "smg", "smg ÷ ours", "b ÷ ours"]);
    for (pods, ratio, other) in [(8usize, 0.5, 40.0), (64, 2.0, f64::NAN), (64, f64::INFINITY, 1.0)] {
        table.rows.push(vec![pods.into(), "hit".into(), spread(9.0), ratio.into(), other.into()]);
    }
    table.rows.push(vec![9usize.into(), "hit".into(), spread(9.0), 1.0.into(), Value::Missing]);
    let plots = Plot::of(&table);
    assert_eq!(plots.len(), 1);
    assert_eq!(plots[0].name, "search_7_ratios");
    let svg = &plots[0].svg;
    check(svg);
    assert!(svg.contains("Search &lt;fast&gt; &amp; &quot;right&quot;"));
    assert!(svg.contains("8 pods, hit") && svg.contains("b ÷ ours"));
    // Two and two finite ratios of five, and a dot a column in the legend.
    assert_eq!(svg.matches("<circle").count(), 5 + 2, "{svg}");
}

#[test]
fn sizes_are_drawn_as_lines_and_a_gap_ends_one() {
    let mut table =
        ResultTable::new("churn", "Churn (ns)", ["conversations", "events", "pointsman", "smg", "smg ÷ ours"]);
    for (size, ours, smg) in [(1_000usize, 2.0, Some(3.0)), (10_000, 2.5, Some(90.0)), (300_000, 3.0, None)] {
        for events in ["one", "all"] {
            let theirs = smg.map_or(Value::Missing, spread);
            table.rows.push(vec![size.into(), events.into(), spread(ours), theirs, smg.map(|smg| smg / ours).into()]);
        }
    }
    let plots = Plot::of(&table);
    assert_eq!(plots.iter().map(|plot| plot.name.as_str()).collect::<Vec<_>>(), ["churn", "churn_ratios"]);
    plots.iter().for_each(|plot| check(&plot.svg));
    let svg = &plots[0].svg;
    assert!(svg.contains("smg, all") && svg.contains("100k"), "{svg}");
    // A dot a point, and a line of the legend.
    assert_eq!(svg.matches("<circle").count(), 3 + 3 + 2 + 2 + 4, "{svg}");
}

#[test]
fn columns_of_other_kinds_get_pictures_of_their_own() {
    let mut table = ResultTable::new("threads", "Threads", ["threads", "system", "searches a second", "p99 (ns)"]);
    for threads in [1usize, 2, 4] {
        for system in ["pointsman", "smg"] {
            table.rows.push(vec![threads.into(), system.into(), (threads as f64 * 1e6).into(), spread(80.0)]);
        }
    }
    let plots = Plot::of(&table);
    let names: Vec<_> = plots.iter().map(|plot| plot.name.as_str()).collect();
    assert_eq!(names, ["threads_searches_a_second", "threads_p99_ns"]);
    plots.iter().for_each(|plot| check(&plot.svg));
}

#[test]
fn systems_are_drawn_as_bars_of_one_unit() {
    let mut table = ResultTable::new("memory", "Memory", ["system", "empty MB", "bytes a block", "filled MB"]);
    for (system, empty, filled) in [("pointsman", 0.0, 114.0), ("smg", 3.0, 128.0)] {
        table.rows.push(vec![system.into(), empty.into(), 99.0.into(), filled.into()]);
    }
    let plots = Plot::of(&table);
    assert_eq!(plots.len(), 1);
    check(&plots[0].svg);
    assert!(plots[0].svg.contains("filled MB") && !plots[0].svg.contains("bytes a block"));
}

#[test]
fn a_table_without_numbers_gives_no_picture_that_is_broken() {
    let mut table = ResultTable::new("t", "t", ["threads", "smg", "smg ÷ ours"]);
    assert_eq!(Plot::of(&table), []);
    table.rows.push(vec![1usize.into(), Value::Missing, Value::Missing]);
    Plot::of(&table).iter().for_each(|plot| check(&plot.svg));
}
