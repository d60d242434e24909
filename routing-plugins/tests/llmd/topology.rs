//! Where a peer and candidates are, as cases of topology tell it.

use routing_core::PodInfo;
use serde_json::Value;

use crate::read::text;

/// Nearest first.
pub(crate) const LEVELS: [&str; 4] = ["host", "rack", "zone", "region"];

pub(crate) const INPUTS: [&str; 3] = ["peer", "candidates", "shared_level"];

type Labels = Vec<(&'static str, String)>;

/// A peer, and candidates that may be near it.
pub(crate) struct Places {
    peer: Labels,
    pub(crate) candidates: Vec<Labels>,
    /// The level that each shares with the peer, where that is how they are told.
    pub(crate) levels: Vec<String>,
}

impl Places {
    /// Reads places by name, or by the nearest level that is shared.
    pub(crate) fn read(input: &Value) -> Result<Self, String> {
        let shared = &input["shared_level"];
        if !shared.is_null() {
            if !input["candidates"].is_null() || !input["peer"].is_null() {
                return Err("unknown: places told in two ways".into());
            }
            let each = shared.as_array().map_or_else(|| vec![shared.clone()], Clone::clone);
            let name = |level: &Value| if level.is_null() { Ok("none".to_owned()) } else { text(level) };
            let levels = each.iter().map(name).collect::<Result<Vec<_>, _>>()?;
            let candidates = levels.iter().map(|level| sharing(level)).collect::<Result<_, _>>()?;
            return Ok(Self { peer: sharing(LEVELS[0])?, candidates, levels });
        }
        let candidates = match &input["candidates"] {
            Value::Number(count) => vec![Vec::new(); count.as_u64().ok_or("unknown candidates")? as usize],
            Value::Array(list) => list.iter().map(labels).collect::<Result<_, _>>()?,
            other => return Err(format!("unknown candidates {other}")),
        };
        Ok(Self { peer: labels(&input["peer"])?, candidates, levels: Vec::new() })
    }

    /// The peer's labels, as a client's.
    pub(crate) fn peer(&self) -> Vec<(&str, &str)> {
        self.peer.iter().map(|(key, value)| (*key, value.as_str())).collect()
    }

    /// A candidate's labels.
    pub(crate) fn label(&self, at: usize, pod: PodInfo) -> PodInfo {
        self.candidates[at].iter().fold(pod, |pod, (key, value)| pod.label(key, value))
    }
}

/// A place that shares this level with the peer, and all wider ones.
fn sharing(level: &str) -> Result<Labels, String> {
    let nearest = match level {
        "none" => LEVELS.len(),
        level => LEVELS.iter().position(|known| *known == level).ok_or(format!("unknown level `{level}`"))?,
    };
    let place = |(at, key): (usize, &&'static str)| (*key, if at < nearest { "elsewhere" } else { "here" }.to_owned());
    Ok(LEVELS.iter().enumerate().map(place).collect())
}

fn labels(topology: &Value) -> Result<Labels, String> {
    let topology = match topology {
        Value::Null => return Ok(Vec::new()),
        topology => topology.as_object().ok_or(format!("unknown topology {topology}"))?,
    };
    let label = |(key, value): (&String, &Value)| {
        let key = if key == "hostname" { "host" } else { key };
        let key = LEVELS.into_iter().find(|level| *level == key).ok_or(format!("unknown level `{key}`"))?;
        Ok((key, value.as_str().ok_or(format!("unknown place {value}"))?.to_owned()))
    };
    topology.iter().map(label).collect()
}
