//! Cases of llm-d's integration tests: the same pods, the same winner (`test/integration/epp/hermetic_test.go` and
//! `common_tests.go`, run there with `testdata/default-config.yaml`).

use crate::decide::{Scene, ScenePod, request};
use crate::samples::sample;

const BODY: &str = r#"{"model": "m", "prompt": "test"}"#;
const ADAPTER: &str = "sql-lora-1fdg2";

fn pod(waiting: u32, kv_used: f32, adapters: &[&'static str]) -> ScenePod {
    ScenePod::new(waiting, kv_used, adapters)
}

fn winner(config: &str, adapter: Option<&'static str>, pods: &[ScenePod]) -> usize {
    let mut request = request(BODY);
    request.adapter = adapter;
    Scene::new(config, pods).winner(&request)
}

#[test]
fn select_lower_queue_and_kv_cache() {
    let pods = [pod(3, 0.2, &[]), pod(0, 0.1, &[]), pod(10, 0.2, &[])];
    assert_eq!(winner(&sample("integration_default"), None, &pods), 1);
    assert_eq!(winner(&sample("integration_datalayer"), None, &pods), 1);
}

#[test]
fn select_active_lora_low_queue() {
    let pods = [pod(0, 0.2, &["foo", "bar"]), pod(0, 0.1, &["foo", ADAPTER]), pod(10, 0.2, &["foo", "bar"])];
    assert_eq!(winner(&sample("integration_default"), Some(ADAPTER), &pods), 1);
}

#[test]
fn select_lora_despite_higher_kv_cache() {
    let pods = [pod(10, 0.2, &["foo", "bar"]), pod(10, 0.4, &["foo", ADAPTER]), pod(10, 0.3, &["foo"])];
    assert_eq!(winner(&sample("integration_default"), Some(ADAPTER), &pods), 1);
}

#[test]
fn do_not_shed_requests_by_default() {
    let pods = [pod(6, 0.2, &["foo", "bar", ADAPTER]), pod(0, 0.85, &["foo"]), pod(10, 0.9, &["foo"])];
    assert_eq!(winner(&sample("integration_default"), Some(ADAPTER), &pods), 0);
}

#[test]
fn split_body_across_chunks() {
    let pods = [pod(4, 0.2, &["foo", "bar", ADAPTER]), pod(4, 0.85, &["foo", ADAPTER])];
    assert_eq!(winner(&sample("integration_default"), Some(ADAPTER), &pods), 0);
}

#[test]
fn passthrough_parser_success() {
    let config = "
apiVersion: inference.networking.x-k8s.io/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: queue-scorer
- type: kv-cache-utilization-scorer
- type: passthrough-parser
schedulingProfiles:
- name: default
  plugins:
  - pluginRef: queue-scorer
  - pluginRef: kv-cache-utilization-scorer
requestHandler:
  parsers:
  - pluginRef: passthrough-parser
";
    let pods = [pod(3, 0.2, &[]), pod(0, 0.1, &[]), pod(10, 0.2, &[])];
    assert_eq!(winner(config, None, &pods), 1);
}

const ROLE: &str = "llm-d.ai/role";

/// A long prompt that nobody holds is prefilled by a pod that prefills; what was sent once is held there afterwards.
#[test]
fn prefill_is_disaggregated_while_the_decode_pod_lacks_the_prompt() {
    let pods = [pod(0, 0.0, &[]).label(ROLE, "prefill"), pod(0, 0.0, &[]).label(ROLE, "decode"), pod(9, 0.0, &[])];
    let scene = Scene::new(&sample("deploy_pd_epp"), &pods);
    let body = format!(r#"{{"model": "m", "prompt": "{}"}}"#, "word ".repeat(1024));
    let cold = [("prefill".to_owned(), 0), ("decode".to_owned(), 1)];
    assert_eq!(scene.decide(&request(&body)).unwrap(), cold);
    assert_eq!(scene.decide(&request(&body)).unwrap(), cold[1..], "it was predicted to be held");
    // Fewer than 16 tokens are never worth another pod.
    assert_eq!(scene.decide(&request(r#"{"prompt": "short"}"#)).unwrap(), cold[1..]);
}

/// llm-d decides for decode alone where nobody prefills, and fails where nobody decodes.
#[test]
fn without_prefill_pods_decode_goes_on_alone() {
    let body = format!(r#"{{"model": "m", "prompt": "{}"}}"#, "word ".repeat(1024));
    let scene = Scene::new(&sample("deploy_pd_epp"), &[pod(0, 0.0, &[]).label(ROLE, "decode")]);
    assert_eq!(scene.decide(&request(&body)).unwrap(), [("decode".to_owned(), 0)]);
    let scene = Scene::new(&sample("deploy_pd_epp"), &[pod(0, 0.0, &[]).label(ROLE, "prefill")]);
    assert!(scene.decide(&request(&body)).is_err());
}

#[test]
fn prefill_stays_on_the_decode_pods_host() {
    const HOST: &str = "kubernetes.io/hostname";
    let pods = [
        pod(0, 0.0, &[]).label(ROLE, "prefill").label(HOST, "a"),
        pod(7, 0.0, &[]).label(ROLE, "prefill").label(HOST, "b"),
        pod(0, 0.0, &[]).label(ROLE, "decode").label(HOST, "b"),
    ];
    let body = format!(r#"{{"model": "m", "prompt": "{}"}}"#, "word ".repeat(1024));
    let steps = Scene::new(&sample("deploy_pd_topology_epp"), &pods).decide(&request(&body)).unwrap();
    assert_eq!(steps, [("prefill".to_owned(), 1), ("decode".to_owned(), 2)], "the busier one, on the same host");
}

#[test]
fn encoders_are_chosen_for_images_only() {
    let pods = [pod(0, 0.0, &[]).label(ROLE, "encode"), pod(0, 0.0, &[])];
    let scene = Scene::new(&sample("deploy_sim_e_pd_epp"), &pods);
    assert_eq!(scene.decide(&request(BODY)).unwrap(), [("decode".to_owned(), 1)]);
    let body = r#"{"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "u"}}]}]}"#;
    assert_eq!(scene.decide(&request(body)).unwrap(), [("encode".to_owned(), 0), ("decode".to_owned(), 1)]);
}

/// `test/integration/epp/session_affinity_test.go`: the token of an answer leads back to its pod.
#[test]
fn a_session_token_leads_back_to_its_pod() {
    for kind in ["scorer", "filter"] {
        let config = format!(
            "
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: queue-scorer
- type: session-affinity-{kind}
schedulingProfiles:
- name: default
  plugins:
  - pluginRef: queue-scorer
    weight: 0.5
  - pluginRef: session-affinity-{kind}
"
        );
        let scene = Scene::new(&config, &[pod(0, 0.1, &[]), pod(9, 0.1, &[])]);
        let request = request(BODY);
        assert_eq!(scene.winner(&request), 0);
        let headers = &[("x-session-token", "ZGVmYXVsdC9wb2QtMQ==")][..];
        let mut request = request;
        request.headers = Some(&headers);
        assert_eq!(scene.winner(&request), 1, "default/pod-1 by the {kind}");
    }
}

/// A pod that is dead has nothing to do, and so is within any bound of load: it is asked no sooner for that.
#[test]
fn load_comes_behind_health() {
    let config = "
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: utilization-filter
  parameters: { conditions: [{ metric: waiting-queue, maxValue: 4 }], fallbackOnEmpty: false }
- type: queue-scorer
schedulingProfiles:
- name: default
  plugins: [{ pluginRef: utilization-filter }, { pluginRef: queue-scorer }]
";
    let scene = Scene::new(config, &[pod(0, 0.0, &[]), pod(3, 0.2, &[]), pod(9, 0.2, &[])]);
    let dead = scene.fleet.pods().iter().next().unwrap();
    scene.state.open_breakers.open(dead);
    assert!((0..50).all(|seed| scene.winner(&request(BODY).seed(seed)) == 1), "there is one that is well and has room");
    let scene = Scene::new(config, &[pod(0, 0.0, &[]), pod(9, 0.2, &[])]);
    let dead = scene.fleet.pods().iter().next().unwrap();
    scene.state.open_breakers.open(dead);
    assert!(scene.decide(&request(BODY)).is_err(), "one is dead, and one is full");
}

/// Where all who can do a step are unwell, one of them is asked: others' health is of no use to it.
#[test]
fn a_role_comes_before_health() {
    let pods = ["decode", "prefill", "prefill"].map(|role| ScenePod::default().label("llm-d.ai/role", role));
    let scene = Scene::new(&sample("deploy_dp_epp"), &pods);
    let decode = scene.fleet.pods().iter().next().unwrap();
    let is_asked = || (0..50).all(|seed| scene.winner(&request(BODY).seed(seed)) == decode.index());
    scene.state.open_breakers.withhold(decode, 230);
    assert!(is_asked());
    scene.state.open_breakers.open(decode);
    assert!(is_asked());
}
