//! Load shedding of the queue: who makes room, and when to come again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::band::{Figure, Size};
use super::super::{BandConfig, FlowRequest, FlowTrace, Shed, ShedReason, Ticket};
use super::FlowQueue;

impl<T> FlowQueue<T> {
    /// How long a request of a band and key that takes so many tokens would wait, by what waits before it and what left lately: ten minutes
    /// at most. None where nothing is known.
    ///
    /// It goes once those above it are through, and no sooner than its own band gets to it with what those above leave, or with its share.
    /// Where nothing of its band leaves, that goes on for as long again.
    #[must_use]
    pub fn wait_estimate(&self, band: usize, key: &str, tokens: u64, now: Instant) -> Option<Duration> {
        let BandConfig { priority, min_share, .. } = *self.config.bands.get(band)?;
        let bands = || self.config.bands.iter().zip(&self.bands).zip(&self.rates);
        let above = bands().filter(|((config, _), _)| config.priority > priority);
        let above: u64 = above.map(|((_, band), _)| band.size().tokens).sum();
        // In turn with the others of its band, until they have none left.
        let waiting = self.bands[band].key_size(key);
        let (own, keys) = (waiting.tokens.saturating_add(tokens), self.bands[band].waiting_keys());
        let others = (keys + usize::from(waiting.requests == 0)) as u64;
        let beside = others.saturating_mul(own).min(self.bands[band].size().tokens.saturating_add(tokens));
        let rate = |from: &dyn Fn(i32) -> bool| -> f64 {
            bands().filter(|((config, _), _)| from(config.priority)).filter_map(|(_, rate)| rate.per_second(now)).sum()
        };
        let all = rate(&|_| true);
        let in_turn = above.saturating_add(beside) as f64 / all;
        // What leaves of those below would be its own.
        let of_own = self.rates[band].per_second(now).map(|_| beside as f64 / rate(&|other| other <= priority));
        let by_share = beside as f64 / (all * f64::from(min_share));
        let by_rate = of_own.map_or(in_turn, |of_own| in_turn.max(of_own)).min(by_share);
        let silence = self.rates[band].silence(now);
        let seconds = Some(by_rate).filter(|_| all > 0.0).unwrap_or(0.0).max(silence.as_secs_f64());
        (seconds > 0.0).then(|| Duration::try_from_secs_f64(seconds).unwrap_or(LONGEST_RETRY).min(LONGEST_RETRY))
    }

    /// Sheds a request that does not wait for room, since there is none. None if it does not wait any more.
    pub fn refuse(&mut self, ticket: Ticket, now: Instant) -> Option<Shed<T>> {
        self.shed(ticket.0, ShedReason::Saturated, now)
    }

    /// Who has to go for a request: nobody, mostly.
    pub(super) fn make_room(&self, request: &FlowRequest, size: Size) -> Result<Vec<u64>, ShedReason> {
        let FlowRequest { band, ref key, .. } = *request;
        let (own, limits) = (&self.bands[band], &self.config.bands[band].limits);
        if !size.fits(limits) || !size.fits(&self.config.limits) {
            return Err(ShedReason::TooLarge);
        }
        let least = own.key_size(key).plus(size);
        let fits_band = |freed: Size| own.size().minus(freed).plus(size).fits(limits);
        let fits_all = |freed: Size| self.size.minus(freed).plus(size).fits(&self.config.limits);
        let (mut victims, mut freed) = (Vec::new(), Size::default());
        if !fits_band(freed) {
            // Who has most of what there is too much of.
            let figure = Figure::exceeded(own.size().plus(size), limits);
            let tail = own.tail_of_largest(key, figure, least, fits_band).filter(|_| request.displaces);
            (victims, freed) = tail.ok_or(ShedReason::BandFull)?;
        }
        if fits_all(freed) {
            return Ok(victims);
        }
        if !request.displaces {
            return Err(ShedReason::QueueFull);
        }
        let lower = self.by_priority.iter().rev().take_while(|&&lower| lower != band);
        for (&(_, ticket), item) in lower.flat_map(|&lower| self.bands[lower].in_order().rev()) {
            victims.push(ticket);
            freed = freed.plus(item.size);
            if fits_all(freed) {
                return Ok(victims);
            }
        }
        let both = |freed: Size| fits_band(freed) && fits_all(freed);
        let figure = Figure::exceeded(self.size.plus(size), &self.config.limits);
        own.tail_of_largest(key, figure, least, both).map(|(victims, _)| victims).ok_or(ShedReason::QueueFull)
    }

    pub(super) fn shed(&mut self, ticket: u64, reason: ShedReason, now: Instant) -> Option<Shed<T>> {
        let trace = self.trace(Ticket(ticket), now)?;
        let band = self.places.get(&ticket)?.band;
        // While it waits: it counts among those before it.
        let retry_after = Some(self.retry_after(band, &trace.key, 0, now));
        let item = self.leave(ticket, false)?.0.item;
        Some(Shed { item, reason, band, retry_after, waited: trace.waited, trace })
    }

    /// A request does not get to wait.
    pub(super) fn turn_away(&self, request: FlowRequest, item: T, reason: ShedReason, now: Instant) -> Shed<T> {
        let FlowRequest { band, key, tokens, .. } = request;
        // However few are waiting, it is as large when it comes again.
        let helps = reason != ShedReason::TooLarge;
        let retry_after = helps.then(|| self.retry_after(band, &key, tokens, now));
        let name = Arc::clone(&self.config.bands[band].name);
        let trace = FlowTrace { ahead: self.size.requests, ..FlowTrace::passed(name, key) };
        Shed { item, reason, band, retry_after, waited: Duration::ZERO, trace }
    }

    fn retry_after(&self, band: usize, key: &str, tokens: u64, now: Instant) -> Duration {
        self.wait_estimate(band, key, tokens, now).unwrap_or(SHORTEST_RETRY).max(SHORTEST_RETRY)
    }
}

/// What clients are told at least, and at most, to wait before they come again.
const SHORTEST_RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_secs(600);
