//! llm-d's unit test cases (`routing-plugins/tests/fixtures`), run through a configuration: what parameters it refuses,
//! what scorers give, and whom filters keep.

use std::fs;
use std::path::Path;

use pointsman_epp::picker_config::PickerConfig;
use serde_json::{Value, json};

use crate::decide::{Scene, ScenePod, request};

#[derive(Debug, serde::Deserialize)]
struct Case {
    id: String,
    plugin: String,
    kind: String,
    params: Value,
    input: Value,
    expected: Value,
}

fn cases() -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../routing-plugins/tests/fixtures");
    let read = |name: &str| -> Vec<Case> {
        let text = fs::read_to_string(folder.join(name)).unwrap();
        let mut file: Value = serde_json::from_str(&text).unwrap();
        serde_json::from_value(file["cases"].take()).unwrap()
    };
    ["llmd_plugin_cases.json", "llmd_more_cases.json"].into_iter().flat_map(read).collect()
}

/// A configuration with one plugin of the case in its one profile, as JSON, which is YAML.
fn config(plugin: &str, params: &Value, beside: &[Value]) -> String {
    let mut plugins = vec![json!({ "name": "it", "type": plugin, "parameters": params })];
    plugins.extend_from_slice(beside);
    let picker = json!({ "type": "max-score-picker", "parameters": { "maxNumOfEndpoints": 100 } });
    plugins.push(picker);
    json!({
        "apiVersion": "llm-d.ai/v1alpha1", "kind": "EndpointPickerConfig", "plugins": plugins,
        "schedulingProfiles": [{ "name": "default", "plugins": [{ "pluginRef": "it" }, { "pluginRef": "max-score-picker" }] }],
    })
    .to_string()
}

/// Parameters as llm-d writes them, where the cases restate them; none where a case is of something else.
fn parameters(case: &Case) -> Option<(String, Value)> {
    let mut params = case.params.clone();
    let mut plugin = case.plugin.clone();
    match plugin.as_str() {
        "inflight-token-estimator" => plugin = "inflight-load-producer".to_owned(),
        "endpoint-attribute-scorer" => {
            let word = params["preference"].as_str().map(|word| format!("linear_{word}_is_better"));
            let fixed = json!({ "fixedRange": { "min": params["min"], "max": params["max"] } });
            let normalization = match (params["range"].as_str(), params["min"].is_null()) {
                (Some("fixed"), _) => fixed,
                (Some("adaptive"), false) => json!({ "fixedRange": fixed["fixedRange"], "adaptiveRange": {} }),
                _ => json!({}),
            };
            params = json!({ "attributeKey": "a", "algorithm": { "type": word, "normalization": normalization } });
        }
        "endpoint-attribute-filter" => {
            let object = params.as_object_mut()?;
            let threshold = (object.remove("operator"), object.remove("value"));
            let threshold = threshold.0.map(|operator| json!({ "operator": operator, "value": threshold.1 }));
            object.insert("algorithm".to_owned(), json!({ "type": "threshold", "threshold": threshold }));
        }
        "utilization-detector" => {
            if let Some(age) = params.as_object_mut()?.remove("metricsStalenessThresholdMs") {
                params["metricsStalenessThreshold"] = json!(format!("{age}ms"));
            }
        }
        // This one makes a producer without the factory's defaults.
        "approx-prefix-cache-producer" if params == json!({ "autoTune": false, "blockSize": 1 }) => return None,
        _ => {}
    }
    Some((plugin, params))
}

#[test]
fn parameters_are_refused_where_llmd_refuses_them() {
    let (mut checked, mut wrong) = (0, Vec::new());
    for case in cases().iter().filter(|case| case.kind == "config" && case.expected["error"].is_boolean()) {
        let Some((plugin, params)) = parameters(case) else { continue };
        let read = PickerConfig::read(&config(&plugin, &params, &[]));
        checked += 1;
        if Some(read.is_err()) != case.expected["error"].as_bool() {
            wrong.push(format!("{} {params}: {:?}", case.id, read.err().map(|error| error.to_string())));
        }
    }
    assert!(wrong.is_empty(), "{} of {checked}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(checked >= 80, "only {checked} cases");
}

/// The pods of a case of loads or adapters.
fn loaded(case: &Case) -> Option<Vec<ScenePod>> {
    let figures = |name: &str| case.input[name].as_array().cloned();
    let number = |value: &Value| value.as_u64().unwrap_or_default() as u32;
    Some(match case.plugin.as_str() {
        "queue-scorer" | "load-aware-scorer" => {
            figures("waiting_queue")?.iter().map(|waiting| ScenePod::new(number(waiting), 0.0, &[])).collect()
        }
        "running-requests-size-scorer" => {
            let running = figures("running_requests")?;
            running.iter().map(|running| ScenePod { running: number(running), ..ScenePod::default() }).collect()
        }
        "kv-cache-utilization-scorer" => {
            let used = figures("kv_cache_usage")?;
            used.iter().map(|used| ScenePod::new(0, used.as_f64().unwrap_or_default() as f32, &[])).collect()
        }
        _ => return None,
    })
}

#[test]
fn scores_are_llmds() {
    let mut checked = 0;
    for case in cases().iter().filter(|case| case.kind == "score") {
        let Some(pods) = loaded(case).filter(|pods| !pods.is_empty()) else { continue };
        let scores = Scene::new(&config(&case.plugin, &case.params, &[]), &pods).scores(&request("{}"));
        let expected: Vec<f64> =
            case.expected["scores"].as_array().unwrap().iter().map(|one| one.as_f64().unwrap()).collect();
        let is_close = |(found, expected): (&f64, &f64)| (found - expected).abs() < 1e-6;
        assert!(
            scores.len() == expected.len() && scores.iter().zip(&expected).all(is_close),
            "{}: {scores:?}",
            case.id
        );
        checked += 1;
    }
    assert!(checked >= 10, "only {checked} cases");
}

/// Labels of the pods of a case, if it is of a filter of labels.
fn labelled(case: &Case) -> Option<Vec<Vec<(String, String)>>> {
    if case.plugin.ends_with("code-filter") || case.plugin == "prefill-filter" {
        let roles = case.input["role_label"].as_array()?;
        let label = |role: &Value| role.as_str().map(|role| ("llm-d.ai/role".to_owned(), role.to_owned()));
        return Some(roles.iter().map(|role| label(role).into_iter().collect()).collect());
    }
    if !case.plugin.starts_with("by-label") || case.params["selector"].is_string() {
        return None;
    }
    let pair = |(key, value): (&String, &Value)| (key.clone(), value.as_str().unwrap_or_default().to_owned());
    let pods = case.input["labels"].as_array()?;
    Some(pods.iter().map(|labels| labels.as_object().into_iter().flatten().map(pair).collect()).collect())
}

#[test]
fn filters_keep_whom_llmd_keeps() {
    let mut checked = 0;
    for case in cases().iter().filter(|case| case.kind == "filter") {
        let Some(labels) = labelled(case).filter(|pods| !pods.is_empty()) else { continue };
        let params = if case.params["selector"].is_object() { &case.params["selector"] } else { &case.params };
        let pods: Vec<ScenePod> =
            labels.into_iter().map(|labels| ScenePod { own_labels: labels, ..ScenePod::default() }).collect();
        let mut kept = Scene::new(&config(&case.plugin, params, &[]), &pods).ranked(&request("{}"));
        kept.sort_unstable();
        let expected = case.expected.get("kept").or(case.expected.get("passed")).unwrap_or(&case.expected);
        assert_eq!(json!(kept), *expected, "{}", case.id);
        checked += 1;
    }
    assert!(checked >= 15, "only {checked} cases");
}
