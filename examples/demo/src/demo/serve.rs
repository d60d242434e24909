//! Pods and a gateway that stay up, for whoever wants to try them by hand, with a little traffic so that there is
//! something to see.

use std::fmt::Write;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::demo::compare::{DemoError, prefill_pods};
use crate::fleet::{Fleet, FleetShape};
use crate::load::{Client, Drive, Shape, Workload, drive};
use pointsman_engine_sim::MODEL;
use pointsman_gateway::Gateway;
use pointsman_gateway::config::Profile;

/// What is to stay up.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "figures that a caller chooses by name")]
pub struct ServeOptions {
    /// Pods.
    pub pods: usize,
    /// How many times faster than the measured machine they are.
    pub speed: f64,
    /// The stock profile.
    pub profile: String,
    /// Where the gateway listens.
    pub listen: SocketAddr,
    /// Conversations that go on beside yours; 0 for none.
    pub conversations: usize,
    /// Where chance begins.
    pub seed: u64,
}

/// What is up.
#[derive(Debug)]
pub struct Serving {
    fleet: Fleet,
    gateway: Gateway,
    traffic: JoinHandle<()>,
    stop: CancellationToken,
}

impl Serving {
    /// Starts pods and gateway.
    ///
    /// # Errors
    ///
    /// When they cannot start.
    pub async fn start(options: &ServeOptions) -> Result<Self, DemoError> {
        let (pods, speed, prefill) = (options.pods, options.speed, prefill_pods(&options.profile, options.pods));
        let shape = FleetShape { pods, prefill, speed, ..FleetShape::default() };
        let fleet = Fleet::start(&shape).await.map_err(DemoError::Fleet)?;
        let mut config = fleet.gateway_config();
        (config.listen, config.profile) = (options.listen, Profile::stock(&options.profile));
        let gateway = Gateway::start(config).await.map_err(DemoError::Gateway)?;
        let stop = CancellationToken::new();
        let traffic = tokio::spawn(traffic(gateway.address(), options, stop.clone()));
        Ok(Self { fleet, gateway, traffic, stop })
    }

    /// What can be tried, as lines for a shell.
    #[must_use]
    pub fn hints(&self) -> String {
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

    /// Where the gateway is.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.gateway.address()
    }

    /// Lets streams end, for so long at most, and stops everything.
    pub async fn stop(self, most: Duration) {
        self.stop.cancel();
        self.gateway.drain(most).await;
        // What it still waited for has been answered or cut.
        let _ = self.traffic.await;
        self.fleet.stop().await;
    }
}

/// Conversations without end. What becomes of them is for the page to show.
fn traffic(gateway: SocketAddr, options: &ServeOptions, stop: CancellationToken) -> impl Future<Output = ()> + use<> {
    let client = Client::new(&format!("http://{gateway}"), PATIENCE);
    let mut load = Drive::new(client, Workload::new(SHAPE, options.seed), MODEL, usize::MAX);
    (load.at_once, load.stagger, load.stop) = (options.conversations, STAGGER, stop);
    async {
        drive(load, |_| {}).await;
    }
}

/// People who read what they are answered before they go on.
const SHAPE: Shape = Shape {
    systems: 8,
    system: (1_000, 3_000),
    turns: (3, 8),
    user: (50, 600),
    answer: (20, 120),
    think_ms: (500, 4_000),
    one_document_in: 8,
    document: (3_000, 9_000),
    one_whole_in: 10,
};

const STAGGER: Duration = Duration::from_millis(150);
const PATIENCE: Duration = Duration::from_secs(60);
