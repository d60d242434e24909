//! Numbers as pictures: lines over something, bars, bars in small panels, ratios as dots beside the line 1.
//!
//! | module | idea |
//! |---|---|
//! | [`lines`] | a line a series, over a size, a time or a share |
//! | [`bars`] | a group for each column, in it a bar for each row |
//! | [`panels`] | many small bar charts on one scale |
//! | [`ratios`] | how many times ours |
//! | [`axis`] | what is drawn along an edge, and in which unit |
//! | [`picture`] | the result: a file of its own, or part of a page |
//!
//! Colours are told apart by the colour-blind and follow the reader's light or dark theme; no fonts, scripts or
//! other files are needed. The rule: what is not a finite number is not drawn, so that a picture is well-formed
//! whatever was measured ([`fault`] finds what is not).

pub mod axis;
pub mod bars;
mod labels;
pub mod lines;
pub mod panels;
pub mod picture;
pub mod ratios;
mod scale;
mod style;
mod svg;

pub use style::swatch;

/// What is wrong with a picture: markup that is not well-formed, a number that is none, a place outside of it.
/// For tests of whatever draws.
#[must_use]
pub fn fault(svg: &str) -> Option<String> {
    if let Some(fault) = crate::html::fault(svg) {
        return Some(fault);
    }
    let numbers = |name: &str| -> Vec<&str> {
        svg.split(&format!(" {name}=\"")).skip(1).filter_map(|part| part.split('"').next()).collect()
    };
    let view = numbers("viewBox").first().copied().unwrap_or_default();
    let view: Vec<f64> = view.split(' ').filter_map(|text| text.parse().ok()).collect();
    let &[_, _, width, height] = view.as_slice() else { return Some("a picture without a size".to_owned()) };
    let across = ["x", "x1", "x2", "cx"].map(|name| (name, width));
    let down = ["y", "y1", "y2", "cy", "height"].map(|name| (name, height));
    for (name, most) in across.into_iter().chain(down) {
        for text in numbers(name) {
            if !text.parse::<f64>().is_ok_and(|number| (0.0..=most).contains(&number)) {
                return Some(format!("{name} = {text} of {most}"));
            }
        }
    }
    let points = numbers("points").into_iter().flat_map(|points| points.split_whitespace());
    let within = |point: &str| {
        point.split_once(',').is_some_and(|(x, y)| {
            x.parse().is_ok_and(|x| (0.0..=width).contains(&x)) && y.parse().is_ok_and(|y| (0.0..=height).contains(&y))
        })
    };
    points.into_iter().find(|point| !within(point)).map(|point| format!("a line through {point}"))
}

#[cfg(test)]
mod tests;
