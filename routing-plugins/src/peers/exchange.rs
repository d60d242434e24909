//! Telling and hearing: a state's figures as a summary, and a peer's summary as figures of the state.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use kv_index::{Pod, PodId, PodSet};

use super::decisions::Notes;
use super::{FreshBlocks, GatewayId, PeerIgnored, PeerSummary, PodSummary, SummaryScope};
use crate::load::InFlight;
use crate::plugin_state::PluginState;

impl<const W: usize> PluginState<W> {
    /// What peers are to be told now; nothing, where only changes are wanted and there are none. From the first call on decisions are
    /// noted for it: call it now and then, or their notes are left out.
    ///
    /// What [waits before the router](Self::queued) was not sent, and is not told.
    #[must_use]
    pub fn tell_peers(&self, gateway: GatewayId, scope: SummaryScope, now: Instant) -> Option<PeerSummary> {
        let noted = self.peers.decisions.take(|notes| self.noted(scope, notes, now));
        let (pods, blocks) = noted?;
        // Relaxed: no more than a number that nobody else gets.
        let sequence = self.peers.sequence.fetch_add(1, Ordering::Relaxed) + 1;
        Some(PeerSummary { gateway, sequence, scope, pods, blocks })
    }

    fn noted(&self, scope: SummaryScope, notes: &Notes, now: Instant) -> Option<(Vec<PodSummary>, Vec<FreshBlocks>)> {
        if scope == SummaryScope::Changes && notes.decided.is_empty() {
            return None;
        }
        let (mut pods, mut places) = (Vec::new(), HashMap::new());
        let whole = (0..PodSet::<W>::CAPACITY).filter_map(|at| self.index.handle(PodId::new(at as u16)));
        let whole = whole.filter(|_| scope == SummaryScope::Whole);
        // Locked until all loads are read: what a peer tells meanwhile would be taken for one's own.
        let table = self.peers.table();
        let of_peers = table.in_flight();
        for pod in whole.chain(notes.decided.iter().map(|decided| decided.pod)) {
            if places.contains_key(&pod) {
                continue;
            }
            if let Some(summary) = self.summary_of(pod, of_peers.get(&pod)) {
                places.insert(pod, pods.len() as u16);
                pods.push(summary);
            }
        }
        drop(table);
        let (mut blocks, mut rest) = (Vec::new(), &notes.blocks[..]);
        for decided in &notes.decided {
            let (own, others) = rest.split_at(decided.blocks);
            rest = others;
            if let Some(&pod) = places.get(&decided.pod).filter(|_| !own.is_empty()) {
                let expires_in = decided.deadline.saturating_duration_since(now);
                blocks.push(FreshBlocks { pod, parent: decided.parent, blocks: own.to_vec(), expires_in });
            }
        }
        Some((pods, blocks))
    }

    fn summary_of(&self, pod: Pod, of_peers: Option<&InFlight>) -> Option<PodSummary> {
        let name = self.index.name(pod)?.into();
        let sent = self.load.in_flight_of(pod).without(&self.queued.in_flight_of(pod));
        let in_flight = of_peers.map_or(sent, |of_peers| sent.without(of_peers));
        Some(PodSummary { name, in_flight, queued_micros: self.prefill_queues.sent(pod) })
    }

    /// Takes what a peer told. `own` is one's own id.
    ///
    /// # Errors
    ///
    /// When it changes nothing; that is no fault of anybody's.
    pub fn hear_peer(&self, own: GatewayId, summary: &PeerSummary, now: Instant) -> Result<(), PeerIgnored> {
        if summary.gateway == own {
            return Err(PeerIgnored::Own);
        }
        let find = |name: &str| self.index.pod(name);
        let queued = |pod, micros| {
            self.prefill_queues.add_of_peer(pod, micros, now);
            self.paces.sent_by_peer(pod, micros, now);
        };
        let pods = self.peers.table().hear(summary, &self.load, now, find, queued)?;
        for fresh in &summary.blocks {
            let Some(pod) = pods.get(usize::from(fresh.pod)).copied().flatten() else { continue };
            let deadline = now + fresh.expires_in.min(MOST_EXPIRY);
            self.index.expire(now, 2 * fresh.blocks.len() + EXPIRED_AT_LEAST);
            // A pod that left meanwhile holds nothing.
            let _ = self.index.speculate_after(pod, fresh.parent, &fresh.blocks, deadline);
        }
        Ok(())
    }

    /// Forgets peers that told nothing for longer than this; how many.
    pub fn forget_silent_peers(&self, now: Instant, after: Duration) -> usize {
        self.peers.forget_silent(&self.load, now, after)
    }
}

/// How long a peer may have blocks expected.
const MOST_EXPIRY: Duration = Duration::from_secs(60);

const EXPIRED_AT_LEAST: usize = 16;
