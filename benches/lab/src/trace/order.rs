//! Arrival order of closed-loop requests: when a request is expected that waits for another's answer.
//!
//! A trace lists requests in the order of their arrival, but when a turn of a conversation comes depends on who
//! serves it. Its expected time is what it would be if an answer took [`ANSWER_US`] a token and nothing else took any
//! time. The rule: sorting by it never puts a turn before the one it waits for.

use super::{Request, Start, Trace};

/// Expected µs for a token of an answer.
///
/// What the two agent traces bear out: of the gaps between two turns, hardly one in twenty is shorter than 7.8 ms for
/// each token of the answer in between, in either, and none is shorter than 6.7 ms.
pub const ANSWER_US: u64 = 8_000;

impl Trace {
    /// The expected time of every request, in µs after the trace begins.
    #[must_use]
    pub fn expected(&self) -> Vec<u64> {
        expected(&self.requests)
    }

    /// The same requests at their expected times, waiting for nothing.
    #[must_use]
    pub fn opened(mut self) -> Self {
        let times = self.expected();
        for (request, at) in self.requests.iter_mut().zip(times) {
            request.start = Start::At(at);
        }
        self.requests = arrange(self.requests);
        self
    }
}

/// Expected µs that an answer takes.
pub(super) fn answer(tokens: u32) -> u64 {
    u64::from(tokens) * ANSWER_US
}

fn expected(requests: &[Request]) -> Vec<u64> {
    let mut times = Vec::<u64>::with_capacity(requests.len());
    for request in requests {
        times.push(match request.start {
            Start::At(at) => at,
            Start::After(before, think) => {
                let before = before as usize;
                times[before].saturating_add(answer(requests[before].output)).saturating_add(think)
            }
        });
    }
    times
}

/// Puts requests in the order of their expected times; those of one time stay as they are.
pub(super) fn arrange(mut requests: Vec<Request>) -> Vec<Request> {
    let times = expected(&requests);
    if times.is_sorted() {
        return requests;
    }
    let mut order: Vec<u32> = (0..requests.len() as u32).collect();
    order.sort_by_key(|&place| times[place as usize]);
    let mut moved = vec![0; order.len()];
    for (new, &old) in (0..).zip(&order) {
        moved[old as usize] = new;
    }
    let take = |&old: &u32| {
        let mut request = std::mem::take(&mut requests[old as usize]);
        if let Start::After(before, _) = &mut request.start {
            *before = moved[*before as usize];
        }
        request
    };
    order.iter().map(take).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(session: u32, start: Start) -> Request {
        Request { start, session, input: 1, output: 10, ids: vec![] }
    }

    #[test]
    fn turns_stand_where_they_are_expected() {
        let trace = Trace::new(
            16,
            vec![
                request(0, Start::At(0)),
                request(0, Start::After(0, 20_000)),
                request(0, Start::After(1, 0)),
                request(1, Start::At(50_000)),
                request(1, Start::After(3, 1_000_000)),
            ],
        );
        let starts: Vec<_> = trace.requests.iter().map(|request| (request.session, request.start)).collect();
        let expected = [
            (0, Start::At(0)),
            (1, Start::At(50_000)),
            (0, Start::After(0, 20_000)),
            (0, Start::After(2, 0)),
            (1, Start::After(1, 1_000_000)),
        ];
        assert_eq!(starts, expected);
        assert_eq!(trace.expected(), [0, 50_000, 100_000, 180_000, 1_130_000]);
        let opened = trace.clone().opened();
        assert!(!opened.is_closed() && opened.expected() == trace.expected());
    }
}
