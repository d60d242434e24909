//! Where should this request go?

#![forbid(unsafe_code)]

mod check;
mod condition;
mod context;
mod decide;
mod declare;
mod error;
mod fault;
mod fleet;
mod held;
mod nearest;
mod plan;
mod plugin;
mod profile;
mod reload;
mod request;
mod scores;
mod slot;
mod trace;
mod workflow;
mod workspace;

pub use condition::UnlessHeld;
pub use context::{Context, Preparing};
pub use declare::{Declare, ReadPick, TryReadPick};
pub use error::DecideError;
pub use fault::{BuildError, Fault, PluginName, Warning};
pub use fleet::{Fleet, FleetCell, Load, PodInfo, Role};
pub use held::Held;
pub use plan::{CacheHint, Candidate, FailurePolicy, PlanStep, RoutingPlan};
pub use plugin::{Condition, Filter, Picker, PluginError, Preparer, Scorer};
pub use profile::{OnEmpty, ProfileBuilder};
pub use reload::WorkflowCell;
pub use request::{Headers, Request};
pub use scores::{Pick, Ranking, Scores, Totals};
pub use slot::{Read, Reads, Slot, SlotError, TryRead, Write};
pub use trace::{FilterTrace, ScorerTrace, StepTrace, Trace};
pub use workflow::{StepBuilder, Workflow, WorkflowBuilder};
pub use workspace::Workspace;
