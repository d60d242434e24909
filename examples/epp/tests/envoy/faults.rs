//! Bad days: the picker killed and started again under load, Envoy started again, pods that leave and fail.

use std::time::Duration;

use pointsman::{PodSpec, RouterUpdate};
use pointsman_engine_sim::Fault;
use pointsman_epp::PickerOptions;
use tokio::time::timeout;

use crate::engines::{Load, addresses, engines};
use crate::envoy::{Cluster, Envoy, is_there};
use crate::picker_server::PickerServer;
use crate::scene::{BODY, PATIENCE, client, post, router, settled};

const CLIENTS: usize = 6;

fn naming(endpoints: usize) -> PickerOptions {
    let mut options = PickerOptions::default();
    options.endpoints = endpoints;
    options
}

/// Failing open, none but those may fail whose answer was under way when the picker died.
#[tokio::test(flavor = "multi_thread")]
async fn a_picker_that_is_killed_and_started_again_under_load() {
    if !is_there() {
        return;
    }
    let pods = engines(3).await;
    let picker =
        PickerServer::start(router(&addresses(&pods)).build().unwrap(), naming(3), ([127, 0, 0, 1], 0).into()).await;
    let envoy = Envoy::start(Cluster::OverrideHost, picker.address, &addresses(&pods), 0).await;
    let load = Load::start(CLIENTS, envoy.clients);
    load.serves(50).await;
    let mut address = picker.kill();
    for _ in 0..3 {
        load.serves(50).await;
        let again = PickerServer::start(router(&addresses(&pods)).build().unwrap(), naming(3), address).await;
        load.serves(50).await;
        address = again.kill();
    }
    let picker = PickerServer::start(router(&addresses(&pods)).build().unwrap(), naming(3), address).await;
    load.serves(50).await;
    let used = async {
        while picker.picker.metrics().decisions().0 < 50 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PATIENCE, used).await.expect("Envoy comes back to the picker");
    let counts = load.stop().await;
    assert_eq!(counts.failed(), 0, "{counts:?}");
    settled(&picker).await;
}

/// Where Envoy keeps nothing, what is under way goes with the picker, and nothing else: each client loses one answer at most, nobody is
/// kept waiting while it is away, and once it is back none fails.
#[tokio::test(flavor = "multi_thread")]
async fn a_picker_that_is_killed_takes_along_what_passes_through_it_and_no_more() {
    if !is_there() {
        return;
    }
    let pods = engines(3).await;
    let router = || router(&addresses(&pods)).build().unwrap();
    let mut picker = PickerServer::start(router(), naming(1), ([127, 0, 0, 1], 0).into()).await;
    let envoy = Envoy::start(Cluster::OriginalDst, picker.address, &[], 0).await;
    for _ in 0..3 {
        let load = Load::start(CLIENTS, envoy.clients);
        load.serves(30).await;
        assert_eq!(load.counts.failed(), 0, "{:?}", load.counts);
        // Of each client the request that is under way is its last.
        load.tell_to_stop();
        let address = picker.kill();
        let counts = load.stop().await;
        assert!(counts.failed() <= CLIENTS, "{counts:?}");
        let (status, answer) = post(&client(), envoy.clients, "/v1/completions", &[], BODY).await;
        assert!(status >= 500, "it is told at once: {status} {answer}");
        picker = PickerServer::start(router(), naming(1), address).await;
    }
    settled(&picker).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_envoy_that_is_killed_leaves_nothing_in_flight() {
    if !is_there() {
        return;
    }
    let pods = engines(2).await;
    let picker =
        PickerServer::start(router(&addresses(&pods)).build().unwrap(), naming(1), ([127, 0, 0, 1], 0).into()).await;
    let envoy = Envoy::start(Cluster::OriginalDst, picker.address, &[], 0).await;
    let load = Load::start(CLIENTS, envoy.clients);
    load.serves(30).await;
    let port = envoy.clients.port();
    drop(envoy);
    settled(&picker).await;
    let _envoy = Envoy::start(Cluster::OriginalDst, picker.address, &[], port).await;
    load.serves(30).await;
    load.stop().await;
    settled(&picker).await;
}

/// Of a pod that dies, what it answered is lost; whoever comes later is served by the others.
#[tokio::test(flavor = "multi_thread")]
async fn pods_die_come_back_and_leave_under_load() {
    if !is_there() {
        return;
    }
    for cluster in [Cluster::OriginalDst, Cluster::OverrideHost] {
        let pods = engines(3).await;
        let picker =
            PickerServer::start(router(&addresses(&pods)).build().unwrap(), naming(3), ([127, 0, 0, 1], 0).into())
                .await;
        let endpoints = if cluster == Cluster::OriginalDst { naming(1) } else { naming(3) };
        let picker = match cluster {
            Cluster::OriginalDst => {
                let address = picker.kill();
                PickerServer::start(router(&addresses(&pods)).build().unwrap(), endpoints, address).await
            }
            Cluster::OverrideHost => picker,
        };
        let envoy = Envoy::start(cluster, picker.address, &addresses(&pods), 0).await;
        let load = Load::start(CLIENTS, envoy.clients);
        load.serves(50).await;
        pods[0].fault(Fault::Die);
        load.serves(100).await;
        let while_dead = load.counts.failed();
        pods[0].fault(Fault::Restart);
        load.serves(50).await;
        // It leaves for good, as a deployment shrinks: draining first.
        let specs = addresses(&pods).into_iter().enumerate().map(|(at, address)| {
            let spec = PodSpec::new(address.to_string(), address.to_string());
            if at == 1 { spec.draining() } else { spec }
        });
        picker.picker.router().apply(RouterUpdate::new().pods(specs.collect::<Vec<_>>())).unwrap();
        load.serves(50).await;
        let before_leaving = load.counts.failed();
        let left: Vec<_> =
            addresses(&pods).into_iter().enumerate().filter(|(at, _)| *at != 1).map(|(_, pod)| pod).collect();
        let specs = left.iter().map(|pod| PodSpec::new(pod.to_string(), pod.to_string()));
        picker.picker.router().apply(RouterUpdate::new().pods(specs.collect::<Vec<_>>())).unwrap();
        load.serves(50).await;
        let counts = load.stop().await;
        // Those under way, and those that came before a health check or a breaker told.
        assert!(while_dead <= 4 * CLIENTS, "{cluster:?}: {while_dead} of {counts:?}");
        assert_eq!(counts.failed(), before_leaving, "who leaves in order is missed by nobody");
        settled(&picker).await;
    }
}

/// A pod that answers at once with errors is found out.
#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_fails_fast_is_no_black_hole() {
    if !is_there() {
        return;
    }
    let pods = engines(3).await;
    let picker =
        PickerServer::start(router(&addresses(&pods)).build().unwrap(), naming(1), ([127, 0, 0, 1], 0).into()).await;
    let envoy = Envoy::start(Cluster::OriginalDst, picker.address, &[], 0).await;
    pods[2].fault(Fault::Respond(500));
    let client = client();
    let mut failed = 0;
    for turn in 0..200 {
        let body = BODY.replace("San Francisco", &format!("city {turn}"));
        let (status, _) = post(&client, envoy.clients, "/v1/completions", &[], &body).await;
        failed += usize::from(status != 200);
    }
    assert!(failed <= 20, "{failed} of 200 failed");
    settled(&picker).await;
}
