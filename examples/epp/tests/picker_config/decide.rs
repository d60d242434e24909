//! Translated workflows, built over small fleets.

use std::sync::Arc;
use std::time::Instant;

use pointsman::index::{BlockSize, Config, Index};
use pointsman_epp::picker_config::{EstimateTokenizer, PickerConfig, Translation, register};
use routing_core::{Fleet, Load, PodInfo, Registry, Request, RoutingInput, RoutingPlan, Trace, Workflow};
use routing_plugins::{Hashing, PluginState};

/// What plugins share, as a translation's settings ask for it.
pub(crate) fn state(translation: &Translation) -> PluginState {
    let tokens = translation.settings.prefix_cache.block_tokens().unwrap_or(16);
    let index = Arc::new(Index::new(Config::default()));
    PluginState::new(index, Hashing::Native(BlockSize::new(tokens).unwrap()))
        .tokenizers(Arc::new(EstimateTokenizer::default()))
}

/// A document as a workflow.
pub(crate) fn build(document: &str, state: &PluginState) -> Result<Workflow, String> {
    let mut registry = Registry::new();
    routing_plugins::register(&mut registry, state).unwrap();
    register(&mut registry, state).unwrap();
    let document = registry.read(serde_yaml_ng::Deserializer::from_str(document)).map_err(|error| error.to_string())?;
    document.build(&registry).map_err(|error| error.to_string())
}

/// A pod of a scene.
#[derive(Clone, Debug, Default)]
pub(crate) struct ScenePod {
    pub(crate) waiting: u32,
    pub(crate) running: u32,
    pub(crate) kv_used: f32,
    pub(crate) adapters: Vec<&'static str>,
    pub(crate) labels: Vec<(&'static str, &'static str)>,
    /// The same, of a case.
    pub(crate) own_labels: Vec<(String, String)>,
}

impl ScenePod {
    /// As llm-d's tests write it: a queue, a use of the KV cache, and loaded adapters, of which there are at most two.
    pub(crate) fn new(waiting: u32, kv_used: f32, adapters: &[&'static str]) -> Self {
        Self { waiting, kv_used, adapters: adapters.to_vec(), ..Self::default() }
    }

    pub(crate) fn label(mut self, key: &'static str, value: &'static str) -> Self {
        self.labels.push((key, value));
        self
    }
}

/// A configuration, run over a fleet.
pub(crate) struct Scene {
    workflow: Workflow,
    pub(crate) fleet: Fleet,
    pub(crate) state: PluginState,
}

impl Scene {
    pub(crate) fn new(config: &str, pods: &[ScenePod]) -> Self {
        let translation = PickerConfig::read(config).unwrap_or_else(|error| panic!("{error}")).translate().unwrap();
        let state = state(&translation);
        let workflow = build(&translation.workflow, &state).unwrap();
        let infos = pods.iter().enumerate().map(|(at, pod)| {
            let name = format!("pod-{at}");
            let mut load = Load::default();
            (load.waiting, load.running, load.kv_used) = (pod.waiting, pod.running, pod.kv_used);
            let info = PodInfo::new(state.index.join(&name).unwrap(), &name).load(load).adapter_slots(2);
            let info = pod.adapters.iter().fold(info, |info, adapter| info.adapter(adapter));
            let info = pod.own_labels.iter().fold(info, |info, (key, value)| info.label(key, value));
            pod.labels.iter().fold(info, |info, (key, value)| info.label(key, value))
        });
        let fleet = Fleet::new(1, infos.collect::<Vec<_>>());
        Self { workflow, fleet, state }
    }

    /// The pods that a request goes to: the first of each step by the step's name, in the order of execution.
    pub(crate) fn decide(&self, request: &Request<'_>) -> Result<Vec<(String, usize)>, String> {
        let mut plan = RoutingPlan::default();
        let input = RoutingInput::new(request, &self.fleet);
        self.workflow.decide(&mut self.workflow.workspace(), input, &mut plan).map_err(|error| error.to_string())?;
        Ok(plan.steps().iter().map(|step| (step.name.to_string(), step.candidates[0].pod.id().index())).collect())
    }

    /// All pods that its one step ranks; none if nobody is left.
    pub(crate) fn ranked(&self, request: &Request<'_>) -> Vec<usize> {
        let mut plan = RoutingPlan::default();
        let input = RoutingInput::new(request, &self.fleet);
        match self.workflow.decide(&mut self.workflow.workspace(), input, &mut plan) {
            Ok(()) => plan.steps()[0].candidates.iter().map(|candidate| candidate.pod.id().index()).collect(),
            Err(_) => Vec::new(),
        }
    }

    /// What its one scorer gives each pod.
    pub(crate) fn scores(&self, request: &Request<'_>) -> Vec<f64> {
        let (mut plan, mut trace) = (RoutingPlan::default(), Trace::default());
        let input = RoutingInput::new(request, &self.fleet).traced(&mut trace);
        self.workflow.decide(&mut self.workflow.workspace(), input, &mut plan).unwrap();
        let mut scores = trace.steps[0].scorers[0].scores.clone();
        scores.sort_by_key(|(pod, _)| pod.index());
        scores.into_iter().map(|(_, score)| f64::from(score)).collect()
    }

    /// The pod of a workflow of one step.
    pub(crate) fn winner(&self, request: &Request<'_>) -> usize {
        let steps = self.decide(request).unwrap();
        assert_eq!(steps.len(), 1);
        steps[0].1
    }
}

pub(crate) fn request(body: &str) -> Request<'_> {
    Request::new("m", Instant::now()).body(body.as_bytes())
}
