//! Two pods and where they are.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use kv_index::{Config, Index, Pod};
use routing_core::Role;
use routing_exec::handoff::{
    Api, Dialect, Handoff, HandoffError, LegBody, LegContext, MooncakeEngine, MooncakeEngines, PodAddresses,
};

/// A prefill and a decode pod.
#[derive(Clone, Debug)]
pub(crate) struct Pair {
    pub(crate) prefill: Pod,
    pub(crate) decode: Pod,
    pub(crate) address: String,
}

impl Pair {
    /// With the prefill pod at an address; nobody knows the other's.
    pub(crate) fn at(address: &str) -> Self {
        let index: Index = Index::new(Config::default());
        let (prefill, decode) = (index.join("p").expect("room"), index.join("d").expect("room"));
        Self { prefill, decode, address: address.to_owned() }
    }

    pub(crate) fn prefill(&self, handoff: &dyn Handoff, api: Api, body: &Bytes) -> Result<LegBody, HandoffError> {
        let leg = LegContext::new(api, body, self).step("prefill", Role::Prefill, false);
        handoff.leg(&leg.pods(self.prefill, None).transfer(TRANSFER))
    }

    pub(crate) fn decode(
        &self,
        handoff: &dyn Handoff,
        api: Api,
        body: &Bytes,
        prefilled: Option<&[u8]>,
    ) -> Result<LegBody, HandoffError> {
        let leg = LegContext::new(api, body, self).step("decode", Role::Decode, true);
        handoff.leg(&leg.pods(self.decode, Some(self.prefill)).transfer(TRANSFER).prefilled(prefilled))
    }
}

/// With its highest bit set, which no room may have.
pub(crate) const TRANSFER: u64 = 1 << 63 | 0x0123_4567_89ab_cdef;

impl PodAddresses for Pair {
    fn address(&self, pod: Pod) -> Option<Cow<'_, str>> {
        (pod == self.prefill).then_some(Cow::Borrowed(&self.address))
    }
}

impl MooncakeEngines for Pair {
    fn engine(&self, pod: Pod) -> Option<MooncakeEngine> {
        (pod == self.prefill).then(|| MooncakeEngine { id: Arc::from("engine-1"), rank: 3 })
    }
}

/// All of them.
pub(crate) fn dialects(pair: &Pair) -> [Arc<dyn Handoff>; Dialect::ALL.len()] {
    Dialect::ALL.map(|dialect| dialect.handoff(Arc::new(pair.clone())))
}
