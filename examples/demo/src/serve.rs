//! Demo server: pods and a gateway that stay up, with background traffic and curl commands to try.

use std::fmt::Write;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::fleet::{Fleet, FleetShape};
use crate::load_generator::{Client, LoadGenerator, Workload, WorkloadShape};
use crate::startup::{StartupError, prefill_pods, start};
use pointsman_engine_sim::MODEL;
use pointsman_gateway::Gateway;
use pointsman_gateway::config::Profile;

/// Options of [`DemoServer`].
#[derive(Clone, Debug)]
pub(crate) struct ServeOptions {
    /// Pods.
    pub(crate) pods: usize,
    /// How many times faster than the measured machine they are.
    pub(crate) speed: f64,
    /// The stock profile.
    pub(crate) profile: String,
    /// Where the gateway listens.
    pub(crate) listen: SocketAddr,
    /// Conversations that go on beside yours; 0 for none.
    pub(crate) conversations: usize,
    /// Seed of the workload.
    pub(crate) seed: u64,
}

/// Pods, gateway and background traffic.
#[derive(Debug)]
pub(crate) struct DemoServer {
    fleet: Fleet,
    gateway: Gateway,
    traffic: JoinHandle<()>,
    stop: CancellationToken,
}

impl DemoServer {
    /// Starts pods and gateway.
    pub(crate) async fn start(options: &ServeOptions) -> Result<Self, StartupError> {
        let (pods, speed, prefill) = (options.pods, options.speed, prefill_pods(&options.profile, options.pods));
        let shape = FleetShape { pods, prefill, speed, ..FleetShape::default() };
        let (fleet, gateway) = start(&shape, |config| {
            (config.listen, config.profile) = (options.listen, Profile::stock(&options.profile));
        })
        .await?;
        let stop = CancellationToken::new();
        let traffic = tokio::spawn(traffic(gateway.address(), options, stop.clone()));
        Ok(Self { fleet, gateway, traffic, stop })
    }

    /// What can be tried, as lines for a shell.
    pub(crate) fn hints(&self) -> String {
        let gateway = format!("http://{}", self.gateway.address());
        let mut text = format!("The page: {gateway}/\n\nTry:\n");
        let chat = |more: &str| {
            let messages = r#"[{"role":"user","content":"Hello there"}]"#;
            format!("{gateway}/v1/chat/completions -d '{{\"model\":\"{MODEL}\",\"messages\":{messages}{more}}}'")
        };
        let mut lines = vec![
            ("a chat", format!("curl {}", chat(""))),
            ("the same, streamed", format!("curl -N {}", chat(",\"stream\":true"))),
            ("why that pod", format!("curl -si -H 'x-pointsman-explain: 1' {} | grep -i pointsman", chat(""))),
            ("metrics", format!("curl {gateway}/metrics")),
        ];
        if let Some(pod) = self.fleet.pods().next() {
            let fault = |fault: &str| format!("curl http://{}/sim/fault -d '{fault}'", pod.address());
            lines.push(("a pod that takes ten times as long", fault("{\"slow\":10}")));
            lines.push(("well again", fault("\"recover\"")));
            lines.push(("back with an empty cache", fault("\"restart\"")));
            lines.push(("dead for ten seconds", fault("{\"die_for\":10}")));
        }
        for (what, line) in lines {
            let _ = writeln!(text, "\n  # {what}\n  {line}");
        }
        text
    }

    /// Lets streams end, for so long at most, and stops everything.
    pub(crate) async fn stop(self, most: Duration) {
        self.stop.cancel();
        self.gateway.drain(most).await;
        // What it still waited for has been answered or cut.
        let _ = self.traffic.await;
        self.fleet.stop().await;
    }
}

/// Conversations without end. What becomes of them is for the page to show.
fn traffic(gateway: SocketAddr, options: &ServeOptions, stop: CancellationToken) -> impl Future<Output = ()> + use<> {
    let client = Client::new(&format!("http://{gateway}"), TIMEOUT);
    let mut load = LoadGenerator::new(client, Workload::new(SHAPE, options.seed), MODEL, usize::MAX);
    (load.concurrency, load.stagger, load.stop) = (options.conversations, STAGGER, stop);
    async {
        load.run(|| {}).await;
    }
}

/// People who read what they are answered before they go on.
const SHAPE: WorkloadShape = WorkloadShape {
    system_prompts: 8,
    system_tokens: (1_000, 3_000),
    turns: (3, 8),
    user_tokens: (50, 600),
    answer_tokens: (20, 120),
    think_ms: (500, 4_000),
    document_every: 8,
    document_tokens: (3_000, 9_000),
    unstreamed_every: 10,
};

const STAGGER: Duration = Duration::from_millis(150);
const TIMEOUT: Duration = Duration::from_secs(60);
