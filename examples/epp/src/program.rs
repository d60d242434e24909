//! The program: servers for Envoy, for health checks and for metrics, from start to the last request.

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

use crate::assembly::Assembly;
use crate::discovery::Synced;
use crate::metrics_server::MetricsServer;
use crate::options::Options;
use crate::picker::Picker;
use crate::server::ExtProc;
use crate::tls::{Certificate, over_tls};

/// A picker that serves.
#[derive(Debug)]
pub struct Program {
    assembly: Assembly,
    addresses: Addresses,
    /// Not ready any more; no new connections; all is over.
    withdraw: CancellationToken,
    stop: CancellationToken,
    over: CancellationToken,
    tasks: TaskTracker,
}

/// Where it listens.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Addresses {
    /// For Envoy.
    pub grpc: SocketAddr,
    /// For health checks.
    pub health: SocketAddr,
    /// For whoever collects metrics.
    pub metrics: SocketAddr,
}

impl Program {
    /// Starts serving.
    ///
    /// # Errors
    ///
    /// When a port is taken, or there is no certificate or token.
    pub async fn start(assembly: Assembly, options: &Options) -> Result<Self, Box<dyn Error>> {
        let (withdraw, stop, over) = (CancellationToken::new(), CancellationToken::new(), CancellationToken::new());
        let tasks = TaskTracker::new();
        let bind = |port: u16| TcpIncoming::bind(SocketAddr::new(options.listen, port));
        let (grpc, health) = (bind(options.grpc_port)?, bind(options.grpc_health_port)?);
        let metrics = TcpListener::bind(SocketAddr::new(options.listen, options.metrics_port)).await?;
        let addresses =
            Addresses { grpc: grpc.local_addr()?, health: health.local_addr()?, metrics: metrics.local_addr()? };

        let picker = Arc::clone(&assembly.picker);
        let page = MetricsServer::new(Arc::clone(&picker), options.metrics_token_file.clone())?;
        let (reporter, checked) = tonic_health::server::health_reporter();
        let mut server = Server::builder().http2_keepalive_interval(Some(KEEPALIVE)).tcp_nodelay(true);
        let server = server.add_service(checked.clone()).add_service(ExtProc::new(Arc::clone(&picker)));
        let (grpc, stopped) = (grpc.with_nodelay(Some(true)), stop.clone().cancelled_owned());
        if options.secure_serving {
            let certificate = Arc::new(Certificate::new(options.cert_path.as_deref())?);
            let connections = over_tls(grpc, Arc::clone(&certificate))?;
            tasks.spawn(log_end("ext_proc", server.serve_with_incoming_shutdown(connections, stopped)));
            let following = certificate.follow(Arc::clone(&picker));
            tokio::spawn(over.clone().run_until_cancelled_owned(following));
        } else {
            tasks.spawn(log_end("ext_proc", server.serve_with_incoming_shutdown(grpc, stopped)));
        }
        let checks =
            Server::builder().add_service(checked).serve_with_incoming_shutdown(health, over.clone().cancelled_owned());
        tokio::spawn(log_end("health checks", checks));
        tokio::spawn(report(reporter, assembly.synced.clone(), withdraw.clone()));
        tokio::spawn(page.serve(metrics, over.clone()));
        tasks.close();
        Ok(Self { assembly, addresses, withdraw, stop, over, tasks })
    }

    /// Where it listens.
    #[must_use]
    pub fn addresses(&self) -> Addresses {
        self.addresses
    }

    /// The picker.
    #[must_use]
    pub fn picker(&self) -> &Arc<Picker> {
        &self.assembly.picker
    }

    /// Says that it is not ready any more and serves on for a while, so that proxies notice; then takes no new connections, and waits
    /// for what is under way, for so long at most. True if all of it ended.
    pub async fn drain(self, grace: Duration, timeout: Duration) -> bool {
        self.withdraw.cancel();
        tokio::time::sleep(grace).await;
        self.stop.cancel();
        let all_ended = tokio::time::timeout(timeout, self.tasks.wait()).await.is_ok();
        self.over.cancel();
        all_ended
    }
}

async fn log_end(what: &'static str, serving: impl Future<Output = Result<(), tonic::transport::Error>>) {
    if let Err(error) = serving.await {
        tracing::error!(what, %error, "a server ended");
    }
}

/// Says how it is: alive at once, ready once there is a list of pods, and neither when it stops.
async fn report(reporter: HealthReporter, synced: Synced, stop: CancellationToken) {
    reporter.set_service_status("liveness", ServingStatus::Serving).await;
    for name in READY {
        reporter.set_service_status(name, ServingStatus::NotServing).await;
    }
    let ready = async {
        while !synced.has_synced() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        for name in READY {
            reporter.set_service_status(name, ServingStatus::Serving).await;
        }
    };
    stop.run_until_cancelled(ready).await;
    stop.cancelled().await;
    for name in READY {
        reporter.set_service_status(name, ServingStatus::NotServing).await;
    }
}

/// The services whose status is that of readiness, the one without a name among them.
const READY: [&str; 3] = ["", "readiness", "envoy.service.ext_proc.v3.ExternalProcessor"];
/// How often a connection that is silent is tried.
const KEEPALIVE: Duration = Duration::from_secs(30);
