//! What a case expects: numbers, or relations between them.

use serde_json::Value;

use super::super::case::{Case, close};

/// Whether scores are as a case expects them, whichever way it says so.
pub(crate) fn expect(case: &Case, found: &[f64]) -> Result<(), String> {
    let expected = case.expected.as_object().ok_or("expected is no map")?;
    for (key, value) in expected {
        match key.as_str() {
            "scores" | "after_framework_clamp" => close(found, &numbers(value), case.tolerance)?,
            // Ours are brought into 0..=1 before anybody sees them, as theirs are before they count.
            "raw_scores" => close(found, &clamped(value), case.tolerance)?,
            "relations" => {
                for relation in value.as_array().ok_or("relations are no list")? {
                    holds(relation.as_str().ok_or("a relation is no text")?, found)?;
                }
            }
            other => return Err(format!("unknown expectation `{other}`")),
        }
    }
    if expected.is_empty() { Err("nothing is expected".into()) } else { Ok(()) }
}

/// Left out of their map counts as nothing there, and as 0 here.
fn numbers(list: &Value) -> Value {
    each(list, |value| if value == "absent" { 0.0.into() } else { value.clone() })
}

fn clamped(list: &Value) -> Value {
    each(list, |value| value.as_f64().map_or(value.clone(), |number| number.clamp(0.0, 1.0).into()))
}

fn each(list: &Value, map: impl Fn(&Value) -> Value) -> Value {
    list.as_array().map_or(list.clone(), |list| list.iter().map(map).collect())
}

/// Whether `s0>s1`, `0<s2<0.3` or `s3==0.5` holds.
fn holds(relation: &str, found: &[f64]) -> Result<(), String> {
    let is_operator = |c: char| "<>=".contains(c);
    let mut rest = relation.trim();
    let mut left: Option<(f64, &str)> = None;
    loop {
        let end = rest.find(is_operator).unwrap_or(rest.len());
        let right = operand(rest[..end].trim(), found).ok_or(format!("unknown relation `{relation}`"))?;
        if let Some((left, operator)) = left {
            let true_ = match operator {
                ">" => left > right,
                "<" => left < right,
                ">=" => left >= right,
                "<=" => left <= right,
                "==" => (left - right).abs() <= 1e-6,
                _ => return Err(format!("unknown relation `{relation}`")),
            };
            if !true_ {
                return Err(format!("`{relation}` does not hold of {found:?}"));
            }
        }
        if end == rest.len() {
            return if left.is_some() { Ok(()) } else { Err(format!("unknown relation `{relation}`")) };
        }
        let after = end + rest[end..].find(|c| !is_operator(c)).unwrap_or(rest.len() - end);
        left = Some((right, &rest[end..after]));
        rest = &rest[after..];
    }
}

fn operand(text: &str, found: &[f64]) -> Option<f64> {
    match text.strip_prefix('s') {
        Some(at) => found.get(at.parse::<usize>().ok()?).copied(),
        None => text.parse().ok(),
    }
}

#[test]
fn relations_are_read() {
    let found = [0.5, 0.2, 0.2];
    for relation in ["s0>s1", "0<s1<0.3", "s0==0.5", "s1<=s2", "s1 >= s2", "0 < s2 < s0 < 1"] {
        assert_eq!(holds(relation, &found), Ok(()), "{relation}");
    }
    for relation in ["s1>s0", "0<s0<0.3", "s0==0.4", "s0<=s2", "s9>0", "s0", "s0~s1", "", "s0<>s1"] {
        assert!(holds(relation, &found).is_err(), "{relation}");
    }
}
