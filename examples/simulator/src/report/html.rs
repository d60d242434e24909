//! Self-contained HTML report: no network, light and dark, for screens, phones and paper.
//!
//! Invariant: every text of the run is escaped, and nothing is fetched.

use std::fmt::Write as _;

use pointsman_lab::html::escaped;
use pointsman_lab::plot::swatch;

use super::plots::Figure;
use super::table::{Cell, Column, PolicyTable};
use super::{ComparisonReport, RunSettings};
use crate::results::PolicyResult;

/// The page.
pub(crate) fn page(report: &ComparisonReport, figures: &[Figure]) -> String {
    let mut main = String::new();
    header(&mut main, &report.settings);
    if !report.results.is_empty() {
        let table = PolicyTable::of(&report.results);
        highlights(&mut main, &table);
        main.push_str("<section>\n<h2>Policies</h2>\n");
        rows(&mut main, &table, "policy", Marks::Lines);
        main.push_str("</section>\n");
    }
    gallery(&mut main, "Pictures", figures.iter().filter(|figure| !figure.sweep));
    if let Some(sweep) = &report.sweep {
        gallery(&mut main, &format!("Sweep of {}", sweep.name), figures.iter().filter(|figure| figure.sweep));
        let results: Vec<PolicyResult> = sweep.rows();
        main.push_str("<section>\n");
        rows(&mut main, &PolicyTable::of(&results), "value", Marks::None);
        main.push_str("</section>\n");
    }
    footer(&mut main, &report.settings);
    let title = escaped(&report.settings.title);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <meta name=\"color-scheme\" content=\"light dark\"/>\n<title>{title}</title>\n\
         <style>{STYLE}</style>\n</head>\n<body>\n<main>\n{main}</main>\n<script>{SCRIPT}</script>\n\
         </body>\n</html>\n"
    )
}

fn header(out: &mut String, settings: &RunSettings) {
    let _ = writeln!(out, "<header>\n<h1>{}</h1>", escaped(&settings.title));
    if !settings.values.is_empty() {
        out.push_str("<dl class=\"settings\">\n");
        for (name, value) in &settings.values {
            let _ = writeln!(out, "<div><dt>{}</dt><dd>{}</dd></div>", escaped(name), escaped(value));
        }
        out.push_str("</dl>\n");
    }
    out.push_str("</header>\n");
}

/// The best policies by the main metrics; nothing for a single policy.
fn highlights(out: &mut String, table: &PolicyTable) {
    let best = |name: &str, label: &str| {
        let column = table.columns.iter().find(|column| column.name == name)?;
        let who = column.cells.iter().zip(&table.policies).filter(|(cell, _)| cell.best);
        let who: Vec<(&Cell, &String)> = who.collect();
        let (cell, first) = who.first()?;
        let others = if who.len() > 1 { format!(" and {} more", who.len() - 1) } else { String::new() };
        let (value, unit) = (escaped(&cell.text), escaped(column.unit));
        let who = escaped(&format!("{first}{others}"));
        Some(format!("<div><span>{label}</span><b>{value} <small>{unit}</small></b><span>{who}</span></div>\n"))
    };
    let cards = [
        best("hit rate", "highest hit rate"),
        best("TTFT p99", "shortest TTFT p99"),
        best("inter-token p99", "shortest inter-token p99"),
        best("max/mean load", "most even load"),
    ];
    let cards: String = cards.into_iter().flatten().collect();
    if !cards.is_empty() {
        let _ = writeln!(out, "<section class=\"cards\">\n{cards}</section>");
    }
}

/// Whether rows have the samples of their lines.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Marks {
    Lines,
    None,
}

fn rows(out: &mut String, table: &PolicyTable, first: &str, marks: Marks) {
    out.push_str("<div class=\"scroll\">\n<table>\n<thead>\n<tr>");
    let _ = write!(out, "<th scope=\"col\">{first}</th>");
    for Column { name, unit, about, .. } in &table.columns {
        let _ = write!(
            out,
            "<th scope=\"col\" title=\"{}\">{}<small>{}</small></th>",
            escaped(about),
            escaped(name),
            escaped(unit)
        );
    }
    out.push_str("</tr>\n</thead>\n<tbody>\n");
    for (row, policy) in table.policies.iter().enumerate() {
        let mark = if marks == Marks::Lines { swatch(row) } else { String::new() };
        let _ = write!(out, "<tr><th scope=\"row\">{mark}{}</th>", escaped(policy));
        for column in &table.columns {
            let Cell { value, text, best } = &column.cells[row];
            let class = if *best { " class=\"best\"" } else { "" };
            let value = value.map(|value| format!(" data-value=\"{value}\"")).unwrap_or_default();
            let _ = write!(out, "<td{class}{value}>{}</td>", escaped(text));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody>\n</table>\n</div>\n");
    out.push_str("<p class=\"note\">The best of each column is marked; a click on a heading sorts by it.</p>\n");
    let terms = table
        .columns
        .iter()
        .map(|column| format!("<div><dt>{}</dt><dd>{}</dd></div>\n", escaped(&column.head()), escaped(column.about)));
    let terms: String = terms.collect();
    let _ = writeln!(
        out,
        "<details>\n<summary>What the columns mean</summary>\n<dl class=\"terms\">\n{terms}</dl>\n</details>"
    );
}

fn gallery<'a>(out: &mut String, title: &str, figures: impl Iterator<Item = &'a Figure>) {
    let figures: Vec<&Figure> = figures.collect();
    if figures.is_empty() {
        return;
    }
    let _ = writeln!(out, "<section>\n<h2>{}</h2>\n<div class=\"figures\">", escaped(title));
    for figure in figures {
        // Inside HTML an SVG needs no namespace.
        let picture = figure.picture.replace(" xmlns=\"http://www.w3.org/2000/svg\"", "");
        let caption = escaped(figure.caption);
        let _ = writeln!(
            out,
            "<figure id=\"{}\">\n<div class=\"scroll\">{picture}</div>\n<figcaption>{caption}</figcaption>\n</figure>",
            figure.name
        );
    }
    out.push_str("</div>\n</section>\n");
}

fn footer(out: &mut String, settings: &RunSettings) {
    if !settings.command.is_empty() {
        let command = escaped(&settings.command);
        let _ = writeln!(out, "<section>\n<h2>To reproduce</h2>\n<pre><code>{command}</code></pre>\n</section>");
    }
    out.push_str(
        "<footer>Time is virtual, except that of the router. Quantiles are at most 1/64 above the true ones. \
         The same figures are in report.json, and each picture in a file of its own.</footer>\n",
    );
}

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
