//! How pictures look: eight colours that the colour-blind tell apart, then the same ones dashed; light and dark.

use std::fmt::Write as _;

/// Colours on a light sheet and on a dark one.
const COLOURS: [(&str, &str); 8] = [
    ("#0072b2", "#3b9be8"),
    ("#d55e00", "#f5803a"),
    ("#009e73", "#22c596"),
    ("#c8629c", "#e39cc6"),
    ("#d99000", "#f3bd3f"),
    ("#4fb0e8", "#a5dcff"),
    ("#7a7a7a", "#9a9a9a"),
    ("#1c1c1c", "#f2f2f2"),
];

/// Dashes as SVG says them.
const DASHES: [&str; 4] = ["", "7 4", "2 3", "11 3 2 3"];

/// The class of the `at`th thing's colour.
pub(super) fn colour(at: usize) -> String {
    format!("pm-c{}", at % COLOURS.len())
}

/// Dashes of the `at`th thing: those that share a colour differ in them.
pub(super) const fn dashes(at: usize) -> &'static str {
    DASHES[(at / COLOURS.len()) % DASHES.len()]
}

/// Dashes by their own number, where colours say something else.
pub(super) const fn dash(at: usize) -> &'static str {
    DASHES[at % DASHES.len()]
}

/// A sample of the `at`th line, to stand in a page's text beside the name.
#[must_use]
pub fn swatch(at: usize) -> String {
    format!(
        "<svg class=\"pm-swatch\" viewBox=\"0 0 26 10\" width=\"26\" height=\"10\" aria-hidden=\"true\">\
         <line x1=\"1\" y1=\"5\" x2=\"25\" y2=\"5\" class=\"{} pm-line\" stroke-dasharray=\"{}\"/></svg>",
        colour(at),
        dashes(at)
    )
}

/// The rules that the classes stand for. Without variables, which some viewers do not know.
pub(super) fn rules() -> String {
    let sheet = |sheet: &str, ink: &str, soft: &str, grid: &str, faint: &str| {
        format!(
            ".pm-sheet{{fill:{sheet}}}.pm-ink{{fill:{ink}}}.pm-soft{{fill:{soft}}}.pm-axis{{stroke:{ink}}}\
             .pm-grid{{stroke:{grid}}}.pm-faint{{stroke:{faint}}}.pm-mean{{stroke:{ink};stroke-dasharray:3 3}}"
        )
    };
    let mut out = sheet("#ffffff", "#1c1c1c", "#5a5a5a", "#dedede", "#f0f0f0");
    for (at, (light, _)) in COLOURS.iter().enumerate() {
        let _ = write!(out, ".pm-c{at}{{fill:{light};stroke:{light}}}");
    }
    out.push_str("@media (prefers-color-scheme:dark){");
    out.push_str(&sheet("#16181c", "#ececec", "#a9adb5", "#363a42", "#24272d"));
    for (at, (_, dark)) in COLOURS.iter().enumerate() {
        let _ = write!(out, ".pm-c{at}{{fill:{dark};stroke:{dark}}}");
    }
    out.push_str("}.pm-line{fill:none;stroke-width:2;stroke-linejoin:round}.pm-bar,.pm-dot{stroke:none}");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thirty_things_look_different() {
        let looks: std::collections::BTreeSet<_> = (0..30).map(|at| (colour(at), dashes(at))).collect();
        assert_eq!(looks.len(), 30);
        assert_eq!(crate::html::fault(&swatch(29)), None);
    }

    #[test]
    fn every_class_has_a_rule_in_both_themes() {
        let rules = rules();
        for at in 0..COLOURS.len() {
            assert_eq!(rules.matches(&format!(".{}{{", colour(at))).count(), 2, "{rules}");
        }
        assert_eq!(rules.matches('{').count(), rules.matches('}').count());
    }
}
