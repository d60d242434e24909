//! Kubernetes discovery: an `InferencePool` of the Gateway API Inference Extension, and the pods that it selects.
//!
//! What the API server says is followed; where it says nothing, the last list stands. Only a pool that is deleted leaves none.

mod error;
mod model_rewrites;
mod objectives;
mod pool;
mod pool_pod;
mod published;
mod resource;
mod watched;

use std::fmt;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::core::DynamicObject;
use kube::runtime::watcher;
use pointsman::{Discovery, PodSpec};
use tokio::time::{Instant, sleep_until};

pub use error::KubernetesError;
pub use model_rewrites::Rewrites;
pub use objectives::Objectives;
use pool::Pool;
pub use pool::PoolFault;
use pool_pod::PoolPod;
pub use resource::PoolVersion;
use resource::Resource;
use watched::{Retry, Watched};

/// The pods of an `InferencePool`: each of its target ports, on each pod that is ready, is a pod of the router's.
///
/// - They are called as llm-d calls them, `pod-rank-0` and on, by the place of the port in the pool's `targetPorts`. The
///   annotation `llm-d.ai/active-ports` leaves ports out.
/// - A pod that is being deleted drains: it is listed, and takes nothing new, until its containers have stopped.
/// - A change of the pool's selector or ports is followed, and events that come together make one list.
/// - A pool that was there and is deleted has no pods; one that was never there is an error.
///
/// What goes wrong is an error of [`next`](Discovery::next), is tried again, and leaves the list as it was.
///
/// # Examples
///
/// ```no_run
/// use pointsman_epp::discovery::Synced;
/// use pointsman_epp::discovery::kubernetes::InferencePoolPods;
///
/// # async fn run(router: pointsman::Router) -> Result<(), kube::Error> {
/// let client = kube::Client::try_default().await?;
/// let (synced, pods) = Synced::of(InferencePoolPods::new(client, "default", "vllm"));
/// let task = router.spawn_discovery(pods, |error| tracing::warn!("{error}"));
/// assert!(!synced.has_synced(), "not yet");
/// # drop(task);
/// # Ok(())
/// # }
/// ```
pub struct InferencePoolPods {
    client: Client,
    namespace: String,
    name: String,
    debounce: Duration,
    retry: Retry,
    pool: Watched<DynamicObject, Result<Pool, PoolFault>>,
    /// The pool in force, and whether there ever was one.
    known: Known,
    pods: Option<Watched<Pod, PoolPod>>,
    /// When what changed is to be told.
    due: Option<Instant>,
    last: Option<Vec<PodSpec>>,
}

enum Known {
    Never,
    Pool(Pool),
    Deleted,
}

impl InferencePoolPods {
    /// The pods of a pool, whichever version of `InferencePool` the cluster has: `inference.networking.k8s.io/v1`, or else
    /// `inference.networking.x-k8s.io/v1alpha2`.
    pub fn new(client: Client, namespace: impl Into<String>, name: impl Into<String>) -> Self {
        let (namespace, name, retry) = (namespace.into(), name.into(), Retry::default());
        let pool = watch_pool(&client, &PoolVersion::ALL, &namespace, &name, retry);
        Self {
            client,
            namespace,
            name,
            debounce: Duration::from_millis(100),
            retry,
            pool,
            known: Known::Never,
            pods: None,
            due: None,
            last: None,
        }
    }

    /// The same with one version of `InferencePool`, and no other.
    #[must_use]
    pub fn version(mut self, version: PoolVersion) -> Self {
        self.pool = watch_pool(&self.client, &[version], &self.namespace, &self.name, self.retry);
        self
    }

    /// The same, gathering changes for another time than a tenth of a second. The first list does not wait.
    #[must_use]
    pub fn debounce(self, debounce: Duration) -> Self {
        Self { debounce, ..self }
    }

    /// The same, trying again after another time than half a second. It doubles with every failure, up to 30 seconds.
    #[must_use]
    pub fn retry(mut self, first: Duration) -> Self {
        self.retry = Retry { first, ..self.retry };
        self.pool.set_retry(self.retry);
        self
    }

    /// The same, where that doubles up to another time than 30 seconds.
    #[must_use]
    pub fn retry_at_most(mut self, most: Duration) -> Self {
        self.retry = Retry { most, ..self.retry };
        self.pool.set_retry(self.retry);
        self
    }

    /// Takes over what the API server says of the pool.
    fn follow_pool(&mut self) -> Result<(), KubernetesError> {
        let found = self.pool.objects().and_then(|pools| pools.get(&self.name)).cloned();
        let fault = |fault| KubernetesError::Pool { name: self.name.clone(), namespace: self.namespace.clone(), fault };
        match found.transpose().map_err(fault)?.filter(|pool| !pool.deleted) {
            None if matches!(self.known, Known::Never) => {
                return Err(KubernetesError::NoPool { name: self.name.clone(), namespace: self.namespace.clone() });
            }
            None => {
                self.known = Known::Deleted;
                self.pods = None;
            }
            Some(pool) => {
                let same = matches!(&self.known, Known::Pool(known) if known.selector == pool.selector);
                if !same {
                    self.pods = Some(self.watch_pods(&pool.selector));
                }
                self.known = Known::Pool(pool);
            }
        }
        self.note();
        Ok(())
    }

    /// Has the list looked at soon.
    fn note(&mut self) {
        let wait = if self.last.is_some() { self.debounce } else { Duration::ZERO };
        self.due.get_or_insert_with(|| Instant::now() + wait);
    }

    fn watch_pods(&self, selector: &str) -> Watched<Pod, PoolPod> {
        let pods = vec![Resource::pods(&self.client, &self.namespace)];
        Watched::new(pods, watcher::Config::default().labels(selector), PoolPod::read, self.retry)
    }

    /// The list, where it is time to tell it and it is another than the last.
    fn due_list(&mut self) -> Option<Vec<PodSpec>> {
        self.due.take_if(|due| *due <= Instant::now())?;
        let list = self.list().filter(|list| self.last.as_ref() != Some(list))?;
        self.last = Some(list.clone());
        Some(list)
    }

    /// The list, once there is one.
    fn list(&self) -> Option<Vec<PodSpec>> {
        match &self.known {
            Known::Never => None,
            Known::Deleted => Some(Vec::new()),
            Known::Pool(pool) => {
                let pods = self.pods.as_ref()?.objects()?;
                Some(pods.values().flat_map(|pod| pod.specs(&pool.ports)).collect())
            }
        }
    }
}

impl Discovery for InferencePoolPods {
    type Error = KubernetesError;

    async fn next(&mut self) -> Result<Vec<PodSpec>, KubernetesError> {
        loop {
            // Before anything else, so that neither an error nor a stream of events without end puts a list off.
            if let Some(list) = self.due_list() {
                return Ok(list);
            }
            tokio::select! {
                biased;
                () = until(self.due) => {}
                changed = self.pool.changed() => {
                    changed?;
                    self.follow_pool()?;
                }
                changed = pods_changed(&mut self.pods) => {
                    changed?;
                    self.note();
                }
            }
        }
    }
}

impl fmt::Debug for InferencePoolPods {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("InferencePoolPods");
        debug.field("namespace", &self.namespace).field("name", &self.name).field("last", &self.last);
        debug.finish_non_exhaustive()
    }
}

fn watch_pool(
    client: &Client,
    versions: &[PoolVersion],
    namespace: &str,
    name: &str,
    retry: Retry,
) -> Watched<DynamicObject, Result<Pool, PoolFault>> {
    let pools = versions.iter().map(|version| Resource::pools(client, *version, namespace)).collect();
    // One object by its name, so that a role may name it too.
    Watched::new(pools, watcher::Config::default().fields(&format!("metadata.name={name}")), Pool::read, retry)
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => std::future::pending().await,
    }
}

async fn pods_changed(pods: &mut Option<Watched<Pod, PoolPod>>) -> Result<(), KubernetesError> {
    match pods {
        Some(pods) => pods.changed().await,
        None => std::future::pending().await,
    }
}
