//! SGLang's bootstrap: both legs name a bootstrap server and a room.

use std::borrow::Cow;

use json_edit::{Edit, Fragment};

use super::address::host;
use super::dialect::Dialect;
use super::error::HandoffError;
use super::leg::{LegBody, LegContext, Side};
use super::prefill::prompts;
use super::{Handoff, HandoffMode, HandoffReuse};
use crate::splitmix64;

/// SGLang's bootstrap: both legs are sent at once with `bootstrap_host`, `bootstrap_port` and `bootstrap_room`.
///
/// The host is the prefill pod's and the port that of its bootstrap server. The room is 63 bits of
/// [`LegContext::transfer`], the same on both legs; all else is as the client has it, limits and stream too. A request with
/// a list of prompts has a list of each, with a room for every prompt.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct SglangBootstrap {
    /// The port of the prefill pods' bootstrap servers.
    pub port: u16,
}

impl SglangBootstrap {
    /// With a port that is not the usual 8998.
    #[must_use]
    pub const fn new(port: u16) -> Self {
        Self { port }
    }
}

impl Default for SglangBootstrap {
    fn default() -> Self {
        Self::new(8998)
    }
}

impl Handoff for SglangBootstrap {
    fn name(&self) -> &str {
        Dialect::Sglang.name()
    }

    fn mode(&self) -> HandoffMode {
        HandoffMode::Concurrent
    }

    /// A room is for two.
    fn reuse(&self) -> HandoffReuse {
        HandoffReuse::Never
    }

    fn leg(&self, leg: &LegContext<'_>) -> Result<LegBody, HandoffError> {
        if leg.side() == Side::Neither {
            return leg.untouched();
        }
        let body = leg.object()?;
        let address = leg.prefiller_address()?;
        let host: Cow<'_, str> = host(&address);
        let prompts = prompts(leg.api, body);
        let each = |value: &dyn Fn(u64) -> Fragment<'static>| match prompts {
            None => value(0),
            Some(count) => Fragment::array((0..count as u64).map(value)),
        };
        let edit = Edit::new(body)
            .set("bootstrap_host", each(&|_| Fragment::from(&*host)))
            .set("bootstrap_port", each(&|_| Fragment::from(self.port)))
            .set("bootstrap_room", each(&|prompt| Fragment::from(room(leg.transfer, prompt))));
        Ok(LegBody::new(edit.finish()))
    }
}

/// The room of a prompt: the transfer's own number for the first, and others that follow from it.
fn room(transfer: u64, prompt: u64) -> u64 {
    let number = if prompt == 0 { transfer } else { splitmix64::step(transfer ^ splitmix64::step(prompt)) };
    number & i64::MAX as u64
}
