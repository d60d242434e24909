//! An Envoy process with one of the configurations that are shipped.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use pointsman_test_support::programs;
use tokio::time::{sleep, timeout};

use crate::scene::{PATIENCE, get};

/// Which configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cluster {
    /// To whatever address a header names.
    OriginalDst,
    /// To pods that are named, the picker's first.
    OverrideHost,
}

/// A running Envoy. Dropped, it is killed.
pub(crate) struct Envoy {
    child: Child,
    admin: SocketAddr,
    pub(crate) clients: SocketAddr,
}

/// Whether there is one to test with.
pub(crate) fn is_there() -> bool {
    programs::is_installed("envoy", &["--version"])
}

impl Envoy {
    pub(crate) async fn start(cluster: Cluster, picker: SocketAddr, pods: &[SocketAddr], listen: u16) -> Self {
        Self::start_with(cluster, picker, pods, listen, |config| config).await
    }

    /// The same with a configuration that is changed.
    pub(crate) async fn start_with(
        cluster: Cluster,
        picker: SocketAddr,
        pods: &[SocketAddr],
        listen: u16,
        change: impl FnOnce(String) -> String,
    ) -> Self {
        let folder = programs::temp_folder(env!("CARGO_TARGET_TMPDIR"), "envoy");
        let config = folder.join("envoy.yaml");
        std::fs::write(&config, change(configuration(cluster, picker, pods, listen))).unwrap();
        let (admin_file, log) = (folder.join("admin"), folder.join("log"));
        let child = Command::new("envoy")
            .arg("-c")
            .arg(&config)
            .arg("--admin-address-path")
            .arg(&admin_file)
            .arg("--log-path")
            .arg(&log)
            .args(["--log-level", "warn", "--concurrency", "1", "--disable-hot-restart"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut envoy = Self { child, admin: ([127, 0, 0, 1], 0).into(), clients: ([127, 0, 0, 1], 0).into() };
        let started = timeout(PATIENCE, envoy.wait(&admin_file)).await;
        started
            .unwrap_or_else(|_| panic!("Envoy does not start: {}", std::fs::read_to_string(&log).unwrap_or_default()));
        envoy
    }

    async fn wait(&mut self, admin: &PathBuf) {
        loop {
            sleep(Duration::from_millis(20)).await;
            let Some(address) = std::fs::read_to_string(admin).ok().and_then(|text| text.trim().parse().ok()) else {
                continue;
            };
            self.admin = address;
            if !self.admin("/ready").await.is_some_and(|ready| ready.starts_with("LIVE")) {
                continue;
            }
            let listeners = self.admin("/listeners").await.unwrap_or_default();
            if let Some(address) = listeners.trim().strip_prefix("clients::").and_then(|address| address.parse().ok()) {
                self.clients = address;
                return;
            }
        }
    }

    async fn admin(&self, path: &str) -> Option<String> {
        get(self.admin, path).await.map(|(_, body)| body)
    }
}

impl Drop for Envoy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A configuration as it is shipped, with other ports and pods.
fn configuration(cluster: Cluster, picker: SocketAddr, pods: &[SocketAddr], listen: u16) -> String {
    let shipped = match cluster {
        Cluster::OriginalDst => include_str!("../../envoy/original_dst.yaml"),
        Cluster::OverrideHost => include_str!("../../envoy/override_host.yaml"),
    };
    let port = |text: &str, from: u16, to: u16| {
        let (from, to) = (format!("port_value: {from}}}"), format!("port_value: {to}}}"));
        assert_eq!(text.matches(&from).count(), 1, "{from}");
        text.replace(&from, &to)
    };
    let mut text = [(9901, 0), (8080, listen), (9002, picker.port())]
        .into_iter()
        .fold(shipped.to_owned(), |text, (from, to)| port(&text, from, to));
    if cluster == Cluster::OverrideHost {
        let line = |port: u16| {
            format!(
                "        - {{endpoint: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {port}}}}}}}}}\n"
            )
        };
        let shipped = line(8000) + &line(8001);
        assert!(text.contains(&shipped));
        text = text.replace(&shipped, &pods.iter().map(|pod| line(pod.port())).collect::<String>());
    }
    text
}
