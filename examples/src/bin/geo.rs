//! Adds a behaviour in four steps: prefer pods in the client's region. Exits with 0 if the near pods won, 1 if not.

use std::{error::Error, process::ExitCode, time::Instant};

use pointsman_examples::fleet_of_cities as cities;
use routing_core::{
    Context, NoParameters, Picker, PluginError, Ranking, Registry, Request, RoutingPlan, Scorer, Scores,
};
use routing_core::{Totals, Trace};

/// 1. Implement it: 1 for pods that have the client's label, 0 for all others.
#[derive(serde::Deserialize)]
struct Near {
    label: String,
}
impl Scorer for Near {
    fn score(&self, context: &Context<'_>, scores: &mut Scores<'_>) -> Result<(), PluginError> {
        let home = context.request().label(&self.label).unwrap_or_default();
        scores.set_all(context.fleet().labelled(&self.label, home), 1.0);
        Ok(())
    }
}

/// What was there before: room in the cache decides.
struct Room;
impl Scorer for Room {
    fn score(&self, context: &Context<'_>, scores: &mut Scores<'_>) -> Result<(), PluginError> {
        scores.fill(|pod| 1.0 - context.fleet().load(pod).kv_used);
        Ok(())
    }
}
impl Picker for Room {
    fn pick(&self, _: &Context<'_>, totals: &Totals<'_>, ranking: &mut Ranking) -> Result<(), PluginError> {
        totals.rank(2, ranking);
        Ok(())
    }
}

/// 3. Name it in a profile. 4. Weigh it: a near pod may be rather full before a far one is asked.
const PROFILE: &str = r#"{
  "plugins": [{"type": "room"}, {"type": "best"}, {"type": "near", "parameters": {"label": "region"}}],
  "profiles": [{"name": "serve", "pick": "best",
    "score": [{"plugin": "room", "weight": 1}, {"plugin": "near", "weight": 2}]}]
}"#;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let mut registry = Registry::<4>::new();
    registry.scorer::<NoParameters, _>("room", |_, _| Room)?;
    registry.picker::<NoParameters, _>("best", |_, _| Room)?;
    // 2. Register it.
    registry.scorer::<Near, _>("near", |near, _| near)?;
    let workflow = registry.read(&mut serde_json::Deserializer::from_str(PROFILE))?.build(&registry)?;
    let (fleet, request) = (cities()?, Request::new("llama-8b", Instant::now()).labels(&[("region", "eu")]));
    let (mut plan, mut trace) = (RoutingPlan::default(), Trace::default());
    workflow.decide_traced(&mut workflow.workspace(), &request, &fleet, &mut plan, &mut trace)?;
    print!("{}", trace.table(&fleet));
    let first = fleet.pod(plan.steps()[0].candidates[0].pod.id()).map(|info| &*info.name);
    Ok(if first == Some("rome") { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
