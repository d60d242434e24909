//! `InferenceObjective`s of a pool: the priority that each name stands for.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use kube::Client;
use kube::core::DynamicObject;
use kube::runtime::watcher;
use tokio::task::JoinHandle;

use super::resource::{PoolVersion, Resource};
use super::watched::{Retry, Watched};

/// The priorities of a pool's objectives by their names, kept current by a task that ends with the last clone of this.
///
/// A request names its objective in the header `x-llm-d-inference-objective`. An objective without a priority has 0. Until a first
/// list came, and where the cluster has no such kind, there are none.
#[derive(Clone)]
pub struct Objectives {
    priorities: Arc<ArcSwap<HashMap<String, i32>>>,
    _task: Arc<Task>,
}

impl Objectives {
    /// Follows the objectives of a pool, of `llm-d.ai/v1alpha2` or else of `inference.networking.x-k8s.io/v1alpha2`, on the
    /// current tokio runtime. `told` hears what goes wrong, once for as long as it stays the same; what was known stays.
    pub fn follow(
        client: &Client,
        namespace: &str,
        pool: impl Into<String>,
        mut told: impl FnMut(&dyn fmt::Display) + Send + 'static,
    ) -> Self {
        let (pool, priorities) = (pool.into(), Arc::<ArcSwap<_>>::default());
        let resources = Resource::objectives(client, namespace);
        let mut objectives = Watched::new(resources, watcher::Config::default(), Objective::read, Retry::default());
        let published = Arc::clone(&priorities);
        let task = tokio::spawn(async move {
            let mut last = None;
            loop {
                match objectives.changed().await {
                    Ok(()) => {
                        last = None;
                        let named = objectives.objects().into_iter().flatten();
                        let of_pool = named.filter(|(_, objective)| objective.is_of(&pool));
                        let found = of_pool.map(|(name, objective)| (name.clone(), objective.priority)).collect();
                        published.store(Arc::new(found));
                    }
                    Err(error) if last.as_ref() == Some(&error) => {}
                    Err(error) => {
                        told(&error);
                        last = Some(error);
                    }
                }
            }
        });
        Self { priorities, _task: Arc::new(Task(task)) }
    }

    /// The priority of an objective, if there is one of that name.
    pub fn priority(&self, name: &str) -> Option<i32> {
        self.priorities.load().get(name).copied()
    }

    /// The map itself, to be shared.
    pub fn priorities(&self) -> Arc<ArcSwap<HashMap<String, i32>>> {
        Arc::clone(&self.priorities)
    }
}

impl fmt::Debug for Objectives {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Objectives").field(&self.priorities.load()).finish()
    }
}

struct Task(JoinHandle<()>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

struct Objective {
    /// Nothing where it is being deleted, or refers to something that is no pool.
    pool: Option<String>,
    priority: i32,
}

impl Objective {
    fn read(object: DynamicObject) -> Self {
        let spec = &object.data["spec"];
        let pool = &spec["poolRef"];
        // The API server fills an absent group in, so that one means the pool's own.
        let is_pool = pool["group"].as_str().is_none_or(|group| PoolVersion::of_group(group).is_some());
        let name = pool["name"].as_str().filter(|_| is_pool && object.metadata.deletion_timestamp.is_none());
        let priority = spec["priority"].as_i64().and_then(|priority| i32::try_from(priority).ok());
        Self { pool: name.map(str::to_owned), priority: priority.unwrap_or(0) }
    }

    fn is_of(&self, pool: &str) -> bool {
        self.pool.as_deref() == Some(pool)
    }
}
