//! Real clients talk to the gateway: the official Python packages, and curl.
#![expect(clippy::unwrap_used, reason = "what helps a test may stop it")]

#[path = "fixtures/openai.rs"]
mod openai;
#[path = "fixtures/other_apis.rs"]
mod other_apis;
use pointsman_test_support::programs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Output};

use tokio::net::TcpListener;
use tokio::runtime::Runtime;

#[test]
fn the_checks_pass_where_they_should_and_fail_where_they_must() {
    let runtime = Runtime::new().unwrap();
    let (right, wrong) = runtime.block_on(async {
        (
            serve(&runtime, openai::routes().merge(other_apis::routes())).await,
            serve(&runtime, axum::Router::new()).await,
        )
    });
    for client in [PYTHON, ANTHROPIC, CURL].iter().filter(|client| client.is_there()) {
        client.passes(right);
        assert!(!client.run(wrong).status.success(), "{} passes where nothing is served", client.script);
    }
    runtime.shutdown_background();
}

#[test]
fn real_clients_are_served() {
    use pointsman_demo::fleet::{Fleet, FleetShape};
    use pointsman_gateway::Gateway;

    let runtime = Runtime::new().unwrap();
    let (fleet, gateway) = runtime.block_on(async {
        let fleet = Fleet::start(&FleetShape { pods: 3, speed: 100.0, ..FleetShape::default() }).await.unwrap();
        let mut config = fleet.gateway_config();
        config.internal.token = Some("right".to_owned());
        let gateway = Gateway::start(config).await.unwrap();
        (fleet, gateway)
    });
    for client in [PYTHON, ANTHROPIC, CURL].iter().filter(|client| client.is_there()) {
        client.passes(gateway.address());
    }
    runtime.block_on(async {
        gateway.drain(std::time::Duration::from_secs(10)).await;
        fleet.stop().await;
    });
}

/// A script that checks a gateway, what it is run by, and how many checks it makes.
struct Client {
    program: &'static str,
    probe: &'static [&'static str],
    script: &'static str,
    checks: usize,
}

const PYTHON: Client =
    Client { program: "python3", probe: &["-c", "import openai"], script: "openai_client.py", checks: 12 };
const ANTHROPIC: Client =
    Client { program: "python3", probe: &["-c", "import anthropic"], script: "anthropic_client.py", checks: 5 };
const CURL: Client = Client { program: "sh", probe: &["-c", "curl --version"], script: "curl.sh", checks: 18 };

impl Client {
    fn is_there(&self) -> bool {
        programs::is_installed(self.program, self.probe)
    }

    fn passes(&self, server: SocketAddr) {
        let output = self.run(server);
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{}: {out}{err}", self.script);
        assert_eq!(out.lines().filter(|line| line.starts_with("ok ")).count(), self.checks, "{out}");
    }

    fn run(&self, server: SocketAddr) -> Output {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients").join(self.script);
        let folder = programs::temp_folder(env!("CARGO_TARGET_TMPDIR"), self.script);
        let mut command = Command::new(self.program);
        // What a machine says of proxies is not for loopback.
        command.arg(script).arg(format!("http://{server}")).env("NO_PROXY", "127.0.0.1").env("no_proxy", "127.0.0.1");
        let output = programs::run(&mut command, &folder);
        std::fs::remove_dir_all(folder).unwrap();
        output
    }
}

async fn serve(runtime: &Runtime, routes: axum::Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    runtime.spawn(async move { axum::serve(listener, routes).await.unwrap() });
    address
}
