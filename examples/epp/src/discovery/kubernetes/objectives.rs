//! `InferenceObjective`s of a pool: the priority that each name stands for.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use kube::Client;
use kube::core::DynamicObject;

use super::published::Published;
use super::resource::{Resource, pool_of};

/// The priorities of a pool's objectives by their names, kept current by a task that ends with the last clone of this.
///
/// A request names its objective in the header `x-llm-d-inference-objective`. An objective without a priority has 0. Until a first
/// list came, and where the cluster has no such kind, there are none.
#[derive(Clone)]
pub struct Objectives(Published<HashMap<String, i32>>);

impl Objectives {
    /// Follows the objectives of a pool, of `llm-d.ai/v1alpha2` or else of `inference.networking.x-k8s.io/v1alpha2`, on the
    /// current tokio runtime. `told` hears what goes wrong, once for as long as it stays the same; what was known stays.
    pub fn follow(
        client: &Client,
        namespace: &str,
        pool: impl Into<String>,
        told: impl FnMut(&dyn fmt::Display) + Send + 'static,
    ) -> Self {
        let (pool, resources) = (pool.into(), Resource::objectives(client, namespace));
        Self(Published::follow(
            resources,
            Objective::read,
            move |objectives| {
                let of_pool = objectives.iter().filter(|(_, objective)| objective.pool.as_ref() == Some(&pool));
                of_pool.map(|(name, objective)| (name.clone(), objective.priority)).collect()
            },
            told,
        ))
    }

    /// The priority of an objective, if there is one of that name.
    pub fn priority(&self, name: &str) -> Option<i32> {
        self.0.current.load().get(name).copied()
    }

    /// The map itself, to be shared.
    pub fn priorities(&self) -> Arc<ArcSwap<HashMap<String, i32>>> {
        Arc::clone(&self.0.current)
    }
}

impl fmt::Debug for Objectives {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Objectives").field(&self.0.current.load()).finish()
    }
}

struct Objective {
    /// Nothing where it is being deleted, or refers to something that is no pool.
    pool: Option<String>,
    priority: i32,
}

impl Objective {
    fn read(object: DynamicObject) -> Self {
        let priority = object.data["spec"]["priority"].as_i64().and_then(|priority| i32::try_from(priority).ok());
        Self { pool: pool_of(&object), priority: priority.unwrap_or(0) }
    }
}
