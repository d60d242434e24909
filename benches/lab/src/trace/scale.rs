//! Scaling of traffic: another request rate, and more copies of it.

use super::id_map::IdMap;
use super::{Request, Start, Trace, order};
use pointsman_test_support::SplitMix64;

impl Trace {
    /// So many requests a second in the mean.
    ///
    /// Where no request waits for another, all times are stretched alike. Else conversations begin anew, in the order
    /// that they had, as if independently of each other (a Poisson process with exactly the mean that is asked for), so
    /// often that this many requests come while conversations begin; as there are none at first and some are left at
    /// the end, fewer come then. A rate that is not above 0 changes nothing, nor is anything changed where all
    /// requests come at once and none waits.
    #[must_use]
    pub fn at_rate(mut self, requests_per_second: f64, seed: u64) -> Self {
        let starts = self.starts();
        if !(requests_per_second > 0.0 && requests_per_second.is_finite()) || starts.is_empty() {
            return self;
        }
        let span = self.requests.len() as f64 / requests_per_second * 1e6;
        if self.is_closed() {
            let mut rng = SplitMix64::new(seed ^ 0x57A7);
            let mut sum = 0.0;
            let sums: Vec<f64> = starts.iter().map(|_| (sum += rng.exponential(1.0), sum).1).collect();
            for (&place, at) in starts.iter().zip(sums) {
                self.requests[place].start = Start::At((at / sum * span) as u64);
            }
        } else {
            let times = self.expected();
            let (first, whole) = (times[0], whole_span(&times));
            if times.first() == times.last() {
                return self;
            }
            for (request, at) in self.requests.iter_mut().zip(times) {
                request.start = Start::At(((at - first) as f64 * (span / whole)) as u64);
            }
        }
        self.requests = order::arrange(self.requests);
        self
    }

    /// The traffic and further copies of it, all in all so many, one after the other.
    ///
    /// A copy has other conversations about the same: ids that several conversations share stay, ids of one alone
    /// become new ones, so that a cache holds about the same share. Where requests wait for others, a copy's
    /// conversations begin in another order, by the seed.
    #[must_use]
    pub fn repeated(self, copies: usize, seed: u64) -> Self {
        let renaming = Renaming::new(&self);
        let starts = self.starts();
        let times: Vec<u64> = starts.iter().filter_map(|&place| at(&self.requests[place])).collect();
        let span = whole_span(&times) as u64;
        let sessions = self.requests.iter().map(|request| request.session + 1).max().unwrap_or(0);
        let (mut rng, closed, mut shuffled) = (SplitMix64::new(seed ^ 0xC0B1), self.is_closed(), starts);
        let mut requests = Vec::with_capacity(self.requests.len() * copies);
        for copy in 0..copies {
            let base = requests.len();
            requests.extend(self.requests.iter().map(|request| Request {
                start: match request.start {
                    Start::After(before, think) => Start::After(before + base as u32, think),
                    Start::At(at) => Start::At(at + span * copy as u64),
                },
                session: request.session + sessions * copy as u32,
                ids: request.ids.iter().map(|&id| renaming.of(id, copy)).collect(),
                ..*request
            }));
            if closed && copy > 0 {
                rng.shuffle(&mut shuffled);
                for (&place, at) in shuffled.iter().zip(&times) {
                    requests[base + place].start = Start::At(at + span * copy as u64);
                }
            }
        }
        Self { requests: order::arrange(requests), ..self }
    }

    /// Places of requests that wait for nobody.
    fn starts(&self) -> Vec<usize> {
        (0..self.requests.len()).filter(|&place| at(&self.requests[place]).is_some()).collect()
    }
}

fn at(request: &Request) -> Option<u64> {
    match request.start {
        Start::At(at) => Some(at),
        Start::After(..) => None,
    }
}

/// From the first time until one more would come; a second, where that cannot be told.
fn whole_span(times: &[u64]) -> f64 {
    match times {
        [first, .., last] if last > first => (last - first) as f64 / (times.len() - 1) as f64 * times.len() as f64,
        _ => 1e6,
    }
}

/// What ids are called in copies.
struct Renaming {
    /// By id, its number among those of one conversation alone, or else [`SHARED`].
    numbers: IdMap,
    /// How many are of one alone.
    alone: u64,
    /// The first id that nobody has.
    free: u64,
}

impl Renaming {
    fn new(trace: &Trace) -> Self {
        let (mut owners, mut numbers) = (IdMap::new(&trace.requests), IdMap::new(&trace.requests));
        let each = || trace.requests.iter().flat_map(|request| request.ids.iter().map(|&id| (id, request.session)));
        for (id, session) in each() {
            if *owners.get_or_set(id, || session) != session {
                numbers.get_or_set(id, || SHARED);
            }
        }
        let mut alone = 0;
        for (id, _) in each() {
            numbers.get_or_set(id, || (alone, alone += 1).0);
        }
        Self { numbers, alone: u64::from(alone), free: IdMap::end(&trace.requests) }
    }

    fn of(&self, id: u64, copy: usize) -> u64 {
        match (self.numbers.get(id), (copy as u64).checked_sub(1)) {
            (Some(number), Some(before)) if number != SHARED => self.free + before * self.alone + u64::from(number),
            _ => id,
        }
    }
}

const SHARED: u32 = u32::MAX - 1;
