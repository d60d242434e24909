//! Other people's clients through Envoy and the picker, to simulated engines, on good days and bad ones.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use pointsman::{PodSpec, RouterUpdate};
use pointsman_epp::PickerOptions;
use pointsman_test_support::programs;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::engines::{addresses, engines};
use crate::envoy::{Cluster, Envoy, is_there};
use crate::picker_server::PickerServer;
use crate::scene::{PATIENCE, router};

/// The same checks as of the gateway: chats and completions, whole and streamed, errors.
#[tokio::test(flavor = "multi_thread")]
async fn the_openai_client_is_served() {
    if !is_there() || !programs::is_installed("python3", &["-c", "import openai"]) {
        return;
    }
    for cluster in [Cluster::OriginalDst, Cluster::OverrideHost] {
        let pods = engines(2).await;
        let picker = PickerServer::start(
            router(&addresses(&pods)).build().unwrap(),
            PickerOptions::default(),
            ([127, 0, 0, 1], 0).into(),
        )
        .await;
        let envoy = Envoy::start(cluster, picker.address, &addresses(&pods), 0).await;
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../gateway/clients/openai_client.py");
        let url = format!("http://{}", envoy.clients);
        let folder = programs::temp_folder(env!("CARGO_TARGET_TMPDIR"), "openai");
        let run = tokio::task::spawn_blocking(move || {
            programs::run(Command::new("python3").arg(script).arg(url).args(["sim", "engine"]), &folder)
        });
        let output = run.await.unwrap();
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{cluster:?}\n{out}\n{err}");
    }
}

/// Envoy keeps what it shows, and pods leave in order: the client notices nothing.
#[tokio::test(flavor = "multi_thread")]
async fn the_openai_client_is_served_while_pickers_die_and_pods_leave() {
    if !is_there() || !programs::is_installed("python3", &["-c", "import openai"]) {
        return;
    }
    let pods = engines(3).await;
    let build = || router(&addresses(&pods)).build().unwrap();
    let mut options = PickerOptions::default();
    options.endpoints = 3;
    let picker = PickerServer::start(build(), options.clone(), ([127, 0, 0, 1], 0).into()).await;
    let envoy = Envoy::start(Cluster::OverrideHost, picker.address, &addresses(&pods), 0).await;
    let mut client = Client::start(&format!("http://{}", envoy.clients));
    client.served(10).await;
    let mut address = picker.kill();
    for _ in 0..2 {
        client.served(10).await;
        let again = PickerServer::start(build(), options.clone(), address).await;
        client.served(10).await;
        address = again.kill();
    }
    let picker = PickerServer::start(build(), options, address).await;
    client.served(10).await;
    // One of the pods drains, and leaves once it has nothing more.
    let spec = |at: usize| PodSpec::new(addresses(&pods)[at].to_string(), addresses(&pods)[at].to_string());
    let apply = |pods: Vec<PodSpec>| picker.picker.router().apply(RouterUpdate::new().pods(pods)).unwrap();
    apply(vec![spec(0), spec(1).draining(), spec(2)]);
    client.served(10).await;
    apply(vec![spec(0), spec(2)]);
    client.served(10).await;
    assert!(picker.picker.metrics().decisions().0 > 0, "it is asked again");
    client.end().await;
}

/// The official client, streaming one answer after the other. Killed when it is dropped.
struct Client {
    child: std::process::Child,
    lines: mpsc::UnboundedReceiver<String>,
}

impl Client {
    fn start(url: &str) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../gateway/clients/openai_loop.py");
        let mut command = Command::new("python3");
        command.arg(script).args([url, "sim"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap()).lines();
        let (says, lines) = mpsc::unbounded_channel();
        std::thread::spawn(move || output.map_while(Result::ok).try_for_each(|line| says.send(line)));
        Self { child, lines }
    }

    /// Waits for so many more answers, each of them whole.
    async fn served(&mut self, answers: usize) {
        for _ in 0..answers {
            let line = timeout(PATIENCE, self.lines.recv()).await.expect("an answer in time").expect("it goes on");
            assert!(line.starts_with("ok  "), "{line}");
        }
    }

    /// Has it end, and sees that all was well to the last.
    async fn end(mut self) {
        drop(self.child.stdin.take());
        while let Some(line) = timeout(PATIENCE, self.lines.recv()).await.expect("it ends") {
            assert!(line.starts_with("ok  "), "{line}");
        }
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
