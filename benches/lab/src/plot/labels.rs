//! Names beside dots, where there is room.

use super::svg::{Anchor, Place};

/// Where names may stand: within a frame, and not on each other or on a dot.
#[derive(Debug)]
pub(super) struct Labels {
    frame: Frame,
    taken: Vec<Frame>,
}

/// Left, top, right, bottom.
type Frame = (f64, f64, f64, f64);

impl Labels {
    /// Within these corners and away from these dots.
    pub(super) fn new((left, top): Place, (right, bottom): Place, dots: &[Place]) -> Self {
        let taken = dots.iter().map(|(x, y)| (x - 5.0, y - 5.0, x + 5.0, y + 5.0)).collect();
        Self { frame: (left, top, right, bottom), taken }
    }

    /// Where the name of a dot goes; none if there is no room for it.
    pub(super) fn place(&mut self, (x, y): Place, name: &str) -> Option<(Place, Anchor)> {
        let width = 6.7 * name.chars().count() as f64;
        let beside = [
            ((x + 9.0, y + 4.0), Anchor::Start, x + 8.0),
            ((x - 9.0, y + 4.0), Anchor::End, x - 8.0 - width),
            ((x, y - 9.0), Anchor::Middle, x - width / 2.0),
            ((x, y + 18.0), Anchor::Middle, x - width / 2.0),
            ((x + 4.0, y - 9.0), Anchor::End, x + 4.0 - width),
            ((x + 4.0, y + 18.0), Anchor::End, x + 4.0 - width),
        ];
        for (at, anchor, left) in beside {
            let frame = (left, at.1 - 10.0, left + width, at.1 + 3.0);
            let inside = frame.0 >= self.frame.0
                && frame.1 >= self.frame.1
                && frame.2 <= self.frame.2
                && frame.3 <= self.frame.3;
            if inside && !self.taken.iter().any(|other| overlap(frame, *other)) {
                self.taken.push(frame);
                return Some((at, anchor));
            }
        }
        None
    }
}

fn overlap(a: Frame, b: Frame) -> bool {
    a.0 < b.2 && b.0 < a.2 && a.1 < b.3 && b.1 < a.3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_do_not_stand_on_each_other() {
        let mut dots = vec![(50.0, 50.0), (52.0, 52.0), (95.0, 50.0), (53.0, 49.0), (51.0, 51.0)];
        dots.extend([(50.0, 51.0); 5]);
        let mut labels = Labels::new((0.0, 0.0), (100.0, 100.0), &dots);
        let found: Vec<bool> = dots.iter().map(|dot| labels.place(*dot, "name").is_some()).collect();
        assert!(found[0] && found[2], "{found:?}");
        assert!(found.contains(&false), "ten names do not fit there: {found:?}");
        for (at, frame) in labels.taken.iter().enumerate().skip(dots.len()) {
            assert!(labels.taken[..at].iter().all(|other| !overlap(*frame, *other)));
        }
    }
}
