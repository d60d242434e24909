//! Load shedding of the queue: who makes room, and when to come again.

use std::time::{Duration, Instant};

use super::super::band::{Figure, Size};
use super::super::{FlowRequest, Shed, ShedReason};
use super::{FlowQueue, Place};

impl<T> FlowQueue<T> {
    /// How long a request of a band and key that takes so many tokens would wait, by what waits before it and what left lately; none
    /// if nothing did.
    #[must_use]
    pub fn wait_estimate(&self, band: usize, key: &str, tokens: u64, now: Instant) -> Option<Duration> {
        let priority = self.config.bands.get(band)?.priority;
        let above = (0..self.bands.len()).filter(|&at| self.config.bands[at].priority > priority);
        let above: u64 = above.map(|at| self.bands[at].size().tokens).sum();
        // In turn with the others of its band, until they have none left.
        let own = self.bands[band].key_size(key).tokens.saturating_add(tokens);
        let others = (self.bands[band].waiting_keys() as u64).max(1).saturating_mul(own);
        let beside = others.min(self.bands[band].size().tokens.saturating_add(tokens));
        let rate =
            self.rates.iter().filter_map(|rate| rate.time_for(1 << 20, now)).map(|time| 1.0 / time.as_secs_f64());
        let rate: f64 = rate.sum::<f64>() * (1 << 20) as f64;
        let seconds = above.saturating_add(beside) as f64 / rate;
        (rate > 0.0).then(|| Duration::try_from_secs_f64(seconds).unwrap_or(LONGEST_RETRY).min(LONGEST_RETRY))
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
        let (item, Place { band, key, .. }) = self.leave(ticket, false)?;
        let request = FlowRequest::new(band, key, item.size.tokens);
        let retry_after = self.retry_after(&request, now);
        let waited = now.saturating_duration_since(item.came);
        Some(Shed { item: item.item, reason, band, retry_after, waited })
    }

    pub(super) fn retry_after(&self, request: &FlowRequest, now: Instant) -> Duration {
        let estimate = self.wait_estimate(request.band, &request.key, request.tokens, now);
        estimate.unwrap_or(SHORTEST_RETRY).clamp(SHORTEST_RETRY, LONGEST_RETRY)
    }
}

/// What clients are told at least, and at most, to wait before they come again.
const SHORTEST_RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_secs(600);
