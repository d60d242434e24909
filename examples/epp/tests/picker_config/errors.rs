//! What is wrong with a configuration is listed, each with its line, its place and what to do.

use pointsman_epp::picker_config::PickerConfig;

/// Lines of plugins and of the default profile's plugins, within a configuration.
fn config(plugins: &str, profile: &str) -> String {
    format!(
        "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nplugins:\n{plugins}\nschedulingProfiles:\n- name: default\n  plugins:\n{profile}\n"
    )
}

fn problems(text: &str) -> Vec<String> {
    PickerConfig::read(text).unwrap_err().problems.iter().map(ToString::to_string).collect()
}

/// The one thing that is wrong.
fn problem(text: &str) -> String {
    let problems = problems(text);
    assert_eq!(problems.len(), 1, "{problems:#?}");
    problems.into_iter().next().unwrap()
}

const QUEUE: &str = "- type: queue-scorer";
const USE_QUEUE: &str = "  - pluginRef: queue-scorer";

#[test]
fn unknown_types_name_the_nearest() {
    assert_eq!(
        problem(&config("- type: queue-scorrer\n  name: queue-scorer", USE_QUEUE)),
        "line 4: plugins[0].type: unknown plugin type `queue-scorrer`: did you mean `queue-scorer`?"
    );
    assert_eq!(
        problem(&config("- type: mock-metrics-source\n- type: queue-scorer", USE_QUEUE)),
        "line 4: plugins[0].type: unknown plugin type `mock-metrics-source`: did you mean `metrics-data-source`?"
    );
    assert_eq!(
        problem(&config("- type: abracadabra\n- type: queue-scorer", USE_QUEUE)),
        "line 4: plugins[0].type: unknown plugin type `abracadabra`: docs/llmd_plugins.md lists the types that there are"
    );
}

#[test]
fn types_without_a_counterpart_name_the_nearest() {
    assert_eq!(
        problem(&config("- type: multicluster-queue-scorer", "  - pluginRef: multicluster-queue-scorer")),
        "line 4: plugins[0].type: type multicluster-queue-scorer has no counterpart: there is one pool of pods here; `queue-scorer` comes nearest"
    );
}

#[test]
fn references_are_resolved() {
    assert_eq!(
        problem(&config(QUEUE, "  - pluginRef: queue-scorrer")),
        "line 8: schedulingProfiles[0].plugins[0].pluginRef: no plugin is called `queue-scorrer`: define it under `plugins`; did you mean `queue-scorer`?"
    );
    assert_eq!(
        problem(&config(QUEUE, "  - weight: 2")),
        "line 8: schedulingProfiles[0].plugins[0]: there is no `pluginRef`: give the name of a plugin"
    );
    let producer = "- type: prefix-cache-scorer\n  parameters:\n    prefixMatchInfoProducerName: nobody";
    assert_eq!(
        problem(&config(producer, "  - pluginRef: prefix-cache-scorer")),
        "line 6: plugins[0].parameters.prefixMatchInfoProducerName: `nobody` produces no prefix matches: name a plugin that does"
    );
    let text = config(QUEUE, USE_QUEUE) + "dataLayer:\n  sources:\n  - pluginRef: queue-scorer\n";
    assert_eq!(
        problem(&text),
        "line 11: dataLayer.sources[0].pluginRef: `queue-scorer` is a queue-scorer: name a data source"
    );
    let text = config(QUEUE, USE_QUEUE) + "requestHandler:\n  parsers:\n  - pluginRef: queue-scorer\n";
    assert_eq!(
        problem(&text),
        "line 11: requestHandler.parsers[0].pluginRef: `queue-scorer` is a queue-scorer: name a parser"
    );
}

#[test]
fn version_and_kind_are_asked_for() {
    let text = config(QUEUE, USE_QUEUE).replace("llm-d.ai/v1alpha1", "llm-d.ai/v2").replace("PickerConfig", "Pool");
    assert_eq!(
        problems(&text),
        [
            "line 1: apiVersion: found `llm-d.ai/v2`, expected llm-d.ai/v1alpha1 (or the older inference.networking.x-k8s.io/v1alpha1)",
            "line 2: kind: found `EndpointPool`, expected EndpointPickerConfig",
        ]
    );
}

#[test]
fn unknown_fields_are_problems() {
    let text = config("- type: queue-scorer\n  parameter: {}", "  - pluginRef: queue-scorer\n    wieght: 2");
    assert_eq!(
        problems(&text),
        [
            "line 5: plugins[0].parameter: unknown field `parameter`: did you mean `parameters`?",
            "line 10: schedulingProfiles[0].plugins[0].wieght: unknown field `wieght`: did you mean `weight`?",
        ]
    );
    let text = config("- type: queue-scorer\n  parameters:\n    limit: 3", USE_QUEUE);
    assert_eq!(problem(&text), "line 6: plugins[0].parameters.limit: unknown field `limit`: there are none");
    assert_eq!(
        problem(&(config(QUEUE, USE_QUEUE) + "flowcontrol: {}\n")),
        "line 9: flowcontrol: unknown field `flowcontrol`: did you mean `flowControl`?"
    );
}

/// Go reads names of parameters in whatever case.
#[test]
fn parameters_are_known_in_any_case() {
    let text = config("- type: load-aware-scorer\n  parameters: { Threshold: 64 }", "  - pluginRef: load-aware-scorer");
    let workflow = PickerConfig::read(&text).unwrap().translate().unwrap().workflow;
    assert!(workflow.contains("limit: 64"), "{workflow}");
}

#[test]
fn bad_values_are_problems() {
    let text = config(
        "- type: max-score-picker\n  parameters: { maxNumOfEndpoints: many }\n- type: utilization-detector\n  parameters:\n    queueDepthThreshold: 0\n    metricsStalenessThreshold: soon\n- type: queue-scorer",
        "  - pluginRef: queue-scorer\n    weight: -1",
    );
    assert_eq!(
        problems(&text),
        [
            "line 5: plugins[0].parameters.maxNumOfEndpoints: found `many`, expected a whole number",
            "line 8: plugins[1].parameters.queueDepthThreshold: found 0, expected a whole number above 0",
            "line 9: plugins[1].parameters.metricsStalenessThreshold: found `soon`, expected a duration such as 30s or 1m30s",
            "line 14: schedulingProfiles[0].plugins[0].pluginRef: a weight of -1: here it is a number from 0 on (llm-d takes it, and subtracts)",
        ]
    );
}

#[test]
fn names_occur_once() {
    assert_eq!(
        problem(&config("- type: queue-scorer\n- type: queue-scorer", USE_QUEUE)),
        "line 5: plugins[1]: a second plugin is called `queue-scorer`: give it another `name`"
    );
    let text = config(QUEUE, USE_QUEUE) + "- name: default\n  plugins: []\n";
    let message = "line 9: schedulingProfiles[1]: a second profile is called `default`: rename it";
    assert!(problems(&text).iter().any(|problem| problem == message));
}

#[test]
fn a_profile_has_one_picker_and_a_configuration_one_handler() {
    let plugins = "- type: max-score-picker\n- type: random-picker";
    let profile = "  - pluginRef: max-score-picker\n  - pluginRef: random-picker";
    assert_eq!(
        problem(&config(plugins, profile)),
        "line 10: schedulingProfiles[0].plugins[1].pluginRef: a second picker beside `max-score-picker`: remove one of them"
    );
    let text =
        config("- type: queue-scorer\n- type: single-profile-handler\n- type: disagg-profile-handler", USE_QUEUE);
    assert_eq!(
        problem(&text),
        "line 6: plugins[2]: a second profile handler beside `single-profile-handler`: remove one of them"
    );
}

#[test]
fn profiles_and_handlers_must_fit() {
    let two = config(QUEUE, USE_QUEUE) + "- name: other\n  plugins: []\n";
    assert!(problem(&two).starts_with("line 5: schedulingProfiles: several profiles and no profile handler"));
    let single = two.replace(QUEUE, "- type: single-profile-handler\n- type: queue-scorer");
    assert!(problem(&single).contains("`single-profile-handler` is for one profile, and there are 2"));
    let handler =
        "- type: queue-scorer\n- type: disagg-profile-handler\n  parameters:\n    profiles: { decode: defualt }";
    assert_eq!(
        problem(&config(handler, USE_QUEUE)),
        "line 6: plugins[1].parameters: no profile is called `defualt`, so that every request would fail: add it; did you mean `default`?"
    );
}

#[test]
fn feature_gates_are_known() {
    let text = config(QUEUE, USE_QUEUE) + "featureGates: [flowControl=maybe, dataLayer]\n";
    assert_eq!(
        problems(&text),
        [
            "line 9: featureGates[0]: found `maybe`, expected flowControl=true or flowControl=false",
            "line 9: featureGates[1]: unknown feature gate `dataLayer`: there is flowControl, haPopulateNonLeaderDatastore",
        ]
    );
}

/// `test/testdata/configloader_1_test.yaml` is for types of llm-d's own tests: all that is wrong is told at once.
#[test]
fn everything_is_listed_at_once() {
    let text = "
apiVersion: inference.networking.x-k8s.io/v1alpha1
kind: EndpointPickerConfig
plugins:
- name: test1
  type: test-one
- name: testPicker
  type: test-picker
schedulingProfiles:
- name: default
  plugins:
  - pluginRef: test1
  - pluginRef: test-two
    weight: 50
featureGates:
- test-feature-gate
flowControl:
  saturationDetector:
    metricsStalenessThreshold: 150ms
";
    let places: Vec<String> = PickerConfig::read(text).unwrap_err().problems.into_iter().map(|one| one.place).collect();
    assert_eq!(
        places,
        [
            "plugins[0].type",
            "plugins[1].type",
            "schedulingProfiles[0].plugins[1].pluginRef",
            "featureGates[0]",
            "flowControl.saturationDetector.metricsStalenessThreshold",
        ]
    );
}

#[test]
fn what_is_no_yaml_has_its_line() {
    let error = PickerConfig::read("kind: a\nplugins: [").unwrap_err();
    assert!(error.problems[0].line.is_some(), "{error}");
    assert!(PickerConfig::read("").is_ok(), "no configuration is the default one");
    assert!(PickerConfig::read(" ").is_err());
    assert!(PickerConfig::read("- a list").is_err());
}
