//! Adds a behaviour: prefer pods in the client's region. Exits with 0 if the near pods won, 1 if not.

use std::{error::Error, process::ExitCode, time::Instant};

use kv_index::{Config, Index};
use routing_core::{Context, Declare, Picker, PluginError, ProfileBuilder, Ranking, Scorer, Scores, Totals};
use routing_core::{Fleet, Load, PodInfo, Request, RoutingPlan, Trace};

/// Implement it: 1 for pods in the client's region, 0 for all others.
struct Near;

impl Scorer for Near {
    fn score(&self, context: &Context<'_>, scores: &mut Scores<'_>) -> Result<(), PluginError> {
        let region = context.request().label("region").unwrap_or_default();
        scores.set_all(context.fleet().labelled("region", region), 1.0);
        Ok(())
    }
}

/// What was there before: room in the cache decides, and the best two are tried.
struct Room;

impl Scorer for Room {
    fn score(&self, context: &Context<'_>, scores: &mut Scores<'_>) -> Result<(), PluginError> {
        scores.fill(|pod| context.fleet().pod(pod).map_or(0.0, |info| 1.0 - info.load.kv_used));
        Ok(())
    }
}

impl Picker for Room {
    fn pick(&self, _: &Context<'_>, totals: &Totals<'_>, ranking: &mut Ranking) -> Result<(), PluginError> {
        totals.rank(2, ranking);
        Ok(())
    }
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let profile = ProfileBuilder::<4>::new("serve")
        .scorer("room", 1.0, |_: &mut Declare<'_>| Room)
        // Name it in the profile, and weigh it: a near pod may be rather full before a far one is asked.
        .scorer("near", 2.0, |_: &mut Declare<'_>| Near)
        .picker("best", |_: &mut Declare<'_>| Room);
    let workflow = profile.build()?;
    let index: Index = Index::new(Config::default());
    let mut pods = Vec::new();
    for (name, region, kv_used) in [("oslo", "eu", 0.9), ("rome", "eu", 0.5), ("reno", "us", 0.0)] {
        let info = PodInfo::new(index.join(name)?, name).label("region", region);
        pods.push(info.load(Load { kv_used, ..Load::default() }));
    }
    let (fleet, client) = (Fleet::new(1, pods), [("region", "eu")]);
    let request = Request::new("llama-8b", Instant::now()).labels(&client);
    let (mut plan, mut trace) = (RoutingPlan::default(), Trace::default());
    workflow.decide_traced(&mut workflow.workspace(), &request, &fleet, &mut plan, &mut trace)?;
    let tried = plan.steps()[0].candidates.iter().filter_map(|candidate| fleet.pod(candidate.pod.id()));
    let tried: Vec<&str> = tried.map(|info| &*info.name).collect();
    print!("try {}\n\n{}", tried.join(", then "), trace.table(&fleet));
    Ok(if tried == ["rome", "oslo"] { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
