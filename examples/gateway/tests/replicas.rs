//! Two gateways on one JetStream: one is killed, and comes back by its snapshot and what the stream has kept, or by
//! inventories where the stream has not kept it. Real requests go through both to simulated pods.
#![cfg(feature = "nats")]
#![expect(clippy::unwrap_used, reason = "what helps a test may stop it")]

#[path = "support/reporting_pod.rs"]
mod reporting_pod;
#[path = "support/nats_server.rs"]
mod server;

use pointsman_test_support::programs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use pointsman_gateway::{Config, Gateway};
use pointsman_lab::SplitMix64;
use pointsman_reporter::nats::{NatsConfig, NatsSink};
use reporting_pod::{Client, ReportingPod, body, chain, depths, eventually, held, knows};
use server::Server;

/// A gateway as a process of its own.
struct Process {
    child: Child,
    address: SocketAddr,
}

impl Process {
    fn start(config: &Path) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gateway"));
        let command = command.arg("--config").arg(config).env_remove("RUST_LOG").stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let line = log.find(|line| line.contains("listening listener=\"clients\"")).expect("it listens");
        // Whoever writes to a pipe that nobody reads waits without end.
        std::thread::spawn(move || log.for_each(|line| eprintln!("{line}")));
        let address = line.split("address=").nth(1).and_then(|rest| rest.split(' ').next());
        let address = address.and_then(|address| address.parse().ok()).unwrap_or_else(|| panic!("`{line}`"));
        Self { child, address }
    }
}

impl Drop for Process {
    /// Without grace: the signal cannot be caught.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn pods(nats: &NatsConfig) -> Vec<ReportingPod> {
    let mut pods = Vec::new();
    for name in ["pod-0", "pod.1", "pod-2"] {
        let sink = NatsSink::connect(nats.clone(), name).await.unwrap();
        pods.push(ReportingPod::start(name, sink).await);
    }
    pods
}

/// A configuration with a snapshot in this file, and a profile that tells by a score how much each pod holds.
fn config(pods: &[ReportingPod], nats: &NatsConfig, snapshot: &Path) -> String {
    let pods: Vec<String> = pods.iter().map(ReportingPod::yaml).collect();
    let (url, snapshot) = (&nats.url, snapshot.display());
    format!(
        "listen: 127.0.0.1:0\nmodel: {{ name: sim }}\nprofile: cache_aware\npods: [{}]\n\
         event_sources: {{ nats: {{ url: '{url}', stream: KV, subject_prefix: kv }} }}\n\
         snapshot: {{ path: '{snapshot}', interval: 100ms }}\n",
        pods.join(", ")
    )
}

/// Asks both for the same prompts, of which the pods hold all by now.
async fn decide_alike(one: (&Client, &Gateway), two: (&Client, &Gateway), pods: &[ReportingPod]) {
    for family in 0..6 {
        let prompt = body(family, 40 + 30 * family);
        one.0.ask(&prompt).await;
        let mut said = Vec::new();
        for (client, _) in [one, two] {
            eventually("both know everything", || knows(one.1.index(), pods) && knows(two.1.index(), pods)).await;
            said.push(held(&client.ask(&prompt).await));
        }
        assert_eq!(said[0], said[1], "family {family}");
        assert_ne!(said[0].1, "0.0", "family {family} is held somewhere");
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Stream {
    Kept,
    Purged,
}

async fn killed_and_back(name: &str, stream: Stream) {
    let Some(server) = Server::start() else { return };
    let (nats, folder, mut rng) =
        (server.config(), programs::temp_folder(env!("CARGO_TARGET_TMPDIR"), name), SplitMix64::new(7));
    let pods = pods(&nats).await;
    let files: [PathBuf; 2] = ["one", "two"].map(|name| folder.join(name));
    let one = Gateway::start(Config::parse(&config(&pods, &nats, &files[0])).unwrap()).await.unwrap();
    let yaml = config(&pods, &nats, &files[1]);
    std::fs::write(folder.join("two.yaml"), &yaml).unwrap();
    let two = Process::start(&folder.join("two.yaml"));
    let (client, other) = (Client::new(one.address()), Client::new(two.address));

    for _ in 0..5 {
        client.work(&mut rng, 6).await;
        other.work(&mut rng, 6).await;
    }
    eventually("the first knows every cache", || knows(one.index(), &pods)).await;
    eventually("the second has kept its index", || files[1].exists()).await;
    other.work(&mut rng, 3).await;
    drop(two);
    client.work(&mut rng, 30).await;
    eventually("the first goes on alone", || knows(one.index(), &pods)).await;
    if stream == Stream::Purged {
        let client = async_nats::connect(&nats.url).await.unwrap();
        async_nats::jetstream::new(client).get_stream("KV").await.unwrap().purge().await.unwrap();
    }

    let two = Gateway::start(Config::parse(&yaml).unwrap()).await.unwrap();
    let restored: usize = pods.iter().map(|pod| blocks(&two, pod)).sum();
    assert!(restored > 0, "it begins with what it had");
    let other = Client::new(two.address());
    eventually("the second has caught up", || knows(two.index(), &pods)).await;
    for _ in 0..3 {
        other.work(&mut rng, 5).await;
        client.work(&mut rng, 5).await;
    }
    decide_alike((&client, &one), (&other, &two), &pods).await;
    eventually("both are quiet", || knows(one.index(), &pods) && knows(two.index(), &pods)).await;
    for family in 0..6 {
        let chain = chain(&body(family, 300));
        let truth: Vec<usize> = pods.iter().map(|pod| pod.holds(&chain)).collect();
        assert_eq!((depths(one.index(), &pods, &chain), depths(two.index(), &pods, &chain)), (truth.clone(), truth));
    }

    for pod in pods {
        let stats = pod.stop().await;
        assert_eq!(stats.superseded, 0, "{stats:?}");
        assert!(stream == Stream::Purged || stats.gaps == 0, "replay was enough: {stats:?}");
    }
    drop((one, two));
    std::fs::remove_dir_all(folder).unwrap();
}

fn blocks(gateway: &Gateway, pod: &ReportingPod) -> usize {
    let index = gateway.index();
    index.pod(pod.sim.name()).map_or(0, |pod| index.pod_stats(pod).unwrap().blocks)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_gateway_comes_back_by_snapshot_and_replay() {
    killed_and_back("replayed", Stream::Kept).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_gone_from_the_stream_comes_back_by_inventories() {
    killed_and_back("purged", Stream::Purged).await;
}

/// A gateway that is dropped, and one that drains, leave nothing running: not of the stream's client either.
#[tokio::test]
async fn nothing_of_a_gateway_outlives_it() {
    let Some(server) = Server::start() else { return };
    let (nats, folder) = (server.config(), programs::temp_folder(env!("CARGO_TARGET_TMPDIR"), "outlived"));
    let pods = pods(&nats).await;
    let yaml = config(&pods, &nats, &folder.join("index"));
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    for drains in [true, false] {
        eventually("pods are quiet", || pods.iter().all(|pod| pod.sim.cache().is_empty())).await;
        // On a busy machine the pods' own connections may just be coming back.
        let mut before = tasks();
        let mut same = 0;
        while same < 20 {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            same = if tasks() == before { same + 1 } else { 0 };
            before = tasks();
        }
        let gateway = Gateway::start(Config::parse(&yaml).unwrap()).await.unwrap();
        eventually("the stream is read", || knows(gateway.index(), &pods)).await;
        if drains {
            gateway.drain(std::time::Duration::from_secs(1)).await;
        } else {
            drop(gateway);
        }
        eventually("no task is left", || tasks() <= before).await;
    }
    for pod in pods {
        pod.stop().await;
    }
    eventually("none of the pods' either", || tasks() == 0).await;
    std::fs::remove_dir_all(folder).unwrap();
}
