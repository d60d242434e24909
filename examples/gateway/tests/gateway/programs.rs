//! Agents' programs in the gateway: who waits for room in a cache, and what an operator sees of it.

use pointsman_gateway::Gateway;

use super::fixture::{Client, EVENTS, FakePod, Script, WHOLE, config, piece, until};

fn chat(words: usize, of: &str, stream: bool) -> String {
    let text = (0..words).map(|at| format!("{of}{at} ")).collect::<String>();
    format!(r#"{{"model":"sim","stream":{stream},"messages":[{{"role":"user","content":"{text}"}}]}}"#)
}

#[tokio::test]
async fn a_program_that_does_not_fit_waits_until_another_is_over() {
    let pod = FakePod::start("a", Script::Gated(EVENTS)).await;
    let mut config = config(&[&pod]);
    config.profile = serde_yaml_ng::from_str("programs").unwrap();
    config.flow_control = Some(serde_yaml_ng::from_str("saturation: { working_set: {} }").unwrap());
    config.pods[0].kv_tokens = Some(2_000);
    let gateway = Gateway::start(config).await.unwrap();
    let client = Client::new(gateway.address());
    let own = || gateway.state().pods[0].clone();
    assert_eq!(own().kv_tokens, Some(2_000));

    let first = chat(1_200, "a", true);
    let mut body = client.begin("/v1/chat/completions", &first, &[("x-session-id", "a")]).await.into_body();
    piece(&mut body).await.unwrap().unwrap();
    assert!(own().working_set >= 1_200, "{}", own().working_set);
    pod.answers(Script::Whole(WHOLE));
    let second = {
        let client = client.clone();
        let headers = &[("x-session-id", "b"), ("x-pointsman-explain", "1")];
        tokio::spawn(async move { client.post("/v1/chat/completions", &chat(1_000, "b", false), headers).await })
    };
    until("the second to wait", || gateway.state().flow[0].requests == 1).await;
    let metrics = client.get("/metrics").await.text().to_owned();
    assert!(metrics.contains(r#"pointsman_gateway_program_contexts{model="sim",state="running"} 1"#), "{metrics}");

    pod.let_go(EVENTS.len());
    while piece(&mut body).await.is_some() {}
    drop(body);
    let answer = second.await.unwrap();
    assert_eq!(answer.status, 200);
    let trace = answer.header("x-pointsman-trace").unwrap();
    assert!(trace.contains(r#""waited":"program""#), "{trace}");
}
