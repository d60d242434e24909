//! Demo server: pods and a gateway that stay up, with background traffic and curl commands to try.

use std::fmt::Write;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::cli::Args;
use crate::fleet::{Fleet, FleetShape};
use crate::load_generator::{Client, LoadGenerator, Workload, WorkloadShape};
use crate::startup::{StartupError, start};
use pointsman_engine_sim::MODEL;
use pointsman_gateway::Gateway;

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
    pub(crate) async fn start(args: &Args) -> Result<Self, StartupError> {
        let shape = FleetShape { pods: args.pods, speed: args.speed.unwrap_or(1.0), ..FleetShape::default() };
        let (fleet, gateway, client) = start(args.profile(), shape, |config| config.listen = args.listen).await?;
        let stop = CancellationToken::new();
        let traffic = tokio::spawn(traffic(client, args, stop.clone()));
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
fn traffic(client: Client, args: &Args, stop: CancellationToken) -> impl Future<Output = ()> + use<> {
    let mut load = LoadGenerator::new(client, Workload::new(SHAPE, args.seed), MODEL, usize::MAX);
    (load.concurrency, load.stagger, load.stop) = (args.conversations(), STAGGER, stop);
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
