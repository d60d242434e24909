//! A population of programs: so many conversations at any time, each followed by another when it is over.

use std::collections::BTreeMap;

use super::{Request, Start, Trace, order};
use pointsman_test_support::SplitMix64;

impl Trace {
    /// The same conversations, so many at a time: the first of them begin one after the other, and each of the others when one before it has
    /// its last answer. What comes within a conversation comes as before, counted from its beginning.
    ///
    /// Since a conversation that takes longer keeps its place for longer, programs that are served twice as fast are twice as many in
    /// an hour: their time is a figure of throughput as well.
    #[must_use]
    pub fn with_population(self, programs: usize, seed: u64) -> Self {
        let times = self.expected();
        let sessions = sessions(&self.requests, &times);
        let mut rng = SplitMix64::new(seed ^ 0x9090);
        let mean = sessions.iter().map(Session::span).sum::<u64>() as f64 / sessions.len().max(1) as f64;
        // When each of them is over, as far as can be told, and its last request.
        let begin = |_| ((rng.next_f64() * mean * RAMP) as u64, None);
        let mut running: Vec<(u64, Option<u32>)> = (0..programs.max(1)).map(begin).collect();
        // One conversation after the other, so that nobody waits for a later place.
        let (mut requests, mut moved) = (Vec::with_capacity(times.len()), vec![0; times.len()]);
        for session in &sessions {
            let Some(over) = running.iter_mut().min_by_key(|(over, _)| *over) else { break };
            for &place in &session.places {
                let (at, mut request) = (place as usize, self.requests[place as usize].clone());
                request.start = match (request.start, over.1) {
                    (Start::After(before, think), _) => Start::After(moved[before as usize], think),
                    (Start::At(_), None) => Start::At(over.0 + times[at] - session.begins),
                    (Start::At(_), Some(last)) => Start::After(last, THINK + times[at] - session.begins),
                };
                moved[at] = requests.len() as u32;
                requests.push(request);
            }
            *over = (over.0 + session.span() + THINK, Some(moved[session.last as usize]));
        }
        Self { requests: order::arrange(requests), ..self }
    }

    /// Tokens of a conversation's context, in the mean over its requests and then over conversations: what a cache has to hold for each
    /// that is under way.
    #[must_use]
    pub fn mean_context(&self) -> f64 {
        let mut sums = BTreeMap::<u32, (f64, f64)>::new();
        for request in &self.requests {
            let (tokens, count) = sums.entry(request.session).or_default();
            *tokens += f64::from(request.input) + f64::from(request.output);
            *count += 1.0;
        }
        let of_all: f64 = sums.values().map(|(tokens, count)| tokens / count).sum();
        of_all / sums.len().max(1) as f64
    }
}

/// A conversation, by places in the trace.
struct Session {
    begins: u64,
    ends: u64,
    places: Vec<u32>,
    /// The one that is expected to be answered last.
    last: u32,
}

impl Session {
    fn span(&self) -> u64 {
        self.ends - self.begins
    }
}

/// Those of a trace, in the order in which they begin.
fn sessions(requests: &[Request], times: &[u64]) -> Vec<Session> {
    let (mut numbers, mut sessions) = (BTreeMap::<u32, usize>::new(), Vec::<Session>::new());
    for (place, (request, &at)) in (0..).zip(requests.iter().zip(times)) {
        let number = *numbers.entry(request.session).or_insert(sessions.len());
        if number == sessions.len() {
            sessions.push(Session { begins: at, ends: at, places: Vec::new(), last: place });
        }
        let session = &mut sessions[number];
        session.places.push(place);
        let answered = at.saturating_add(order::answer(request.output));
        if answered >= session.ends {
            (session.ends, session.last) = (answered, place);
        }
    }
    sessions
}

/// The first conversations begin within this share of the time that one takes.
const RAMP: f64 = 0.25;
/// µs between two conversations.
const THINK: u64 = 1_000_000;

#[cfg(test)]
mod tests {
    use super::super::synthetic::Synthetic;
    use super::*;

    #[test]
    fn so_many_are_under_way_at_any_time() {
        let trace = Synthetic::CodingAgents.trace(3_000, 1);
        let turns = |trace: &Trace| {
            let mut turns = BTreeMap::<u32, Vec<(u32, u32)>>::new();
            trace.requests.iter().for_each(|one| turns.entry(one.session).or_default().push((one.input, one.output)));
            turns
        };
        let (before, trace) = (turns(&trace), trace.with_population(8, 1));
        assert_eq!(turns(&trace), before, "what conversations are does not change");
        let times = trace.expected();
        assert!(times.is_sorted());
        let spans = sessions(&trace.requests, &times);
        let last = spans.iter().map(|session| session.begins).max().unwrap();
        let first = spans.iter().take(8).map(|session| session.begins).max().unwrap();
        for at in (1..20).map(|step| first + (last - first) * step / 20) {
            let running = spans.iter().filter(|one| one.begins <= at + THINK && one.ends > at).count();
            assert!((7..=9).contains(&running), "{running} at {at}");
        }
        assert!((20_000.0..90_000.0).contains(&trace.mean_context()), "{}", trace.mean_context());
    }
}
