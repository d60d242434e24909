//! Custom scorer in four steps: prefer pods in the client's region.
//!
//! `cargo run -p pointsman-embedding --example custom_scorer`

use std::error::Error;
use std::time::Instant;

use kv_index::{Config, Index};
use routing_core::{
    Fleet, Load, NoParameters, Picker, PluginError, PodInfo, Ranking, Registry, Request, RoutingContext, RoutingInput,
    RoutingPlan, Scorer, Scores, Totals, Trace,
};

/// 1. Implement it: 1 for pods that have the client's label, 0 for all others.
#[derive(serde::Deserialize)]
struct Near {
    label: String,
}

impl Scorer for Near {
    fn score(&self, context: &RoutingContext<'_>, scores: &mut Scores<'_>) -> Result<(), PluginError> {
        let home = context.request().label(&self.label).unwrap_or_default();
        scores.set_all(context.fleet().labelled(&self.label, home), 1.0);
        Ok(())
    }
}

/// The scorer and picker that were there before: free KV cache decides.
struct Room;

impl Scorer for Room {
    fn score(&self, context: &RoutingContext<'_>, scores: &mut Scores<'_>) -> Result<(), PluginError> {
        scores.fill(|pod| 1.0 - context.fleet().load(pod).kv_used);
        Ok(())
    }
}

impl Picker for Room {
    fn pick(&self, _: &RoutingContext<'_>, totals: &Totals<'_>, ranking: &mut Ranking) -> Result<(), PluginError> {
        totals.rank(2, ranking);
        Ok(())
    }
}

/// 3. Name it in a profile. 4. Weigh it: a near pod may be rather full before a far one is chosen.
const PROFILE: &str = r#"{
  "plugins": [{"type": "room"}, {"type": "best"}, {"type": "near", "parameters": {"label": "region"}}],
  "profiles": [{"name": "serve", "pick": "best",
    "score": [{"plugin": "room", "weight": 1}, {"plugin": "near", "weight": 2}]}]
}"#;

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let mut registry = <Registry>::new();
    registry.scorer::<NoParameters, _>("room", |_, _| Room)?;
    registry.picker::<NoParameters, _>("best", |_, _| Room)?;
    // 2. Register it.
    registry.scorer::<Near, _>("near", |near, _| near)?;
    let workflow = registry.read(&mut serde_json::Deserializer::from_str(PROFILE))?.build(&registry)?;

    // Oslo and Rome are near, one nearly full and one half full; Reno is far and empty.
    let index: Index = Index::new(Config::default());
    let mut pods = Vec::new();
    for (name, region, kv_used) in [("oslo", "eu", 0.9), ("rome", "eu", 0.5), ("reno", "us", 0.0)] {
        let info = PodInfo::new(index.join(name)?, name).label("region", region);
        pods.push(info.load(Load { kv_used, ..Load::default() }));
    }
    let fleet = Fleet::new(1, pods);
    let request = Request::new("llama-8b", Instant::now()).labels(&[("region", "eu")]);

    let (mut plan, mut trace) = (RoutingPlan::default(), Trace::default());
    workflow.decide(&mut workflow.workspace(), RoutingInput::new(&request, &fleet).traced(&mut trace), &mut plan)?;
    print!("{}", trace.table(&fleet));
    let first = fleet.pod(plan.steps()[0].candidates[0].pod.id()).map(|info| &*info.name);
    if first != Some("rome") {
        return Err(format!("Rome is near and has room, but {first:?} was picked").into());
    }
    Ok(())
}
