//! The decision layer of Pointsman: a request and a fleet in, a [`RoutingPlan`] out.
//!
//! A decision composes small plugins that are validated together before the service starts. Two promises carry it:
//!
//! - To operators: a profile that builds cannot fail for reasons of composition. A build reports all faults at once, each
//!   [`Fault`] with its fix.
//! - To gateways: a warm decision allocates nothing, locks nothing and awaits nothing.
//!
//! # Example
//!
//! ```
//! use std::time::Instant;
//!
//! use kv_index::{Config, Index, PodSet};
//! use routing_core::{
//!     RoutingContext, Declare, Filter, Fleet, OnEmpty, Picker, PluginError, PodInfo, Preparer, PrepareContext, ProfileBuilder,
//!     Ranking, Read, Request, RoutingInput, RoutingPlan, Scorer, Scores, Slot, Totals, Write,
//! };
//!
//! /// How long the prompt is.
//! struct PromptLength;
//!
//! impl Slot for PromptLength {
//!     type Value = usize;
//!     const NAME: &'static str = "prompt.length";
//! }
//!
//! /// Measures the prompt.
//! struct Measure(Write<PromptLength>);
//!
//! impl Preparer for Measure {
//!     fn prepare(&self, context: &mut PrepareContext<'_>) -> Result<(), PluginError> {
//!         let length = context.request().body.len();
//!         Ok(context.put(self.0, length)?)
//!     }
//! }
//!
//! /// Leaves pods out that fail their health checks.
//! struct Healthy;
//!
//! impl Filter for Healthy {
//!     fn filter(&self, context: &RoutingContext<'_>, candidates: PodSet) -> Result<PodSet, PluginError> {
//!         Ok(candidates & context.fleet().healthy())
//!     }
//! }
//!
//! /// Prefers idle pods for long prompts: 1 for an idle pod, less with every request that waits.
//! struct Idle(Read<PromptLength>);
//!
//! impl Scorer for Idle {
//!     fn score(&self, context: &RoutingContext<'_>, scores: &mut Scores<'_>) -> Result<(), PluginError> {
//!         let length = *context.read(self.0)? as f32;
//!         scores.fill(|pod| {
//!             let waiting = context.fleet().load(pod).waiting;
//!             1.0 / (1.0 + waiting as f32 * length)
//!         });
//!         Ok(())
//!     }
//! }
//!
//! /// Takes the best.
//! struct Best;
//!
//! impl Picker for Best {
//!     fn pick(&self, _: &RoutingContext<'_>, totals: &Totals<'_>, ranking: &mut Ranking) -> Result<(), PluginError> {
//!         totals.rank(3, ranking);
//!         Ok(())
//!     }
//! }
//!
//! let selector = ProfileBuilder::new("demo")
//!     .preparer("measure", |d: &mut Declare<'_>| Measure(d.writes()))
//!     .filter("healthy", OnEmpty::Fail, |_: &mut Declare<'_>| Healthy)
//!     .scorer("idle", 1.0, |d: &mut Declare<'_>| Idle(d.reads()))
//!     .picker("best", |_: &mut Declare<'_>| Best)
//!     .build()?;
//!
//! let index: Index = Index::new(Config::default());
//! let (a, b) = (index.join("a")?, index.join("b")?);
//! let fleet = Fleet::new(1, [PodInfo::new(a, "a").unhealthy(), PodInfo::new(b, "b")]);
//! let (mut workspace, mut plan) = (selector.workspace(), RoutingPlan::default());
//! let request = Request::new("llama-8b", Instant::now()).body(b"Why is the sky blue?");
//! selector.decide(&mut workspace, RoutingInput::new(&request, &fleet), &mut plan)?;
//! assert_eq!(plan.steps()[0].candidates[0].pod, b);
//!
//! // Without the preparer the profile does not build, and says what to do.
//! let faulty = <ProfileBuilder>::new("demo")
//!     .scorer("idle", 1.0, |d: &mut Declare<'_>| Idle(d.reads()))
//!     .picker("best", |_: &mut Declare<'_>| Best)
//!     .build();
//! let text = faulty.expect_err("nothing writes the length").to_string();
//! assert!(text.contains("add a preparer that writes it before `demo/idle`"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # How a request becomes a plan
//!
//! A [`Selector`] is one pass of four stages: [`Preparer`]s compute what others read, [`Filter`]s remove candidates,
//! [`Scorer`]s score those that are left, and a [`Picker`] ranks them. Every plugin sees all candidates in one call, as a
//! [`PodSet`]. A [`ProfileBuilder`] builds a selector, which decides alone or as a workflow of one step. A [`Workflow`]
//! composes several over one [`RoutingContext`]: prefill and decode are two steps, and the second may read what the first
//! picked. A step may have a [`Condition`], and [`Recorder`]s that note a plan once it is complete.
//!
//! Plugins pass values through [`Slot`]s. A slot is a type, and its only keys are handles that a plugin gets by declaring,
//! while the workflow is built, that it reads or writes the slot. Without a handle there is no access, and what a plugin
//! declared to read is there.
//!
//! # Scores
//!
//! A score lies in 0..=1 and higher is better; what is set beyond is brought back. A total is the weighted mean of a
//! candidate's scores: each weight counts by its share of the step's sum, so totals lie in 0..=1 too. Ties go to the pod
//! whose number, mixed with the request's seed and the step, comes out highest ([`Totals::rank`]).
//!
//! # Guarantees
//!
//! - The same request, fleet and plugins give the same plan. The crate does no I/O, reads no clock and no environment, starts
//!   no threads and logs nothing.
//! - A decision sees one version of the fleet from start to end, and the plan says which.
//! - A handle opens its own slot for the plugin that declared it; used elsewhere, in another workflow or by another plugin, it
//!   gives a [`SlotError`], never a value.
//! - A plugin that panics costs its request and nothing else, where the host asks for that ([`Workflow::decide_catching`]).
//! - Reasons come as data on request ([`RoutingInput::traced`]). Without a trace they cost a branch.
//!
//! # Features
//!
//! None is on by default.
//!
//! - `serde`: workflows as documents, in YAML, JSON, TOML or whatever else serde reads; plugin types by name, JSON schema.
//! - `http`: `http::HeaderMap` as the headers of a request.

#![forbid(unsafe_code)]
// On docs.rs each item says which feature it needs.
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod batch;
mod catching;
mod check;
mod context;
mod decide;
mod declare;
#[cfg(feature = "serde")]
mod document;
mod error;
mod fault;
mod fleet;
pub mod flow;
mod in_flight;
mod input;
mod memory;
mod open_breakers;
#[cfg(feature = "serde")]
mod parameters;
mod path;
mod plan;
mod plugin;
mod prefix_matches;
mod profile;
mod program;
#[cfg(feature = "serde")]
mod registry;
mod reload;
mod request;
mod scores;
mod selector;
mod setters;
mod slot;
mod stage;
mod step;
mod suggest;
mod top_k;
mod trace;
#[cfg(feature = "serde")]
mod value;
mod workflow;
mod workspace;

pub use context::{PrepareContext, RoutingContext};
pub use declare::{Declare, ReadPick, TryReadPick};
#[cfg(feature = "serde")]
pub use document::{
    Document, DocumentError, DocumentSeed, FilterUse, NestedTooDeep, Place, PluginDefinition, Problem,
    ProfileDefinition, ScorerUse, StepDefinition, WorkflowDefinition, check_nesting,
};
pub use error::DecideError;
pub use fault::{BuildError, Fault, PluginName, Warning};
pub use fleet::{Fleet, FleetCell, Load, PodInfo, Role};
pub use in_flight::InFlightGuard;
pub use input::RoutingInput;
pub use memory::Memory;
pub use open_breakers::OpenBreakers;
// What plans name pods by, for those who carry them out and need not know the index.
pub use kv_index::{DEFAULT_POD_WORDS, Pod, PodId, PodSet};
#[cfg(feature = "serde")]
pub use parameters::{NoParameters, ParameterError, Refusal};
pub use path::Path;
pub use plan::{CacheHint, Candidate, FailurePolicy, PlanStep, RoutingPlan};
pub use plugin::{Condition, Filter, Picker, PluginError, Preparer, Recorder, Scorer};
pub use prefix_matches::PrefixMatches;
pub use profile::{OnEmpty, ProfileBuilder};
pub use program::{Program, ProgramTurn};
#[cfg(feature = "serde")]
pub use registry::{Registry, TypeTaken};
pub use reload::WorkflowCell;
pub use request::{Headers, PromptSpans, Request};
pub use scores::{Pick, Ranking, Scores, Totals};
pub use selector::Selector;
pub use slot::{Parts, Read, Reads, Slot, SlotError, TryRead, Write};
pub use stage::Stage;
pub use step::StepBuilder;
pub use suggest::suggest;
pub use trace::{FilterTrace, ScorerTrace, StepTrace, Trace};
#[cfg(feature = "serde")]
pub use value::Value;
pub use workflow::{Workflow, WorkflowBuilder};
pub use workspace::Workspace;

// Shared between threads by every gateway that embeds it.
#[cfg(test)]
const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<Selector>();
    shared::<Workflow>();
    shared::<Workspace>();
    shared::<Fleet>();
    shared::<RoutingPlan>();
    shared::<Request<'_>>();
};
