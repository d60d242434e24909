//! What is made of the objects of a kind, published whole, and kept current by a task.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use kube::core::DynamicObject;
use kube::runtime::watcher;
use tokio::task::JoinHandle;

use super::resource::Resource;
use super::watched::{Retry, Watched};

/// A value that a task keeps current, which ends with the last clone of this.
#[derive(Clone)]
pub(super) struct Published<T> {
    pub(super) current: Arc<ArcSwap<T>>,
    _task: Arc<Task>,
}

impl<T: Default + Send + Sync + 'static> Published<T> {
    /// Follows objects on the current tokio runtime. `told` hears what goes wrong, once for as long as it stays the same; what was
    /// known stays.
    pub(super) fn follow<V: Send + 'static>(
        resources: Vec<Resource<DynamicObject>>,
        read: fn(DynamicObject) -> V,
        make: impl Fn(&BTreeMap<String, V>) -> T + Send + 'static,
        mut told: impl FnMut(&dyn fmt::Display) + Send + 'static,
    ) -> Self {
        let mut objects = Watched::new(resources, watcher::Config::default(), read, Retry::default());
        let current = Arc::<ArcSwap<T>>::default();
        let published = Arc::clone(&current);
        let task = tokio::spawn(async move {
            let mut last = None;
            loop {
                match objects.changed().await {
                    Ok(()) => {
                        last = None;
                        published.store(Arc::new(objects.objects().map(&make).unwrap_or_default()));
                    }
                    Err(error) if last.as_ref() == Some(&error) => {}
                    Err(error) => {
                        told(&error);
                        last = Some(error);
                    }
                }
            }
        });
        Self { current, _task: Arc::new(Task(task)) }
    }
}

struct Task(JoinHandle<()>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}
