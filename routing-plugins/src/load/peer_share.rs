//! What a peer has in flight to one pod, counted beside what was sent from here.

use kv_index::Pod;

use super::{InFlight, LoadTracker};

/// A peer's requests on a pod, as it told last: what a [`LoadGuard`](super::LoadGuard) is of one request.
///
/// If the pod's id goes to another pod meanwhile, it changes nothing any more.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PeerShare {
    pod: Pod,
    told: InFlight,
    /// The report that was there when it was told, on the tracker's scale.
    seen: Option<i64>,
}

impl PeerShare {
    pub(crate) fn new(pod: Pod) -> Self {
        Self { pod, told: InFlight::default(), seen: None }
    }

    pub(crate) fn pod(&self) -> Pod {
        self.pod
    }

    pub(crate) fn told(&self) -> InFlight {
        self.told
    }

    /// Takes what the peer tells now.
    pub(crate) fn tell<const W: usize>(&mut self, load: &LoadTracker<W>, now: InFlight) {
        let now = bounded(now);
        if let Some(writer) = load.cell(self.pod).and_then(|cell| cell.enter(self.pod.generation())) {
            self.seen = writer.retell(self.told, now, self.seen);
            self.told = now;
        }
    }

    /// Takes it out: the peer fell silent.
    pub(crate) fn forget<const W: usize>(self, load: &LoadTracker<W>) {
        if let Some(writer) = load.cell(self.pod).and_then(|cell| cell.enter_again(self.pod.generation())) {
            writer.untell(self.told);
        }
    }
}

/// So little that no sum of it overflows, whatever a peer says.
fn bounded(told: InFlight) -> InFlight {
    let requests = told.requests.min(MOST_REQUESTS);
    InFlight {
        requests,
        prefilling: told.prefilling.min(requests),
        prompt_tokens: told.prompt_tokens.min(MOST_TOKENS),
        uncached_tokens: told.uncached_tokens.min(MOST_TOKENS),
        output_tokens: told.output_tokens.min(MOST_TOKENS),
    }
}

/// Of one peer on one pod.
const MOST_REQUESTS: u32 = 1 << 20;
const MOST_TOKENS: u64 = 1 << 40;
