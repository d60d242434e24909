//! Startup: everything that can fail first, then the tasks.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioTimer;
use kv_index::{BlockSize, Index, Pod};
use routing_exec::{BreakerConfig, Breakers, DispatchConfig, RetryBudget};
use routing_plugins::{Hashing, PluginState};
use tokio::net::TcpListener;
use tokio_util::task::TaskTracker;

use super::Gateway;
use super::app_state::{AppState, Parts, PodClient};
use super::config::{Config, Events, InternalSettings, PodSettings};
use super::decision_log::DecisionLog;
use super::error::StartError;
use super::listener::Listener;
use super::pod_registry::{AddressTable, PodRegistry};
use super::snapshot::{self, Restored};
use super::tasks::Tasks;
use super::tls::Acceptor;
use super::{health, maintenance, metrics, reload, routes, tokenizer};

pub(super) async fn start(config: Config) -> Result<Gateway, StartError> {
    config.check()?;
    let tls = config.tls.as_ref().map(Acceptor::new).transpose()?;
    let token = token(&config.internal)?;
    let (socket, address) = bind(config.listen).await?;
    let internal = match config.internal.listen {
        Some(address) => Some(bind(address).await?),
        None => None,
    };
    let (limits, connections) = (config.limits.clone(), TaskTracker::new());
    metrics::install();
    let (app, position) = app_state(config)?;
    // From here on tasks run: they end with the gateway, or right now if it does not come to be.
    let internal_address = internal.as_ref().map(|(_, address)| *address);
    let gateway = Gateway { app: Arc::clone(&app), address, internal_address, connections: connections.clone() };
    health::check_all(&app).await;
    spawn_background(&app);
    app.sources.lock().start_fleet_wide(&app, token.as_deref(), position)?;

    let (router, operators) = (routes::public(&app), routes::internal(&app, token.as_deref()));
    let listener = Listener { app: Arc::clone(&app), router, tls, limits, connections };
    let listener = match internal {
        Some((socket, _)) => {
            app.tasks.spawn(Listener { router: operators, tls: None, ..listener.clone() }.run(socket));
            listener
        }
        None => Listener { router: listener.router.clone().merge(operators), ..listener },
    };
    app.tasks.spawn(listener.run(socket));
    Ok(gateway)
}

/// Starts event sources, health checks and maintenance.
fn spawn_background(app: &Arc<AppState>) {
    let registry = app.registry.lock();
    app.sources.lock().follow(app, &registry);
    reload::start_health_checks(app, registry.pods.clone());
    app.tasks.spawn(maintenance::run(Arc::clone(app)));
}

/// The application state, and the stream position of a restored snapshot.
fn app_state(config: Config) -> Result<(Arc<AppState>, Option<u64>), StartError> {
    let Restored { index, position } = restored(&config);
    retire_stale(&index, &config.pods);
    let index = Arc::new(index);
    let size = BlockSize::new(config.model.block_size.get()).expect("a block size is not zero");
    let hashing = match &config.model.hashing {
        Some(engine) => engine.hashing(size, &config.model.adapters),
        None => Ok(Hashing::Native(size)),
    };
    let hashing = hashing.map_err(|error| StartError::Hashing(error.to_string().into()))?;
    let plugin_state = PluginState::new(Arc::clone(&index), hashing);
    let tokenizer = tokenizer::load(&config.model)?;
    let (tasks, addresses) = (Tasks::default(), Arc::new(AddressTable::default()));
    let mut registry = PodRegistry::default().next(&index, &config.pods, || tasks.token())?;
    addresses.publish(&registry, &PodRegistry::default());
    let mut dispatch = DispatchConfig::new(config.handoff.handoff(Arc::new(())), Arc::clone(&addresses) as _);
    dispatch.retry_budget = Some(Arc::new(retry_budget()));
    let live_config = reload::build_live_config(&config, &plugin_state, || Ok(registry.fleet()), dispatch)?;
    let breakers = Arc::new(Breakers::new(BreakerConfig::default(), Arc::clone(&plugin_state.open_breakers)));
    let client = client(&config, &tasks);
    let decision_log = config.decision_log.as_deref().map(DecisionLog::open).transpose()?;
    let parts = Parts {
        config,
        plugin_state,
        tokenizer,
        client,
        addresses,
        breakers,
        live_config,
        registry,
        tasks,
        decision_log,
    };
    Ok((Arc::new(AppState::new(parts)), position))
}

/// Retry budget: one retry for five requests, and ten a second. It starts with ten for pods that are down at the start.
fn retry_budget() -> RetryBudget {
    let budget = RetryBudget::new(0.2, 10.0, 100.0);
    (0..50).for_each(|_| budget.deposit(Instant::now()));
    budget
}

/// The index of the last snapshot, or an empty one.
fn restored(config: &Config) -> Restored {
    let restored = config.snapshot.as_ref().map_or(Ok(None), |settings| snapshot::restore(&settings.path));
    match restored {
        Ok(Some(restored)) => return restored,
        Ok(None) => {}
        // An index that knows nothing is slower, and never wrong.
        Err(error) => eprintln!("starting with an empty index: {error}"),
    }
    Restored { index: Index::new(kv_index::Config::default()), position: None }
}

/// Retires restored pods that left the fleet or have no event source: nothing would correct them.
fn retire_stale(index: &Index, pods: &[PodSettings]) {
    let reported = pods.iter().filter(|settings| settings.events != Events::None);
    let kept: Vec<Pod> = reported.filter_map(|settings| index.pod(&settings.name)).collect();
    for pod in index.alive().iter().filter_map(|id| index.handle(id)).filter(|pod| !kept.contains(pod)) {
        index.retire(pod);
    }
    // At once: the current pods need the room.
    while index.stats().pending_sweeps > 0 {
        index.sweep(usize::MAX);
    }
}

/// The HTTP client for pods. Its tasks are the gateway's.
fn client(config: &Config, tasks: &Tasks) -> PodClient {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    connector.set_connect_timeout(Some(config.timeouts.connect_timeout));
    Client::builder(tasks.clone())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(Duration::from_secs(20))
        .build(connector)
}

async fn bind(address: SocketAddr) -> Result<(TcpListener, SocketAddr), StartError> {
    let failed = |error: std::io::Error| StartError::Listen { address, kind: error.kind() };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let local = listener.local_addr().map_err(failed)?;
    Ok((listener, local))
}

/// The token of reporters; none turns `/internal/*` off.
fn token(internal: &InternalSettings) -> Result<Option<String>, StartError> {
    let Some(path) = &internal.token_file else { return Ok(internal.token.clone()) };
    let wrong = |why: &dyn std::fmt::Display| StartError::Token(format!("`{}`: {why}", path.display()).into());
    let text = std::fs::read_to_string(path).map_err(|error| wrong(&error))?;
    let token = text.lines().next().unwrap_or_default().trim();
    if token.is_empty() { Err(wrong(&"its first line is empty")) } else { Ok(Some(token.to_owned())) }
}
