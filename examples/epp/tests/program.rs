//! The program as an operator runs it: what it prints, how it ends, what it serves.
#![expect(clippy::unwrap_used, reason = "what helps a test may stop it")]

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use pointsman_engine_sim::{PodConfig, SimPod};
use tokio::runtime::Runtime;
use tonic::transport::Channel;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_epp")).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

const QUEUE: &str = "{apiVersion: llm-d.ai/v1alpha1, kind: EndpointPickerConfig, plugins: [{type: queue-scorer}]}";

#[test]
fn a_configuration_is_printed_as_our_own_document() {
    let output = run(&["--translate", "--config-text", QUEUE]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let document = text(&output.stdout);
    assert!(document.contains("least_load_scorer") && document.contains("# queue-scorer"), "{document}");
    assert!(run(&["--translate"]).status.success(), "llm-d's defaults");
}

#[test]
fn what_is_wrong_is_said_and_the_exit_code_is_2() {
    let typo = QUEUE.replace("queue-scorer", "queue-scorrer");
    for (arguments, said) in [
        (&["--config-text", &typo][..], "queue-scorer"),
        (&["--config-text", "kind: Pod"], "EndpointPickerConfig"),
        (&[], "--endpoint"),
        (&["--endpoint", "a:1", "--dns", "b:1"], "say once"),
        (&["--no-such-option"], "--no-such-option"),
        (&["--dns", "nonsense"], "nonsense"),
        (&["--endpoint", "a:1", "--profile", "total_latencies"], "total_latency"),
        (&["--endpoint", "a:1", "--profile", "total_latency", "--kv-events-port", "5557"], "--model"),
    ] {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains(said), "{arguments:?}: {}", text(&output.stderr));
    }
    let missing = run(&["--config-file", "/no/such/file"]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(text(&missing.stderr).contains("/no/such/file"));
}

async fn connected(health: SocketAddr) -> HealthClient<Channel> {
    HealthClient::new(Channel::from_shared(format!("http://{health}")).unwrap().connect().await.unwrap())
}

/// A program that serves; killed when it is dropped.
struct Serving {
    child: Child,
    health: SocketAddr,
    metrics: SocketAddr,
}

impl Serving {
    fn start(arguments: &[&str]) -> Self {
        let ports = ["--listen", "127.0.0.1", "--grpc-port", "0", "--grpc-health-port", "0", "--metrics-port", "0"];
        let mut child =
            Command::new(env!("CARGO_BIN_EXE_epp")).args(arguments).args(ports).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let line =
            lines.find_map(|line| line.ok().filter(|line| line.contains("serving"))).expect("it says that it serves");
        // Somebody has to read what else it says.
        std::thread::spawn(move || lines.for_each(drop));
        let address = |name: &str| {
            let rest = &line[line.find(&format!("{name}=")).unwrap() + name.len() + 1..];
            rest.split_whitespace().next().unwrap().parse().unwrap()
        };
        Self { health: address("health"), metrics: address("metrics"), child }
    }

    fn end(mut self, signal: &str) -> Option<i32> {
        let sent = Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(began.elapsed() < Duration::from_secs(20), "it does not end");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn it_is_ready_once_it_knows_its_pods_counts_them_and_ends_when_told() {
    let runtime = Runtime::new().unwrap();
    let pod = runtime.block_on(SimPod::start(PodConfig::new("pod", "sim"), Vec::new())).unwrap();
    // As a deployment of llm-d's picker has it.
    let serving = Serving::start(&["--v=4", "--zap-encoder", "json", "--endpoint", &pod.address().to_string()]);
    runtime.block_on(async {
        let mut client = connected(serving.health).await;
        for service in ["", "liveness", "readiness", "envoy.service.ext_proc.v3.ExternalProcessor"] {
            let began = Instant::now();
            loop {
                let request = HealthCheckRequest { service: service.into() };
                let checked = client.check(request).await.map(|status| status.into_inner().status);
                if matches!(checked, Ok(1)) {
                    break;
                }
                assert!(began.elapsed() < Duration::from_secs(20), "{service}: {checked:?}");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        assert!(client.check(HealthCheckRequest { service: "other".into() }).await.is_err());
    });
    let healthy = format!("pointsman_epp_pod_healthy{{pod=\"{}\"}} 1", pod.address());
    let began = Instant::now();
    loop {
        let url = format!("http://{}/metrics", serving.metrics);
        let page = text(&Command::new("curl").args(["--silent", "--max-time", "5", &url]).output().unwrap().stdout);
        if page.contains(&healthy) {
            assert!(page.contains("# TYPE pointsman_epp_decisions_total counter"), "{page}");
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(20), "{page}");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(serving.end("-TERM"), Some(0));
    runtime.block_on(pod.stop());
}

#[test]
fn without_pods_it_is_alive_and_not_ready() {
    let folder = pointsman_test_support::programs::temp_folder(env!("CARGO_TARGET_TMPDIR"), "epp");
    let file = folder.join("endpoints.yaml");
    let serving = Serving::start(&["--endpoints-file", file.to_str().unwrap(), "--secure-serving=false"]);
    let runtime = Runtime::new().unwrap();
    let check = |service: &str| {
        let (health, service) = (serving.health, service.to_owned());
        runtime.block_on(async move {
            let mut client = connected(health).await;
            client.check(HealthCheckRequest { service }).await.unwrap().into_inner().status
        })
    };
    const SERVING: i32 = 1;
    const NOT_SERVING: i32 = 2;
    let until = |service: &str, status: i32| {
        let began = Instant::now();
        while check(service) != status {
            assert!(began.elapsed() < Duration::from_secs(20), "{service} is never {status}");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    until("liveness", SERVING);
    assert_eq!(check("readiness"), NOT_SERVING);
    std::fs::write(&file, "endpoints:\n- {name: a, address: 127.0.0.1, port: \"1\"}\n").unwrap();
    until("readiness", SERVING);
    // The file is followed.
    std::fs::write(&file, "endpoints:\n- {name: b, address: 127.0.0.1, port: \"2\"}\n").unwrap();
    let began = Instant::now();
    let page = || {
        text(
            &Command::new("curl")
                .args(["--silent", "--max-time", "5", &format!("http://{}/metrics", serving.metrics)])
                .output()
                .unwrap()
                .stdout,
        )
    };
    while !page().contains("pod=\"b\"") {
        assert!(began.elapsed() < Duration::from_secs(20), "{}", page());
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(serving.end("-INT"), Some(0));
}

#[test]
fn the_page_of_metrics_is_for_whoever_bears_the_token_of_a_file_that_is_followed() {
    let folder = pointsman_test_support::programs::temp_folder(env!("CARGO_TARGET_TMPDIR"), "epp");
    let file = folder.join("token");
    let pods = ["--endpoint", "127.0.0.1:1", "--metrics-token-file", file.to_str().unwrap()];
    let empty = run(&pods);
    assert!(!empty.status.success() && text(&empty.stderr).contains("token"), "{}", text(&empty.stderr));
    std::fs::write(&file, "one\n").unwrap();
    let serving = Serving::start(&pods);
    let url = format!("http://{}/metrics", serving.metrics);
    let status = |token: &str| {
        let bearer = format!("authorization: Bearer {token}");
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--max-time", "5", "--output", "/dev/null", "--write-out", "%{http_code}", &url]);
        text(&curl.args(["--header", &bearer]).output().unwrap().stdout)
    };
    assert_eq!(["one", "two", ""].map(status), ["200", "401", "401"]);
    std::fs::write(&file, "").unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(status("one"), "200", "a file without a token changes nothing");
    std::fs::write(&file, "two").unwrap();
    let began = Instant::now();
    while status("two") != "200" {
        assert!(began.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(status("one"), "401");
}
