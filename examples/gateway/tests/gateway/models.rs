//! Several models behind one door, and what is probably wrong with one of them.

use std::time::Duration;

use kv_index::{BlockHash, BlockSize, ChainHasher, ChainSeed, Event, EventSemantics, Stored};
use pointsman_gateway::config::{Config, Profile, SnapshotSettings};
use pointsman_gateway::{Gateway, ReloadError};
use pointsman_reporter::wire::{Change, EventBatch, HashScheme};

use super::fixture::{Client, FakePod, Script, WHOLE, until};

const TOKEN: &str = "a token";

/// Two models with a pod each.
fn config(llama: &FakePod, qwen: &FakePod) -> Config {
    let text = format!(
        "listen: 127.0.0.1:0
internal: {{ token: {TOKEN} }}
profile: cache_aware
health_check: {{ interval: 50ms }}
models:
  - model: {{ name: llama, aliases: [default], adapters: {{ sql: }} }}
    pods: [{{ name: {}, url: 'http://{}', events: pushed }}]
  - model: {{ name: qwen, block_size: 32 }}
    profile: least_load
    pods: [{{ name: {}, url: 'http://{}', events: pushed }}]",
        llama.name, llama.address, qwen.name, qwen.address
    );
    Config::parse(&text).unwrap()
}

async fn two() -> (FakePod, FakePod, Gateway, Client) {
    let (a, b) = (FakePod::start("a", Script::Whole(WHOLE)).await, FakePod::start("b", Script::Whole(WHOLE)).await);
    let gateway = Gateway::start(config(&a, &b)).await.unwrap();
    let client = Client::new(gateway.address());
    (a, b, gateway, client)
}

fn body(model: &str) -> String {
    format!(r#"{{"model":"{model}","prompt":{:?}}}"#, (0..64).collect::<Vec<u32>>())
}

#[tokio::test]
async fn a_name_an_alias_and_an_adapter_pick_their_model() {
    let (a, b, gateway, client) = two().await;
    for (name, at_a, at_b) in [("llama", 1, 0), ("default", 2, 0), ("sql", 3, 0), ("qwen", 3, 1)] {
        assert_eq!(client.post("/v1/completions", &body(name), &[]).await.status, 200, "{name}");
        assert_eq!((a.seen().len(), b.seen().len()), (at_a, at_b), "{name}");
    }
    assert_eq!(a.seen()[1].1, body("llama"), "pods are sent the model's own name");
    for (wrong, status, code) in [
        (body("gpt-7"), 404, "model_not_found"),
        ("{}".to_owned(), 400, "missing_model"),
        ("[".to_owned(), 400, "invalid_json"),
    ] {
        let answer = client.post("/v1/completions", &wrong, &[]).await;
        assert_eq!((answer.status, answer.json()["error"]["code"].as_str()), (status, Some(code)), "{wrong}");
    }
    let list = client.get("/v1/models").await.json();
    let names: Vec<_> = list["data"].as_array().unwrap().iter().map(|model| model["id"].as_str().unwrap()).collect();
    assert_eq!(names, ["llama", "default", "sql", "qwen"]);
    let state = gateway.state();
    assert_eq!(state.models.iter().map(|model| &*model.profile).collect::<Vec<_>>(), ["cache_aware", "least_load"]);
    let pods: Vec<_> = state.pods.iter().map(|pod| (&*pod.model, &*pod.name)).collect();
    assert_eq!((pods, &*state.decisions[0].model), (vec![("llama", "a"), ("qwen", "b")], "qwen"));
    let metrics = client.get("/metrics").await;
    for line in ["{model=\"llama\",profile=\"cache_aware\"} 3", "{model=\"qwen\",profile=\"least_load\"} 1"] {
        assert!(metrics.text().contains(&format!("pointsman_gateway_decisions_total{line}")), "{line}");
    }
    gateway.drain(Duration::ZERO).await;
}

/// Each model's events go to its own index, by its own block size.
#[tokio::test]
async fn reports_find_the_model_of_their_pod() {
    let (_a, _b, gateway, client) = two().await;
    let report = |pod: &str, model: &str, size: u32| {
        let blocks = ChainHasher::new(ChainSeed::new(model), BlockSize::new(size).unwrap());
        let blocks: Vec<BlockHash> = blocks.hash(&(0..64).collect::<Vec<u32>>());
        let changes = vec![Change::Stored { parent: kv_index::Parent::Root, blocks, tier: kv_index::Tier::Gpu }];
        let hashing = HashScheme::native(model, BlockSize::new(size).unwrap());
        let source = EventSemantics::Copies;
        let batch = EventBatch { pod: pod.into(), incarnation: 1, sequence: 0, hashing, source, changes };
        serde_json::to_string(&batch).unwrap()
    };
    let headers = [("content-type", "application/json"), ("authorization", "Bearer a token")];
    for (pod, model, size, status) in [("a", "llama", 16, 200), ("b", "llama", 16, 422), ("b", "qwen", 32, 200)] {
        let answer = client.post("/internal/events", &report(pod, model, size), &headers).await;
        assert_eq!(answer.status, status, "{pod} {model}: {}", answer.text());
    }
    let blocks: Vec<_> = gateway.state().models.iter().map(|model| model.blocks).collect();
    assert_eq!(blocks, [4, 2]);
    for (model, expected) in [("llama", 48), ("qwen", 32)] {
        client.post("/v1/completions", &body(model), &[]).await;
        assert_eq!(gateway.state().decisions[0].expected_tokens, expected, "{model}");
    }
    gateway.drain(Duration::ZERO).await;
}

#[tokio::test]
async fn a_reload_changes_all_models_or_none() {
    let (a, b, gateway, client) = two().await;
    let c = FakePod::start("c", Script::Whole(WHOLE)).await;
    let mut next = config(&a, &b);
    next.models[0].pods.push(c.settings());
    let mut wrong = next.clone();
    wrong.models[1].profile =
        Some(Profile::Document(serde_yaml_ng::from_str("{ plugins: [{ type: nothing }], profiles: [] }").unwrap()));
    let error = gateway.reload(wrong).unwrap_err();
    assert!(error.to_string().starts_with("model `qwen`: "), "{error}");
    assert_eq!(gateway.state().pods.len(), 2, "the first model has not changed either");
    gateway.reload(next.clone()).unwrap();
    until("the new pod to be well", || gateway.state().pods.iter().filter(|pod| pod.healthy).count() == 3).await;
    assert_eq!(client.post("/v1/completions", &body("qwen"), &[]).await.status, 200);
    next.models.pop();
    assert_eq!(gateway.reload(next), Err(ReloadError::NeedsRestart(vec!["models"])));
    gateway.drain(Duration::ZERO).await;
}

#[tokio::test]
async fn a_snapshot_has_every_model() {
    let (a, b, gateway, _client) = two().await;
    gateway.drain(Duration::ZERO).await;
    let folder = std::env::temp_dir().join(format!("pointsman-models-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let mut config = config(&a, &b);
    config.snapshot = Some(SnapshotSettings::new(folder.join("index")));
    let gateway = Gateway::start(config.clone()).await.unwrap();
    for (at, router) in gateway.routers().enumerate() {
        let blocks: Vec<BlockHash> = (1..3 + at as u64).map(BlockHash::new).collect();
        let pod = router.pods()[0].pod;
        router.index().apply(pod, EventSemantics::Copies, &Event::Stored(Stored::prompt(&blocks))).unwrap();
    }
    gateway.drain(Duration::ZERO).await;
    let again = Gateway::start(config).await.unwrap();
    assert_eq!(again.state().models.iter().map(|model| model.blocks).collect::<Vec<_>>(), [2, 3]);
    again.drain(Duration::ZERO).await;
    std::fs::remove_dir_all(folder).unwrap();
}

/// Whoever feeds the index hashes by another model's name: prompts are never found, and the gateway says so.
#[tokio::test]
async fn what_is_probably_wrong_is_in_the_state_and_the_metrics() {
    let (_a, _b, gateway, client) = two().await;
    assert!(gateway.state().findings.is_empty());
    let router = gateway.router();
    let tokens: Vec<u32> = (0..64).collect();
    let blocks = ChainHasher::new(ChainSeed::new("default"), router.block_size()).hash(&tokens);
    router
        .index()
        .apply(router.pods()[0].pod, EventSemantics::Copies, &Event::Stored(Stored::prompt(&blocks)))
        .unwrap();
    for _ in 0..40 {
        client.post("/v1/completions", &body("llama"), &[]).await;
    }
    let state = client.get("/state").await.json();
    let found = &state["findings"][0];
    assert_eq!((&found["model"], &found["kind"]), (&"llama".into(), &"model_name".into()), "{state}");
    assert!(found["message"].as_str().unwrap().contains("`default`"));
    let metrics = client.get("/metrics").await;
    assert!(metrics.text().contains("pointsman_gateway_findings{model=\"llama\",kind=\"model_name\"} 1"));
    gateway.drain(Duration::ZERO).await;
}
