//! The flow control queue: bands of fair queues, with bounds, expiry and load shedding.

mod new_work;
mod shedding;
mod standing;
mod wait_state;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use self::standing::Standing;
use super::band::{Band, Item, Size};
use super::dispatch::WaitState;
use super::in_service::InService;
use super::order::Came;
use super::owed::Owed;
use super::rate::ServiceRate;
use super::{
    BandConfig, Charge, FlowConfig, FlowConfigError, FlowRequest, Shed, ShedReason, Taken, Ticket, Waited, Waiting,
};
use crate::program::ProgramTurn;

/// Requests that wait, each with whatever the host needs to go on with it.
///
/// Time is an argument, and nothing happens by itself: the host takes requests when pods have room, and
/// [expires](Self::expire) those that waited too long.
///
/// # Examples
///
/// ```
/// use std::time::Instant;
///
/// use routing_core::flow::{FlowConfig, FlowQueue, FlowRequest};
///
/// let (mut queue, now) = (FlowQueue::new(FlowConfig::default())?, Instant::now());
/// for (key, item) in [("noisy", "n1"), ("noisy", "n2"), ("quiet", "q1")] {
///     queue.push(FlowRequest::new(0, key, 100), item, now).ticket.expect("there is room");
/// }
/// // One of each in turn, whoever came first.
/// let mut order = Vec::new();
/// while let Some(ticket) = queue.next_ticket() {
///     order.push(queue.take(ticket, now).expect("it waits").item);
/// }
/// assert_eq!(order, ["n1", "q1", "n2"]);
/// # Ok::<(), routing_core::flow::FlowConfigError>(())
/// ```
pub struct FlowQueue<T> {
    config: FlowConfig,
    /// As configured.
    bands: Vec<Band<T>>,
    /// Their places, from the highest priority to the lowest.
    by_priority: Vec<usize>,
    owed: Owed,
    places: BTreeMap<u64, Place>,
    /// Those of one program that wait, by band, key and program, in the order in which they go.
    siblings: BTreeMap<(usize, Arc<str>, u64), Vec<u64>>,
    /// When tickets expire.
    expiries: BTreeSet<(Instant, u64)>,
    rates: Vec<ServiceRate>,
    in_service: InService,
    size: Size,
    next: u64,
    /// Ranks count from here.
    origin: Option<Instant>,
}

/// Where a ticket's request is.
#[derive(Clone, Debug)]
struct Place {
    band: usize,
    key: Arc<str>,
    rank: u64,
    expires: Instant,
    state: WaitState,
    /// Where it is by its program's attained service, once that is known and the order goes by it.
    standing: Option<Standing>,
    program: Option<ProgramTurn>,
}

/// What became of a request that was put into the queue.
#[derive(Debug)]
#[non_exhaustive]
pub struct Pushed<T> {
    /// Its ticket, or why it does not wait.
    pub ticket: Result<Ticket, Shed<T>>,
    /// Those that made room for it.
    pub displaced: Vec<Shed<T>>,
}

impl<T> FlowQueue<T> {
    /// An empty queue.
    ///
    /// # Errors
    ///
    /// With every fault of the settings.
    pub fn new(config: FlowConfig) -> Result<Self, FlowConfigError> {
        config.check()?;
        let mut config = config;
        if config.bands.is_empty() {
            config.bands.push(BandConfig::new("default"));
        }
        let mut by_priority: Vec<usize> = (0..config.bands.len()).collect();
        by_priority.sort_by_key(|&band| std::cmp::Reverse(config.bands[band].priority));
        Ok(Self {
            bands: config.bands.iter().map(|_| Band::default()).collect(),
            owed: Owed::new(config.bands.iter().map(|band| band.min_share)),
            rates: vec![ServiceRate::default(); config.bands.len()],
            by_priority,
            config,
            in_service: InService::default(),
            places: BTreeMap::new(),
            siblings: BTreeMap::new(),
            expiries: BTreeSet::new(),
            size: Size::default(),
            next: 0,
            origin: None,
        })
    }

    /// Lets a request wait. Where there is no room, it is shed, or others are.
    pub fn push(&mut self, request: FlowRequest, item: T, now: Instant) -> Pushed<T> {
        let ticket = self.next;
        self.next += 1;
        self.enter(ticket, request, item, now, now)
    }

    /// Takes a request that can go: it is charged to its key. None if it does not wait any more.
    pub fn take(&mut self, ticket: Ticket, now: Instant) -> Option<Taken<T>> {
        let Place { band, key, .. } = self.places.get(&ticket.0)?.clone();
        let waited_before: Vec<bool> = self.bands.iter().map(|band| !band.is_empty()).collect();
        let (item, _) = self.leave(ticket.0, true)?;
        self.owed.left(band, item.size.tokens, |at| waited_before[at]);
        if self.bands[band].is_empty() {
            self.owed.emptied(band);
        }
        self.rates[band].left(item.size.tokens, now);
        let weight = self.weight(&key);
        self.in_service.begin(&self.config.bands[band].name, &key, item.size.tokens, weight);
        let waited = now.saturating_duration_since(item.came);
        let charge = Charge { band: Arc::clone(&self.config.bands[band].name), key, tokens: item.size.tokens };
        Some(Taken { item: item.item, waited, charge })
    }

    /// A request that was taken is over, and took so many tokens: what its key was charged is corrected. To be said once of each, however
    /// it ended.
    pub fn served(&mut self, charge: &Charge, tokens: u64) {
        let band = self.config.bands.iter().position(|band| band.name == charge.band);
        if let Some(band) = band {
            let weight = self.weight(&charge.key);
            self.bands[band].correct(&charge.key, weight, charge.tokens, tokens);
        }
        self.in_service.end(&charge.band, &charge.key, charge.tokens);
    }

    /// Removes a request whose client left. None if it does not wait any more.
    pub fn remove(&mut self, ticket: Ticket) -> Option<T> {
        Some(self.leave(ticket.0, false)?.0.item)
    }

    /// Sheds a request that waited for too long, if there is one: call it until there is none.
    pub fn expire(&mut self, now: Instant) -> Option<Shed<T>> {
        let &(due, ticket) = self.expiries.first()?;
        if due > now { None } else { self.shed(ticket, ShedReason::Expired, now) }
    }

    /// Goes on with other settings. Requests keep their tickets and arrival times; those of a band that is gone wait in the one
    /// that its priority falls into. What does not fit any more is shed. Keys begin anew.
    ///
    /// # Errors
    ///
    /// With every fault of the settings; nothing changed then.
    pub fn reconfigure(&mut self, config: FlowConfig, now: Instant) -> Result<Vec<Shed<T>>, FlowConfigError> {
        let mut next = Self::new(config)?;
        (next.next, next.origin, next.in_service) = (self.next, self.origin, std::mem::take(&mut self.in_service));
        for (old, rate) in self.config.bands.iter().zip(&self.rates) {
            let same = next.config.bands.iter().position(|band| band.name == old.name);
            let band = same.unwrap_or_else(|| next.band_of(old.priority));
            next.rates[band] = *rate;
        }
        let mut shed = Vec::new();
        for ticket in self.places.keys().copied().collect::<Vec<_>>() {
            let trace = self.trace(Ticket(ticket), now);
            let Some((item, Place { band, key, program, .. })) = self.leave(ticket, false) else { continue };
            let BandConfig { name, priority, .. } = &self.config.bands[band];
            let same = next.config.bands.iter().position(|band| band.name == *name);
            let band = same.unwrap_or_else(|| next.band_of(*priority));
            let Item { item, size, prompt_tokens, came, deadline } = item;
            let (tokens, bytes) = (size.tokens, size.bytes);
            let request = FlowRequest { band, key, tokens, prompt_tokens, bytes, deadline, program, displaces: true };
            let Pushed { ticket, displaced } = next.enter(ticket, request, item, came, now);
            shed.extend(displaced);
            // It waited before.
            shed.extend(ticket.err().map(|shed| shed.traced(trace)));
        }
        *self = next;
        Ok(shed)
    }

    /// The requests in the order in which they are to be taken, if nothing keeps any of them.
    pub fn in_order(&self) -> impl Iterator<Item = Waiting<'_, T>> {
        let mut bands = self.by_priority.clone();
        bands.retain(|&band| !self.bands[band].is_empty());
        self.owed.sort(&mut bands);
        bands.into_iter().flat_map(move |band| {
            self.bands[band].keys_in_order().flat_map(move |(name, items)| {
                let ceiling = self.ceiling(band, name);
                items.map(move |(&(_, ticket), Item { item, came, .. })| Waiting {
                    ticket: Ticket(ticket),
                    item,
                    band,
                    ceiling,
                    came: *came,
                })
            })
        })
    }

    /// How full a key may make a pod.
    fn ceiling(&self, band: usize, key: &str) -> f32 {
        let BandConfig { name, ceiling, headroom, .. } = &self.config.bands[band];
        if self.owed.is_owed(band) {
            // What was promised does not depend on what others leave free.
            return 1.0;
        }
        let waiting = self.bands[band].waiting_keys();
        let is_heavy = *headroom > 0.0 && self.in_service.is_heavy(name, key, waiting);
        if is_heavy { ceiling * (1.0 - headroom) } else { *ceiling }
    }

    fn weight(&self, key: &str) -> f64 {
        self.config.weights.get(key).copied().unwrap_or(1.0)
    }

    /// The first of them.
    #[must_use]
    pub fn next_ticket(&self) -> Option<Ticket> {
        self.in_order().next().map(|waiting| waiting.ticket)
    }

    /// What was put into the queue with a ticket.
    #[must_use]
    pub fn item(&self, ticket: Ticket) -> Option<&T> {
        let Place { band, key, rank, .. } = self.places.get(&ticket.0)?;
        Some(&self.bands[*band].item(key, (*rank, ticket.0))?.item)
    }

    /// The band of requests of a priority.
    #[must_use]
    pub fn band_of(&self, priority: i32) -> usize {
        let bands = &self.config.bands;
        let found = self.by_priority.iter().find(|&&band| bands[band].priority <= priority);
        found.or(self.by_priority.last()).copied().unwrap_or(0)
    }

    /// When the next request expires.
    #[must_use]
    pub fn next_expiry(&self) -> Option<Instant> {
        Some(self.expiries.first()?.0)
    }

    /// When a request expires, if it waits.
    #[must_use]
    pub fn expiry(&self, ticket: Ticket) -> Option<Instant> {
        Some(self.places.get(&ticket.0)?.expires)
    }

    /// Requests that wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.size.requests
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.size.requests == 0
    }

    /// The settings, with at least one band.
    #[must_use]
    pub fn config(&self) -> &FlowConfig {
        &self.config
    }

    /// What waits of a band: requests, tokens and bytes.
    #[must_use]
    pub fn waiting(&self, band: usize) -> (usize, u64, u64) {
        let Size { requests, tokens, bytes } = self.bands.get(band).map(Band::size).unwrap_or_default();
        (requests, tokens, bytes)
    }

    /// The keys of a band that wait, with their requests and tokens.
    pub fn keys(&self, band: usize) -> impl Iterator<Item = (&Arc<str>, usize, u64)> {
        let keys = self.bands.get(band).into_iter().flat_map(Band::keys);
        keys.map(|(name, size)| (name, size.requests, size.tokens))
    }

    fn enter(&mut self, ticket: u64, request: FlowRequest, item: T, came: Instant, now: Instant) -> Pushed<T> {
        let mut request = request;
        request.band = request.band.min(self.bands.len() - 1);
        let size = Size { requests: 1, tokens: request.tokens, bytes: request.bytes };
        let mut displaced = Vec::new();
        match self.make_room(&request, size) {
            Ok(victims) => {
                displaced
                    .extend(victims.into_iter().filter_map(|victim| self.shed(victim, ShedReason::Displaced, now)));
            }
            Err(reason) => {
                let shed = self.turn_away(request, item, reason, now);
                return Pushed { ticket: Err(shed), displaced };
            }
        }
        let FlowRequest { band, key, prompt_tokens, deadline, program, .. } = request;
        let config = &self.config.bands[band];
        let end = came + config.time_to_live;
        let expires = deadline.map_or(end, |deadline| deadline.min(end));
        let rank =
            config.order.rank(*self.origin.get_or_insert(came), &Came { at: came, expires, new_tokens: prompt_tokens });
        let weight = self.weight(&key);
        if self.bands[band].is_empty() {
            self.rates[band].begins(now);
        }
        self.bands[band].insert(&key, weight, (rank, ticket), Item { item, size, prompt_tokens, came, deadline });
        self.size = self.size.plus(size);
        self.expiries.insert((expires, ticket));
        let state = WaitState { wants: None, decided: None, why: Waited::Behind, ahead: self.size.requests - 1 };
        self.places.insert(ticket, Place { band, key, rank, expires, state, standing: None, program });
        if program.is_some() {
            self.stand(ticket, program);
        }
        Pushed { ticket: Ok(Ticket(ticket)), displaced }
    }

    fn leave(&mut self, ticket: u64, is_served: bool) -> Option<(Item<T>, Place)> {
        let place = self.places.remove(&ticket)?;
        self.expiries.remove(&(place.expires, ticket));
        let Place { band, key, rank, .. } = &place;
        let item = self.bands[*band].remove(key, (*rank, ticket), is_served)?;
        self.size = self.size.minus(item.size);
        self.leave_siblings(ticket, &place);
        if self.bands[*band].is_empty() {
            self.rates[*band].ends();
            if !is_served {
                self.owed.emptied(*band);
            }
        }
        Some((item, place))
    }
}

impl<T> fmt::Debug for FlowQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bands = self.config.bands.iter().zip(&self.bands);
        f.debug_map().entries(bands.map(|(config, band)| (&config.name, band.size().requests))).finish()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::Instant;

    #[expect(clippy::disallowed_methods, reason = "some instant to count from; which one does not matter")]
    pub(crate) fn start() -> Instant {
        Instant::now()
    }
}
