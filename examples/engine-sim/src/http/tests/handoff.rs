//! Prefill on one pod, decode on another.

use super::*;

/// Prefills on `pod`, as an executor asks for it; the answer.
async fn prefill(pod: &SimPod, content: &str) -> Value {
    let params = json!({"do_remote_decode": true, "do_remote_prefill": false, "remote_engine_id": null,
        "remote_block_ids": null, "remote_host": null, "remote_port": null});
    let limits = [("max_tokens", json!(1)), ("min_tokens", json!(1)), ("stream", json!(false))];
    let mut body = chat(content, &limits);
    body["kv_transfer_params"] = params;
    ask(pod, CHAT, &body).await
}

fn decode(content: &str, params: &Value) -> Value {
    chat(content, &[("max_tokens", json!(20)), ("kv_transfer_params", params.clone())])
}

#[tokio::test]
async fn the_decoding_pod_computes_nothing_and_the_lease_ends() {
    let (first, _) = start(|_| {}).await;
    let (second, told) = start(|config| config.name = "other".to_owned()).await;
    let content = words(300);
    let answer = prefill(&first, &content).await;
    assert_eq!(answer["usage"]["completion_tokens"], 1);
    let params = &answer["kv_transfer_params"];
    assert_eq!((&params["do_remote_prefill"], &params["do_remote_decode"]), (&json!(true), &json!(false)));
    let prompt = answer["usage"]["prompt_tokens"].as_u64().unwrap();
    assert_eq!(params["remote_num_tokens"], prompt);
    let blocks = prompt.div_ceil(16) as usize;
    assert_eq!(params["remote_block_ids"][0].as_array().unwrap().len(), blocks);
    assert_eq!((first.metrics().leases, first.metrics().blocks_used), (1, blocks));
    let decoded = ask(&second, CHAT, &decode(&content, params)).await;
    assert_eq!(decoded["usage"]["prompt_tokens_details"]["cached_tokens"], prompt - 1);
    let metrics = second.metrics();
    assert_eq!((metrics.received_tokens, metrics.cached_tokens, metrics.fetched), (prompt - 1, 0, 1));
    assert_eq!((first.metrics().leases, first.metrics().blocks_used), (0, 0));
    assert_eq!(second.cache(), told.copies());
    assert!(first.cache().keys().all(|hash| second.cache().contains_key(hash)), "what came is cached");
    let alone = ask(&first, CHAT, &chat(&content, &[("max_tokens", json!(20))])).await;
    assert_eq!(alone["choices"], decoded["choices"]);
    first.stop().await;
    second.stop().await;
}

#[tokio::test]
async fn blocks_that_cannot_be_fetched_are_an_error() {
    let (first, _) = start(|_| {}).await;
    let (second, _) = start(|config| config.lease = Duration::from_millis(20)).await;
    let content = words(100);
    let params = prefill(&first, &content).await["kv_transfer_params"].clone();
    let mut wrong = params.clone();
    wrong["remote_engine_id"] = json!("somebody else");
    let (status, _, error) = post(&second, CHAT, &decode(&content, &wrong)).await;
    assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
    assert!(String::from_utf8_lossy(&error).contains("could not be fetched"));
    // The other way round: these blocks wait for a moment only.
    let short = prefill(&second, &content).await["kv_transfer_params"].clone();
    until("expired", || second.metrics().leases_expired == 1).await;
    assert_eq!((second.metrics().leases, second.metrics().blocks_used), (0, 0));
    assert_eq!(post(&first, CHAT, &decode(&content, &short)).await.0, StatusCode::INTERNAL_SERVER_ERROR);
    first.stop().await;
    assert_eq!(post(&second, CHAT, &decode(&content, &params)).await.0, StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(second.metrics().fetch_failures, 2);
    second.stop().await;
}

#[tokio::test]
async fn what_a_pod_kept_is_gone_after_a_restart() {
    let (first, told) = start(|_| {}).await;
    let (second, _) = start(|_| {}).await;
    let content = words(100);
    let params = prefill(&first, &content).await["kv_transfer_params"].clone();
    first.fault(Fault::Restart);
    until("back", || told.restarts() == 1).await;
    until("listening", || std::net::TcpStream::connect(first.address()).is_ok()).await;
    assert_eq!(post(&second, CHAT, &decode(&content, &params)).await.0, StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(first.metrics().leases, 0);
    first.stop().await;
    second.stop().await;
}

#[tokio::test]
async fn a_missing_field_means_to_prefill_here() {
    let (first, _) = start(|_| {}).await;
    let (second, _) = start(|_| {}).await;
    let content = words(100);
    let params = prefill(&first, &content).await["kv_transfer_params"].clone();
    for field in ["remote_block_ids", "remote_engine_id", "remote_request_id", "remote_host", "remote_port"] {
        let mut params = params.clone();
        params[field] = Value::Null;
        ask(&second, CHAT, &decode(&content, &params)).await;
    }
    ask(&second, CHAT, &decode(&content, &Value::Null)).await;
    assert_eq!((second.metrics().fetched, second.metrics().received_tokens, first.metrics().leases), (0, 0, 1));
    first.stop().await;
    second.stop().await;
}
