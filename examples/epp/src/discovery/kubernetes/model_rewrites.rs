//! `InferenceModelRewrite`s of a pool: the models that take the place of others.

use std::fmt;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Client;
use kube::core::DynamicObject;
use serde::Deserialize;

use super::published::Published;
use super::resource::{Resource, pool_of};
use crate::model_rewrites::{ModelRewrites, RewriteRule, RewriteRules};

/// The rules of a pool's rewrites, kept current by a task that ends with the last clone of this.
///
/// Until a first list came, and where the cluster has no such kind, there are none.
#[derive(Clone)]
pub struct Rewrites(Published<RewriteRules>);

impl Rewrites {
    /// Follows the rewrites of a pool, of `llm-d.ai/v1alpha2` or else of `inference.networking.x-k8s.io/v1alpha2`, on the
    /// current tokio runtime. `told` hears what goes wrong, once for as long as it stays the same; what was known stays.
    pub fn follow(
        client: &Client,
        namespace: &str,
        pool: impl Into<String>,
        told: impl FnMut(&dyn fmt::Display) + Send + 'static,
    ) -> Self {
        let (pool, resources) = (pool.into(), Resource::model_rewrites(client, namespace));
        Self(Published::follow(
            resources,
            Rewrite::read,
            move |rewrites| {
                let mut of_pool: Vec<_> =
                    rewrites.values().filter(|rewrite| rewrite.pool.as_ref() == Some(&pool)).collect();
                // Stable: of those as old as each other the first by name goes first.
                of_pool.sort_by(|a, b| a.created.cmp(&b.created));
                RewriteRules::new(of_pool.into_iter().flat_map(|rewrite| rewrite.rules.iter().cloned()))
            },
            told,
        ))
    }

    /// The rules, to be shared.
    #[must_use]
    pub fn rules(&self) -> ModelRewrites {
        Arc::clone(&self.0.current)
    }
}

impl fmt::Debug for Rewrites {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Rewrites").field(&self.0.current.load()).finish()
    }
}

struct Rewrite {
    /// Nothing where it is being deleted, refers to something that is no pool, or cannot be read.
    pool: Option<String>,
    created: Option<Time>,
    rules: Vec<RewriteRule>,
}

impl Rewrite {
    fn read(object: DynamicObject) -> Self {
        let (name, created) = (
            Arc::from(object.metadata.name.as_deref().unwrap_or_default()),
            object.metadata.creation_timestamp.clone(),
        );
        let pool = pool_of(&object);
        let spec: Result<Spec, _> = serde_json::from_value(object.data["spec"].clone());
        let Ok(spec) = spec else {
            tracing::warn!(name = &*name, "an InferenceModelRewrite cannot be read, and counts for nothing");
            return Self { pool: None, created, rules: Vec::new() };
        };
        let rules = spec.rules.into_iter().filter_map(|rule| rule.read(&name)).collect();
        Self { pool, created, rules }
    }
}

#[derive(Deserialize)]
struct Spec {
    rules: Vec<Rule>,
}

#[derive(Deserialize)]
struct Rule {
    #[serde(default)]
    matches: Vec<Match>,
    #[serde(default)]
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Match {
    model: Option<Model>,
}

#[derive(Deserialize)]
struct Model {
    value: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Target {
    weight: Option<u32>,
    model_rewrite: String,
}

impl Rule {
    /// The rule; none if it matches, but no model.
    fn read(self, resource: &Arc<str>) -> Option<RewriteRule> {
        let is_for_all = self.matches.is_empty();
        let models: Vec<_> = self.matches.into_iter().filter_map(|of| Some(of.model?.value)).collect();
        let targets = self.targets.into_iter().map(|target| (target.model_rewrite, target.weight)).collect();
        let is_for_some = !models.is_empty();
        (is_for_all || is_for_some).then(|| RewriteRule { resource: Arc::clone(resource), models, targets })
    }
}
