//! Objectives: the priorities of a pool, by their names.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pointsman_epp::discovery::kubernetes::Objectives;
use serde_json::{Value, json};

use crate::api_server::{ApiServer, OBJECTIVES};

#[tokio::test]
async fn objectives_of_the_pool_are_followed() {
    let server = ApiServer::start();
    server.list(OBJECTIVES, 200, include_str!("objectives.list.json"));
    let watch = server.watch(OBJECTIVES);
    let objectives = Objectives::follow(&server.client(), "default", "vllm", |error| panic!("{error}"));
    until(|| objectives.priority("interactive") == Some(10)).await;
    assert_eq!(objectives.priority("batch"), Some(-5));
    assert_eq!(objectives.priority("plain"), Some(0), "without a priority");
    assert_eq!(objectives.priority("elsewhere"), None, "another pool's");
    let list: Value = serde_json::from_str(include_str!("objectives.list.json")).unwrap();
    let mut changed = list["items"][0].clone();
    changed["spec"]["priority"] = 20.into();
    changed["metadata"]["resourceVersion"] = "48320".into();
    watch.send(&json!({"type": "MODIFIED", "object": changed}));
    until(|| objectives.priority("interactive") == Some(20)).await;
    watch.send(&json!({"type": "DELETED", "object": list["items"][1]}));
    until(|| objectives.priority("batch").is_none()).await;
    assert_eq!(objectives.priorities().load().len(), 2);
}

#[tokio::test]
async fn a_cluster_without_objectives_is_told_once_and_has_none() {
    let server = ApiServer::start();
    let told = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&told);
    let objectives =
        Objectives::follow(&server.client(), "default", "vllm", move |error| heard.lock().push(error.to_string()));
    until(|| server.requests(OBJECTIVES).len() >= 2).await;
    assert_eq!(objectives.priority("interactive"), None);
    assert_eq!(
        *told.lock(),
        ["the cluster has no inferenceobjectives.llm-d.ai or \
          inferenceobjectives.inference.networking.x-k8s.io: install the CRD"]
    );
}

async fn until(is: impl Fn() -> bool) {
    let waited = tokio::time::timeout(Duration::from_secs(10), async {
        while !is() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    });
    waited.await.expect("within ten seconds");
}
