use proptest::prelude::*;

use super::run::Stretch;
use super::*;
use crate::pod::PodId;

fn set(pod: u16) -> SetId {
    SetId::of_one(PodId::new(pod))
}

fn hash(n: usize) -> BlockHash {
    BlockHash::new(1_000 + n as u64)
}

/// What a run covers, block by block, and who still names it.
#[derive(Debug, Default)]
struct Literal {
    covered: Vec<SetId>,
    stale: usize,
    shut: bool,
}

fn agree(runs: &Runs, run: RunId, literal: &Literal) {
    let mut view = RunView::default();
    let read = runs.read(run, &mut view);
    assert_eq!(read, !literal.covered.is_empty());
    if read {
        assert_eq!(view.len, literal.covered.len());
        assert_eq!(view.last, hash(view.len - 1));
        let mut listed = Vec::new();
        for Stretch { end, set, .. } in view.stretches() {
            assert!(end > listed.len(), "no empty stretch");
            assert_ne!(listed.last(), Some(&set), "equal neighbours are one stretch");
            listed.resize(end, set);
        }
        assert_eq!(listed, literal.covered);
    }
}

proptest! {
    #[test]
    fn a_run_says_what_its_blocks_say(ops in prop::collection::vec((0u8..10, any::<u16>(), 1u16..4), 1..300)) {
        let (runs, sets) = (Runs::new(), Sets::<4>::new());
        let first = runs.push(&sets, None, hash(0), set(1), Follow::Nothing).unwrap();
        let run = first.run;
        let mut literal = Literal { covered: vec![set(1)], stale: 0, shut: false };
        for (op, at, pod) in ops {
            let len = literal.covered.len();
            if len == 0 {
                break;
            }
            let at = usize::from(at) % len;
            match op {
                0..=4 => {
                    let place = runs.push(&sets, Some((run, hash(len - 1))), hash(len), set(pod), Follow::Nothing).unwrap();
                    let grew = place.run == run;
                    if grew {
                        prop_assert_eq!(place.offset, len);
                        prop_assert!(!literal.shut, "a run that was cut never grows again");
                        literal.covered.push(set(pod));
                    } else {
                        runs.pop(place, None);
                    }
                }
                5..=7 => {
                    if runs.set(&sets, RunPlace { run, offset: at }, set(pod), (at > 0).then(|| hash(at - 1))) {
                        literal.covered[at] = set(pod);
                    } else {
                        // Too many stretches: cut here.
                        literal.stale += literal.covered.len() - at - 1;
                        literal.covered.truncate(at);
                        literal.shut = true;
                    }
                }
                8 => {
                    runs.pop(RunPlace { run, offset: len - 1 }, (len > 1).then(|| hash(len.saturating_sub(2))));
                    literal.covered.pop();
                }
                _ if at + 1 < len => {
                    runs.pop(RunPlace { run, offset: at }, (at > 0).then(|| hash(at - 1)));
                    literal.stale += len - at - 1;
                    literal.covered.truncate(at);
                    literal.shut = true;
                }
                _ => {}
            }
            prop_assert_eq!(runs.named(run.raw()) as usize, literal.covered.len() + literal.stale);
            if literal.covered.len() + literal.stale > 0 {
                agree(&runs, run, &literal);
            }
        }
    }
}

#[test]
fn an_id_comes_back_when_nobody_names_it() {
    let (runs, sets) = (Runs::new(), Sets::<4>::new());
    let a = runs.push(&sets, None, hash(0), set(1), Follow::Nothing).unwrap();
    let b = runs.push(&sets, Some((a.run, hash(0))), hash(1), set(1), Follow::Nothing).unwrap();
    assert_eq!((b.run, b.offset), (a.run, 1));
    runs.pop(a, None);
    let mut view = RunView::default();
    assert!(!runs.read(a.run, &mut view), "cut at its first block");
    assert_eq!(runs.len(), 1, "still named by the second");
    assert!(!runs.set(&sets, b, set(2), Some(hash(0))), "which it does not cover");
    assert_eq!(runs.len(), 0);
    assert_eq!(runs.push(&sets, None, hash(5), set(1), Follow::Nothing).unwrap().run, a.run);
}

#[test]
fn a_run_grows_only_behind_its_last_block() {
    let (runs, sets) = (Runs::new(), Sets::<4>::new());
    let a = runs.push(&sets, None, hash(0), set(1), Follow::Nothing).unwrap();
    runs.push(&sets, Some((a.run, hash(0))), hash(1), set(1), Follow::Nothing).unwrap();
    let branch = runs.push(&sets, Some((a.run, hash(0))), hash(7), set(1), Follow::Nothing).unwrap();
    assert_ne!(branch.run, a.run);
}

#[test]
fn a_run_ends_where_offsets_do() {
    let (runs, sets) = (Runs::new(), Sets::<4>::new());
    let mut tail = runs.push(&sets, None, hash(0), set(1), Follow::Nothing).unwrap();
    for n in 1..LONGEST + 5 {
        tail = runs.push(&sets, Some((tail.run, hash(n - 1))), hash(n), set(1), Follow::Nothing).unwrap();
    }
    assert_eq!(tail.offset, 4, "a second run began");
}
