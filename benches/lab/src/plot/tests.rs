use super::*;
use crate::format::Unit;
use crate::html::fault;

fn check(svg: String) -> String {
    assert_eq!(fault(&svg), None);
    let elsewhere = svg.replace("http://www.w3.org/2000/svg", "");
    assert!(!elsewhere.contains("http"), "a chart needs nothing from elsewhere");
    assert!(!svg.contains("NaN"));
    svg
}

#[test]
fn lines_leave_out_what_is_no_number_and_what_is_outside() {
    let x = Axis::new("time to first token").unit(Unit::Micros).log(10.0);
    let y = Axis::new("share of requests").unit(Unit::Share).within(0.0, 1.0);
    let mut lines = LineChart::new("A <title> & \"more\"", x, y);
    lines.add("one & two", [(1_000.0, 0.0), (20_000.0, 0.5), (f64::NAN, 0.6), (0.0, 0.7), (1e6, 1.0), (1e6, 1.5)]);
    lines.add("nothing's there", []);
    let svg = check(lines.draw());
    assert!(svg.contains("A &lt;title&gt; &amp; &quot;more&quot;") && svg.contains("one &amp; two"), "{svg}");
    assert!(svg.contains("10 ms") && svg.contains("40%"), "{svg}");
    assert_eq!(svg.matches("<circle").count(), 3 + 2, "three points have a place, and two names a dot");
}

#[test]
fn many_points_are_thinned_and_many_lines_still_have_names() {
    let mut lines = LineChart::new("Many", Axis::new("x"), Axis::new("y"));
    for line in 0..30 {
        let points = (0..50_000).map(|at| (f64::from(at), f64::from(at * (line + 1) % 7_000)));
        lines.add(format!("a policy with a long name, number {line}"), points.take(if line == 0 { 50_000 } else { 5 }));
    }
    let svg = check(lines.draw());
    assert!(svg.contains("number 29\n</text>"));
    assert!(svg.len() < 200_000, "{} bytes", svg.len());
    let mut lines = LineChart::new("Flat", Axis::new("x"), Axis::new("y"));
    lines.add("flat", (0..50_000).map(|at| (f64::from(at), 1.0)));
    assert!(check(lines.draw()).len() < 20_000);
}

#[test]
fn pictures_of_nothing_are_well_formed() {
    for axis in [Axis::new(""), Axis::new("").log(10.0), Axis::new("").fitting()] {
        check(LineChart::new("", axis.clone(), axis.clone()).draw());
        let mut one = LineChart::new("", axis.clone(), axis);
        one.add("one", [(0.0, 0.0)]);
        check(one.draw());
    }
    check(BarChart::new("", Unit::Plain, []).draw());
    check(Panels::new("", Unit::Plain).draw());
    check(RatioPlot::new("", []).draw());
}

#[test]
fn a_fitting_axis_is_linear_where_a_value_is_zero() {
    let mut lines = LineChart::new("Sweep", Axis::new("weight").fitting(), Axis::new("y").fitting());
    lines.add("one", [(0.0, 5.0), (1.0, 4.0), (100.0, 3.0)]);
    assert_eq!(check(lines.draw()).matches("<circle").count(), 3 + 1, "the one at zero is drawn too");
}

#[test]
fn panels_share_a_scale_and_have_no_more_bars_than_pixels() {
    let mut panels = Panels::new("Busy", Unit::Share);
    panels.add("a", "even", [0.5, 0.5, f64::NAN, 0.5]);
    panels.add("b", "odd", [0.1, 1.0]);
    panels.add("none", "", []);
    let few = check(panels.draw()).matches("<rect").count();
    panels.add("crowd", "", (0..5_000).map(|pod| f64::from(pod) / 5_000.0));
    let svg = check(panels.draw());
    assert_eq!(few, 1 + 3 + 2, "the sheet, and a bar for each number");
    assert!(svg.matches("<rect").count() < 300, "no more bars than can be seen");
}

#[test]
fn bars_and_ratios_skip_what_is_missing() {
    let mut bars = BarChart::new("Memory", Unit::Plain, ["ours".to_owned(), "theirs".to_owned()]);
    bars.add("empty", [Some(0.0), None]);
    bars.add("full", [Some(114.0), Some(f64::INFINITY)]);
    // The sheet and two bars.
    assert_eq!(check(bars.draw()).matches("<rect").count(), 1 + 2);
    let mut ratios = RatioPlot::new("Ratios", ["a ÷ ours".to_owned()]);
    ratios.add("hit", [Some(2.0)]);
    ratios.add("miss", [Some(f64::NAN)]);
    // One, and one in the legend.
    assert_eq!(check(ratios.draw()).matches("<circle").count(), 1 + 1);
}
