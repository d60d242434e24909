//! Plugins of the picker's own, for what llm-d has and the stock does not: registered beside the stock ones.
//!
//! | type in documents | stage | in one line |
//! |---|---|---|
//! | `label_or_none_filter` | filter | pods with one of a label's values, or without the label |
//! | `locality_filter` | filter | pods in the same place as an earlier step's pod |
//! | `session_filter` | filter | the session's pod alone, by the table of sessions |
//! | `session_token_filter` | filter | the session's pod alone, by a header that the client brings |
//! | `session_token_scorer` | scorer | the session's pod, by that header |
//! | `header_label_scorer` | scorer | pods whose label is as a header |
//! | `multimodal_condition` | condition | the prompt has images, audio or video |

mod label;
mod locality;
mod multimodal;
mod session;
mod session_token;

use pointsman::index::PodSet;
use routing_core::{NoParameters, Registry, TypeTaken};
use routing_plugins::PluginState;

use label::{HeaderLabelParameters, HeaderLabelScorer, LabelOrNoneFilter, LabelOrNoneParameters};
use locality::{LocalityFilter, LocalityFilterParameters};
use multimodal::MultimodalCondition;
use session::SessionFilter;
use session_token::{SessionToken, SessionTokenParameters};

/// Registers the picker's own plugins. Stock ones are [`routing_plugins::register`]'s.
///
/// # Errors
///
/// When a name is taken by a type that was registered before.
pub fn register<const W: usize>(registry: &mut Registry<W>, state: &PluginState<W>) -> Result<(), TypeTaken> {
    registry
        .filter::<LabelOrNoneParameters, _>("label_or_none_filter", |parameters, _| LabelOrNoneFilter(parameters))?;
    registry.filter::<LocalityFilterParameters, _>("locality_filter", |parameters, declare| {
        LocalityFilter::declare(declare, parameters)
    })?;
    let sessions = std::sync::Arc::clone(&state.sessions);
    registry.filter::<NoParameters, _>("session_filter", move |_, declare| {
        SessionFilter::declare(declare, sessions.table("sessions"))
    })?;
    registry.filter::<SessionTokenParameters, _>("session_token_filter", |parameters, _| SessionToken(parameters))?;
    registry.scorer::<SessionTokenParameters, _>("session_token_scorer", |parameters, _| SessionToken(parameters))?;
    registry
        .scorer::<HeaderLabelParameters, _>("header_label_scorer", |parameters, _| HeaderLabelScorer(parameters))?;
    registry.condition::<NoParameters, _>("multimodal_condition", |_, _| MultimodalCondition)
}

/// Some of the candidates, or all of them if none of these is one.
fn narrowed<const W: usize>(candidates: PodSet<W>, kept: PodSet<W>) -> PodSet<W> {
    let kept = candidates & kept;
    if kept.is_empty() { candidates } else { kept }
}
