//! How a gateway comes to be: everything that may fail first, then the tasks.

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
use super::config::server_seconds as seconds;
use super::config::{Config, Events, InternalSettings, PodSettings};
use super::error::StartError;
use super::roster::{Directory, Roster};
use super::serve::Door;
use super::shared::{Parts, PodClient, Shared};
use super::snapshot::{self, Restored};
use super::tasks::Tasks;
use super::tls::Acceptor;
use super::{health, keep, metrics, reload, routes, serving, tokens};

pub(super) async fn start(config: Config) -> Result<Gateway, StartError> {
    config.check()?;
    let tls = config.tls.as_ref().map(Acceptor::new).transpose()?;
    let token = token(&config.internal)?;
    let (listener, address) = listen(config.listen).await?;
    let internal = match config.internal.listen {
        Some(address) => Some(listen(address).await?),
        None => None,
    };
    let (header_bytes, most, connections) = (config.limits.header_bytes, config.limits.connections, TaskTracker::new());
    metrics::install();
    let (shared, position) = share(config)?;
    // From here on tasks run: they end with the gateway, or right now if it does not come to be.
    let internal_address = internal.as_ref().map(|(_, address)| *address);
    let gateway = Gateway { shared: Arc::clone(&shared), address, internal_address, connections: connections.clone() };
    health::first_round(&shared).await;
    follow(&shared);
    shared.sources.lock().start_fleet(&shared, token.as_deref(), position)?;

    let (router, operators) = (routes::public(&shared), routes::internal(&shared, token.as_deref()));
    let door = Door { shared: Arc::clone(&shared), router, tls, header_bytes, connections, most };
    let door = match internal {
        Some((listener, _)) => {
            shared.tasks.spawn(Door { router: operators, tls: None, ..door.clone() }.open(listener));
            door
        }
        None => Door { router: door.router.clone().merge(operators), ..door },
    };
    shared.tasks.spawn(door.open(listener));
    Ok(gateway)
}

/// Starts what runs beside requests.
fn follow(shared: &Arc<Shared>) {
    let roster = shared.roster.lock();
    shared.sources.lock().follow(shared, &roster);
    reload::follow_all(shared, roster.members.clone());
    shared.tasks.spawn(keep::house(Arc::clone(shared)));
}

/// What all share, and how far the fleet's event source had come in an earlier life.
fn share(config: Config) -> Result<(Arc<Shared>, Option<u64>), StartError> {
    let Restored { index, position } = restored(&config);
    forget(&index, &config.pods);
    let index = Arc::new(index);
    let size = BlockSize::new(config.model.block_size.get()).expect("a block size is not zero");
    let plugin_state = PluginState::new(Arc::clone(&index), Hashing::Native(size));
    let tokenizer = tokens::tokenizer(&config.model)?;
    let (tasks, directory) = (Tasks::default(), Arc::new(Directory::default()));
    let mut roster = Roster::default().next(&index, &config.pods, || tasks.token())?;
    directory.publish(&roster, &Roster::default());
    let mut dispatch = DispatchConfig::new(serving::handoff(config.handoff), Arc::clone(&directory) as _);
    dispatch.retry_budget = Some(Arc::new(budget()));
    let serving = reload::serving(&config, &plugin_state, || Ok(roster.fleet()), dispatch)?;
    let breakers = Arc::new(Breakers::new(BreakerConfig::default(), Arc::clone(&plugin_state.open_breakers)));
    let client = client(&config, &tasks);
    let parts = Parts { config, plugin_state, tokenizer, client, directory, breakers, serving, roster, tasks };
    Ok((Arc::new(Shared::new(parts)), position))
}

/// One retry for five requests and ten a second. It begins with ten: a pod that is down at the start is passed over too.
fn budget() -> RetryBudget {
    let budget = RetryBudget::new(0.2, 10.0, 100.0);
    (0..50).for_each(|_| budget.deposit(Instant::now()));
    budget
}

/// The index of an earlier life, or an empty one.
fn restored(config: &Config) -> Restored {
    let restored = config.snapshot.as_ref().map_or(Ok(None), |settings| snapshot::restore(&settings.path));
    match restored {
        Ok(Some(restored)) => return restored,
        Ok(None) => {}
        // An index that knows nothing is slower, and never wrong.
        Err(error) => eprintln!("the index begins empty: {error}"),
    }
    Restored { index: Index::new(kv_index::Config::default()), position: None }
}

/// Forgets what nobody will put right: pods that a snapshot brought along and that are no more, or that nobody reports on.
fn forget(index: &Index, pods: &[PodSettings]) {
    let reported = pods.iter().filter(|settings| settings.events != Events::None);
    let kept: Vec<Pod> = reported.filter_map(|settings| index.pod(&settings.name)).collect();
    for pod in index.alive().iter().filter_map(|id| index.handle(id)).filter(|pod| !kept.contains(pod)) {
        index.retire(pod);
    }
    // At once: the pods of now need the room.
    while index.stats().pending_sweeps > 0 {
        index.sweep(usize::MAX);
    }
}

/// The client that pods are spoken to by. Its tasks are the gateway's.
fn client(config: &Config, tasks: &Tasks) -> PodClient {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    connector.set_connect_timeout(Some(seconds(config.patience.connect_seconds)));
    Client::builder(tasks.clone())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(Duration::from_secs(20))
        .build(connector)
}

async fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), StartError> {
    let wrong = |error: std::io::Error| StartError::Listen { address, kind: error.kind() };
    let listener = TcpListener::bind(address).await.map_err(wrong)?;
    let local = listener.local_addr().map_err(wrong)?;
    Ok((listener, local))
}

/// What reporters must bring along, if they may report at all.
fn token(internal: &InternalSettings) -> Result<Option<String>, StartError> {
    let Some(path) = &internal.token_file else { return Ok(internal.token.clone()) };
    let wrong = |why: &dyn std::fmt::Display| StartError::Token(format!("`{}`: {why}", path.display()).into());
    let text = std::fs::read_to_string(path).map_err(|error| wrong(&error))?;
    let token = text.lines().next().unwrap_or_default().trim();
    if token.is_empty() { Err(wrong(&"its first line is empty")) } else { Ok(Some(token.to_owned())) }
}
