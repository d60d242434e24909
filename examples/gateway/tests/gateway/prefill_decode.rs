//! Disaggregated serving: prefill on one pod, decode on another.

use std::time::Duration;

use pointsman_gateway::Gateway;
use pointsman_gateway::config::{PodRole, Profile};

use super::fixture::{Client, EVENTS, FakePod, STREAMED, Script, config};

const PREFILLED: &str = r#"{"id":"p","choices":[],"kv_transfer_params":{"do_remote_prefill":true,
    "do_remote_decode":false,"remote_engine_id":"e","remote_request_id":"r","remote_block_ids":[1,2],"remote_host":"10.0.0.1","remote_port":5600}}"#;

#[tokio::test]
async fn what_a_prefill_pod_hands_out_reaches_the_decode_pod() {
    let prefill = FakePod::start("p", Script::Whole(PREFILLED)).await;
    let decode = FakePod::start("d", Script::Events(EVENTS)).await;
    let mut config = config(&[&prefill, &decode]);
    config.pods[0].role = PodRole::Prefill;
    config.pods[1].role = PodRole::Decode;
    config.profile = Profile::stock("prefill_decode");
    let gateway = Gateway::start(config).await.unwrap();
    let client = Client::new(gateway.address());
    let answer = client.post("/v1/chat/completions", STREAMED, &[("x-pointsman-explain", "1")]).await;
    assert_eq!((answer.status, answer.text()), (200, &*EVENTS.concat()));
    assert_eq!(answer.header("x-pointsman-pod"), Some("d"));
    let body = |pod: &FakePod| serde_json::from_slice::<serde_json::Value>(&pod.seen()[0].1).unwrap();
    let (first, second) = (body(&prefill), body(&decode));
    assert_eq!((&first["max_tokens"], &first["stream"]), (&1.into(), &false.into()));
    assert_eq!(first["kv_transfer_params"]["do_remote_decode"], true);
    assert_eq!(second["kv_transfer_params"]["remote_engine_id"], "e");
    assert_eq!(second["stream"], true);
    let ids = [&prefill, &decode].map(|pod| pod.seen()[0].0["x-request-id"].clone());
    assert_eq!(ids[0], ids[1], "both legs have the request's id");
    let state = gateway.state();
    assert_eq!(state.decisions[0].steps.iter().map(|step| &*step.step).collect::<Vec<_>>(), ["prefill", "decode"]);
    assert!(state.pods.iter().all(|pod| pod.in_flight == 0));

    // Without the prefill pod the decode pod does all of it.
    prefill.answers(Script::Status(500));
    assert_eq!(client.post("/v1/chat/completions", STREAMED, &[]).await.text(), EVENTS.concat());
    gateway.drain(Duration::ZERO).await;
}
