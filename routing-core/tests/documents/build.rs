//! What is found once a document is read: names that lead nowhere, plugins in the wrong stage, faults of the workflow.

use routing_core::{
    Document, Fault, FilterUse, NoParameters, OnEmpty, ParameterError, PluginDefinition, PluginError, Problem,
    ProfileDefinition, RoutingContext, Scorer, ScorerUse, Scores, Stage, StepDefinition, Value, Warning, Workflow,
    WorkflowDefinition,
};

use crate::format;
use crate::plugins::registry;
use crate::{JSON, TOML, YAML};

fn sample() -> Document {
    format::yaml(&registry(), YAML).expect("the sample is sound")
}

/// A document with one profile that only picks.
fn small() -> Document {
    let mut document = Document::default();
    document.plugins.push(PluginDefinition::new("best"));
    document.profiles.push(ProfileDefinition::new("only", "best"));
    document
}

fn problems(document: &Document) -> Vec<Problem> {
    document.build(&registry()).expect_err("the document has problems").problems().to_vec()
}

fn texts(document: &Document) -> Vec<String> {
    problems(document).iter().map(ToString::to_string).collect()
}

/// What is warned of, apart from the filters for health and roles that the small stock of these tests does not have.
fn odd(workflow: &Workflow) -> Vec<&Warning> {
    let is_odd =
        |warning: &&Warning| !matches!(warning, Warning::NoHealthFilter { .. } | Warning::RoleNotFiltered { .. });
    workflow.warnings().iter().filter(is_odd).collect()
}

#[test]
fn the_sample_is_the_same_document_in_every_format_and_builds() {
    let document = sample();
    assert_eq!(format::json(&registry(), JSON), Ok(document.clone()));
    assert_eq!(format::toml(&registry(), TOML), Ok(document.clone()));
    let workflow = document.build(&registry()).expect("the sample builds");
    assert_eq!(workflow.steps().collect::<Vec<_>>(), ["decode", "prefill"]);
    assert_eq!(workflow.document(), Some(&document));
    assert_eq!(odd(&workflow), [] as [&Warning; 0]);
}

#[test]
fn a_lone_profile_needs_no_workflow() {
    let workflow = small().build(&registry()).expect("one profile is one step");
    assert_eq!(workflow.steps().collect::<Vec<_>>(), ["only"]);
}

#[test]
fn without_a_workflow_which_profile_is_meant_must_be_clear() {
    let mut document = small();
    document.profiles.push(ProfileDefinition::new("other", "best"));
    assert_eq!(problems(&document), [Problem::NoWorkflow { profiles: 2 }]);
    document.profiles.clear();
    assert_eq!(problems(&document), [Problem::NoWorkflow { profiles: 0 }]);
}

#[test]
fn a_plugin_that_no_profile_uses_is_warned_of() {
    let mut document = small();
    document.plugins.push(PluginDefinition::new("cache"));
    let workflow = document.build(&registry()).expect("unused is no error");
    assert_eq!(odd(&workflow), [&Warning::UnusedPlugin { plugin: "cache".into() }]);
}

#[test]
fn one_definition_serves_several_profiles() {
    let mut document = sample();
    document.profiles[1].filter.push(FilterUse::new("gold", OnEmpty::Fail));
    assert!(document.build(&registry()).is_ok());
}

#[test]
fn names_that_lead_nowhere_are_told_with_the_nearest_that_does() {
    let mut document = sample();
    document.profiles[0].score[0].plugin = "cahce".to_owned();
    let workflow = document.workflow.as_mut().expect("the sample has a workflow");
    workflow.steps[1].profile = "secnod".to_owned();
    workflow.executed_in = Some(vec!["prefil".to_owned(), "decode".to_owned(), "prefill".to_owned()]);
    let expected = [
        Problem::UnknownPlugin { profile: "first".into(), plugin: "cahce".into(), suggestion: Some("cache".into()) },
        Problem::UnknownProfile { step: "prefill".into(), profile: "secnod".into(), suggestion: Some("second".into()) },
        Problem::UnknownStep { step: "prefil".into(), suggestion: Some("prefill".into()) },
    ];
    // Neither the step without a picker nor the order of execution is reported a second time.
    assert_eq!(problems(&document), expected);
    assert_eq!(
        texts(&document)[0],
        "profile `first` names plugin `cahce`, which is not defined (did you mean `cache`?)"
    );
}

#[test]
fn a_plugin_in_the_wrong_stage_is_told() {
    let mut document = sample();
    document.profiles[0].filter[0].plugin = "near".to_owned();
    let workflow = document.workflow.as_mut().expect("the sample has a workflow");
    workflow.steps[1].when = Some(PluginDefinition::new("cache"));
    let wrong = |user: &str, plugin: &str, used_as| Problem::WrongStage {
        user: user.into(),
        plugin: plugin.into(),
        is: Stage::Score,
        used_as,
    };
    let expected = [wrong("first", "near", Stage::Filter), wrong("prefill", "cache", Stage::Condition)];
    assert_eq!(problems(&document), expected);
    assert_eq!(texts(&document)[0], "`first` uses `near` as a filter, but it is a scorer");
}

#[test]
fn two_of_one_name_are_told() {
    let mut document = small();
    document.plugins.push(PluginDefinition::new("best"));
    document.profiles.push(ProfileDefinition::new("only", "best"));
    let mut workflow = WorkflowDefinition::default();
    workflow.steps = vec![StepDefinition::new("a", "only"), StepDefinition::new("a", "only")];
    document.workflow = Some(workflow);
    let expected = [
        Problem::DuplicatePlugin { plugin: "best".into() },
        Problem::DuplicateProfile { profile: "only".into() },
        Problem::Fault(Fault::DuplicateStep { step: "a".into() }),
    ];
    assert_eq!(problems(&document), expected);
}

#[test]
fn a_document_made_by_hand_is_checked_for_types_and_parameters_too() {
    let mut document = small();
    document.plugins[0].parameters.insert("most".to_owned(), Value::from(0_i64));
    document.plugins[0].parameters.insert("mots".to_owned(), Value::from(1_i64));
    document.plugins.push(PluginDefinition::new("regon"));
    let unknown = ParameterError::Unknown { parameter: "mots".into(), suggestion: Some("most".into()) };
    let reason = "invalid value: integer `0`, expected a nonzero usize".into();
    let zero = ParameterError::Invalid { parameter: Some("most".into()), reason };
    let expected = [
        Problem::Parameter { plugin: "best".into(), error: zero },
        Problem::Parameter { plugin: "best".into(), error: unknown },
        Problem::UnknownType { kind: "regon".into(), suggestion: Some("region".into()) },
    ];
    assert_eq!(problems(&document), expected);
}

#[test]
fn faults_of_the_workflow_are_among_the_problems() {
    let mut document = small();
    document.plugins.push(PluginDefinition::new("cache"));
    document.plugins.push(PluginDefinition::new("region"));
    document.profiles[0].score = vec![ScorerUse::new("cache", 1.0), ScorerUse::new("region", -1.0)];
    let found = problems(&document);
    assert!(
        found
            .iter()
            .any(|problem| matches!(problem, Problem::Fault(Fault::NoWriter { slot: "kv.prefix_matches", .. })))
    );
    assert!(found.iter().any(|problem| matches!(problem, Problem::Fault(Fault::BadWeight { .. }))));
    assert_eq!(found.len(), 2);
}

#[test]
fn a_fault_that_a_missing_plugin_might_cure_is_held_back_and_others_are_not() {
    let mut document = small();
    document.plugins.push(PluginDefinition::new("cache"));
    document.plugins.push(PluginDefinition::new("region"));
    document.profiles[0].prepare = vec!["prefix_search".to_owned()];
    document.profiles[0].score = vec![ScorerUse::new("cache", 1.0), ScorerUse::new("region", -1.0)];
    let found = problems(&document);
    assert!(matches!(&found[0], Problem::UnknownPlugin { plugin, .. } if &**plugin == "prefix_search"));
    assert!(matches!(&found[1], Problem::Fault(Fault::BadWeight { .. })));
    assert_eq!(found.len(), 2);
    let error = document.build(&registry()).expect_err("it has problems");
    assert!(
        error
            .to_string()
            .starts_with("2 problems\n  - profiles[0].prepare[0]: profile `only` names plugin `prefix_search`")
    );
}

#[test]
fn the_condition_names_a_step_that_there_must_be() {
    let mut document = sample();
    let workflow = document.workflow.as_mut().expect("the sample has a workflow");
    let when = workflow.steps[1].when.as_mut().expect("the second step has a condition");
    when.parameters.insert("step".to_owned(), Value::from("decoed"));
    let [Problem::Fault(Fault::UnknownStep { step, suggestion, .. })] = &*problems(&document) else {
        panic!("one fault: {:?}", problems(&document));
    };
    assert_eq!((&**step, suggestion.as_deref()), ("decoed", Some("decode")));
}

#[test]
fn a_profile_that_no_step_uses_is_warned_of_with_its_plugins() {
    let mut document = small();
    document.plugins.push(PluginDefinition::new("region"));
    let mut other = ProfileDefinition::new("other", "best");
    other.score.push(ScorerUse::new("region", -1.0));
    document.profiles.push(other);
    let mut workflow = WorkflowDefinition::default();
    workflow.steps.push(StepDefinition::new("step", "only"));
    document.workflow = Some(workflow);
    let built = document.build(&registry()).expect("unused is no error");
    let profile = Warning::UnusedProfile { profile: "other".into() };
    assert_eq!(odd(&built), [&profile, &Warning::UnusedPlugin { plugin: "region".into() }]);
}

#[test]
fn a_typing_error_hides_no_fault_that_it_does_not_cause() {
    let mut document = small();
    document.plugins.push(PluginDefinition::new("cache"));
    document.profiles[0].score = vec![ScorerUse::new("cache", 1.0)];
    let mut workflow = WorkflowDefinition::default();
    workflow.steps.push(StepDefinition::new("decode", "only"));
    workflow.executed_in = Some(vec!["decodee".to_owned()]);
    document.workflow = Some(workflow);
    // That `decode` is not executed is told by what is meant for `decodee`.
    let found = problems(&document);
    assert!(matches!(&found[..], [Problem::UnknownStep { .. }, Problem::Fault(Fault::NoWriter { .. })]), "{found:?}");

    // A scorer that is refused writes nothing, and is all that a step's weights may lack.
    let mut refused = PluginDefinition::new("region");
    refused.parameters.insert("elsewhere".to_owned(), Value::from("far"));
    document.plugins.push(refused);
    document.workflow = None;
    document.profiles[0].score = vec![ScorerUse::new("cache", 0.0), ScorerUse::new("region", 1.0)];
    let found = problems(&document);
    assert!(matches!(&found[..], [Problem::Parameter { .. }, Problem::Fault(Fault::NoWriter { .. })]), "{found:?}");
}

#[test]
fn a_fault_of_one_step_is_not_held_back_for_a_typing_error_in_another() {
    let mut document = small();
    document.plugins.push(PluginDefinition::new("region"));
    document.profiles[0].score = vec![ScorerUse::new("region", 0.0)];
    let mut workflow = WorkflowDefinition::default();
    workflow.steps = vec![StepDefinition::new("a", "only"), StepDefinition::new("b", "olny")];
    document.workflow = Some(workflow);
    let found = problems(&document);
    let [Problem::UnknownProfile { .. }, Problem::Fault(Fault::ZeroWeights { step })] = &found[..] else {
        panic!("{found:?}");
    };
    assert_eq!(&**step, "a");
}

#[test]
fn every_problem_tells_where_it_is() {
    let mut document = sample();
    document.plugins[0].kind = "prefix_serach".to_owned();
    document.profiles[0].filter[0].plugin = "glod".to_owned();
    document.profiles[0].score[1].plugin = "naer".to_owned();
    document.profiles[1].pick = "bets".to_owned();
    let workflow = document.workflow.as_mut().expect("the sample has a workflow");
    workflow.steps[0].profile = "frist".to_owned();
    let when = workflow.steps[1].when.as_mut().expect("the second step has a condition");
    when.parameters.insert("lacking".to_owned(), Value::from("many"));
    workflow.executed_in = Some(vec!["decode".to_owned(), "prefil".to_owned()]);
    let error = document.build(&registry()).expect_err("it has problems");
    let places: Vec<_> = error.placed().map(|(place, _)| place.path().to_string()).collect();
    let expected = [
        "plugins[0].type",
        "profiles[0].filter[0].plugin",
        "profiles[0].score[1].plugin",
        "profiles[1].pick",
        "workflow.steps[0].profile",
        "workflow.steps[1].when.parameters.lacking",
        "workflow.executed_in[1]",
    ];
    assert_eq!(places, expected);
    assert!(error.to_string().contains("\n  - workflow.steps[0].profile: step `decode` names profile `frist`"));
}

#[test]
fn a_condition_with_a_name_is_still_of_its_type() {
    let mut registry = registry();
    let wants = registry.scorer::<NoParameters, _>("wants", |_, declare| {
        declare.requires("prefix_miss");
        Wants
    });
    assert_eq!(wants, Ok(()));
    let mut document = sample();
    document.plugins.push(PluginDefinition::new("wants"));
    document.profiles[1].score.push(ScorerUse::new("wants", 1.0));
    let workflow = document.workflow.as_mut().expect("the sample has a workflow");
    workflow.steps[1].when.as_mut().expect("the second step has a condition").name = "cold".to_owned();
    document.build(&registry).expect("the condition is in the step");
}

struct Wants;

impl Scorer for Wants {
    fn score(&self, _: &RoutingContext<'_>, _: &mut Scores<'_>) -> Result<(), PluginError> {
        Ok(())
    }
}
