//! Cached tokens: what was expected of a pod against what its engine reports, in headers, state, metrics and decision log.

use kv_index::{BlockSize, ChainHasher, ChainSeed, Event, EventSemantics, Stored};
use pointsman_gateway::Gateway;

use super::fixture::{Client, FakePod, Script, config};

/// An answer of an engine that had 32 of 64 prompt tokens cached.
const CACHED: &str = r#"{"choices":[],"usage":{"prompt_tokens":64,"prompt_tokens_details":{"cached_tokens":32}}}"#;
const STREAM: &[&str] = &[
    "data: {\"choices\":[]}\n\n",
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":64,\"prompt_tokens_details\":{\"cached_tokens\":32}}}\n\n",
    "data: [DONE]\n\n",
];

/// Token ids as a prompt, of which the pod is known to hold some.
fn prompt() -> Vec<u32> {
    (0..64).collect()
}

fn body(more: &str) -> String {
    format!(r#"{{"model":"sim","prompt":{:?}{more}}}"#, prompt())
}

fn pod_holds(gateway: &Gateway, tokens: usize) {
    let hashes = ChainHasher::new(ChainSeed::new("sim"), BlockSize::new(16).unwrap()).hash(&prompt()[..tokens]);
    let index = gateway.index();
    index.apply(index.pod("a").unwrap(), EventSemantics::Membership, &Event::Stored(Stored::prompt(&hashes))).unwrap();
}

#[tokio::test]
async fn an_answer_that_is_whole_tells_both_in_its_headers_and_a_stream_in_the_state() {
    let pod = FakePod::start("a", Script::Whole(CACHED)).await;
    let gateway = Gateway::start(config(&[&pod])).await.unwrap();
    let client = Client::new(gateway.address());
    pod_holds(&gateway, 32);
    let answer = client.post("/v1/completions", &body(""), &[]).await;
    assert_eq!(answer.text(), CACHED);
    assert_eq!(answer.header("x-pointsman-expected-cached-tokens"), Some("32"));
    assert_eq!(answer.header("x-pointsman-cached-tokens"), Some("32"));
    pod.answers(Script::Events(STREAM));
    let answer = client.post("/v1/completions", &body(r#","stream":true"#), &[]).await;
    assert_eq!(answer.text(), STREAM.concat());
    assert_eq!(answer.header("x-pointsman-cached-tokens"), None);
    let state = gateway.state();
    assert_eq!((state.decisions[0].expected_tokens, state.decisions[0].cached_tokens), (32, Some(32)));
    assert_eq!((state.pods[0].cache.exact, state.pods[0].cache.expected_tokens), (2, 64));
    let metrics = client.get("/metrics").await;
    assert!(metrics.text().contains(r#"pod_cache_expectations_total{pod="a",result="exact"} 2"#), "{}", metrics.text());
    gateway.drain(std::time::Duration::ZERO).await;
}

#[tokio::test]
async fn a_difference_is_told_with_its_cause_in_the_decision_log() {
    let pod = FakePod::start("a", Script::Whole(CACHED)).await;
    let folder = std::env::temp_dir().join(format!("pointsman-decisions-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let mut config = config(&[&pod]);
    config.decision_log = Some(folder.join("decisions.jsonl"));
    let gateway = Gateway::start(config).await.unwrap();
    let client = Client::new(gateway.address());
    let answer = client.post("/v1/completions", &body(""), &[]).await;
    assert_eq!(answer.header("x-pointsman-expected-cached-tokens"), Some("0"));
    assert_eq!(answer.header("x-pointsman-cached-tokens"), Some("32"));
    // Several answers share blocks, so nothing is compared.
    let answer = client.post("/v1/completions", &body(r#","n":2"#), &[]).await;
    assert_eq!(answer.header("x-pointsman-cached-tokens"), None);
    gateway.drain(std::time::Duration::ZERO).await;
    let text = std::fs::read_to_string(folder.join("decisions.jsonl")).unwrap();
    let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2);
    assert_eq!((&lines[0]["expected_tokens"], &lines[0]["cached_tokens"]), (&0.into(), &32.into()));
    assert_eq!((&lines[0]["cause"], &lines[0]["pods"][0]), (&"no_events".into(), &"a".into()));
    assert_eq!((&lines[1]["cached_tokens"], &lines[1]["outcome"]), (&serde_json::Value::Null, &"completed 200".into()));
    std::fs::remove_dir_all(folder).unwrap();
}

#[tokio::test]
async fn a_last_block_and_a_request_that_bypasses_the_cache_are_counted_as_engines_do() {
    let pod = FakePod::start("a", Script::Whole(CACHED)).await;
    let gateway = Gateway::start(config(&[&pod])).await.unwrap();
    let client = Client::new(gateway.address());
    pod_holds(&gateway, 64);
    for (more, expected) in [
        ("", "48"),
        (r#","prompt_logprobs":1"#, "0"),
        (r#","echo":true,"logprobs":0"#, "0"),
        (r#","echo":true"#, "48"),
        (r#","truncate_prompt_tokens":33,"truncation_side":"right""#, "32"),
        (r#","truncate_prompt_tokens":33"#, "0"),
    ] {
        let answer = client.post("/v1/completions", &body(more), &[]).await;
        assert_eq!(answer.header("x-pointsman-expected-cached-tokens"), Some(expected), "{more}");
    }
    gateway.drain(std::time::Duration::ZERO).await;
}

#[tokio::test]
async fn fields_that_poison_an_engines_reports_are_removed_unless_they_are_allowed() {
    let pod = FakePod::start("a", Script::Whole(CACHED)).await;
    let poison = body(r#","vllm_xargs":{"kv_cache_report_mode":"full"}"#);
    let gateway = Gateway::start(config(&[&pod])).await.unwrap();
    Client::new(gateway.address()).post("/v1/completions", &poison, &[]).await;
    gateway.drain(std::time::Duration::ZERO).await;
    let mut config = config(&[&pod]);
    config.client_fields.allow =
        routing_exec::ClientFields::default().allow("vllm_xargs.kv_cache_report_mode").unwrap();
    let gateway = Gateway::start(config).await.unwrap();
    Client::new(gateway.address()).post("/v1/completions", &poison, &[]).await;
    gateway.drain(std::time::Duration::ZERO).await;
    let bodies: Vec<String> = pod.seen().iter().map(|(_, body)| String::from_utf8_lossy(body).into_owned()).collect();
    assert_eq!(bodies, [body(r#","vllm_xargs":{}"#), poison]);
}
