//! The literal model of flow control: a list, sorted anew each time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use routing_core::ProgramTurn;
use routing_core::flow::{FlowConfig, FlowOrder, FlowRequest, QueueLimits, ServiceLevels, ShedReason};

/// One that waits.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) ticket: u64,
    pub(crate) request: FlowRequest,
    came: Instant,
    expires: Instant,
    /// When it goes, by its program's attained service, once that is known, and when the request came that brought this turn.
    turn: Option<(Instant, Instant)>,
    /// Its program, and where it is among its requests.
    program: Option<(u64, Instant)>,
    /// Whether it was the last of its program.
    is_last: bool,
    /// Blocks that its pod holds, and that it has, by the last decision.
    held: (u64, u64),
}

#[derive(Clone, Debug, Default)]
struct Key {
    /// Tokens charged, 1,024 for each at weight 1.
    counter: u64,
    /// The ticket since which it waits.
    since: u64,
}

#[derive(Debug)]
pub(crate) struct Model {
    config: FlowConfig,
    pub(crate) waiting: Vec<Entry>,
    keys: BTreeMap<(usize, String), Key>,
    floors: Vec<u64>,
    /// Ten thousandths of tokens.
    owed: Vec<i64>,
    next: u64,
}

impl Model {
    pub(crate) fn new(config: FlowConfig) -> Self {
        let bands = config.bands.len();
        Self {
            config,
            waiting: Vec::new(),
            keys: BTreeMap::new(),
            floors: vec![0; bands],
            owed: vec![0; bands],
            next: 0,
        }
    }

    /// The tickets in order.
    pub(crate) fn order(&self) -> Vec<u64> {
        let turn = |entry: &&Entry| {
            let FlowRequest { band, key, .. } = &entry.request;
            let key = &self.keys[&(*band, key.to_string())];
            let priority = Reverse(self.config.bands[*band].priority);
            (Reverse(self.owed[*band].max(0)), priority, key.counter, key.since, self.rank(entry), entry.ticket)
        };
        let mut sorted: Vec<&Entry> = self.waiting.iter().collect();
        sorted.sort_by_key(turn);
        sorted.iter().map(|entry| entry.ticket).collect()
    }

    /// Who is shed for a request, and whether it is itself.
    pub(crate) fn push(&mut self, request: FlowRequest, now: Instant) -> (Vec<(u64, ShedReason)>, Option<ShedReason>) {
        let ticket = self.next;
        self.next += 1;
        let mut shed = Vec::new();
        match self.victims(&request) {
            Err(reason) => return (Vec::new(), Some(reason)),
            Ok(victims) => victims.iter().for_each(|victim| {
                self.leave(*victim);
                shed.push((*victim, ShedReason::Displaced));
            }),
        }
        let end = now + self.config.bands[request.band].time_to_live;
        let expires = request.deadline.map_or(end, |deadline| deadline.min(end));
        let floor = self.floors[request.band];
        let is_new = !self.waits(request.band, &request.key);
        let key = self.keys.entry((request.band, request.key.to_string())).or_default();
        if is_new {
            *key = Key { counter: key.counter.max(floor), since: ticket };
        }
        let program = request.program;
        self.waiting.push(Entry {
            ticket,
            request,
            came: now,
            expires,
            turn: None,
            program: None,
            is_last: false,
            held: (0, 1),
        });
        if program.is_some() {
            self.known(ticket, program);
        }
        (shed, None)
    }

    pub(crate) fn take(&mut self, ticket: u64) {
        let entry = self.waiting.iter().find(|entry| entry.ticket == ticket).unwrap().clone();
        let FlowRequest { band, key, tokens, .. } = &entry.request;
        let lowest = self.waiting.iter().filter(|other| other.request.band == *band);
        let lowest = lowest.map(|other| self.keys[&(*band, other.request.key.to_string())].counter).min().unwrap();
        let waiting = self.waiting.iter().filter(|other| other.request.band == *band).map(|other| &other.request.key);
        let weight = |key: &Arc<str>| ((self.weight(key) * 1_048_576.0) as u128).clamp(1, 1 << 40);
        let weights = waiting.collect::<BTreeSet<_>>().into_iter().map(weight).sum::<u128>();
        let shared = (u128::from(*tokens) * 1024 * 1_048_576 / weights) as u64;
        self.keys.get_mut(&(*band, key.to_string())).unwrap().counter += self.charge(key, *tokens);
        // Nobody who comes now is behind more than the next one's next request.
        let left = |other: &&Entry| other.request.band == *band && other.ticket != ticket;
        let turn = |other: &&Entry| {
            let key = &self.keys[&(*band, other.request.key.to_string())];
            (key.counter, key.since, self.rank(other), other.ticket)
        };
        let next = self.waiting.iter().filter(left).min_by_key(turn);
        let end = next.map_or(u64::MAX, |next| turn(&next).0 + self.charge(&next.request.key, next.request.tokens));
        self.floors[*band] = self.floors[*band].max(lowest).max(end.min(self.floors[*band] + shared.max(1)));
        for other in 0..self.owed.len() {
            let share = (f64::from(self.config.bands[other].min_share) * 10_000.0).round() as i64;
            self.owed[other] += share * *tokens as i64;
            if !self.waiting.iter().any(|entry| entry.request.band == other) {
                self.owed[other] = self.owed[other].min(0);
            }
        }
        if self.owed[*band] > 0 {
            self.owed[*band] -= 10_000 * *tokens as i64;
        }
        self.leave(ticket);
    }

    pub(crate) fn served(&mut self, band: usize, key: &str, charged: u64, served: u64) {
        let (more, less) = (self.charge(key, served), self.charge(key, charged));
        let floor = self.floors[band];
        let waits = self.waits(band, key);
        let others = self.waiting.iter().filter(|entry| entry.request.band == band && &*entry.request.key != key);
        let least =
            others.map(|entry| self.keys[&(band, entry.request.key.to_string())].counter).min().unwrap_or(floor);
        if let Some(known) = self.keys.get_mut(&(band, key.to_owned())) {
            // Who does not wait and is not ahead of others is not remembered, and begins with them.
            if waits || known.counter > floor {
                known.counter = (known.counter + more).saturating_sub(less).max(least.min(floor).min(known.counter));
            } else if served > charged {
                known.counter = floor + more - less;
            }
        } else if served > charged && self.waiting.iter().any(|entry| entry.request.band == band) {
            self.keys.insert((band, key.to_owned()), Key { counter: floor + more - less, since: 0 });
        }
    }

    pub(crate) fn expire(&mut self, now: Instant) -> Vec<u64> {
        let mut due: Vec<_> = self.waiting.iter().filter(|entry| entry.expires <= now).collect();
        due.sort_by_key(|entry| (entry.expires, entry.ticket));
        let due: Vec<u64> = due.iter().map(|entry| entry.ticket).collect();
        due.iter().for_each(|ticket| self.leave(*ticket));
        due
    }

    /// A request is known to be of a program, or of none: it has a turn by what that was served, and its program's turns go round.
    pub(crate) fn known(&mut self, ticket: u64, program: Option<ProgramTurn>) {
        let entry = self.waiting.iter_mut().find(|entry| entry.ticket == ticket).unwrap();
        let FlowOrder::AttainedService(levels) = self.config.bands[entry.request.band].order else { return };
        if entry.turn.is_some() {
            return;
        }
        let level = levels.level(program.map_or(0, |turn| turn.service));
        entry.turn = Some((entry.came + levels.aging * (level + 1), entry.came));
        let Some(program) = program else { return };
        let fewer = ServiceLevels::MOST - program.remaining.min(ServiceLevels::MOST);
        entry.program = Some((program.program, entry.came + levels.aging * fewer));
        let own = entry.clone();
        let mut siblings: Vec<&mut Entry> = self.waiting.iter_mut().filter(|entry| is_sibling(entry, &own)).collect();
        let mut turns: Vec<_> = siblings.iter().map(|entry| entry.turn).collect();
        turns.sort();
        siblings.sort_by_key(|entry| (entry.program.unwrap().1, entry.ticket));
        siblings.into_iter().zip(turns).for_each(|(entry, turn)| entry.turn = turn);
    }

    /// A request is known to have so many of its blocks on its pod.
    pub(crate) fn held(&mut self, ticket: u64, held: (u64, u64)) {
        self.waiting.iter_mut().find(|entry| entry.ticket == ticket).unwrap().held = held;
    }

    pub(crate) fn leave(&mut self, ticket: u64) {
        let at = self.waiting.iter().position(|entry| entry.ticket == ticket).unwrap();
        let own = self.waiting.remove(at);
        let band = own.request.band;
        let mut left: Vec<&mut Entry> = self.waiting.iter_mut().filter(|entry| is_sibling(entry, &own)).collect();
        if let ([last], FlowOrder::AttainedService(levels)) = (&mut left[..], self.config.bands[band].order) {
            if !std::mem::replace(&mut last.is_last, true) {
                last.turn = last.turn.map(|(turn, brought)| ((turn - levels.aging).max(brought), brought));
            }
        }
        if !self.waiting.iter().any(|entry| entry.request.band == band) {
            self.keys.retain(|(of, _), _| *of != band);
            self.floors[band] = 0;
            self.owed[band] = self.owed[band].min(0);
        }
    }

    fn victims(&self, request: &FlowRequest) -> Result<Vec<u64>, ShedReason> {
        let FlowRequest { band, .. } = request;
        let own = |without: &[u64], of: &dyn Fn(&Entry) -> bool, limits: &QueueLimits| {
            let stay = self.waiting.iter().filter(|entry| !without.contains(&entry.ticket) && of(entry));
            let all: Vec<_> = stay.map(|entry| &entry.request).chain([request]).collect();
            all.len() <= limits.requests
                && all.iter().map(|request| request.tokens).sum::<u64>() <= limits.tokens
                && all.iter().map(|request| request.bytes).sum::<u64>() <= limits.bytes
        };
        let limits = &self.config.bands[*band].limits;
        let fits_band = |without: &[u64]| own(without, &|entry| entry.request.band == *band, limits);
        let fits_all = |without: &[u64]| own(without, &|_| true, &self.config.limits);
        let everybody: Vec<u64> = self.waiting.iter().map(|entry| entry.ticket).collect();
        if !fits_band(&everybody) || !fits_all(&everybody) {
            return Err(ShedReason::TooLarge);
        }
        let mut victims = Vec::new();
        if !fits_band(&victims) {
            let waiting = self.waiting.iter().filter(|entry| entry.request.band == *band).count();
            let by_requests = waiting + 1 > limits.requests;
            let tail = self.tail(*band, request, by_requests, &fits_band).filter(|_| request.displaces);
            victims = tail.ok_or(ShedReason::BandFull)?;
        }
        if fits_all(&victims) {
            return Ok(victims);
        }
        if !request.displaces {
            return Err(ShedReason::QueueFull);
        }
        let priority = |band: usize| self.config.bands[band].priority;
        let mut lower: Vec<_> =
            self.order().into_iter().filter(|ticket| priority(self.band(*ticket)) < priority(*band)).collect();
        // From the lowest band up, each from its end.
        lower.reverse();
        lower.sort_by_key(|ticket| priority(self.band(*ticket)));
        for ticket in lower {
            victims.push(ticket);
            if fits_all(&victims) {
                return Ok(victims);
            }
        }
        let both = |without: &[u64]| fits_band(without) && fits_all(without);
        let by_requests = self.waiting.len() + 1 > self.config.limits.requests;
        self.tail(*band, request, by_requests, &both).ok_or(ShedReason::QueueFull)
    }

    /// The last of the key with the most, one after the other, while it has more than the newcomer's would.
    fn tail(
        &self,
        band: usize,
        request: &FlowRequest,
        by_requests: bool,
        suffice: &dyn Fn(&[u64]) -> bool,
    ) -> Option<Vec<u64>> {
        let key = &*request.key;
        let of = |name: &str| {
            let entries = self.waiting.iter().filter(|entry| entry.request.band == band && &*entry.request.key == name);
            entries.cloned().collect::<Vec<_>>()
        };
        let count = |request: &FlowRequest| if by_requests { 1 } else { request.tokens };
        let sum = |entries: &[Entry]| entries.iter().map(|entry| count(&entry.request)).sum::<u64>();
        let least = sum(&of(key)) + count(request);
        let keys = self.keys.iter().filter(|((in_band, name), _)| *in_band == band && !of(name).is_empty());
        let ((_, largest), _) = keys.max_by_key(|((_, name), known)| (sum(&of(name)), known.since))?;
        if largest == key {
            return None;
        }
        let mut entries = of(largest);
        entries.sort_by_key(|entry| (self.rank(entry), entry.ticket));
        let mut victims = Vec::new();
        while !entries.is_empty() && sum(&entries) > least {
            victims.push(entries.pop()?.ticket);
            if suffice(&victims) {
                return Some(victims);
            }
        }
        None
    }

    fn rank(&self, entry: &Entry) -> Instant {
        match self.config.bands[entry.request.band].order {
            FlowOrder::Deadline => entry.expires,
            FlowOrder::ShortestFirst => {
                let (prompt, (held, blocks)) = (entry.request.prompt_tokens, entry.held);
                entry.came + Duration::from_millis(prompt - prompt * held / blocks)
            }
            FlowOrder::AttainedService(levels) => {
                entry.turn.map_or(entry.came + levels.aging * (ServiceLevels::MOST + 1), |(turn, _)| turn)
            }
            _ => entry.came,
        }
    }

    fn charge(&self, key: &str, tokens: u64) -> u64 {
        (tokens as f64 * 1024.0 / self.weight(key)) as u64
    }

    fn weight(&self, key: &str) -> f64 {
        self.config.weights.get(key).copied().unwrap_or(1.0)
    }

    fn band(&self, ticket: u64) -> usize {
        self.waiting.iter().find(|entry| entry.ticket == ticket).unwrap().request.band
    }

    fn waits(&self, band: usize, key: &str) -> bool {
        self.waiting.iter().any(|entry| entry.request.band == band && &*entry.request.key == key)
    }
}

/// Whether two are of one program, as far as that is known.
fn is_sibling(entry: &Entry, other: &Entry) -> bool {
    let (a, b) = (&entry.request, &other.request);
    let program = |entry: &Entry| entry.program.map(|(program, _)| program);
    (a.band, &a.key) == (b.band, &b.key) && program(entry).is_some() && program(entry) == program(other)
}
