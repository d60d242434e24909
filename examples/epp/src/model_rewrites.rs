//! Model rewrites: weighted targets that take the place of a model's name, as `InferenceModelRewrite`s say.
//!
//! Of several rules for a request one counts: one that names the model before one for all, then that of the oldest resource, then
//! the first.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;

/// Rules as somebody keeps them up to date.
pub type ModelRewrites = Arc<ArcSwap<RewriteRules>>;

/// A rule: which models it is for, and what they become.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RewriteRule {
    /// The resource that it is of.
    pub resource: Arc<str>,
    /// The models that it is for; all, if none is named.
    pub models: Vec<String>,
    /// What they become, by weight. Where some have a weight, those without one are left out; where none has, all are alike.
    pub targets: Vec<(String, Option<u32>)>,
}

/// The rules of a pool, by what they are for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RewriteRules {
    by_model: HashMap<String, Targets>,
    for_all: Option<Targets>,
}

/// What takes a model's place.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Targets {
    resource: Arc<str>,
    /// Each with the sum of the weights up to it.
    targets: Vec<(Arc<str>, u64)>,
}

impl RewriteRules {
    /// Rules, those that go first at the front.
    #[must_use]
    pub fn new(rules: impl IntoIterator<Item = RewriteRule>) -> Self {
        let mut new = Self::default();
        for rule in rules {
            let targets = Targets::of(&rule);
            if rule.models.is_empty() {
                new.for_all.get_or_insert(targets);
                continue;
            }
            for model in rule.models {
                new.by_model.entry(model).or_insert_with(|| targets.clone());
            }
        }
        new
    }

    /// The resource whose rule counts for a model, and the target that a number draws, 0 being the first and the largest the last. None
    /// where no rule counts, or the one that does has no targets.
    #[must_use]
    pub fn target(&self, model: &str, drawn: u64) -> Option<(Arc<str>, Arc<str>)> {
        let Targets { resource, targets } = self.by_model.get(model).or(self.for_all.as_ref())?;
        let total = targets.last()?.1;
        // Below the total, whatever is drawn.
        let at = ((u128::from(drawn) * u128::from(total)) >> 64) as u64;
        let (target, _) = targets.iter().find(|(_, up_to)| at < *up_to)?;
        Some((Arc::clone(resource), Arc::clone(target)))
    }
}

impl Targets {
    fn of(rule: &RewriteRule) -> Self {
        let alike = rule.targets.iter().all(|(_, weight)| weight.unwrap_or(0) == 0);
        let weights = rule.targets.iter().map(|(name, weight)| (name, if alike { 1 } else { weight.unwrap_or(0) }));
        let targets = weights.scan(0, |sum, (name, weight)| {
            *sum += u64::from(weight);
            Some((name.as_str().into(), *sum))
        });
        Self { resource: Arc::clone(&rule.resource), targets: targets.collect() }
    }
}

/// Draws numbers, each as likely as any other.
#[derive(Debug, Default)]
pub(crate) struct Draw(AtomicU64, RandomState);

impl Draw {
    pub(crate) fn next(&self) -> u64 {
        // Relaxed: that each is drawn once is all.
        self.1.hash_one(self.0.fetch_add(1, Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(resource: &str, models: &[&str], targets: &[(&str, Option<u32>)]) -> RewriteRule {
        RewriteRule {
            resource: resource.into(),
            models: models.iter().map(|model| (*model).to_owned()).collect(),
            targets: targets.iter().map(|(name, weight)| ((*name).to_owned(), *weight)).collect(),
        }
    }

    fn target(rules: &RewriteRules, model: &str, drawn: u64) -> Option<String> {
        rules.target(model, drawn).map(|(_, target)| target.to_string())
    }

    #[test]
    fn a_rule_that_names_the_model_goes_before_one_for_all_and_the_first_before_others() {
        let rules = RewriteRules::new([
            rule("a", &[], &[("any", None)]),
            rule("b", &["m", "n"], &[("m1", None)]),
            rule("b", &["m"], &[("m2", None)]),
            rule("c", &[], &[("later", None)]),
        ]);
        assert_eq!(["m", "n", "x"].map(|model| target(&rules, model, 7).unwrap()), ["m1", "m1", "any"]);
        assert_eq!(rules.target("m", 0).map(|(resource, _)| resource.to_string()).as_deref(), Some("b"));
        assert_eq!(RewriteRules::default().target("m", 0), None);
        let none = RewriteRules::new([rule("a", &["m"], &[]), rule("b", &["m"], &[("x", None)])]);
        assert_eq!(target(&none, "m", 0), None, "the rule that counts leaves the name as it is");
    }

    #[test]
    fn targets_are_drawn_by_their_weights() {
        let rules = RewriteRules::new([rule("a", &[], &[("a", Some(1)), ("b", None), ("c", Some(3))])]);
        let quarters = [0, u64::MAX / 4 - 1, u64::MAX / 4 + 1, u64::MAX];
        assert_eq!(quarters.map(|drawn| target(&rules, "m", drawn).unwrap()), ["a", "a", "c", "c"]);
        let alike = RewriteRules::new([rule("a", &[], &[("a", None), ("b", None)])]);
        assert_eq!([0, u64::MAX].map(|drawn| target(&alike, "m", drawn).unwrap()), ["a", "b"]);
        let draw = Draw::default();
        let first = (0..1_000).filter(|_| target(&rules, "m", draw.next()).as_deref() == Some("a")).count();
        assert!((150..350).contains(&first), "{first} of a thousand");
    }
}
