//! Startup: everything that can fail first, then the tasks.

use std::net::SocketAddr;
use std::sync::Arc;

use kv_index::Index;
use pointsman_reporter::event_ingest::EventIngest;
use pointsman_reporter::wire::HashScheme;
use tokio::net::TcpListener;
use tokio_util::task::TaskTracker;
use tracing::{info, warn};

use super::Gateway;
use super::app_state::{AppState, Parts};
use super::config::{Config, Events, InternalSettings, PodSettings};
use super::error::StartError;
use super::event_sources::FleetWide;
use super::listener::Listener;
use super::model::Model;
use super::observers::Observers;
#[cfg(feature = "nats")]
use super::peers;
use super::snapshot::{self, Restored};
use super::tasks::Tasks;
use super::tls::Acceptor;
use super::{descriptors, health, maintenance, metrics, pod_client, probes, routes};

pub(super) async fn start(config: Config) -> Result<Gateway, StartError> {
    config.check()?;
    let tls = config.tls.as_ref().map(Acceptor::new).transpose()?;
    let internal_tls = config.internal_tls().map(Acceptor::new).transpose()?;
    let token = token(&config.internal)?;
    let (socket, address) = bind(config.listen).await?;
    let internal = match config.internal.listen {
        Some(address) => Some(bind(address).await?),
        None => None,
    };
    let ((limits, internal_limits), connections) = (descriptors::share_out(&config)?, TaskTracker::new());
    metrics::install();
    let (app, position) = app_state(config)?;
    // From here on tasks run: they end with the gateway, or right now if it does not come to be.
    let internal_address = internal.as_ref().map(|(_, address)| *address);
    let gateway = Gateway { app: Arc::clone(&app), address, internal_address, connections: connections.clone() };
    health::check_all(&app).await;
    spawn_background(&app);
    let settings = app.config.lock().event_sources.clone();
    let fleet_wide = FleetWide { settings: &settings, token: token.as_deref(), position };
    app.sources.lock().start_fleet_wide(&app, fleet_wide)?;
    #[cfg(feature = "nats")]
    if let (Some(peers), Some(nats)) = (app.config.lock().peers.clone(), &settings.nats) {
        peers::start(&app, &nats.url, &peers);
    }

    let (router, operators) = (routes::public(&app), routes::internal(&app, token.as_deref()));
    let listener = Listener { app: Arc::clone(&app), router, tls, limits, connections };
    let listener = match internal {
        Some((socket, _)) => {
            let router = operators.merge(probes::routes(&app));
            let internal = Listener { router, tls: internal_tls, limits: internal_limits, ..listener.clone() };
            app.tasks.spawn(internal.run(socket));
            listener
        }
        None => Listener { router: listener.router.clone().merge(operators), ..listener },
    };
    app.tasks.spawn(listener.run(socket));
    info!(listener = "clients", %address, version = env!("CARGO_PKG_VERSION"), "listening");
    if let Some(address) = internal_address {
        info!(listener = "internal", %address, "listening");
    }
    Ok(gateway)
}

/// Starts event sources, health checks and maintenance.
fn spawn_background(app: &Arc<AppState>) {
    let config = app.config.lock().clone();
    app.sources.lock().follow(app, &config);
    app.tasks.spawn(health::run(Arc::clone(app)));
    app.tasks.spawn(maintenance::run(Arc::clone(app)));
}

/// The application state, and the stream position of a restored snapshot.
fn app_state(config: Config) -> Result<(Arc<AppState>, Option<u64>), StartError> {
    let Restored { mut indexes, position } = restored(&config);
    let tasks = Tasks::default();
    let client = pod_client::build(&config, &tasks)?;
    let mut models: Vec<Model> = Vec::new();
    for served in config.served() {
        let index = indexes.remove(&served.model.name).unwrap_or_else(|| Index::new(kv_index::Config::default()));
        retire_unreported(&index, served.pods);
        models.push(Model::new(&config, &served, Arc::new(index), &client)?);
    }
    let observers = Observers::start(&config)?;
    let ingest = Arc::new(ingest(&models));
    Ok((Arc::new(AppState::new(Parts { config, models, client, ingest, tasks, observers })), position))
}

/// Where pushed events of all models are applied.
fn ingest(models: &[Model]) -> EventIngest {
    let mut targets = models.iter().map(|Model { router, .. }| {
        (Arc::clone(router.index()), HashScheme::native(router.name(), router.block_size()))
    });
    let (index, hashing) = targets.next().expect("a gateway has a model");
    targets.fold(EventIngest::new(index, hashing), |ingest, (index, hashing)| ingest.and(index, hashing))
}

/// The indexes of the last snapshot, or none.
fn restored(config: &Config) -> Restored {
    let restored = config.snapshot.as_ref().map_or(Ok(None), |settings| snapshot::restore(&settings.path));
    match restored {
        Ok(restored) => restored.unwrap_or_default(),
        Err(error) => {
            // An index that knows nothing is slower, and never wrong.
            warn!(%error, "starting with an empty index");
            Restored::default()
        }
    }
}

/// Retires restored pods that have no event source: nothing would correct them. Those that left the fleet go by themselves.
fn retire_unreported(index: &Index, pods: &[PodSettings]) {
    let unreported = pods.iter().filter(|settings| settings.events == Events::None);
    for pod in unreported.filter_map(|settings| index.pod(&settings.name)) {
        index.retire(pod);
    }
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
