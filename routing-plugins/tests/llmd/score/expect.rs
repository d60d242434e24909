//! What a case expects: numbers, or relations between them.

use serde_json::Value;

use crate::case::{Case, close};

/// Whether scores are as a case expects them, whichever way it says so.
pub(crate) fn expect(case: &Case, found: &[f64]) -> Result<(), String> {
    expect_named(case, found, &[])
}

/// The same where endpoints have names, and scores may be told by them.
pub(crate) fn expect_named(case: &Case, found: &[f64], names: &[String]) -> Result<(), String> {
    let expected = case.expected.as_object().ok_or("unknown: expected is no map")?;
    for (key, value) in expected {
        match key.as_str() {
            "scores" | "after_framework_clamp" => close(found, &numbers(&listed(value, names)?), case.tolerance)?,
            "score" => close(found, &numbers(&vec![value.clone()].into()), case.tolerance)?,
            // Ours are brought into 0..=1 before anybody sees them, as theirs are before they count.
            "raw_scores" => close(found, &clamped(&listed(value, names)?), case.tolerance)?,
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

/// Scores by name in the order of the names; who is not there has none.
pub(crate) fn listed(scores: &Value, names: &[String]) -> Result<Value, String> {
    let Value::Object(scores) = scores else { return Ok(scores.clone()) };
    if let Some(odd) = scores.keys().find(|name| !names.contains(name)) {
        return Err(format!("unknown endpoint `{odd}` is expected"));
    }
    Ok(names.iter().map(|name| scores.get(name).cloned().unwrap_or("absent".into())).collect())
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

/// Whether `s0>s1`, `0<s2<0.3`, `s3==0.5` or `s0/s1==2` holds.
fn holds(relation: &str, found: &[f64]) -> Result<(), String> {
    let is_operator = |c: char| "<>=!".contains(c);
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
                "!=" => (left - right).abs() > 1e-6,
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
    if let Some((over, under)) = text.split_once('/') {
        return Some(operand(over.trim(), found)? / operand(under.trim(), found)?);
    }
    match text.strip_prefix('s') {
        Some(at) => found.get(at.parse::<usize>().ok()?).copied(),
        None => text.parse().ok(),
    }
}

#[test]
fn relations_are_read() {
    let found = [0.5, 0.2, 0.2];
    for relation in ["s0>s1", "0<s1<0.3", "s0==0.5", "s1<=s2", "s1 >= s2", "0 < s2 < s0 < 1", "s0!=s1", "s0/s1==2.5"] {
        assert_eq!(holds(relation, &found), Ok(()), "{relation}");
    }
    for relation in
        ["s1>s0", "0<s0<0.3", "s0==0.4", "s0<=s2", "s9>0", "s0", "s0~s1", "", "s0<>s1", "s1!=s2", "s0/s1==2", "s0/"]
    {
        assert!(holds(relation, &found).is_err(), "{relation}");
    }
}
