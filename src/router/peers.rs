//! Load sharing between gateways: what a router tells its peers and takes from them, as bytes.

use std::time::{Duration, Instant};

use routing_core::Request;
use routing_plugins::peers::{GatewayId, PeerIgnored, PeerStats, SummaryScope};

use super::Router;
use crate::peer_message::{self, PeerMessageError};

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

    /// Takes what a peer told. Any bytes may be given: what is no message of a peer changes nothing.
    ///
    /// What it has in flight counts as what was sent from here, blocks it entered are entered here. [`Self::tick`] forgets a peer
    /// that was silent for [two seconds](Self::PEER_LIFE).
    ///
    /// # Errors
    ///
    /// When it changes nothing: it is malformed, of another model, one's own, or not the newest.
    pub fn hear_peer(&self, message: &[u8], now: Instant) -> Result<(), PeerError> {
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
