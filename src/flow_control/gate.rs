//! The gate of a router: its queue, who may pass, and who is let go when pods are further.

use std::cell::RefCell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::StatusCode;
use parking_lot::Mutex;
use routing_core::flow::{
    Charge, Dispatched, FlowConfig, FlowControl, FlowQueue, FlowRequest, FlowTrace, Pushed, Room, Shed, Ticket, Wanted,
};
use routing_core::{DecideError, PlanStep, PluginName, RoutingPlan, Trace};
use routing_plugins::load::Work;

use super::waiter::{Waiter, WaitingRequest};
use super::waiting_count::WaitingCount;
use super::{BandStatus, Decided, FlowClass, OpenCharge};
use crate::api_error::ApiError;
use crate::llm_request::LlmRequest;
use crate::open_turn::OpenTurn;
use crate::prompt_size::PromptSize;
use crate::reserved::Reserved;
use crate::router::{Live, RouteError, Router};

/// The requests that wait before a router.
pub(crate) struct Gate<const W: usize> {
    /// How many there are: while there are none, nobody locks.
    waiting: WaitingCount,
    state: Mutex<GateState<W>>,
}

struct GateState<const W: usize> {
    queue: FlowQueue<Arc<Waiter<W>>>,
    /// When it was last gone through.
    looked: Option<Instant>,
}

/// Whether a request waits for its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// As long as it may.
    Waits,
    /// Not at all: nobody is shed for it.
    NowOrNever,
}

impl<const W: usize> Gate<W> {
    pub(crate) fn new(config: FlowConfig) -> Self {
        let queue = FlowQueue::new(config).expect("settings were checked");
        Self { waiting: WaitingCount::new(), state: Mutex::new(GateState { queue, looked: None }) }
    }

    /// What an update changes: those that wait stay, as far as they fit.
    pub(crate) fn reconfigure(&self, config: FlowConfig, now: Instant) {
        let mut state = self.state.lock();
        let shed = state.queue.reconfigure(config, now).unwrap_or_default();
        self.waiting.set(state.queue.len());
        drop(state);
        shed.into_iter().for_each(wake_shed);
    }
}

impl<const W: usize> Router<W> {
    /// Decides about a request if nobody waits before it and its pods have room; if not, why.
    pub(crate) fn pass(
        &self,
        live: &Arc<Live<W>>,
        request: &LlmRequest,
        is_traced: bool,
        now: Instant,
    ) -> Result<Option<Decided<W>>, ApiError> {
        let mut trace = is_traced.then(Trace::default);
        let seen = request.request(self.name(), now);
        let Some(control) = &live.flow else {
            let excluded = request.excluded(&live.fleet, &[]);
            let plan = self.decide(live, &seen, excluded, trace.as_mut()).map_err(refused)?;
            let reserved = self.reserve(&plan, || self.prompt_size(&seen));
            let (live, turn) = (Arc::clone(live), OpenTurn::of(self, &plan));
            return Ok(Some(Decided { live, turn, plan, at: now, trace, flow: None, charge: None, reserved }));
        };
        let config = &control.config;
        // Who has how much in flight is kept by the queue, where it matters.
        let is_counted = config.bands.iter().any(|band| band.headroom > 0.0);
        if is_counted || self.gate().waiting.any() {
            return Ok(None);
        }
        let class = request.class();
        let (band, ceiling) = band_of(config, class.priority);
        let (prompt, reserved) = (self.prompt_size(&seen), RefCell::new(Reserved::default()));
        let has_room = |step: &PlanStep| {
            let Some(wanted) = Wanted::of(step) else { return true };
            let mut reserved = reserved.borrow_mut();
            // Held from the look to the reservation: who looks next sees it, whether it passes or is let go.
            let state = self.gate().state.lock();
            let has_room = state.queue.is_empty()
                && (reserved.has(wanted.pod) || control.has_room(&live.fleet, wanted.pod, ceiling, now))
                && control.admits(&live.fleet, &wanted, now);
            if has_room {
                reserved.add(step, prompt, self.block_size(), &self.plugin_state().load);
            }
            has_room
        };
        let excluded = request.excluded(&live.fleet, &[]);
        let decided = self.decide_with_room(live, &seen, excluded, &has_room, trace.as_mut());
        let mut reserved = reserved.into_inner();
        let error = match decided {
            Ok(plan) => {
                let flow = Some(FlowTrace::passed(band, class.key));
                let (live, turn) = (Arc::clone(live), OpenTurn::of(self, &plan));
                return Ok(Some(Decided { live, plan, at: now, trace, flow, charge: None, reserved, turn }));
            }
            Err(error) => error,
        };
        // Of several pods one had room, which others may have missed meanwhile.
        if reserved.clear() {
            self.pump();
        }
        if matches!(error, DecideError::NoRoom { .. }) { Ok(None) } else { Err(refused(error)) }
    }

    /// Lets a request wait.
    pub(crate) fn enqueue(
        &self,
        request: Arc<LlmRequest>,
        is_traced: bool,
        patience: Patience,
        now: Instant,
    ) -> Result<WaitingRequest<W>, ApiError> {
        let FlowClass { priority, key, deadline } = request.class();
        let size = self.prompt_size(&request.request(self.name(), now));
        let (prompt, output) = (size.tokens(), size.output());
        let bytes = request.kept_bytes();
        let waiter = Arc::new(Waiter::new(request, is_traced));
        let mut state = self.gate().state.lock();
        let band = state.queue.band_of(priority);
        let mut asked = FlowRequest::new(band, key, prompt.saturating_add(output)).prompt_tokens(prompt).bytes(bytes);
        asked.deadline = deadline;
        asked.displaces = patience == Patience::Waits;
        let Pushed { ticket, displaced, .. } = state.queue.push(asked, Arc::clone(&waiter), now);
        self.gate().waiting.set(state.queue.len());
        let ticket = ticket.map(|ticket| (ticket, state.queue.expiry(ticket).unwrap_or(now)));
        drop(state);
        displaced.into_iter().for_each(wake_shed);
        let (ticket, expires) = ticket.map_err(|shed| shed_error(&shed))?;
        Ok(WaitingRequest { router: self.clone(), waiter, ticket, expires })
    }

    /// Lets those go that can, and sheds those that waited for too long. Cheap while nothing waits.
    pub(crate) fn pump(&self) {
        if !self.gate().waiting.any() {
            return;
        }
        let (live, now) = (self.live(), self.now());
        let all_have_room = || Arc::new(FlowControl::new(FlowConfig::default()));
        let control = live.flow.clone().unwrap_or_else(all_have_room);
        // Woken once the queue is not locked any more.
        let mut woken: Vec<(Arc<Waiter<W>>, Result<Decided<W>, ApiError>)> = Vec::new();
        let mut state = self.gate().state.lock();
        state.looked = Some(now);
        while let Some(shed) = state.queue.expire(now) {
            let error = shed_error(&shed);
            woken.push((shed.item, Err(error)));
        }
        // Somebody else's request may be decided here: what panics fails that one alone.
        let decide = |waiter: &Arc<Waiter<W>>, room: &Room<'_, W>| {
            let decided = catch_unwind(AssertUnwindSafe(|| self.decide_waiting(&live, waiter, room, now)));
            decided.unwrap_or_else(|_| Err(panicked(&live.profile)))
        };
        while let Some(dispatched) = state.queue.dispatch(&control, &live.fleet, now, decide) {
            match dispatched {
                Dispatched::Goes { taken, mut decided, trace, .. } => {
                    let charge = OpenCharge::new(self.clone(), taken.charge);
                    (decided.flow, decided.charge) = (Some(trace), Some(charge));
                    woken.push((taken.item, Ok(decided)));
                }
                Dispatched::Fails { item, error, .. } => woken.push((item, Err(refused(error)))),
                _ => break,
            }
        }
        self.gate().waiting.set(state.queue.len());
        drop(state);
        woken.into_iter().for_each(|(waiter, outcome)| waiter.wake(outcome));
    }

    /// The same, where nobody did for a while.
    pub(super) fn look(&self) {
        let (now, state) = (self.now(), self.gate().state.try_lock());
        let is_recent = |at: Instant| now.saturating_duration_since(at) < LOOKED;
        let is_due = state.is_some_and(|state| {
            !state.looked.is_some_and(is_recent) || state.queue.next_expiry().is_some_and(|expiry| expiry <= now)
        });
        if is_due {
            self.pump();
        }
    }

    /// How long a request waits at most, as things stand; none if it does not wait.
    pub(super) fn waits_until(&self, ticket: Ticket) -> Option<Instant> {
        self.gate().state.lock().queue.expiry(ticket)
    }

    /// A request is gone.
    pub(super) fn forget(&self, ticket: Ticket) {
        let mut state = self.gate().state.lock();
        state.queue.remove(ticket);
        self.gate().waiting.set(state.queue.len());
    }

    /// A request that is to wait no longer is shed, if nothing became of it; none if something did.
    pub(super) fn refuse(&self, ticket: Ticket) -> Option<ApiError> {
        let mut state = self.gate().state.lock();
        let shed = state.queue.refuse(ticket, self.now())?;
        self.gate().waiting.set(state.queue.len());
        Some(shed_error(&shed))
    }

    /// A request that went is over, and took so many tokens.
    pub(crate) fn served(&self, charge: &Charge, tokens: u64) {
        self.gate().state.lock().queue.served(charge, tokens);
    }

    /// What waits, by band; of each as many keys as asked for, those with the most first. Nothing where there is no flow control.
    #[must_use]
    pub fn flow_status(&self, keys: usize) -> Vec<BandStatus> {
        if self.live().flow.is_none() {
            return Vec::new();
        }
        let state = self.gate().state.lock();
        let bands = state.queue.config().bands.iter().enumerate().map(|(at, band)| {
            let (requests, tokens, bytes) = state.queue.waiting(at);
            let mut by_key: Vec<_> = state.queue.keys(at).map(|(key, waiting, _)| (Arc::clone(key), waiting)).collect();
            by_key.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
            by_key.truncate(keys);
            let (name, priority) = (Arc::clone(&band.name), band.priority);
            BandStatus { name, priority, requests, tokens, bytes, keys: by_key }
        });
        bands.collect()
    }

    /// The band of requests of a priority; none where there is no flow control.
    #[must_use]
    pub fn flow_band(&self, priority: i32) -> Option<Arc<str>> {
        self.live().flow.as_ref().map(|flow| band_of(&flow.config, priority).0)
    }

    fn decide_waiting(
        &self,
        live: &Arc<Live<W>>,
        waiter: &Waiter<W>,
        room: &Room<'_, W>,
        now: Instant,
    ) -> Result<Decided<W>, DecideError> {
        // Not counted against itself.
        *waiter.queued.lock() = None;
        let request = &waiter.request;
        let mut trace = waiter.is_traced.then(Trace::default);
        let seen = request.request(self.name(), now);
        let has_room = |step: &PlanStep| room.admits(step);
        let excluded = request.excluded(&live.fleet, &[]);
        let decided = self.decide_with_room(live, &seen, excluded, &has_room, trace.as_mut());
        if let Some(wanted) = room.wanted() {
            let size = self.prompt_size(&seen);
            let work = Work::of(size.tokens()).held_blocks(wanted.held, self.block_size()).output(size.output());
            let state = self.plugin_state();
            let [load, queued] = [&state.load, &state.queued].map(|load| load.begin(wanted.pod, work));
            // In the order that they are let go: what waits is in the load as long as it is said to wait, or the pod would seem to have room.
            *waiter.queued.lock() = Some([queued, load]);
        }
        let plan = decided?;
        let reserved = Reserved::of(&plan, self.prompt_size(&seen), self.block_size(), &self.plugin_state().load);
        let (live, turn) = (Arc::clone(live), OpenTurn::of(self, &plan));
        Ok(Decided { live, plan, at: now, trace, flow: None, charge: None, reserved, turn })
    }

    /// Counts a plan of several pods towards their load, until its attempts begin. What goes to one is sent at once, and counts from then on.
    pub(crate) fn reserve(&self, plan: &RoutingPlan, prompt: impl FnOnce() -> PromptSize) -> Reserved<W> {
        match plan.steps().len() {
            0 | 1 => Reserved::default(),
            _ => Reserved::of(plan, prompt(), self.block_size(), &self.plugin_state().load),
        }
    }
}

impl<const W: usize> fmt::Debug for Gate<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.state.lock().queue.fmt(f)
    }
}

/// The band of a priority, with how full it may make a pod.
fn band_of(config: &FlowConfig, priority: i32) -> (Arc<str>, f32) {
    let below = config.bands.iter().filter(|band| band.priority <= priority).max_by_key(|band| band.priority);
    let found = below.or_else(|| config.bands.iter().min_by_key(|band| band.priority));
    found.map_or_else(|| ("default".into(), 1.0), |band| (Arc::clone(&band.name), band.ceiling))
}

fn panicked(profile: &Arc<str>) -> DecideError {
    let plugin = PluginName { step: Arc::clone(profile), plugin: "?".into() };
    DecideError::PluginPanicked { plugin, message: "while a request that waited was decided".into() }
}

fn refused(error: DecideError) -> ApiError {
    RouteError::from(error).into()
}

fn wake_shed<const W: usize>(shed: Shed<Arc<Waiter<W>>>) {
    let error = shed_error(&shed);
    shed.item.wake(Err(error));
}

/// What a client is told.
fn shed_error<T>(shed: &Shed<T>) -> ApiError {
    let Shed { reason, retry_after, trace, .. } = shed;
    let status = StatusCode::from_u16(reason.status()).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
    let when = retry_after.map_or_else(String::new, |time| format!("; try again in {} s", time.as_secs_f64().ceil()));
    let message = format!("all pods are busy and the request was shed: {reason}{when}");
    let (retry_after, shed) = (*retry_after, Some(Arc::new(trace.clone())));
    ApiError { retry_after, shed, ..ApiError::new(status, reason.name(), message) }
}

/// Somebody looked, if it was so lately.
const LOOKED: Duration = Duration::from_millis(25);
