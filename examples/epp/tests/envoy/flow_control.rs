//! Flow control behind Envoy: a request waits and is served, finds the queue full, waits for too long.

use std::num::NonZeroU32;
use std::time::Duration;

use http::Request;
use http_body_util::{BodyExt, Full};
use pointsman::core::flow::{BandConfig, FlowConfig, FlowControl, QueueLimits};
use pointsman::plugins::flow::{ConcurrencyDetector, ConcurrencyLimits};
use pointsman_epp::PickerOptions;
use tokio::time::timeout;

use crate::envoy::{Cluster, Envoy, is_there};
use crate::picker_server::PickerServer;
use crate::raw_pod::RawPod;
use crate::scene::{BODY, PATIENCE, client, router, settled};

/// A pod that takes one request, a picker where one more may wait for so long, and an Envoy.
async fn scene(cluster: Cluster, time_to_live: Duration) -> (RawPod, PickerServer, Envoy) {
    let pod = RawPod::plain().await;
    let router = router(&[pod.address]).flow_control(move |state| {
        let limits = ConcurrencyLimits::default().requests(NonZeroU32::MIN);
        let band = BandConfig::new("all").limits(QueueLimits::default().requests(1)).time_to_live(time_to_live);
        Ok(FlowControl::new(FlowConfig::default().band(band)).detector(ConcurrencyDetector::new(limits, state)))
    });
    let listen = ([127, 0, 0, 1], 0).into();
    let picker = PickerServer::start_unchecked(router.build().unwrap(), PickerOptions::default(), listen).await;
    let envoy = Envoy::start(cluster, picker.address, &[pod.address], 0).await;
    (pod, picker, envoy)
}

/// Status, `retry-after`, the reason of what was dropped, and the error's code.
type Answer = (u16, Option<u64>, Option<String>, Option<String>);

fn ask(envoy: &Envoy) -> tokio::task::JoinHandle<Answer> {
    let request = Request::post(format!("http://{}/v1/completions", envoy.clients)).body(Full::from(BODY)).unwrap();
    tokio::spawn(async move {
        let response = timeout(PATIENCE, client().request(request)).await.expect("an answer in time").unwrap();
        let (head, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let header = |name: &str| head.headers.get(name).map(|value| value.to_str().unwrap().to_owned());
        let code =
            serde_json::from_slice::<serde_json::Value>(&body).unwrap()["error"]["code"].as_str().map(str::to_owned);
        let retry = header("retry-after").map(|seconds| seconds.parse().unwrap());
        (head.status.as_u16(), retry, header("x-llm-d-request-dropped-reason"), code)
    })
}

async fn until(what: &str, holds: impl Fn() -> bool) {
    let waits = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, waits).await.unwrap_or_else(|_| panic!("never: {what}"));
}

fn waiting(picker: &PickerServer) -> usize {
    picker.picker.router().flow_status(0).iter().map(|band| band.requests).sum()
}

const BOTH: [Cluster; 2] = [Cluster::OriginalDst, Cluster::OverrideHost];

#[tokio::test(flavor = "multi_thread")]
async fn one_request_waits_for_another_and_a_third_finds_no_room() {
    if !is_there() {
        return;
    }
    for cluster in BOTH {
        let (pod, picker, envoy) = scene(cluster, PATIENCE).await;
        let first = ask(&envoy);
        until("the first is there", || pod.requests.lock().len() == 1).await;
        let second = ask(&envoy);
        until("the second waits", || waiting(&picker) == 1).await;
        let (status, retry, reason, _) = ask(&envoy).await.unwrap();
        assert_eq!(status, 429, "{cluster:?}");
        assert!(
            retry.is_some_and(|seconds| seconds > 0) && reason.is_some_and(|reason| reason.starts_with("rejected-"))
        );
        assert_eq!((pod.requests.lock().len(), waiting(&picker)), (1, 1), "{cluster:?}: the second still waits");
        pod.may_end.add_permits(1);
        assert_eq!(first.await.unwrap().0, 200);
        until("the second is there", || pod.requests.lock().len() == 2).await;
        pod.may_end.add_permits(1);
        assert_eq!(second.await.unwrap().0, 200);
        settled(&picker).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_waits_for_too_long_is_told_so() {
    if !is_there() {
        return;
    }
    for cluster in BOTH {
        let (pod, picker, envoy) = scene(cluster, Duration::from_millis(300)).await;
        let first = ask(&envoy);
        until("the first is there", || pod.requests.lock().len() == 1).await;
        let (status, _, reason, code) = ask(&envoy).await.unwrap();
        assert_eq!((status, reason.as_deref()), (503, Some("rejected-ttl-expired")), "{cluster:?}");
        assert_eq!(code.as_deref(), Some("expired"));
        pod.may_end.add_permits(1);
        assert_eq!(first.await.unwrap().0, 200);
        settled(&picker).await;
    }
}
