//! Everything that is wrong with parameters, though a type ends at the first thing that it refuses.
//!
//! What is refused is taken out, and the rest tried again, until the type takes it or only complains of what is gone.

use super::refusal::Refusal;
use super::{Given, ParameterError};
use crate::path::Segment;
use crate::value::Value;

/// Everything that a check refuses, each with its path, in the order of paths.
pub(super) fn all(given: &Given, check: fn(&Given) -> Result<(), Refusal>) -> Vec<(Vec<Segment>, ParameterError)> {
    let Err(mut refusal) = check(given) else { return Vec::new() };
    let (mut rest, mut found, mut gone, mut meant) = (given.clone(), Vec::new(), Vec::new(), Vec::new());
    loop {
        let path = refusal.path();
        let whole = restored(&path, &gone);
        // What lacks only what was taken out, or is refused without it, may have been sound.
        let lacks = refusal.missing().map(|name| [&whole[..], &[Segment::Field(name.into())]].concat());
        let follows = match &lacks {
            Some(lacking) => gone.contains(lacking) || meant.contains(lacking),
            None => gone.iter().any(|gone: &Vec<Segment>| gone.starts_with(&whole)),
        };
        if !follows {
            let error = refusal.told_of(&whole);
            if let ParameterError::Unknown { suggestion: Some(name), .. } = &error {
                // That the one that was meant is missing is the same mistake.
                let around = &whole[..whole.len() - 1];
                meant.push([around, &[Segment::Field(name.clone())]].concat());
            }
            found.push((whole.clone(), error));
        }
        if path.is_empty() || found.len() >= MOST || !take_out(&mut rest, &path) {
            break;
        }
        gone.push(whole);
        match check(&rest) {
            Ok(()) => break,
            Err(next) => refusal = next,
        }
    }
    found.sort_by(|(a, _), (b, _)| a.cmp(b));
    found
}

/// Told of one plugin's parameters at most, since each is found by trying the rest again.
const MOST: usize = 32;

/// Takes what is at a path out of a map of values.
fn take_out(values: &mut Given, path: &[Segment]) -> bool {
    let [Segment::Field(name), inside @ ..] = path else { return false };
    match inside {
        [] => values.remove(&**name).is_some(),
        inside => values.get_mut(&**name).is_some_and(|value| take_out_of(value, inside)),
    }
}

fn take_out_of(value: &mut Value, path: &[Segment]) -> bool {
    match (value, path) {
        (Value::Map(values), path) => take_out(values, path),
        (Value::List(values), [Segment::Element(at)]) if *at < values.len() => {
            values.remove(*at);
            true
        }
        (Value::List(values), [Segment::Element(at), inside @ ..]) => {
            values.get_mut(*at).is_some_and(|value| take_out_of(value, inside))
        }
        _ => false,
    }
}

/// A path as it was before others were taken out: elements of lists have moved.
fn restored(path: &[Segment], gone: &[Vec<Segment>]) -> Vec<Segment> {
    let mut whole: Vec<Segment> = Vec::new();
    for segment in path {
        let Segment::Element(at) = segment else {
            whole.push(segment.clone());
            continue;
        };
        let of_this_list = |gone: &Vec<Segment>| match gone.split_last() {
            Some((Segment::Element(at), list)) if *list == whole[..] => Some(*at),
            _ => None,
        };
        let mut before: Vec<usize> = gone.iter().filter_map(of_this_list).collect();
        before.sort_unstable();
        let at = before.into_iter().fold(*at, |at, gone| at + usize::from(gone <= at));
        whole.push(Segment::Element(at));
    }
    whole
}
