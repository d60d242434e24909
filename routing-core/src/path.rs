//! Paths into workflows and documents: `profiles[0].score[1].weight`.

use std::fmt;

use crate::stage::Stage;

/// Where something is in a workflow or a document: fields by name, elements by number from 0.
///
/// # Examples
///
/// ```
/// use routing_core::{ProfileBuilder, Scorer};
/// # use routing_core::{Picker, PluginError, Ranking, RoutingContext, Scores, Totals};
/// # struct Any;
/// # impl Scorer for Any {
/// #     fn score(&self, _: &RoutingContext<'_>, _: &mut Scores<'_>) -> Result<(), PluginError> { Ok(()) }
/// # }
/// # impl Picker for Any {
/// #     fn pick(&self, _: &RoutingContext<'_>, _: &Totals<'_>, _: &mut Ranking) -> Result<(), PluginError> { Ok(()) }
/// # }
///
/// let profile = <ProfileBuilder>::new("p").scorer("any", -1.0, |_| Any).picker("best", |_| Any);
/// let error = profile.build().expect_err("a weight below 0");
/// let (path, _) = error.placed().next().expect("there is a fault");
/// assert_eq!(path.to_string(), "steps[0].score[0].weight");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Path(Vec<Segment>);

/// A step of a path.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Segment {
    Field(Box<str>),
    Element(usize),
}

impl Path {
    /// Whether it leads to the whole.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.0.is_empty()
    }

    /// A path of fields and elements as they are written, such as `workflow.steps`.
    pub(crate) fn of(fields: &str) -> Self {
        Self(fields.split('.').filter(|field| !field.is_empty()).map(|field| Segment::Field(field.into())).collect())
    }

    #[must_use]
    pub(crate) fn field(mut self, name: &str) -> Self {
        self.0.push(Segment::Field(name.into()));
        self
    }

    #[must_use]
    pub(crate) fn element(mut self, at: usize) -> Self {
        self.0.push(Segment::Element(at));
        self
    }

    /// This one, and then another from there.
    #[cfg(feature = "serde")]
    #[must_use]
    pub(crate) fn then(mut self, other: &[Segment]) -> Self {
        self.0.extend_from_slice(other);
        self
    }

    /// Whether it leads into a field of the whole.
    #[cfg(feature = "serde")]
    pub(crate) fn is_in(&self, field: &str) -> bool {
        matches!(self.0.first(), Some(Segment::Field(name)) if **name == *field)
    }

    #[cfg(feature = "serde")]
    pub(crate) fn segments(&self) -> &[Segment] {
        &self.0
    }

    #[cfg(feature = "serde")]
    pub(crate) fn push(&mut self, segment: Segment) {
        self.0.push(segment);
    }

    #[cfg(feature = "serde")]
    pub(crate) fn pop(&mut self) {
        self.0.pop();
    }
}

impl From<Vec<Segment>> for Path {
    fn from(segments: Vec<Segment>) -> Self {
        Self(segments)
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, segment) in self.0.iter().enumerate() {
            let dot = if at == 0 { "" } else { "." };
            match segment {
                Segment::Element(number) => write!(f, "[{number}]")?,
                Segment::Field(name) if is_plain(name) => write!(f, "{dot}{name}")?,
                Segment::Field(name) => write!(f, "{dot}{name:?}")?,
            }
        }
        Ok(())
    }
}

/// Whether a name cannot be taken for a longer path.
fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|letter| letter.is_alphanumeric() || "_-/:$".contains(letter))
}

/// What a fault or a warning of a workflow is about, before it is known whether it was built from a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Site {
    /// The list of steps.
    Steps,
    /// The order of execution, or one name in it.
    Executed(Option<usize>),
    /// A field of a step.
    Step(usize, &'static str),
    /// All plugins of a stage of a step.
    Stage(usize, Stage),
    /// A plugin of a step: the one of this number in its stage.
    Plugin(usize, Stage, usize),
    /// The weight of a scorer.
    Weight(usize, usize),
}

impl Site {
    /// Its path among what was built in code.
    pub(crate) fn path(self) -> Path {
        let of_stage = |step, stage| Path::of("steps").element(step).field(field(stage));
        match self {
            Self::Steps => Path::of("steps"),
            Self::Executed(None) => Path::of("executed_in"),
            Self::Executed(Some(at)) => Path::of("executed_in").element(at),
            Self::Step(step, name) => Path::of("steps").element(step).field(name),
            Self::Stage(step, stage) => of_stage(step, stage),
            Self::Plugin(step, stage @ (Stage::Condition | Stage::Pick), 0) => of_stage(step, stage),
            Self::Plugin(step, stage, at) => of_stage(step, stage).element(at),
            Self::Weight(step, at) => of_stage(step, Stage::Score).element(at).field("weight"),
        }
    }
}

/// What profiles and steps call the plugins of a stage.
pub(crate) fn field(stage: Stage) -> &'static str {
    match stage {
        Stage::Condition => "when",
        Stage::Prepare => "prepare",
        Stage::Filter => "filter",
        Stage::Score => "score",
        Stage::Pick => "pick",
        Stage::Record => "record",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_written_as_one_would_say_it() {
        let path = Path::of("plugins").element(3).field("parameters").field("patience").field("factr");
        assert_eq!(path.to_string(), "plugins[3].parameters.patience.factr");
        assert_eq!(Path::of("a").field("b.c").field("").to_string(), r#"a."b.c"."""#);
        assert!(Path::default().is_whole() && Path::default().to_string().is_empty());
    }
}
