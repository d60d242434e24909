//! Rewrites: the models that take the place of others in a pool.

use std::time::Duration;

use pointsman_epp::discovery::kubernetes::Rewrites;
use serde_json::{Value, json};

use crate::api_server::{ApiServer, OLD_REWRITES, REWRITES};

/// A rewrite as the API server has it.
fn rewrite(name: &str, created: &str, pool: &str, rules: &Value) -> Value {
    json!({
        "apiVersion": "llm-d.ai/v1alpha2", "kind": "InferenceModelRewrite",
        "metadata": {"name": name, "namespace": "default", "creationTimestamp": created, "resourceVersion": "48400",
            "uid": format!("0d7a2c5e-0000-4000-8000-{name:0>12}"), "generation": 1},
        "spec": {"poolRef": {"group": "inference.networking.k8s.io", "kind": "InferencePool", "name": pool}, "rules": rules},
        "status": {"conditions": []},
    })
}

fn exact(model: &str, target: &str) -> Value {
    json!([{"matches": [{"model": {"type": "Exact", "value": model}}], "targets": [{"modelRewrite": target}]}])
}

fn list(items: &[Value]) -> String {
    json!({"apiVersion": "llm-d.ai/v1alpha2", "kind": "InferenceModelRewriteList",
        "metadata": {"resourceVersion": "48410"}, "items": items})
    .to_string()
}

fn target(rewrites: &Rewrites, model: &str, drawn: u64) -> Option<(String, String)> {
    let found = rewrites.rules().load().target(model, drawn);
    found.map(|(resource, target)| (resource.to_string(), target.to_string()))
}

fn some(resource: &str, target: &str) -> Option<(String, String)> {
    Some((resource.to_owned(), target.to_owned()))
}

#[tokio::test]
async fn rewrites_of_the_pool_are_followed_and_the_oldest_goes_first() {
    let server = ApiServer::start();
    let split = json!([{"targets": [{"modelRewrite": "v1", "weight": 9}, {"modelRewrite": "v2", "weight": 1}]}]);
    let items = [
        rewrite("a-newer", "2026-03-03T08:20:00Z", "vllm", &exact("chat", "newer")),
        rewrite("b-older", "2026-03-02T08:20:00Z", "vllm", &exact("chat", "older")),
        rewrite("c-all", "2026-03-01T08:20:00Z", "vllm", &split),
        rewrite("d-elsewhere", "2026-01-01T08:20:00Z", "other", &exact("chat", "elsewhere")),
        rewrite("e-broken", "2026-01-01T08:20:00Z", "vllm", &json!([{"targets": [{"weight": 1}]}])),
        rewrite(
            "f-no-model",
            "2026-01-01T08:20:00Z",
            "vllm",
            &json!([{"matches": [{}], "targets": [{"modelRewrite": "x"}]}]),
        ),
    ];
    server.list(REWRITES, 200, list(&items));
    let watch = server.watch(REWRITES);
    let rewrites = Rewrites::follow(&server.client(), "default", "vllm", |error| panic!("{error}"));
    until(|| target(&rewrites, "chat", 0).is_some()).await;
    assert_eq!(target(&rewrites, "chat", 0), some("b-older", "older"));
    assert_eq!([0, u64::MAX].map(|drawn| target(&rewrites, "x", drawn)), [some("c-all", "v1"), some("c-all", "v2")]);
    let mut changed = rewrite("b-older", "2026-03-02T08:20:00Z", "vllm", &exact("chat", "changed"));
    changed["metadata"]["resourceVersion"] = "48420".into();
    watch.send(&json!({"type": "MODIFIED", "object": changed}));
    until(|| target(&rewrites, "chat", 0) == some("b-older", "changed")).await;
    watch.send(&json!({"type": "DELETED", "object": changed}));
    until(|| target(&rewrites, "chat", 0) == some("a-newer", "newer")).await;
}

#[tokio::test]
async fn the_older_group_serves_where_the_newer_one_is_not_defined() {
    let server = ApiServer::start();
    let item = rewrite("old", "2026-03-02T08:20:00Z", "vllm", &exact("chat", "new"));
    server.list(OLD_REWRITES, 200, list(&[item]));
    let rewrites = Rewrites::follow(&server.client(), "default", "vllm", |error| panic!("{error}"));
    until(|| target(&rewrites, "chat", 0) == some("old", "new")).await;
}

async fn until(is: impl Fn() -> bool) {
    let waited = tokio::time::timeout(Duration::from_secs(10), async {
        while !is() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    });
    waited.await.expect("within ten seconds");
}
