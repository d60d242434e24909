//! Free frames in the order in which they will be used again.
//!
//! A *frame* is a place in a pod's memory that holds one block. Frames leave the queue at its front, least
//! recently used first, or from the middle when a request reuses what they hold. Every operation takes the same
//! time, however many frames there are.

/// The number of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Frame(u32);

impl Frame {
    /// The number, for arrays by frame.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The queue of free frames: a circle of links through a sentinel, one link per frame.
#[derive(Debug)]
pub struct FreeFrames {
    links: Vec<Link>,
    len: usize,
}

impl FreeFrames {
    /// A queue of all of `count` frames, in the order of their numbers.
    #[must_use]
    pub fn full(count: u32) -> Self {
        let circle = count + 1;
        let link = |i: u32| Link { before: (i + count) % circle, after: (i + 1) % circle };
        Self { links: (0..circle).map(link).collect(), len: count as usize }
    }

    /// Makes `frame` the next to be used.
    pub fn push_front(&mut self, frame: Frame) {
        self.insert_before(frame, self.links[self.sentinel()].after);
    }

    /// Makes `frame` the last to be used.
    pub fn push_back(&mut self, frame: Frame) {
        self.insert_before(frame, self.sentinel() as u32);
    }

    /// Takes the next frame to be used.
    pub fn pop_front(&mut self) -> Option<Frame> {
        let first = Frame(self.links[self.sentinel()].after);
        if self.len == 0 {
            return None;
        }
        self.remove(first);
        Some(first)
    }

    /// Takes out a frame that is in the queue.
    pub fn remove(&mut self, frame: Frame) {
        let Link { before, after } = self.links[frame.index()];
        self.links[before as usize].after = after;
        self.links[after as usize].before = before;
        self.len -= 1;
    }

    /// Frames in the queue.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether every frame is in use.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn sentinel(&self) -> usize {
        self.links.len() - 1
    }

    fn insert_before(&mut self, frame: Frame, after: u32) {
        let before = self.links[after as usize].before;
        self.links[frame.index()] = Link { before, after };
        self.links[before as usize].after = frame.0;
        self.links[after as usize].before = frame.0;
        self.len += 1;
    }
}

#[derive(Clone, Copy, Debug)]
struct Link {
    before: u32,
    after: u32,
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;
    use pointsman_lab::SplitMix64;

    #[test]
    fn it_behaves_like_a_plain_queue() {
        let mut rng = SplitMix64::new(5);
        let mut queue = FreeFrames::full(40);
        let mut model: VecDeque<Frame> = (0..40).map(Frame).collect();
        let mut taken = Vec::new();
        for _ in 0..10_000 {
            match rng.below(4) {
                0 if !taken.is_empty() => {
                    let frame = taken.swap_remove(rng.below(taken.len()));
                    queue.push_back(frame);
                    model.push_back(frame);
                }
                1 if !taken.is_empty() => {
                    let frame = taken.swap_remove(rng.below(taken.len()));
                    queue.push_front(frame);
                    model.push_front(frame);
                }
                2 if !model.is_empty() => {
                    let frame = model.remove(rng.below(model.len())).unwrap();
                    queue.remove(frame);
                    taken.push(frame);
                }
                _ => {
                    let frame = queue.pop_front();
                    assert_eq!(frame, model.pop_front());
                    taken.extend(frame);
                }
            }
            assert_eq!((queue.len(), queue.is_empty()), (model.len(), model.is_empty()));
        }
    }
}
