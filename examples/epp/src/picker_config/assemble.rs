//! Profiles as steps of a workflow: filters in order, scorers with their weights, and what all of them need.
//!
//! Health, drain and circuit breaker filters stand first, though llm-d has none: a pod that fails is no candidate. They
//! never leave nobody, so that decisions among healthy pods are llm-d's, and so are those where nobody is healthy.

use std::collections::BTreeMap;

use routing_core::OnEmpty;
use serde_json::{Map, Value, json};

use super::draft::{Draft, DraftProfile, DraftStep};
use super::handlers::{Handled, StepPlan};
use super::parts::{Needs, Parts, PickerPiece, Piece, World};
use super::pickers;
use super::plugin_types::{Part, PluginType};
use super::prefix_cache::{Producer, producer};
use super::schema::ProfileSpec;
use super::settings::{PrefixCache, Tokenizer};

/// Pieces by the names of llm-d's plugins.
pub(super) type PartsByName<'w> = BTreeMap<&'w str, Parts>;

/// What steps are made by.
pub(super) struct Assembly<'w> {
    world: World<'w>,
    parts: &'w PartsByName<'w>,
    tokenizer: Tokenizer,
    /// How it is known what pods hold, if somebody asks.
    pub(super) producer: Option<Producer>,
    /// What a profile without a picker picks by, and its name.
    default_picker: (String, PickerPiece),
}

/// A profile with everything in it.
struct Stage<'p> {
    filters: Vec<(String, &'p str, Piece)>,
    scorers: Vec<(String, &'p str, Piece, f64)>,
    picker: (String, PickerPiece),
    needs: Needs,
}

impl<'w> Assembly<'w> {
    pub(super) fn new(
        world: World<'w>,
        parts: &'w PartsByName<'w>,
        handled: &Handled<'w>,
        tokenizer: Tokenizer,
    ) -> Self {
        let default_picker = default_picker(world, parts);
        let mut assembly = Self { world, parts, tokenizer, producer: None, default_picker };
        let mut needs = Needs::default();
        for plan in handled.workflows.iter().flatten() {
            needs.add(&plan.needs);
            needs.add(&assembly.stage(plan).needs);
        }
        assembly.producer = assembly.choose(&needs);
        assembly
    }

    /// One workflow, and how many pods its primary step ranks.
    pub(super) fn draft(&self, plans: &[StepPlan<'w>], executed_in: &[String]) -> (Draft, usize) {
        let (mut draft, mut ranked, mut needs) = (Draft::default(), 1, Needs::default());
        let stages: Vec<Stage<'_>> = plans.iter().map(|plan| self.stage(plan)).collect();
        for (plan, stage) in plans.iter().zip(&stages) {
            needs.add(&plan.needs);
            needs.add(&stage.needs);
        }
        let prepare = self.prepare(&mut draft, &needs);
        for (at, (plan, stage)) in plans.iter().zip(stages).enumerate() {
            // One step alone does all there is to do on its pod.
            let (name, role) = (plan.profile.name.clone(), stage.role().filter(|_| plans.len() > 1));
            let most = stage.picker.1.most;
            if plan.is_primary {
                ranked = most;
            }
            draft.steps.push(DraftStep { name, role, when: plan.when.clone(), skips: plan.skips, ranked: most });
            let mut profile = self.profile(&mut draft, plan, stage, &needs);
            if at == 0 {
                profile.prepare.clone_from(&prepare);
            }
            draft.profiles.push(profile);
        }
        if plans.len() > 1 {
            draft.executed_in = executed_in.to_vec();
        }
        (draft, ranked)
    }

    /// The plugins of a profile, each as what it is here.
    fn stage(&self, plan: &StepPlan<'w>) -> Stage<'w> {
        let mut stage = Stage {
            filters: Vec::new(),
            scorers: Vec::new(),
            picker: self.default_picker.clone(),
            needs: Needs::default(),
        };
        let mut has_picker = false;
        for used in &plan.profile.plugins {
            let Some((name, parts)) = self.parts.get_key_value(used.plugin.name.as_str()) else { continue };
            let named = |piece: &Piece| (format!("{name}{}", piece.suffix), *name, piece.clone());
            // Without a peer a topology plugin passes everybody, and scores nobody.
            let is_near = |piece: &&Piece| !piece.near_peer || plan.peer.is_some();
            stage.filters.extend(parts.filters.iter().filter(is_near).map(named));
            // Of what is no scorer nobody looks at the weight.
            let weight = if parts.scorers.is_empty() { 0.0 } else { self.weight(used.weight, &used.plugin.place) };
            let scorers = parts.scorers.iter().filter(is_near).filter(|_| weight > 0.0).map(named);
            stage.scorers.extend(scorers.map(|(instance, name, piece)| (instance, name, piece, weight)));
            if let Some(picker) = &parts.picker {
                if has_picker {
                    let message = format!("a second picker beside `{}`: remove one of them", stage.picker.0);
                    self.world.found.problem(&used.plugin.place, message);
                }
                (stage.picker, has_picker) = (((*name).to_owned(), picker.clone()), true);
            }
        }
        if !stage.picker.1.by_score {
            // Nobody looks at them.
            stage.scorers.clear();
        }
        number(stage.filters.iter_mut().map(|(instance, ..)| instance));
        number(stage.scorers.iter_mut().map(|(instance, ..)| instance));
        for piece in
            stage.filters.iter().map(|(.., piece)| piece).chain(stage.scorers.iter().map(|(_, _, piece, _)| piece))
        {
            stage.needs.add(&piece.needs);
        }
        stage
    }

    /// A scorer's weight: 1 unless given. One of 0 scores nothing.
    fn weight(&self, given: Option<f64>, place: &super::error::Place) -> f64 {
        let weight = given.unwrap_or(1.0);
        if !(weight >= 0.0 && weight.is_finite()) {
            let message =
                format!("a weight of {weight}: here it is a number from 0 on (llm-d takes it, and subtracts)");
            self.world.found.problem(place, message);
        }
        weight
    }

    fn profile(&self, draft: &mut Draft, plan: &StepPlan<'w>, stage: Stage<'_>, needs: &Needs) -> DraftProfile {
        let mut profile = DraftProfile { name: plan.profile.name.clone(), ..DraftProfile::default() };
        // What nobody else can do first: where all who can are unwell, they are the ones to ask, and not that others are well. How much a pod
        // has to do comes behind its health, since one that is dead has nothing to do.
        let (able, others): (Vec<_>, Vec<_>) = stage.filters.into_iter().partition(|(.., piece)| piece.says_who_can());
        for (instance, name, piece) in able {
            profile.filter.push((self.define(draft, plan, &instance, name, piece), OnEmpty::Fail));
        }
        for kind in ["health_filter", "drain_filter", "breaker_filter"] {
            let name = draft.define(kind, kind, Map::new(), "not in llm-d: a pod that fails is no candidate");
            profile.filter.push((name, OnEmpty::KeepPrevious));
        }
        for (instance, name, piece) in others {
            let on_empty = piece.on_empty;
            profile.filter.push((self.define(draft, plan, &instance, name, piece), on_empty));
        }
        for (instance, name, piece, weight) in stage.scorers {
            profile.score.push((self.define(draft, plan, &instance, name, piece), weight));
        }
        let (name, PickerPiece { mut piece, .. }) = stage.picker;
        if self.producer.as_ref().is_some_and(|producer| producer.bursts) && piece.kind == "max_score_picker" {
            piece.parameters.insert("ties".to_owned(), json!("by_prompt"));
        }
        profile.pick = self.define(draft, plan, &name, &name, piece);
        self.record(draft, plan, &stage.needs, needs, &mut profile);
        profile
    }

    fn define(&self, draft: &mut Draft, plan: &StepPlan<'_>, instance: &str, name: &str, piece: Piece) -> String {
        let Piece { kind, mut parameters, near_peer, .. } = piece;
        if let (true, Some(peer)) = (near_peer, &plan.peer) {
            parameters.insert("step".to_owned(), json!(peer));
        }
        if let (Some(tiers), "cache_affinity_scorer") = (self.producer.as_ref().and_then(|one| one.tiers.clone()), kind)
        {
            parameters.insert("tiers".to_owned(), tiers);
        }
        let theirs = self.world.schema.plugin(name).map_or(name, |plugin| plugin.kind.as_str());
        let comment = if theirs == name { theirs.to_owned() } else { format!("{theirs} `{name}`") };
        draft.define(instance, kind, parameters, &comment)
    }

    /// What the plugins of all steps read.
    fn prepare(&self, draft: &mut Draft, needs: &Needs) -> Vec<String> {
        let producer = self.producer.as_ref().filter(|_| !needs.prefix.is_empty());
        let by_tokens = producer.is_some_and(|producer| self.hashes_tokens(producer));
        let mut prepare = Vec::new();
        let mut add = |kind: &str, parameters: Value, comment: &str| {
            let parameters = if let Value::Object(parameters) = parameters { parameters } else { Map::new() };
            prepare.push(draft.define(kind, kind, parameters, comment));
        };
        if needs.tokens || by_tokens {
            add("tokenize_preparer", Value::Null, "token-producer");
        }
        if let Some(producer) = producer {
            let most = producer.most_tokens;
            if by_tokens {
                add("block_hash_preparer", super::parts::some(json!({ "most_tokens": most })), "prefix cache producer");
            } else {
                let block = producer.cache.block_tokens().unwrap_or(1);
                let bytes = |tokens: i64| tokens.saturating_mul(BYTES_PER_TOKEN);
                let parameters = json!({ "block_bytes": bytes(block.into()), "most_bytes": most.map(bytes) });
                add("text_block_preparer", super::parts::some(parameters), "approx-prefix-cache-producer");
            }
            add("prefix_match_preparer", Value::Null, "prefix cache producer");
            if producer.tiers.is_some() {
                add("tier_match_preparer", json!({ "most_pods": 1024 }), "precise-prefix-cache-producer");
            }
        }
        if needs.loads {
            add(
                "load_preparer",
                super::parts::some(json!({ "stale_after_ms": needs.stale_after })),
                "metrics and in-flight loads",
            );
        }
        if let Some(from) = &needs.session {
            add("session_key_preparer", json!({ "from": from }), "sessionIdConfig.sources");
        }
        if needs.predictions {
            add("throughput_preparer", json!({ "prefill_rate": 15_928 }), "predicted-latency-producer");
        }
        prepare
    }

    /// What is remembered of a decision.
    fn record(&self, draft: &mut Draft, plan: &StepPlan<'_>, own: &Needs, all: &Needs, profile: &mut DraftProfile) {
        let mut add = |kind: &str, parameters: Map<String, Value>, comment: &str| {
            profile.record.push(draft.define(kind, kind, parameters, comment));
        };
        if let Some(producer) = self.producer.as_ref().filter(|_| plan.caches && !all.prefix.is_empty()) {
            match (&producer.cache, producer.speculates) {
                (PrefixCache::Approximate { .. }, _) => {
                    add("predict_recorder", Map::new(), "approx-prefix-cache-producer")
                }
                (_, Some(lasts)) => {
                    let parameters = Map::from_iter([("ttl_ms".to_owned(), json!(lasts))]);
                    add("speculate_recorder", parameters, "speculativeIndexing");
                }
                _ => {}
            }
        }
        if own.cold_prompts {
            add("cold_prompt_recorder", Map::new(), "no-hit-lru-scorer");
        }
        if plan.is_primary && all.session.is_some() {
            add("session_recorder", Map::new(), "session affinity");
        }
    }

    fn hashes_tokens(&self, producer: &Producer) -> bool {
        matches!(producer.cache, PrefixCache::Precise { .. }) || self.tokenizer != Tokenizer::Estimate
    }

    /// The one producer that is asked; there is one index.
    fn choose(&self, needs: &Needs) -> Option<Producer> {
        let mut found: Vec<(&String, Producer)> =
            needs.prefix.iter().filter_map(|name| Some((name, producer(self.world, name)?))).collect();
        let rank = |producer: &Producer| match producer.cache {
            PrefixCache::Precise { .. } => 0,
            _ if producer.bursts => 1,
            _ => 2,
        };
        found.sort_by_key(|(_, producer)| rank(producer));
        let (first, chosen) = found.first()?.clone();
        if found.len() > 1 {
            let others: Vec<&str> = found[1..].iter().map(|(name, _)| name.as_str()).collect();
            self.world.found.warn(format!(
                "there is one index of prefixes: plugins that read `{}` read `{first}` here",
                others.join("`, `")
            ));
        }
        if matches!(chosen.cache, PrefixCache::Precise { .. }) && self.tokenizer == Tokenizer::Estimate {
            self.world.found.warn(format!(
                "`{first}` is asked with estimated tokens, which match nothing that engines report: define a token-producer with `vllm`"
            ));
        }
        if chosen.bursts {
            self.world.found.warn(
                "burst-prefix-cache-producer: requests are not held back for a window; those of one prompt meet by what was sent where",
            );
        }
        Some(chosen)
    }
}

impl Stage<'_> {
    /// The work of a step, if a filter sees to it.
    fn role(&self) -> Option<&'static str> {
        self.filters.iter().find_map(|(.., piece)| piece.role)
    }
}

/// A plugin that a profile names several times is as many plugins here, each of its own name.
fn number<'n>(names: impl Iterator<Item = &'n mut String>) {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for name in names {
        let count = counts.entry(name.clone()).or_default();
        *count += 1;
        if *count > 1 {
            *name = format!("{name}-{count}");
        }
    }
}

/// Any picker that is defined serves profiles without one; the first, where there are several.
fn default_picker(world: World<'_>, parts: &PartsByName<'_>) -> (String, PickerPiece) {
    let is_picker = |kind: &str| PluginType::find(kind).is_some_and(|kind| kind.is(Part::Picker));
    let pickers: Vec<_> = world.schema.plugins.iter().filter(|plugin| is_picker(&plugin.kind)).collect();
    let lacks = |profile: &ProfileSpec| {
        !profile
            .plugins
            .iter()
            .any(|used| parts.get(used.plugin.name.as_str()).is_some_and(|parts| parts.picker.is_some()))
    };
    if pickers.len() > 1 && world.schema.profiles.iter().any(lacks) {
        world.found.warn(format!(
            "a profile without a picker takes `{}`; llm-d takes any of the {} that are defined",
            pickers[0].name,
            pickers.len()
        ));
    }
    let first = pickers
        .first()
        .and_then(|plugin| Some((plugin.name.clone(), parts.get(plugin.name.as_str())?.picker.clone()?)));
    first.unwrap_or_else(|| ("max-score-picker".to_owned(), pickers::of("max-score-picker", 1)))
}

/// What a token is taken for where there is no tokenizer.
const BYTES_PER_TOKEN: i64 = 4;
