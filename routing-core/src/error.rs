//! Errors of a decision.

use std::sync::Arc;

use kv_index::PodId;

use crate::fault::PluginName;
use crate::plugin::PluginError;

/// Why a request got no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecideError {
    /// The fleet has no pod that could be offered: discovery found none, or all are excluded.
    #[error("no pod is offered to step `{step}`")]
    NoneOffered {
        /// The step.
        step: Arc<str>,
    },
    /// Filters removed every candidate. An operator's filter is too strict, or the fleet is full.
    #[error("none of {offered} pods is left for step `{}`: filter `{}` removed the last", filter.step, filter.plugin)]
    AllFiltered {
        /// Pods that were offered.
        offered: usize,
        /// The filter that removed the last of them.
        filter: PluginName,
    },
    /// A plugin failed.
    #[error("plugin `{plugin}` failed")]
    Plugin {
        /// Which.
        plugin: PluginName,
        /// Why.
        source: PluginError,
    },
    /// A preparer did not write what it had declared to. A fault of the plugin.
    #[error("plugin `{plugin}` declared to write slot `{slot}` and did not")]
    Unwritten {
        /// Which.
        plugin: PluginName,
        /// What.
        slot: &'static str,
    },
    /// A scorer gave something that is not a number. A fault of the plugin.
    #[error("scorer `{scorer}` gave pod {} a score that is not a number", pod.index())]
    NotANumber {
        /// Which.
        scorer: PluginName,
        /// For which pod.
        pod: PodId,
    },
    /// A picker ranked no candidate.
    #[error("picker `{picker}` picked none of {candidates} candidates")]
    NothingPicked {
        /// Which.
        picker: PluginName,
        /// Candidates it had.
        candidates: usize,
    },
    /// Every step has a condition, and none held. The operator's conditions leave this request out.
    #[error("no step is taken: every condition says no")]
    NoStepTaken,
    /// The pod that a step would be sent to has no room ([`RoutingInput::with_room`](crate::RoutingInput::with_room)).
    #[error("the pod of step `{step}` has no room")]
    NoRoom {
        /// The step.
        step: Arc<str>,
    },
    /// A plugin panicked, in a decision that catches that ([`Workflow::decide_catching`](crate::Workflow::decide_catching)).
    /// A fault of the plugin.
    #[error("plugin `{plugin}` panicked: {message}")]
    PluginPanicked {
        /// Which.
        plugin: PluginName,
        /// What it panicked with, if that is a text.
        message: Box<str>,
    },
    /// The workspace is of another workflow. The host mixed up its workspaces, or reloaded the workflow in between.
    #[error("the workspace is of another workflow")]
    ForeignWorkspace,
}
