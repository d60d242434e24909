//! Session tokens: a client brings its session's pod along in a header, as base64 of the pod's name.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use pointsman::index::PodSet;
use routing_core::{Filter, PluginError, RoutingContext, Scorer, Scores};
use serde::Deserialize;

use super::narrowed;

/// What [`SessionToken`] takes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SessionTokenParameters {
    header: String,
}

/// The pod that a request's token names: as a filter it stays alone if it is a candidate, as a scorer it gets 1.
///
/// A pod is named as the fleet names it, or `namespace/name` where the fleet's name is without a namespace. A token that
/// names nobody is none.
#[derive(Clone, Debug)]
pub(super) struct SessionToken(pub(super) SessionTokenParameters);

impl SessionToken {
    fn pods<const W: usize>(&self, context: &RoutingContext<'_, W>, among: PodSet<W>) -> PodSet<W> {
        let token = context.request().header(&self.0.header).and_then(|token| STANDARD.decode(token).ok());
        let Some(name) = token.and_then(|name| String::from_utf8(name).ok()).filter(|name| !name.is_empty()) else {
            return PodSet::EMPTY;
        };
        let short = name.rsplit('/').next().unwrap_or(&name);
        let is_it = |of: &str| *of == *name || *of == *short;
        let fleet = context.fleet();
        among.iter().filter(|id| fleet.pod(*id).is_some_and(|pod| is_it(&pod.name))).collect()
    }
}

impl<const W: usize> Filter<W> for SessionToken {
    fn filter(&self, context: &RoutingContext<'_, W>, candidates: PodSet<W>) -> Result<PodSet<W>, PluginError> {
        Ok(narrowed(candidates, self.pods(context, candidates)))
    }
}

impl<const W: usize> Scorer<W> for SessionToken {
    fn score(&self, context: &RoutingContext<'_, W>, scores: &mut Scores<'_, W>) -> Result<(), PluginError> {
        let pods = self.pods(context, scores.candidates());
        scores.set_all(pods, 1.0);
        Ok(())
    }
}
