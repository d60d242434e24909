//! Plugin traits, one for each stage, called with the whole set of candidates at once.
//!
//! Plugins are shared between requests and threads: their state is their configuration. Given the same context, and what
//! the host shares with them, they answer the same.

use std::fmt;

use kv_index::{DEFAULT_POD_WORDS, PodId, PodSet};

use crate::context::{PrepareContext, RoutingContext};
use crate::plan::PlanStep;
use crate::scores::{Ranking, Scores, Totals};
use crate::slot::SlotError;

/// Works something out once for a request, for others to read: tokens, hashes, what pods hold.
pub trait Preparer<const W: usize = DEFAULT_POD_WORDS>: Send + Sync {
    /// Writes every slot that was declared to be written.
    ///
    /// # Errors
    ///
    /// When the request cannot be prepared. The decision ends with it.
    fn prepare(&self, context: &mut PrepareContext<'_, W>) -> Result<(), PluginError>;
}

/// Takes candidates away.
pub trait Filter<const W: usize = DEFAULT_POD_WORDS>: Send + Sync {
    /// The candidates that may stay. Pods that were not offered do not become candidates by it.
    ///
    /// # Errors
    ///
    /// When it cannot be told. The decision ends with it.
    fn filter(&self, context: &RoutingContext<'_, W>, candidates: PodSet<W>) -> Result<PodSet<W>, PluginError>;

    /// Of the candidates that it left, those that are to be tried last, whatever their scores: none, unless it says so. They are not
    /// picked from where there are others, and rank behind all that are picked.
    ///
    /// Later filters narrow them, and the others, by themselves: one that says who is well, such as for health and circuit breakers, belongs before
    /// this one. Behind it, it would be passed over where none of the others are well, and not send a request to one that is tried last.
    fn last_resort(&self, _context: &RoutingContext<'_, W>, _candidates: PodSet<W>) -> Option<PodSet<W>> {
        None
    }
}

/// Says how good each candidate is.
///
/// # Examples
///
/// A scorer that prefers pods in the client's region: implement it, name it in a profile, weigh it.
///
/// ```
/// use std::time::Instant;
///
/// use kv_index::{Config, Index};
/// use routing_core::{
///     RoutingContext, Declare, Fleet, Picker, PluginError, PodInfo, ProfileBuilder, Ranking, Request, RoutingInput, RoutingPlan, Scorer,
///     Scores, Totals,
/// };
///
/// struct Near;
///
/// impl Scorer for Near {
///     fn score(&self, context: &RoutingContext<'_>, scores: &mut Scores<'_>) -> Result<(), PluginError> {
///         let region = context.request().label("region").unwrap_or_default();
///         scores.set_all(context.fleet().labelled("region", region), 1.0);
///         Ok(())
///     }
/// }
///
/// # struct Best;
/// # impl Picker for Best {
/// #     fn pick(&self, _: &RoutingContext<'_>, totals: &Totals<'_>, ranking: &mut Ranking) -> Result<(), PluginError> {
/// #         totals.rank(1, ranking);
/// #         Ok(())
/// #     }
/// # }
/// let workflow = <ProfileBuilder>::new("serve")
///     .scorer("near", 2.0, |_: &mut Declare<'_>| Near)
///     .picker("best", |_: &mut Declare<'_>| Best)
///     .build()?;
///
/// let index: Index = Index::new(Config::default());
/// let (oslo, reno) = (index.join("oslo")?, index.join("reno")?);
/// let pod = |pod, name, region| PodInfo::new(pod, name).label("region", region);
/// let fleet = Fleet::new(1, [pod(oslo, "oslo", "eu"), pod(reno, "reno", "us")]);
/// let request = Request::new("llama-8b", Instant::now()).labels(&[("region", "us")]);
/// let mut plan = RoutingPlan::default();
/// workflow.decide(&mut workflow.workspace(), RoutingInput::new(&request, &fleet), &mut plan)?;
/// assert_eq!(plan.steps()[0].candidates[0].pod, reno);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Scorer<const W: usize = DEFAULT_POD_WORDS>: Send + Sync {
    /// Sets scores in 0..=1, higher is better. What is not set is 0.
    ///
    /// # Errors
    ///
    /// When it cannot be told. The decision ends with it.
    fn score(&self, context: &RoutingContext<'_, W>, scores: &mut Scores<'_, W>) -> Result<(), PluginError>;

    /// What the score of a candidate was made of that nobody sees otherwise, such as what was learned of the pod: figures by name, for
    /// the [trace](crate::Trace). Asked after [`score`](Self::score), of traced decisions alone; none, unless said.
    fn explain(&self, _context: &RoutingContext<'_, W>, _pod: PodId) -> Vec<(&'static str, f64)> {
        Vec::new()
    }
}

/// Chooses among the scored candidates.
pub trait Picker<const W: usize = DEFAULT_POD_WORDS>: Send + Sync {
    /// Ranks at least one candidate. Pods that are no candidates are not taken.
    ///
    /// # Errors
    ///
    /// When nothing can be chosen. The decision ends with it.
    fn pick(
        &self,
        context: &RoutingContext<'_, W>,
        totals: &Totals<'_, W>,
        ranking: &mut Ranking,
    ) -> Result<(), PluginError>;
}

/// Takes note of what was decided: a prompt on its way to a pod, a session bound to it.
///
/// What it remembers is the host's, not the plugin's: other plugins read it for later requests.
pub trait Recorder<const W: usize = DEFAULT_POD_WORDS>: Send + Sync {
    /// Called for its step once the whole plan stands, in the order of steps and recorders; a decision that failed before is
    /// not recorded.
    ///
    /// # Errors
    ///
    /// When it cannot be recorded. The decision ends with it; recorders before it have recorded.
    fn record(&self, context: &RoutingContext<'_, W>, step: &PlanStep) -> Result<(), PluginError>;
}

/// Says whether a step of a workflow is taken.
pub trait Condition<const W: usize = DEFAULT_POD_WORDS>: Send + Sync {
    /// Whether the step is taken for this request.
    ///
    /// # Errors
    ///
    /// When it cannot be told. The decision ends with it.
    fn holds(&self, context: &RoutingContext<'_, W>) -> Result<bool, PluginError>;
}

/// Why a plugin could not do its work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PluginError {
    /// It used a handle that is none of its own. A fault of the plugin.
    #[error(transparent)]
    Slot(#[from] SlotError),
    /// It says why.
    #[error("{0}")]
    Failed(Box<str>),
}

impl PluginError {
    /// A failure in the plugin's own words; lower case, without a full stop.
    pub fn failed(reason: impl fmt::Display) -> Self {
        Self::Failed(reason.to_string().into())
    }
}

/// Boxed plugins are plugins, with all that they say, so that a declaration may choose among types.
macro_rules! boxed {
    ($($plugin:ident { $($method:ident($($name:ident: $type:ty),*) -> $output:ty;)* })*) => {$(
        impl<const W: usize, P: $plugin<W> + ?Sized> $plugin<W> for Box<P> {
            $(fn $method(&self, $($name: $type),*) -> $output {
                (**self).$method($($name),*)
            })*
        }
    )*};
}

boxed! {
    Preparer {
        prepare(context: &mut PrepareContext<'_, W>) -> Result<(), PluginError>;
    }
    Filter {
        filter(context: &RoutingContext<'_, W>, candidates: PodSet<W>) -> Result<PodSet<W>, PluginError>;
        last_resort(context: &RoutingContext<'_, W>, candidates: PodSet<W>) -> Option<PodSet<W>>;
    }
    Scorer {
        score(context: &RoutingContext<'_, W>, scores: &mut Scores<'_, W>) -> Result<(), PluginError>;
        explain(context: &RoutingContext<'_, W>, pod: PodId) -> Vec<(&'static str, f64)>;
    }
    Picker {
        pick(context: &RoutingContext<'_, W>, totals: &Totals<'_, W>, ranking: &mut Ranking) -> Result<(), PluginError>;
    }
    Recorder {
        record(context: &RoutingContext<'_, W>, step: &PlanStep) -> Result<(), PluginError>;
    }
    Condition {
        holds(context: &RoutingContext<'_, W>) -> Result<bool, PluginError>;
    }
}
