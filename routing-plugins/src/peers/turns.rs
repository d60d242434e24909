//! Where turns went: what a gateway tells its peers of its sessions and programs.
//!
//! Apart from [`PeerSummary`](super::PeerSummary), so that a peer which does not know of turns still hears of loads. The rule: of two turns that are
//! heard of the later one counts, whoever had it; none older than a minute does.
//!
//! Clocks differ, so a turn's age is told, as of the telling: it counts as later than it was by the time that the message takes. So two gateways may
//! disagree about turns that are no further apart than that, until the next one; and a message that another of its gateway overtook, or that comes once
//! more, is refused whole, since its turns would look like new ones.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use kv_index::Pod;
use routing_core::Fleet;

use super::{GatewayId, PeerIgnored};
use crate::plugin_state::PluginState;
use crate::program::{PodCache, ToldProgram};

/// Turns since a gateway told of them last.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a message, which hosts encode and decode field by field")]
pub struct PeerTurns {
    /// Who tells.
    pub gateway: GatewayId,
    /// Grows from one to the next.
    pub sequence: u64,
    /// The pods that turns went to, by name.
    pub pods: Vec<Box<str>>,
    /// The turns, in the order in which they were decided, sessions' before programs'.
    pub turns: Vec<PeerTurn>,
}

/// A turn that went to a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a message, which hosts encode and decode field by field")]
pub struct PeerTurn {
    /// The pod, by its place in [`PeerTurns::pods`].
    pub pod: u16,
    /// How long before it was told.
    pub age: Duration,
    /// Whose it was.
    pub of: TurnOf,
}

/// Whose turn it was.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TurnOf {
    /// Of a session.
    Session {
        /// The name of the table that binds it.
        table: Box<str>,
        /// Its key.
        session: u64,
    },
    /// Of a program that its requests name.
    Program(ToldProgram),
}

impl<const W: usize> PluginState<W> {
    /// Where turns went since this was last asked; nothing if there were none. From the first call on they are noted, so call it now and then.
    #[must_use]
    pub fn tell_turns(&self, gateway: GatewayId, now: Instant) -> Option<PeerTurns> {
        let mut told = Told { now, state: self, places: HashMap::new(), pods: Vec::new(), turns: Vec::new() };
        self.sessions.outbox().take(|notes| {
            for note in notes {
                let (table, session) = ((*note.table).into(), note.session);
                told.push(note.pod, note.at, TurnOf::Session { table, session });
            }
        });
        self.programs.outbox().take(|notes| {
            notes.iter().for_each(|note| told.push(note.pod, note.at, TurnOf::Program(note.program)));
        });
        let Told { pods, turns, .. } = told;
        if turns.is_empty() {
            return None;
        }
        // Relaxed: no more than a number that nobody else gets.
        let sequence = self.peers.turns.fetch_add(1, Ordering::Relaxed) + 1;
        Some(PeerTurns { gateway, sequence, pods, turns })
    }

    /// Takes what a peer told of turns: its sessions are bound here, and its programs known. `own` is one's own id.
    ///
    /// # Errors
    ///
    /// When it changes nothing; that is no fault of anybody's.
    pub fn hear_turns(
        &self,
        own: GatewayId,
        told: &PeerTurns,
        fleet: &Fleet<W>,
        now: Instant,
    ) -> Result<(), PeerIgnored> {
        if told.gateway == own {
            return Err(PeerIgnored::Own);
        }
        self.peers.table().hear_turns(told)?;
        let pods: Vec<_> = told.pods.iter().map(|name| self.index.pod(name)).collect();
        for turn in told.turns.iter().filter(|turn| turn.age <= MOST_AGE) {
            let Some(pod) = pods.get(usize::from(turn.pod)).copied().flatten() else { continue };
            let at = now.checked_sub(turn.age).unwrap_or(now);
            match &turn.of {
                TurnOf::Session { table, session } => self.sessions.hear(table, *session, pod, at),
                TurnOf::Program(program) => {
                    let cache = fleet.pod(pod.id()).filter(|info| info.pod == pod).and_then(|info| info.kv_tokens);
                    self.programs.hear(program, PodCache::new(pod, cache).pace(self.paces.of(pod.id())), at, now);
                }
            }
        }
        Ok(())
    }
}

/// What is told, as it is gathered.
struct Told<'s, const W: usize> {
    now: Instant,
    state: &'s PluginState<W>,
    places: HashMap<Pod, Option<u16>>,
    pods: Vec<Box<str>>,
    turns: Vec<PeerTurn>,
}

impl<const W: usize> Told<'_, W> {
    fn push(&mut self, pod: Pod, at: Instant, of: TurnOf) {
        let age = self.now.saturating_duration_since(at);
        let (pods, state) = (&mut self.pods, self.state);
        let place = *self.places.entry(pod).or_insert_with(|| {
            let name = state.index.name(pod)?.into();
            pods.push(name);
            u16::try_from(pods.len() - 1).ok()
        });
        if let Some(pod) = place.filter(|_| age <= MOST_AGE) {
            self.turns.push(PeerTurn { pod, age, of });
        }
    }
}

/// Where a turn went longer ago is not told, and does not count.
const MOST_AGE: Duration = Duration::from_secs(60);
