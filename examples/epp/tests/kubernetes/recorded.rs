//! A day of a pool: its pods come, drain and go, its ports and its selector change.
//!
//! The answers (`*.list.json`, `pods.watch.jsonl`) are written by hand in the form that Kubernetes' API documents, with the fields that a cluster
//! adds: none was taken from a cluster. `model.rs` has an API server that makes its own.

use serde_json::{Value, json};

use crate::api_server::{ApiServer, OLD_POOLS, PODS, POOLS, brief, is_quiet, next};

const FIRST: [&str; 2] = ["4xk2p-rank-0 10.244.1.17:8000 Decode", "q8w5n-rank-0 10.244.2.9:8000 Prefill"];

#[tokio::test]
async fn the_first_list_is_that_of_the_pools_ready_pods() {
    let server = ApiServer::recorded();
    let mut pods = server.pods();
    let list = next(&mut pods).await.unwrap();
    assert_eq!(brief(&list), FIRST);
    let labels: Vec<&str> = list[0].labels.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(labels, ["app", "llm-d.ai/role", "pod-template-hash"]);
    assert_eq!(server.requests(POOLS)[0].query["fieldSelector"], "metadata.name=vllm");
    assert_eq!(server.requests(PODS)[0].query["labelSelector"], "app=vllm");
    assert!(is_quiet(&mut pods).await);
    let watch = server.requests(PODS).into_iter().find(|request| request.is_watch()).unwrap();
    assert_eq!(watch.query["resourceVersion"], "48230", "watched from where the list ended");
}

#[tokio::test]
async fn a_pod_starts_becomes_ready_drains_and_is_gone() {
    let server = ApiServer::recorded();
    let watch = server.watch(PODS);
    let mut pods = server.pods();
    assert_eq!(next(&mut pods).await.unwrap().len(), 2);
    let mut lines = include_str!("pods.watch.jsonl").lines();
    let mut play = |count| lines.by_ref().take(count).for_each(|line| watch.raw(format!("{line}\n")));
    play(3);
    assert!(is_quiet(&mut pods).await, "pending, then not ready, then a bookmark");
    play(1);
    assert_eq!(brief(&next(&mut pods).await.unwrap())[2], "zz7jd-rank-0 10.244.3.4:8000 Decode");
    play(1);
    assert_eq!(brief(&next(&mut pods).await.unwrap())[2], "~zz7jd-rank-0 10.244.3.4:8000 Decode");
    play(1);
    assert!(is_quiet(&mut pods).await, "it is no longer ready, and finishes what it has");
    play(1);
    assert_eq!(brief(&next(&mut pods).await.unwrap()), FIRST);
    play(1);
    assert!(is_quiet(&mut pods).await, "its deletion changes nothing more");
}

#[tokio::test]
async fn a_burst_is_one_list_and_lines_may_come_in_pieces() {
    let server = ApiServer::recorded();
    let watch = server.watch(PODS);
    let mut pods = server.pods().debounce(std::time::Duration::from_millis(500));
    next(&mut pods).await.unwrap();
    let text: String = include_str!("pods.watch.jsonl").lines().take(5).map(|line| format!("{line}\n")).collect();
    for piece in text.as_bytes().chunks(1000) {
        watch.raw(std::str::from_utf8(piece).unwrap());
    }
    assert_eq!(brief(&next(&mut pods).await.unwrap())[2], "~zz7jd-rank-0 10.244.3.4:8000 Decode");
    assert!(is_quiet(&mut pods).await);
}

fn pool(version: u32, app: &str, ports: &[u16]) -> Value {
    let mut list: Value = serde_json::from_str(include_str!("pools.v1.list.json")).unwrap();
    let mut pool = list["items"][0].take();
    pool["metadata"]["resourceVersion"] = version.to_string().into();
    pool["spec"]["selector"]["matchLabels"]["app"] = app.into();
    pool["spec"]["targetPorts"] = ports.iter().map(|port| json!({"number": port})).collect();
    pool
}

#[tokio::test]
async fn a_change_of_ports_makes_ranks_of_the_same_pods() {
    let server = ApiServer::recorded();
    let watch = server.watch(POOLS);
    let mut pods = server.pods();
    next(&mut pods).await.unwrap();
    watch.send(&json!({"type": "MODIFIED", "object": pool(50_001, "vllm", &[8000, 8001])}));
    let ranks = [
        "4xk2p-rank-0 10.244.1.17:8000 Decode",
        "4xk2p-rank-1 10.244.1.17:8001 Decode",
        "q8w5n-rank-0 10.244.2.9:8000 Prefill",
        "q8w5n-rank-1 10.244.2.9:8001 Prefill",
    ];
    assert_eq!(brief(&next(&mut pods).await.unwrap()), ranks);
    watch.send(&json!({"type": "MODIFIED", "object": pool(50_002, "vllm", &[])}));
    let error = next(&mut pods).await.unwrap_err().to_string();
    assert_eq!(error, "InferencePool `vllm` in namespace `default`: spec.targetPorts: has no port");
    assert_eq!(server.requests(PODS).iter().filter(|request| !request.is_watch()).count(), 1, "no new list of pods");
}

#[tokio::test]
async fn a_change_of_selector_lists_other_pods_and_keeps_the_old_ones_until_then() {
    let server = ApiServer::recorded();
    let watch = server.watch(POOLS);
    let mut pods = server.pods();
    next(&mut pods).await.unwrap();
    server.list(PODS, 403, include_str!("pods.forbidden.json"));
    server.list(PODS, 200, r#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"50010"},"items":[]}"#);
    watch.send(&json!({"type": "MODIFIED", "object": pool(50_001, "sglang", &[8000])}));
    assert!(next(&mut pods).await.is_err(), "refused, and the list is as it was");
    assert_eq!(next(&mut pods).await, Ok(Vec::new()));
    assert_eq!(server.requests(PODS).last().unwrap().query["labelSelector"], "app=sglang");
}

#[tokio::test]
async fn a_deleted_pool_has_no_pods_and_one_that_never_was_is_an_error() {
    let server = ApiServer::recorded();
    let watch = server.watch(POOLS);
    let mut pods = server.pods();
    next(&mut pods).await.unwrap();
    watch.send(&json!({"type": "DELETED", "object": pool(50_001, "vllm", &[8000])}));
    assert_eq!(next(&mut pods).await, Ok(Vec::new()));
    watch.send(&json!({"type": "ADDED", "object": pool(50_005, "vllm", &[8000])}));
    assert_eq!(brief(&next(&mut pods).await.unwrap()), FIRST);

    let mut other = pointsman_epp::discovery::kubernetes::InferencePoolPods::new(server.client(), "default", "other");
    let error = next(&mut other).await.unwrap_err().to_string();
    assert_eq!(error, "no InferencePool `other` in namespace `default`");
    assert!(is_quiet(&mut other).await, "said once");
}

#[tokio::test]
async fn an_older_cluster_has_the_older_pool() {
    let server = ApiServer::start();
    server.list(OLD_POOLS, 200, include_str!("pools.v1alpha2.list.json"));
    server.list(PODS, 200, include_str!("pods.list.json"));
    assert_eq!(brief(&next(&mut server.pods()).await.unwrap()), FIRST);
    assert_eq!(server.requests(POOLS).len(), 1, "the newer one was looked for");
}
