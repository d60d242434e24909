//! A picker that can be killed and started again at the same address.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use pointsman::{HealthChecks, HttpHealth, Router};
use pointsman_epp::{ExtProc, Picker, PickerOptions};
use tokio::runtime::Runtime;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

pub(crate) struct PickerServer {
    pub(crate) address: SocketAddr,
    pub(crate) picker: Arc<Picker>,
    /// Of its own, so that it can die with all of its connections.
    runtime: Option<Runtime>,
    _checks: Option<HealthChecks>,
}

impl PickerServer {
    pub(crate) async fn start(router: Router, options: PickerOptions, listen: SocketAddr) -> Self {
        let checks = router.spawn_health_checks(HttpHealth::new(router.addresses()), Duration::from_millis(50));
        let mut server = Self::start_unchecked(router, options, listen).await;
        server._checks = Some(checks);
        server
    }

    /// The same, with pods that are taken to be well.
    pub(crate) async fn start_unchecked(router: Router, options: PickerOptions, listen: SocketAddr) -> Self {
        let picker = Arc::new(Picker::new(router, options));
        let service = ExtProc::new(Arc::clone(&picker));
        let runtime = Runtime::new().unwrap();
        // The port of one that was killed is free again in a moment.
        let incoming = loop {
            let entered = runtime.enter();
            let bound = TcpIncoming::bind(listen);
            drop(entered);
            match bound {
                Ok(incoming) => break incoming,
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        };
        let address = incoming.local_addr().unwrap();
        runtime.spawn(async move {
            let _ = Server::builder().add_service(service).serve_with_incoming(incoming).await;
        });
        Self { address, picker, runtime: Some(runtime), _checks: None }
    }

    /// Cuts its connections.
    pub(crate) fn kill(self) -> SocketAddr {
        self.address
    }

    /// What counts on all pods.
    pub(crate) fn in_flight(&self) -> u32 {
        let router = self.picker.router();
        let pods = router.pods().into_iter();
        pods.map(|pod| router.plugin_state().load.in_flight(pod.pod.id()).requests).sum()
    }
}

impl Drop for PickerServer {
    fn drop(&mut self) {
        self.runtime.take().into_iter().for_each(Runtime::shutdown_background);
    }
}
