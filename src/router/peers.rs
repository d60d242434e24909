//! Load sharing between gateways: what a router tells its peers and takes from them, as bytes.

use std::time::{Duration, Instant};

use routing_core::Request;
use routing_plugins::peers::{GatewayId, PeerIgnored, PeerStats, SummaryScope};

use super::Router;
use crate::peer_message::{self, PeerMessageError, turns};

/// Why a peer's message changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PeerError {
    /// It is no message of this version, or was cut short. Whoever sent it is another program or another release.
    #[error("no message of a peer")]
    Message(#[source] PeerMessageError),
    /// It is of another model, or of a router that is set up otherwise: hashes would not be the same.
    #[error("of another model, or hashed otherwise")]
    Model,
    /// It says nothing new; no fault of anybody's.
    #[error("nothing new")]
    Ignored(#[source] PeerIgnored),
}

impl PeerError {
    /// A word for it, for metrics.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Message(_) => "malformed",
            Self::Model => "model",
            Self::Ignored(PeerIgnored::Own) => "own",
            Self::Ignored(PeerIgnored::Old) => "old",
            Self::Ignored(PeerIgnored::Unknown) => "unknown",
            Self::Ignored(PeerIgnored::TooMany) => "too_many",
            Self::Ignored(_) => "other",
        }
    }
}

impl<const W: usize> Router<W> {
    /// What peers are to be told now, for a host that carries messages between gateways of one fleet.
    ///
    /// Send [`Whole`](SummaryScope::Whole) ones at an interval, 50 ms for example, and
    /// [`Changes`](SummaryScope::Changes) soon after [decisions](Self::on_decision); nothing is returned where only changes are wanted and
    /// there are none. A peer is known from its first whole one. They may be lost, come twice or late.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Instant;
    ///
    /// use pointsman::plugins::peers::SummaryScope;
    /// use pointsman::prelude::*;
    ///
    /// let gateway = || {
    ///     let pods = ["a", "b"].map(|name| PodSpec::new(name, format!("http://{name}")));
    ///     Router::builder("llama-8b").block_size(16).pods(pods).tokens_given().build()
    /// };
    /// let (one, other, now) = (gateway()?, gateway()?, Instant::now());
    /// for (from, to) in [(&one, &other), (&other, &one)] {
    ///     let told = from.tell_peers(SummaryScope::Whole, now).expect("a whole summary is never empty");
    ///     to.hear_peer(&told, now)?;
    /// }
    ///
    /// // A crowd on a new prompt meets on one pod, though it came to two gateways.
    /// let prompt: Vec<u32> = (0..8_192).collect();
    /// let mut routed = one.route(&one.request(now).tokens(&prompt))?;
    /// let pod = routed.first_pod().expect("a plan has pods");
    /// let attempt = routed.begin(0, pod)?;
    /// other.hear_peer(&one.tell_peers(SummaryScope::Changes, now).expect("a decision"), now)?;
    /// let second = other.route(&other.request(now).tokens(&prompt))?;
    /// assert_eq!(other.address(second.first_pod().expect("a pod")), one.address(pod));
    /// # attempt.succeeded();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn tell_peers(&self, scope: SummaryScope, now: Instant) -> Option<Vec<u8>> {
        let summary = self.0.plugin_state.tell_peers(self.gateway_id(), scope, now)?;
        Some(peer_message::encode(self.peer_terms(now), &summary))
    }

    /// Where turns of sessions and programs went since this was last asked, for peers; nothing if there were none. Send it along with what is
    /// [told](Self::tell_peers), as a message of its own: peers of a release that does not know it skip it. It may be lost, or come late.
    #[must_use]
    pub fn tell_turns(&self, now: Instant) -> Option<Vec<u8>> {
        let told = self.0.plugin_state.tell_turns(self.gateway_id(), now)?;
        Some(turns::encode(self.peer_terms(now), &told))
    }

    /// Takes what a peer told. Any bytes may be given: what is no message of a peer changes nothing.
    ///
    /// Where its turns went, the next ones of the same sessions go from here, and its programs are known. What it has in flight counts as what was sent from here, blocks it entered are entered here. [`Self::tick`] forgets a peer
    /// that was silent for [two seconds](Self::PEER_LIFE).
    ///
    /// # Errors
    ///
    /// When it changes nothing: it is malformed, of another model, one's own, or not the newest.
    pub fn hear_peer(&self, message: &[u8], now: Instant) -> Result<(), PeerError> {
        if turns::is_turns(message) {
            let (terms, told) = turns::decode(message).map_err(PeerError::Message)?;
            if terms != self.peer_terms(now) {
                return Err(PeerError::Model);
            }
            let (live, state) = (self.live(), &self.0.plugin_state);
            return state.hear_turns(self.gateway_id(), &told, &live.fleet, now).map_err(PeerError::Ignored);
        }
        let (terms, summary) = peer_message::decode(message).map_err(PeerError::Message)?;
        if terms != self.peer_terms(now) {
            return Err(PeerError::Model);
        }
        self.0.plugin_state.hear_peer(self.gateway_id(), &summary, now).map_err(PeerError::Ignored)?;
        self.pump();
        Ok(())
    }

    /// How many peers there are, and what became of what they told.
    #[must_use]
    pub fn peers(&self) -> PeerStats {
        self.0.plugin_state.peers.stats()
    }

    /// Calls this whenever there is something to [tell](Self::tell_peers) after there was nothing. It is called in the middle of requests, so
    /// it should do no more than wake a task. Once: later calls change nothing.
    pub fn on_decision(&self, wake: impl Fn() + Send + Sync + 'static) {
        self.0.plugin_state.peers.on_decision(wake);
    }

    /// How long a peer counts of which nothing is heard.
    pub const PEER_LIFE: Duration = Duration::from_secs(2);

    pub(super) fn forget_silent_peers(&self, now: Instant) {
        self.0.plugin_state.forget_silent_peers(now, Self::PEER_LIFE);
    }

    /// Another in each process, and for each router of it.
    fn gateway_id(&self) -> GatewayId {
        GatewayId::new(self.0.seeds.own())
    }

    /// What two routers must have in common for blocks of one to be blocks of the other: the model's name, the size of blocks, and what a
    /// block of some tokens hashes to.
    fn peer_terms(&self, now: Instant) -> u64 {
        let (name, size) = (&self.0.model.name, self.0.model.block_size.tokens());
        let tokens: Vec<u32> = (0..).take(size).collect();
        let hashed = self.0.plugin_state.hashing.hashes(&Request::new(name, now).tokens(&tokens)).unwrap_or_default();
        let first = hashed.first().map_or(0, |hash| hash.get());
        peer_message::fingerprint(&[name.as_bytes(), &size.to_le_bytes(), &first.to_le_bytes()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PodSpec, RouterBuilder};

    fn builder(model: &str) -> RouterBuilder {
        let pods = ["a", "b"].map(|name| PodSpec::new(name, format!("http://{name}")));
        Router::builder(model).pods(pods).block_size(16).tokens_given()
    }

    /// Which pod a turn of a session goes to.
    fn send(router: &Router<4>, session: &str, now: Instant) -> Option<String> {
        let headers = [("x-session-id", session)];
        let (headers, tokens) = (&headers[..], [1; 64]);
        let routed = router.route(&router.request(now).tokens(&tokens).headers(&headers)).unwrap();
        router.address(routed.first_pod()?).map(|address| address.to_string())
    }

    #[test]
    fn a_session_s_next_turn_goes_where_a_peer_had_the_one_before() {
        let pods = || (0..8).map(|at| PodSpec::new(format!("pod-{at}"), format!("http://pod-{at}")));
        let of = |seed| {
            Router::builder("m").pods(pods()).block_size(16).tokens_given().profile("cache_aware_sticky").seed(seed)
        };
        let [one, other, untold] = [1, 2, 3].map(|seed| of(seed).build().unwrap());
        let now = Instant::now();
        let _ = (one.tell_turns(now), other.tell_turns(now));
        other.hear_peer(&one.tell_peers(SummaryScope::Whole, now).unwrap(), now).unwrap();
        let sessions: Vec<String> = (0..40).map(|at| format!("session {at}")).collect();
        let went: Vec<_> = sessions.iter().map(|session| send(&one, session, now)).collect();
        let told = one.tell_turns(now).unwrap();
        assert_eq!(one.tell_turns(now), None);
        other.hear_peer(&told, now).unwrap();
        assert_eq!(other.hear_peer(&told, now).unwrap_err().reason(), "old");
        // Long after anything that was only expected of pods.
        let later = now + Duration::from_secs(60);
        let next: Vec<_> = sessions.iter().map(|session| send(&other, session, later)).collect();
        assert_eq!(next, went);
        assert_ne!(sessions.iter().map(|session| send(&untold, session, later)).collect::<Vec<_>>(), went);
        let stranger = builder("n").build().unwrap();
        assert_eq!(stranger.hear_peer(&told, now), Err(PeerError::Model));
        assert_eq!(other.hear_peer(&told[..told.len() - 1], now).unwrap_err().reason(), "malformed");
    }

    /// The blocks that are expected of the pod say where; the turn says whose, and how much was computed for it.
    #[test]
    fn a_program_s_next_turn_goes_where_a_peer_had_the_one_before() {
        let pods = || (0..8).map(|at| PodSpec::new(format!("pod-{at}"), format!("http://pod-{at}")).kv_tokens(100_000));
        let of = |seed| Router::builder("m").pods(pods()).block_size(16).tokens_given().profile("programs").seed(seed);
        let [one, other]: [Router; 2] = [1, 2].map(|seed| of(seed).build().unwrap());
        let now = Instant::now();
        let _ = (one.tell_turns(now), other.tell_turns(now));
        other.hear_peer(&one.tell_peers(SummaryScope::Whole, now).unwrap(), now).unwrap();
        let headers = &[("x-session-id", "agent")][..];
        let tokens: Vec<u32> = (0..8_192).collect();
        let routed = one.route(&one.request(now).tokens(&tokens[..4_096]).headers(&headers)).unwrap();
        for told in [one.tell_peers(SummaryScope::Changes, now), one.tell_turns(now)] {
            other.hear_peer(&told.unwrap(), now).unwrap();
        }
        let next = other.route(&other.request(now).tokens(&tokens).headers(&headers)).unwrap();
        let pod = next.first_pod().unwrap();
        assert_eq!(other.address(pod), one.address(routed.first_pod().unwrap()));
        assert_eq!(next.plan().steps()[0].program.unwrap().service, 4_096);
        let programs = &other.plugin_state().programs;
        assert_eq!((programs.stats().contexts, programs.working_set(pod, now)), (1, 8_192 + 256));
    }

    #[test]
    fn a_router_hears_peers_of_its_model_alone_and_forgets_them_when_they_fall_silent() {
        let [one, other] = [(); 2].map(|()| builder("m").build().unwrap());
        let now = Instant::now();
        let told = one.tell_peers(SummaryScope::Whole, now).unwrap();
        assert_eq!(one.hear_peer(&told, now), Err(PeerError::Ignored(PeerIgnored::Own)));
        assert_eq!(other.hear_peer(&told, now), Ok(()));
        assert_eq!(other.hear_peer(&told, now).unwrap_err().reason(), "old");
        for stranger in [builder("n").build().unwrap(), builder("m").block_size(32).build().unwrap()] {
            assert_eq!(stranger.hear_peer(&told, now), Err(PeerError::Model));
        }
        assert_eq!(other.hear_peer(b"GET / HTTP/1.1", now).unwrap_err().reason(), "malformed");
        assert_eq!((one.peers().peers, other.peers().peers), (0, 1));
        other.tick(now + Router::<4>::PEER_LIFE);
        assert_eq!(other.peers().peers, 1);
        other.tick(now + 2 * Router::<4>::PEER_LIFE);
        assert_eq!((other.peers().peers, other.peers().forgotten), (0, 1));
    }
}
