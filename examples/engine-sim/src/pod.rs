//! A simulated pod, put together: an engine's task, a socket's task, and a handle on both.
//!
//! The rule that must never break: when [`SimPod::stop`] returns, or some time after the handle is dropped, neither a task nor a
//! socket is left.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use kv_index::BlockHash;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::config::{Fault, PodConfig};
use crate::control::Control;
use crate::core::Core;
use crate::cost::CostModel;
use crate::events::EventSink;
use crate::figures::Figures;
use crate::http;
use crate::port::Port;
use crate::serve::Service;

/// A pod that serves on a loopback port. Dropped, it stops.
#[derive(Debug)]
pub struct SimPod {
    core: Arc<Core>,
    control: Arc<Control>,
    tasks: TaskTracker,
    stop: DropGuard,
}

impl SimPod {
    /// Starts a pod that costs what an H200 does. `sinks` are told of every change of its cache.
    ///
    /// # Errors
    ///
    /// If it cannot listen where it is told to.
    pub async fn start(config: PodConfig, sinks: Vec<Box<dyn EventSink>>) -> io::Result<Self> {
        Self::start_costing(CostModel::default(), config, sinks).await
    }

    /// The same with other costs.
    ///
    /// # Errors
    ///
    /// If it cannot listen where it is told to.
    pub async fn start_costing(
        costs: CostModel,
        mut config: PodConfig,
        sinks: Vec<Box<dyn EventSink>>,
    ) -> io::Result<Self> {
        let port = Port::at(config.listen)?;
        let listener = port.listen()?;
        config.listen = port.address()?;
        let core = Arc::new(Core::new(config, costs, sinks).map_err(io::Error::other)?);
        let control = Arc::new(Control::new(Arc::clone(&core)));
        let router = http::router(Arc::clone(&core), Arc::clone(&control)).map_err(io::Error::other)?;
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        let (working, token) = (Arc::clone(&core), stop.clone());
        tasks.spawn(async move { token.run_until_cancelled(working.work()).await });
        let (lived, controlled) = (Arc::clone(&core), Arc::clone(&control));
        let service = Service { core: lived, control: controlled, router, tasks: tasks.clone() };
        let (lives, token) = (service.live(port, listener), stop.clone());
        tasks.spawn(async move { token.run_until_cancelled(lives).await });
        tasks.close();
        Ok(Self { core, control, tasks, stop: stop.drop_guard() })
    }

    /// What the fleet calls it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.core.config.name
    }

    /// Where it serves HTTP, in every life.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.core.config.listen
    }

    /// Does a fault to it, as `POST /sim/fault` does. Those that concern events are for whoever is told of them.
    ///
    /// The cache of a pod that dies is gone when this returns; its connections are cut a moment later.
    pub fn fault(&self, fault: Fault) {
        self.control.fault(fault);
    }

    /// Has its publisher, or whoever else has a part in them, told of all faults.
    pub fn on_fault(&self, hook: impl Fn(Fault) + Send + Sync + 'static) {
        self.control.set_hook(Arc::new(hook));
    }

    /// Every block it holds, by the router's hash, and how many copies there are of it.
    #[must_use]
    pub fn cache(&self) -> BTreeMap<BlockHash, u32> {
        self.core.cache()
    }

    /// What it counts.
    #[must_use]
    pub fn figures(&self) -> Figures {
        self.core.figures()
    }

    /// Cuts everything. All tasks and sockets are gone when it returns.
    pub async fn stop(self) {
        self.core.die();
        drop(self.stop);
        self.tasks.wait().await;
    }
}
