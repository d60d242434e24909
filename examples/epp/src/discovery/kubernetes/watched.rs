//! Objects of the API server, kept current: kube's watcher, its events gathered, its errors told and its retries spaced.
//!
//! What was listed stays until a whole new list replaces it.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use kube::runtime::watcher::{self, Event, watcher};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep_until};

use super::error::{KubernetesError, status};
use super::resource::Resource;

/// How long until it is tried again: doubled with every failure.
#[derive(Clone, Copy, Debug)]
pub(super) struct Retry {
    pub(super) first: Duration,
    pub(super) most: Duration,
}

impl Default for Retry {
    fn default() -> Self {
        Self { first: Duration::from_millis(500), most: Duration::from_secs(30) }
    }
}

/// Objects by their names, as `V` has them.
pub(super) struct Watched<K, V> {
    /// The same kind in different versions, the preferred one first: the first that the cluster has is followed.
    resources: Vec<Resource<K>>,
    at: usize,
    /// How many of them, one after another, the cluster turned out not to have.
    missing: usize,
    /// Which of them the objects were listed of.
    listed: usize,
    /// When the preferred one is asked for again, while another one has no objects: it may have been made meanwhile.
    again_at: Option<Instant>,
    config: watcher::Config,
    read: fn(K) -> V,
    stream: BoxStream<'static, watcher::Result<Event<K>>>,
    incoming: BTreeMap<String, V>,
    objects: Option<BTreeMap<String, V>>,
    retry: Retry,
    delay: Duration,
    retry_at: Option<Instant>,
}

impl<K, V> Watched<K, V>
where
    K: kube::Resource + Clone + DeserializeOwned + fmt::Debug + Send + 'static,
{
    /// Objects of the first of these kinds that the cluster has.
    pub(super) fn new(resources: Vec<Resource<K>>, config: watcher::Config, read: fn(K) -> V, retry: Retry) -> Self {
        let stream = watcher(resources[0].api.clone(), config.clone()).boxed();
        Self {
            resources,
            at: 0,
            missing: 0,
            listed: 0,
            again_at: None,
            config,
            read,
            stream,
            incoming: BTreeMap::new(),
            objects: None,
            retry,
            delay: retry.first,
            retry_at: None,
        }
    }

    pub(super) fn set_retry(&mut self, retry: Retry) {
        (self.retry, self.delay) = (retry, retry.first);
    }

    /// What is there, once it was listed.
    pub(super) fn objects(&self) -> Option<&BTreeMap<String, V>> {
        self.objects.as_ref()
    }

    /// Waits until something changed. Nothing is lost where this is dropped before it ends.
    ///
    /// # Errors
    ///
    /// Whatever went wrong; the next call tries again, after a while.
    pub(super) async fn changed(&mut self) -> Result<(), KubernetesError> {
        loop {
            if let Some(at) = self.retry_at {
                sleep_until(at).await;
                self.retry_at = None;
            }
            let again = async {
                match self.again_at {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            let next = tokio::select! {
                next = self.stream.next() => next,
                () = again => {
                    (self.at, self.missing) = (0, 0);
                    None
                }
            };
            match next {
                Some(Ok(event)) => {
                    if self.take(event) {
                        (self.delay, self.missing) = (self.retry.first, 0);
                        return Ok(());
                    }
                }
                Some(Err(error)) => self.fail(&error)?,
                None => self.restart(),
            }
        }
    }

    /// Takes an event in; whether that changed the objects.
    fn take(&mut self, event: Event<K>) -> bool {
        match event {
            Event::Init => {
                self.incoming.clear();
                false
            }
            Event::InitApply(object) => {
                let name = name(&object);
                self.incoming.insert(name, (self.read)(object));
                false
            }
            Event::InitDone => {
                let incoming = std::mem::take(&mut self.incoming);
                self.again_at = (self.at > 0 && incoming.is_empty()).then(|| Instant::now() + self.retry.most);
                // That another version has none says nothing of objects whose own version is gone for a while.
                let is_another = self.again_at.is_some() && self.listed != self.at;
                if is_another && self.objects.as_ref().is_some_and(|objects| !objects.is_empty()) {
                    return false;
                }
                self.listed = self.at;
                self.objects = Some(incoming);
                true
            }
            Event::Apply(object) => {
                let name = name(&object);
                (self.listed, self.again_at) = (self.at, None);
                self.objects.get_or_insert_default().insert(name, (self.read)(object));
                true
            }
            Event::Delete(object) => self.objects.get_or_insert_default().remove(&name(&object)).is_some(),
        }
    }

    /// Prepares to try again. No error where the cluster may have the kind in another version.
    fn fail(&mut self, error: &watcher::Error) -> Result<(), KubernetesError> {
        let mut told = KubernetesError::new(&self.resources[self.at], error);
        match status(error).map(|status| status.code) {
            Some(404) => {
                self.missing += 1;
                self.at = (self.at + 1) % self.resources.len();
                self.restart();
                if self.missing < self.resources.len() {
                    return Ok(());
                }
                self.missing = 0;
                let names: Vec<&str> = self.resources.iter().map(|resource| &*resource.name).collect();
                told = KubernetesError::NoApi { resources: names.join(" or ") };
            }
            // Of a version that is not preferred a refusal is not the last word: the preferred one may be there by now, and it is what a
            // role is written for.
            Some(403) if self.at > 0 => {
                (self.at, self.missing) = (0, 0);
                self.restart();
            }
            // kube lists again where the stream says so; where the request itself is refused it would ask for the same
            // version for ever.
            Some(410) => self.restart(),
            _ => {}
        }
        self.retry_at = Some(Instant::now() + self.delay);
        self.delay = (self.delay * 2).min(self.retry.most);
        Err(told)
    }

    fn restart(&mut self) {
        self.again_at = None;
        self.stream = watcher(self.resources[self.at].api.clone(), self.config.clone()).boxed();
    }
}

fn name<K: kube::Resource>(object: &K) -> String {
    object.meta().name.clone().unwrap_or_default()
}
