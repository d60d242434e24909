//! Fuzzer input as a trace of operations.

use super::ops::{Op, Order, PodUpdate, Prompt, Told};
use crate::{EventSemantics, Tier};

/// A trace from any bytes, for fuzzing.
#[must_use]
pub fn decode(bytes: &[u8]) -> Vec<Op> {
    let mut bytes = bytes.iter().copied();
    let mut next = move || bytes.next();
    let mut ops = Vec::new();
    while let Some(op) = decode_op(&mut next) {
        ops.push(op);
        if ops.len() == 200 {
            break;
        }
    }
    ops
}

fn decode_op(next: &mut impl FnMut() -> Option<u8>) -> Option<Op> {
    Some(match next()? % 16 {
        0 => Op::Join(next()?),
        1 => Op::Retire(next()?),
        2 => Op::Sweep(next()?),
        3..=8 => Op::Apply(next()?, decode_source(next()?), decode_change(next)?),
        9 | 10 => {
            let (pod, incarnation, sequence, skip_gap) = (next()?, next()?, next()?, next()?);
            let count = next()? % 4;
            let events = (0..count).map(|_| decode_change(next)).collect::<Option<_>>()?;
            Op::Batch(pod, incarnation, sequence, skip_gap % 4 == 0, events)
        }
        11 | 12 => {
            let (pod, count) = (next()?, next()?);
            let mut item = || Some((decode_prompt(next)?, next()?, decode_tier(next()?), next()?));
            let items = (0..count % 4).map(|_| item()).collect::<Option<_>>()?;
            // The upper half of the byte is a number, or says that there is none.
            if count < 128 { Op::Reconcile(pod, items) } else { Op::Inventory(pod, count >> 2, next()?, items) }
        }
        13 => {
            // The upper half of the pod's byte is how much of the prompt is left out.
            let pod = next()?;
            Op::Speculate(pod, decode_prompt(next)?, pod.saturating_sub(127), next()?)
        }
        14 => Op::Expire(next()?),
        _ => Op::Restart,
    })
}

fn decode_change(next: &mut impl FnMut() -> Option<u8>) -> Option<PodUpdate> {
    let kind = next()?;
    if kind % 16 == 0 {
        return Some(PodUpdate::Cleared);
    }
    let (prompt, from, to, tier) = (decode_prompt(next)?, next()?, next()?, decode_tier(next()?));
    Some(if kind % 2 == 0 {
        let order = match kind >> 5 & 3 {
            2 => Order::HeadFirst,
            3 => Order::Scattered,
            _ => Order::TailFirst,
        };
        PodUpdate::Removed(prompt, from, to, tier, order)
    } else {
        PodUpdate::Stored(prompt, from, to, tier, told(kind))
    })
}

fn told(kind: u8) -> Told {
    match kind >> 5 {
        3 => Told::Nothing,
        7 => Told::Lie,
        _ => Told::Parent,
    }
}

fn decode_prompt(next: &mut impl FnMut() -> Option<u8>) -> Option<Prompt> {
    let count = next()? % 4 + 1;
    (0..count).map(|_| Some((next()? % 3, next()? % 24))).collect()
}

fn decode_source(byte: u8) -> EventSemantics {
    if byte % 2 == 0 { EventSemantics::Membership } else { EventSemantics::Copies }
}

fn decode_tier(byte: u8) -> Tier {
    // Mostly one tier, or copies would hardly ever meet.
    *Tier::ALL.get(byte as usize % 12).unwrap_or(&Tier::Gpu)
}
