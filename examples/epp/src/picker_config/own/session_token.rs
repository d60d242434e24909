//! Session tokens: a client brings its session's pod along in a header, as base64 of the pod's name.

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
        let token = context.request().header(&self.0.header).and_then(decode);
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

/// Standard base64, with its padding.
fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let padding = text.iter().rev().take_while(|byte| **byte == b'=').count();
    if !text.len().is_multiple_of(4) || padding > 2 {
        return None;
    }
    let (mut bytes, mut bits, mut held) = (Vec::with_capacity(text.len() / 4 * 3), 0_u32, 0);
    for byte in &text[..text.len() - padding] {
        let digit = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        (bits, held) = (bits << 6 | u32::from(digit), held + 6);
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held) as u8);
            bits &= (1 << held) - 1;
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::decode;

    #[test]
    fn base64_is_read_back() {
        assert_eq!(decode(b"ZGVmYXVsdC9wb2QtMQ==").as_deref(), Some(&b"default/pod-1"[..]));
        assert_eq!(decode(b"cG9k").as_deref(), Some(&b"pod"[..]));
        assert_eq!(decode(b"").as_deref(), Some(&b""[..]));
        assert_eq!([decode(b"cG9"), decode(b"c!9k"), decode(b"====")], [None, None, None]);
    }
}
