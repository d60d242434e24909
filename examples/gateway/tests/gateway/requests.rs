//! Requests: passed through, explained, refused, tried again.

use std::time::Duration;

use super::fixture::{CHAT, Client, EVENTS, FakePod, STREAMED, Script, WHOLE, config, gateway, piece, until};
use pointsman_gateway::Gateway;

#[tokio::test]
async fn answers_pass_through_byte_for_byte() {
    let pod = FakePod::start("a", Script::Whole(WHOLE)).await;
    let (gateway, client) = gateway(&[&pod]).await;
    let answer = client.post("/v1/chat/completions", CHAT, &[("x-request-id", "mine")]).await;
    assert_eq!((answer.status, answer.text()), (200, WHOLE));
    assert_eq!(answer.header("x-request-id"), Some("mine"));
    assert_eq!((answer.header("x-pointsman-trace"), answer.header("x-pointsman-pod")), (None, None));
    let (headers, body) = pod.seen().remove(0);
    assert_eq!((&*body, headers["x-request-id"].to_str().unwrap()), (CHAT.as_bytes(), "mine"));

    pod.answers(Script::Events(EVENTS));
    let answer = client.post("/v1/completions", r#"{"model":"sim","prompt":"a b","stream":true}"#, &[]).await;
    assert_eq!((answer.status, answer.text()), (200, &*EVENTS.concat()));
    assert!(answer.header("x-request-id").unwrap().starts_with("req-"));
    gateway.drain(std::time::Duration::ZERO).await;
}

#[tokio::test]
async fn a_stream_comes_as_it_is_written_and_a_client_that_leaves_is_felt() {
    let pod = FakePod::start("a", Script::Gated(EVENTS)).await;
    let (gateway, client) = gateway(&[&pod]).await;
    let mut body = client.begin("/v1/chat/completions", STREAMED, &[]).await.into_body();
    // The pod holds the rest back, so this is not buffered.
    assert_eq!(piece(&mut body).await.unwrap().unwrap(), EVENTS[0]);
    let state = gateway.state();
    assert_eq!((state.active_requests[0].stage, state.active_requests[0].pod.as_deref()), ("streaming", Some("a")));
    assert_eq!(state.pods[0].in_flight, 1);
    pod.let_go(1);
    assert_eq!(piece(&mut body).await.unwrap().unwrap(), EVENTS[1]);
    drop(body);
    pod.left().await;
    until("the request to be over", || gateway.state().totals.cancelled == 1).await;
    assert_eq!(gateway.state().pods[0].in_flight, 0);
    gateway.drain(std::time::Duration::ZERO).await;
}

#[tokio::test]
async fn a_decision_is_explained_to_who_asks() {
    let (a, b) = (FakePod::start("a", Script::Whole(WHOLE)).await, FakePod::start("b", Script::Whole(WHOLE)).await);
    let (gateway, client) = gateway(&[&a, &b]).await;
    let answer = client.post("/v1/chat/completions", CHAT, &[("x-pointsman-explain", "1")]).await;
    let trace: serde_json::Value = serde_json::from_str(answer.header("x-pointsman-trace").unwrap()).unwrap();
    let step = &trace["steps"][0];
    assert_eq!(step["picked"], answer.header("x-pointsman-pod").unwrap());
    assert_eq!(step["pods"].as_array().unwrap().len(), 2);
    let score = &step["pods"][0]["scores"][0];
    assert_eq!(score["scorer"], "total");
    // What was learned of the pod: nothing yet.
    assert_eq!(
        (score["figures"]["prefill_pace"].as_f64(), score["figures"]["prefill_share"].as_f64()),
        (Some(1.0), Some(0.0))
    );
    gateway.drain(std::time::Duration::ZERO).await;
}

#[tokio::test]
async fn reasons_are_kept_only_while_somebody_looks() {
    let pod = FakePod::start("a", Script::Whole(WHOLE)).await;
    let (gateway, client) = gateway(&[&pod]).await;
    client.chat().await;
    let before = client.get("/state").await.json();
    assert_eq!(before["decisions"][0]["steps"][0]["pods"].as_array().unwrap().len(), 0);
    assert_eq!(before["decisions"][0]["steps"][0]["picked"], "a");
    client.chat().await;
    let after = client.get("/state").await.json();
    assert_eq!(after["decisions"][0]["steps"][0]["pods"][0]["name"], "a");
    assert_eq!(after["totals"]["completed"], 2);
    assert_eq!(after["decisions"][0]["outcome"], "completed 200");
    assert!(after["decisions"][0]["prompt_tokens"].as_u64().unwrap() > 3);
    let model = &after["models"][0];
    assert_eq!((&model["profile"], &model["name"]), (&"total_latency".into(), &"sim".into()));
    gateway.drain(std::time::Duration::ZERO).await;
}

#[tokio::test]
async fn what_the_index_knows_of_a_prompt_is_in_the_state_under_every_profile() {
    use kv_index::{BlockSize, ChainHasher, ChainSeed, Event, EventSemantics, Stored};
    use pointsman_gateway::config::Profile;
    let pod = FakePod::start("a", Script::Whole(WHOLE)).await;
    let text: String = (0..64).map(|at| format!(" word{at}")).collect();
    let mut tokens = Vec::new();
    routing_plugins::tokenize::Tokenizer::encode(&pointsman_example_common::words::Words, &text, &mut tokens).unwrap();
    let hashes = ChainHasher::new(ChainSeed::new("sim"), BlockSize::new(16).unwrap()).hash(&tokens[..32]);
    for profile in ["total_latency", "first_token", "cache_aware", "round_robin"] {
        let mut config = config(&[&pod]);
        config.profile = Profile::stock(profile);
        let gateway = Gateway::start(config).await.unwrap();
        let index = gateway.index();
        index.apply(index.pod("a").unwrap(), EventSemantics::Copies, &Event::Stored(Stored::prompt(&hashes))).unwrap();
        let body = serde_json::json!({"model": "sim", "prompt": text}).to_string();
        // The second finds what was entered ahead of the first one's events, and nothing is expected of that.
        for _ in 0..2 {
            Client::new(gateway.address()).post("/v1/completions", &body, &[]).await;
            let decision = &gateway.state().decisions[0];
            assert_eq!((decision.prompt_tokens, decision.expected_tokens), (64, 32), "{profile}");
        }
        let state = gateway.state();
        // What is sent is entered ahead of its events by the first of them.
        let speculated = if profile == "total_latency" { 2 } else { 0 };
        assert_eq!((state.pods[0].blocks, state.pods[0].speculated), (2, speculated), "{profile}");
        gateway.drain(std::time::Duration::ZERO).await;
    }
}

#[tokio::test]
async fn models_aliases_and_adapters_are_known_and_others_are_not() {
    let pod = FakePod::start("a", Script::Whole(WHOLE)).await;
    let mut config = config(&[&pod]);
    config.model.aliases.push("default".to_owned());
    config.model.adapters.insert("sql".to_owned(), None);
    let gateway = Gateway::start(config).await.unwrap();
    let client = Client::new(gateway.address());
    let models = client.get("/v1/models").await.json();
    let ids: Vec<_> = models["data"].as_array().unwrap().iter().map(|model| model["id"].clone()).collect();
    assert_eq!(ids, ["sim", "default", "sql"]);
    assert_eq!(client.post("/v1/chat/completions", &CHAT.replace("sim", "default"), &[]).await.status, 200);
    assert_eq!(pod.seen()[0].1, CHAT, "the pod does not know aliases");
    let adapted = CHAT.replace("sim", "sql");
    assert_eq!(client.post("/v1/chat/completions", &adapted, &[]).await.status, 200);
    assert_eq!(pod.seen()[1].1, adapted, "and it knows adapters");
    let answer = client.post("/v1/chat/completions", &CHAT.replace("sim", "gpt"), &[]).await;
    assert_eq!((answer.status, &answer.json()["error"]["code"]), (404, &"model_not_found".into()));
    assert_eq!(client.post("/v1/chat/completions", "no json", &[]).await.status, 400);
    assert_eq!(client.get("/v1/nothing").await.status, 404);
    assert_eq!(client.get("/v1/completions").await.status, 405);
    assert_eq!(pod.seen().len(), 2);
    assert_eq!(gateway.state().totals.rejected, 2);
    gateway.drain(std::time::Duration::ZERO).await;
}

#[tokio::test]
async fn a_pod_that_is_down_is_passed_over_and_nothing_is_left_behind() {
    let (mut a, b) = (FakePod::start("a", Script::Whole(WHOLE)).await, FakePod::start("b", Script::Whole(WHOLE)).await);
    let mut config = config(&[&a, &b]);
    // Nobody notices in time, so requests find out.
    config.health_check.interval = Duration::from_secs(600);
    config.profile = pointsman_gateway::config::Profile::stock("round_robin");
    let gateway = Gateway::start(config).await.unwrap();
    let client = Client::new(gateway.address());
    a.die().await;
    for _ in 0..6 {
        let answer = client.post("/v1/chat/completions", CHAT, &[("x-pointsman-explain", "1")]).await;
        assert_eq!((answer.status, answer.header("x-pointsman-pod")), (200, Some("b")));
    }
    assert_eq!(b.seen().len(), 6);
    for pod in gateway.state().pods {
        assert_eq!((pod.in_flight, pod.prefilling, pod.queued_tokens), (0, 0, 0), "{}", pod.name);
    }
    gateway.drain(std::time::Duration::ZERO).await;
}

#[tokio::test]
async fn a_long_prompt_is_passed_on_whole() {
    let pod = FakePod::start("a", Script::Whole(WHOLE)).await;
    let (gateway, client) = gateway(&[&pod]).await;
    let body = serde_json::json!({"model": "sim", "prompt": " word".repeat(40_000)}).to_string();
    assert_eq!(client.post("/v1/completions", &body, &[]).await.status, 200);
    assert_eq!(pod.seen()[0].1, body);
    assert_eq!(gateway.state().decisions[0].prompt_tokens, 40_000);
    gateway.drain(std::time::Duration::ZERO).await;
}
