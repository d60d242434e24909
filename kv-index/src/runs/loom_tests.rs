//! A reader never sees half a change of a run.
//!
//! The reader is the spawned thread: loom remembers only the last access to an atomic, and a writer that loads
//! before it stores would hide an earlier load of a reader from it.

use loom::sync::Arc;
use loom::thread;

use super::*;
use crate::loom_tests::model;
use crate::pod::PodId;

fn set(pod: u16) -> SetId {
    SetId::of_one(PodId::new(pod))
}

#[test]
fn loom_a_run_is_read_whole_or_not_at_all() {
    model(|| {
        let (runs, sets) = (Arc::new(Runs::new()), Sets::<1>::new());
        let (one, two) = (BlockHash::new(1), BlockHash::new(2));
        let first = runs.push(&sets, None, one, set(1), Follow::Nothing).unwrap();
        let reader = {
            let runs = Arc::clone(&runs);
            thread::spawn(move || {
                let mut view = RunView::default();
                if !runs.read(first.run, &mut view) {
                    return;
                }
                let sets: Vec<_> = view.stretches().map(|s| (s.end, s.set)).collect();
                let whole = [
                    (1, one, vec![(1, set(1))]),
                    (2, two, vec![(1, set(1)), (2, set(2))]),
                    (2, two, vec![(1, set(3)), (2, set(2))]),
                    (1, one, vec![(1, set(3))]),
                ];
                assert!(whole.contains(&(view.len, view.last, sets.clone())), "{} {:?} {sets:?}", view.len, view.last);
            })
        };
        let second = runs.push(&sets, Some((first.run, one)), two, set(2), Follow::Nothing).unwrap();
        assert!(runs.set(&sets, first, set(3), None));
        runs.pop(second, Some(one));
        reader.join().unwrap();
        let mut view = RunView::default();
        assert!(runs.read(first.run, &mut view));
        assert_eq!((view.len, view.last), (1, one));
    });
}
