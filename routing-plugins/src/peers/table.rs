//! What is known of each peer.
//!
//! The rule that must never break: what a peer's shares add to the loads is what it told last, and nothing once it is forgotten.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use kv_index::Pod;

use super::{GatewayId, PeerSummary, PeerTurns, Peers, PodSummary, SummaryScope};
use crate::load::{InFlight, LoadTracker, PeerShare};

/// Why a summary changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum PeerIgnored {
    /// It is one's own, which some ways of telling bring back.
    #[error("it is one's own")]
    Own,
    /// One with a higher number was there already.
    #[error("a later one was there before")]
    Old,
    /// Nothing whole came of this peer yet.
    #[error("only changes are known of this peer")]
    Unknown,
    /// There are too many peers.
    #[error("there are too many peers")]
    TooMany,
}

/// How many peers there are, and what became of what they told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PeerStats {
    /// Peers that are known and not silent.
    pub peers: usize,
    /// Peers that were forgotten.
    pub forgotten: u64,
    /// Pods that peers named and that are not known here.
    pub unknown_pods: u64,
}

#[derive(Debug, Default)]
pub(super) struct Table {
    peers: HashMap<GatewayId, Peer>,
    stats: PeerStats,
}

#[derive(Debug)]
struct Peer {
    sequence: u64,
    /// Of what it told of turns.
    turns: u64,
    heard: Instant,
    pods: HashMap<Box<str>, ToldOfPod>,
}

#[derive(Debug)]
struct ToldOfPod {
    share: PeerShare,
    queued_micros: u64,
    /// The summary that named it last.
    sequence: u64,
}

impl Table {
    /// Takes what is told of loads; `queued` is called with what a pod's queue is longer by. Returns the pods, by their place in
    /// the summary.
    pub(super) fn hear<const W: usize>(
        &mut self,
        summary: &PeerSummary,
        load: &LoadTracker<W>,
        now: Instant,
        find: impl Fn(&str) -> Option<Pod>,
        mut queued: impl FnMut(Pod, u64),
    ) -> Result<Vec<Option<Pod>>, PeerIgnored> {
        let is_full = self.peers.len() >= MOST_PEERS;
        match self.peers.get(&summary.gateway) {
            Some(known) if summary.sequence <= known.sequence => return Err(PeerIgnored::Old),
            None if summary.scope == SummaryScope::Changes => return Err(PeerIgnored::Unknown),
            None if is_full => return Err(PeerIgnored::TooMany),
            Some(_) | None => {}
        }
        let new = || Peer { sequence: summary.sequence, turns: 0, heard: now, pods: HashMap::new() };
        let peer = self.peers.entry(summary.gateway).or_insert_with(new);
        (peer.sequence, peer.heard) = (summary.sequence, peer.heard.max(now));
        let mut pods = Vec::with_capacity(summary.pods.len());
        for told in &summary.pods {
            let pod = find(&told.name);
            self.stats.unknown_pods += u64::from(pod.is_none());
            if let Some(pod) = pod {
                let more = peer.hear(pod, told, load);
                if more > 0 {
                    queued(pod, more);
                }
            }
            pods.push(pod);
        }
        if summary.scope == SummaryScope::Whole {
            let sequence = summary.sequence;
            // Who is not named is gone there: names of pods come and go.
            peer.pods.retain(|_, told| {
                let is_named = told.sequence == sequence;
                if !is_named {
                    told.share.tell(load, InFlight::default());
                }
                is_named
            });
        }
        Ok(pods)
    }

    /// Takes note that a peer told of turns.
    pub(super) fn hear_turns(&mut self, told: &PeerTurns) -> Result<(), PeerIgnored> {
        let peer = self.peers.get_mut(&told.gateway).ok_or(PeerIgnored::Unknown)?;
        if told.sequence <= peer.turns {
            return Err(PeerIgnored::Old);
        }
        peer.turns = told.sequence;
        Ok(())
    }

    /// What peers have in flight to each pod.
    pub(super) fn in_flight(&self) -> HashMap<Pod, InFlight> {
        let mut sums = HashMap::<Pod, InFlight>::new();
        for share in self.shares() {
            let sum = sums.entry(share.pod()).or_default();
            *sum = sum.and(&share.told());
        }
        sums
    }

    fn shares(&self) -> impl Iterator<Item = PeerShare> + '_ {
        self.peers.values().flat_map(|peer| peer.pods.values()).map(|told| told.share)
    }

    fn forget<const W: usize>(&mut self, load: &LoadTracker<W>, is_silent: impl Fn(Instant) -> bool) -> usize {
        let before = self.peers.len();
        self.peers.retain(|_, peer| {
            if is_silent(peer.heard) {
                peer.pods.values().for_each(|told| told.share.forget(load));
                return false;
            }
            true
        });
        let forgotten = before - self.peers.len();
        self.stats.forgotten += forgotten as u64;
        forgotten
    }
}

impl Peer {
    /// Takes what is told of a pod; by how many microseconds its queue is longer.
    fn hear<const W: usize>(&mut self, pod: Pod, told: &PodSummary, load: &LoadTracker<W>) -> u64 {
        let Some(known) = self.pods.get_mut(&told.name) else {
            if self.pods.len() < MOST_PODS {
                let mut share = PeerShare::new(pod);
                share.tell(load, told.in_flight);
                let known = ToldOfPod { share, queued_micros: told.queued_micros, sequence: self.sequence };
                self.pods.insert(told.name.clone(), known);
            }
            // How much of what was ever queued there still is, nobody knows.
            return 0;
        };
        if known.sequence == self.sequence {
            // Named twice.
            return 0;
        }
        if known.share.pod() != pod {
            // Another pod has the name here: what the one before had is nobody's.
            known.share.forget(load);
            known.share = PeerShare::new(pod);
        }
        known.share.tell(load, told.in_flight);
        known.sequence = self.sequence;
        let before = std::mem::replace(&mut known.queued_micros, told.queued_micros);
        // It begins anew where the peer has another pod of the name.
        told.queued_micros.checked_sub(before).unwrap_or(told.queued_micros).min(MOST_QUEUED_MICROS)
    }
}

impl Peers {
    pub(super) fn table(&self) -> parking_lot::MutexGuard<'_, Table> {
        self.table.lock()
    }

    /// What peers have in flight to a pod, as they told last. It is part of what is in flight by the [load
    /// tracker](crate::PluginState::load).
    #[must_use]
    pub fn in_flight(&self, pod: Pod) -> InFlight {
        let table = self.table.lock();
        let shares = table.shares().filter(|share| share.pod() == pod);
        shares.fold(InFlight::default(), |sum, share| sum.and(&share.told()))
    }

    /// How many peers there are, and what became of what they told.
    #[must_use]
    pub fn stats(&self) -> PeerStats {
        let table = self.table.lock();
        PeerStats { peers: table.peers.len(), ..table.stats }
    }

    pub(super) fn forget_silent<const W: usize>(&self, load: &LoadTracker<W>, now: Instant, after: Duration) -> usize {
        self.table.lock().forget(load, |heard| now.saturating_duration_since(heard) > after)
    }
}

/// As many gateways as share a fleet, and more.
const MOST_PEERS: usize = 64;
/// Names of one peer: as many pods as an index has, and those that left.
const MOST_PODS: usize = 8_192;
/// What one summary may add to a queue.
const MOST_QUEUED_MICROS: u64 = 60_000_000;
