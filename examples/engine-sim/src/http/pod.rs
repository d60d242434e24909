//! A simulated pod: an engine loop, an HTTP listener, and a handle on both.
//!
//! Invariant: when [`SimPod::stop`] returns, or some time after the handle is dropped, neither a task nor a
//! socket is left.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use kv_index::BlockHash;
use routing_plugins::CostModel;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use super::api;
use super::config::{Fault, PodConfig};
use super::engine::Engine;
use super::events::EventSink;
use super::faults::FaultInjector;
use super::listener::Server;
use super::metrics::EngineMetrics;
use super::reserved_port::ReservedPort;

/// A pod that serves on a loopback port. Dropped, it stops.
#[derive(Debug)]
pub struct SimPod {
    engine: Arc<Engine>,
    injector: Arc<FaultInjector>,
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
        let port = ReservedPort::at(config.listen)?;
        let listener = port.listen()?;
        config.listen = port.address()?;
        let engine = Arc::new(Engine::new(config, costs, sinks).map_err(io::Error::other)?);
        let injector = Arc::new(FaultInjector::new(Arc::clone(&engine)));
        let router = api::router(Arc::clone(&engine), Arc::clone(&injector)).map_err(io::Error::other)?;
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        let (working, token) = (Arc::clone(&engine), stop.clone());
        tasks.spawn(async move { token.run_until_cancelled(working.run_steps()).await });
        let (engine_of, injector_of) = (Arc::clone(&engine), Arc::clone(&injector));
        let server = Server { engine: engine_of, injector: injector_of, router, tasks: tasks.clone() };
        let (serving, token) = (server.run(port, listener), stop.clone());
        tasks.spawn(async move { token.run_until_cancelled(serving).await });
        tasks.close();
        Ok(Self { engine, injector, tasks, stop: stop.drop_guard() })
    }

    /// What the fleet calls it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.engine.config.name
    }

    /// Where it serves HTTP, in every incarnation.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.engine.config.listen
    }

    /// Does a fault to it, as `POST /sim/fault` does. Those that concern events are for whoever is told of them.
    ///
    /// The cache of a pod that dies is gone when this returns; its connections are cut a moment later.
    pub fn fault(&self, fault: Fault) {
        self.injector.inject(fault);
    }

    /// Has its publisher, or whoever else has a part in them, told of all faults.
    pub fn on_fault(&self, hook: impl Fn(Fault) + Send + Sync + 'static) {
        self.injector.set_hook(Arc::new(hook));
    }

    /// Every block it holds, by the router's hash, and how many copies there are of it.
    #[must_use]
    pub fn cache(&self) -> BTreeMap<BlockHash, u32> {
        self.engine.cache()
    }

    /// What it counts.
    #[must_use]
    pub fn metrics(&self) -> EngineMetrics {
        self.engine.metrics()
    }

    /// Cuts everything. All tasks and sockets are gone when it returns.
    pub async fn stop(self) {
        self.engine.die();
        drop(self.stop);
        self.tasks.wait().await;
    }
}
