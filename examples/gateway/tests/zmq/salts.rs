//! Salted prompts from a pod to an index: found under their salt, and under no other.

use kv_index::engine::native_seed;
use kv_index::{ChainHasher, Digest, Matches, Tier};
use pointsman_engine_sim::publish::{PublishConfig, ZmqPublisher};
use pointsman_engine_sim::{PodConfig, SimPod};
use pointsman_gateway::config::ZmqEndpoints;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::engine::model;
use crate::fixture::{Gateway, no_tasks};

/// Has a pod prefill the tokens `0..tokens`.
async fn prefill(pod: &SimPod, tokens: u32, salt: Option<&str>) {
    let prompt: Vec<u32> = (0..tokens).collect();
    let body = serde_json::json!({"prompt": prompt, "max_tokens": 1, "cache_salt": salt}).to_string();
    let mut stream = TcpStream::connect(pod.address()).await.unwrap();
    let head =
        format!("POST /v1/completions HTTP/1.1\r\nhost: pod\r\nconnection: close\r\ncontent-length: {}", body.len());
    stream.write_all(format!("{head}\r\n\r\n{body}").as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

/// Leading blocks of the tokens `0..80` that the index finds.
fn found(gateway: &Gateway, salt: Option<&str>) -> usize {
    let (model, size) = model();
    let tokens: Vec<u32> = (0..80).collect();
    let mut matches = Matches::default();
    gateway.index.search(&ChainHasher::new(native_seed(model, None, salt), size).hash(&tokens), &mut matches);
    matches.depth(gateway.pod.id())
}

#[tokio::test]
async fn a_salted_prompt_is_found_under_its_salt_and_no_other() {
    let (sink, handle) = ZmqPublisher::bind(PublishConfig::new("kv-events", 1_000)).await.unwrap();
    let mut config = PodConfig::new("pod-0", "sim");
    (config.speed, config.block_size) = (1_000.0, model().1);
    let pod = SimPod::start(config, vec![Box::new(sink)]).await.unwrap();
    let endpoints = handle.endpoints().clone();
    let sockets = ZmqEndpoints::new(&endpoints.events).replay(&endpoints.replay);
    let gateway = Gateway::follow(ZmqEndpoints { topic: endpoints.topic, ..sockets });
    let salts = [Some("tenant"), Some("other"), None];
    // The second prompt joins on to the first: its event says nothing of the salt.
    for (tokens, salt, expected) in
        [(40, salts[0], [10, 0, 0]), (80, salts[0], [20, 0, 0]), (24, None, [20, 0, 6]), (12, salts[1], [20, 3, 6])]
    {
        prefill(&pod, tokens, salt).await;
        let truth = Digest::of(pod.cache().into_keys().map(|hash| (hash, Tier::Gpu)));
        gateway.holds(truth, &format!("{tokens} tokens under {salt:?}")).await;
        assert_eq!(salts.map(|salt| found(&gateway, salt)), expected, "{tokens} tokens under {salt:?}");
    }
    gateway.stop().await;
    pod.stop().await;
    handle.stop().await;
    no_tasks().await;
}
