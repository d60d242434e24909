//! Their pickers: the highest score, by chance in proportion to scores, and by chance alone.

use std::num::NonZeroUsize;

use routing_core::{
    Declare, Fleet, Picker, PluginError, ProfileBuilder, RoutingContext, RoutingInput, RoutingPlan, Scorer, Scores,
    StepBuilder, Workflow, WorkflowBuilder,
};
use routing_plugins::pick::{MaxScoreParameters, MaxScorePicker, WeightedRandomParameters, WeightedRandomPicker};
use serde_json::Value;

use super::case::{self, Case, Verdict, fleet, request};
use super::read::known;

pub(crate) fn check(case: &Case) -> Verdict {
    match case.plugin.as_str() {
        "max-score-picker" | "weighted-random-picker" | "random-picker" => Verdict::of(run(case)),
        _ => Verdict::NotMine,
    }
}

fn run(case: &Case) -> Result<(), String> {
    known(&case.params, &["maxNumOfEndpoints"])?;
    known(&case.input, &["scores"])?;
    let scores = numbers(&case.input["scores"])?;
    let most = most(&case.params["maxNumOfEndpoints"])?;
    let (_index, fleet) = fleet(scores.len(), |_, info| info);
    let workflow = workflow(&case.plugin, most, scaled(&scores))?;
    known(&case.expected, &["picked", "probability", "count", "len"])?;
    let count = case.expected.get("count").or(case.expected.get("len"));
    // By chance it must hold whatever is drawn.
    for seed in 0..200 {
        let picked = picks(&workflow, request().seed(seed), &fleet)?;
        if count.is_some_and(|count| Some(picked.len() as u64) != count.as_u64()) {
            return Err(format!("found {} picked", picked.len()));
        }
        if case.kind == "pick" && (count.is_none() || !case.expected["picked"].is_null()) {
            expect_picked(&picked, &case.expected["picked"])?;
        }
    }
    match (&*case.kind, &case.expected["probability"]) {
        ("pick", Value::Null) => Ok(()),
        ("pick_distribution", probability) => {
            // One number is everybody's.
            let alike = || vec![probability.clone(); scores.len()].into();
            let probability = if probability.is_number() { alike() } else { probability.clone() };
            case::close(&shares(&workflow, &fleet)?, &probability, case.tolerance)
        }
        (other, _) => Err(format!("unknown kind {other}")),
    }
}

fn numbers(list: &Value) -> Result<Vec<f64>, String> {
    let list = list.as_array().ok_or_else(|| format!("unknown scores {list}"))?;
    list.iter().map(|score| score.as_f64().ok_or_else(|| format!("unknown score {score}"))).collect()
}

/// Theirs is 1 unless given, and when it is not above 0; ours cannot be 0.
fn most(given: &Value) -> Result<NonZeroUsize, String> {
    let given = if given.is_null() { 1 } else { given.as_i64().ok_or_else(|| format!("unknown {given}"))? };
    Ok(usize::try_from(given).ok().and_then(NonZeroUsize::new).unwrap_or(NonZeroUsize::MIN))
}

/// The scores with the same ratios in 0..=1; what is below 0 counts as 0 to them too.
fn scaled(scores: &[f64]) -> Vec<f32> {
    let highest = scores.iter().copied().fold(1.0, f64::max);
    scores.iter().map(|score| (score.max(0.0) / highest) as f32).collect()
}

struct Given(Vec<f32>);

impl Scorer for Given {
    fn score(&self, _: &RoutingContext<'_>, scores: &mut Scores<'_>) -> Result<(), PluginError> {
        scores.fill(|pod| self.0[pod.index()]);
        Ok(())
    }
}

fn workflow(plugin: &str, most: NonZeroUsize, scores: Vec<f32>) -> Result<Workflow, String> {
    // In proportion to scores, as theirs. Their random one does not look at scores: all are the same to it.
    let weighted = WeightedRandomParameters::default().most(most).temperature(None);
    let given = if plugin == "random-picker" { vec![0.0; scores.len()] } else { scores };
    let declare = move |declare: &mut Declare<'_>, best: bool| -> Box<dyn Picker> {
        if best {
            Box::new(MaxScorePicker::declare(declare, MaxScoreParameters::default().most(most)))
        } else {
            Box::new(WeightedRandomPicker::declare(declare, weighted))
        }
    };
    let best = plugin == "max-score-picker";
    let profile = ProfileBuilder::new("s")
        .scorer("given", 1.0, |_: &mut Declare<'_>| Given(given))
        .picker("picker", move |d: &mut Declare<'_>| declare(d, best));
    // Plans keep three unless told.
    let step = StepBuilder::new("s", profile).ranked(1_000);
    WorkflowBuilder::new().step(step).build().map_err(|error| error.to_string())
}

fn picks(workflow: &Workflow, request: routing_core::Request<'_>, fleet: &Fleet) -> Result<Vec<usize>, String> {
    let mut plan = RoutingPlan::default();
    let decided = workflow.decide(&mut workflow.workspace(), RoutingInput::new(&request, fleet), &mut plan);
    decided.map_err(|error| error.to_string())?;
    Ok(plan.steps()[0].candidates.iter().map(|candidate| candidate.pod.id().index()).collect())
}

fn shares(workflow: &Workflow, fleet: &Fleet) -> Result<Vec<f64>, String> {
    const DRAWS: u64 = 10_000;
    let mut counts = vec![0u32; fleet.pods().len()];
    for seed in 0..DRAWS {
        picks(workflow, request().seed(seed), fleet)?.iter().for_each(|pod| counts[*pod] += 1);
    }
    Ok(counts.iter().map(|count| f64::from(*count) / DRAWS as f64).collect())
}

/// A list in order, or a set where ties leave the order to chance.
fn expect_picked(picked: &[usize], expected: &Value) -> Result<(), String> {
    let list = |value: &Value| -> Result<Vec<usize>, String> {
        serde_json::from_value(value.clone()).map_err(|_| format!("unknown picks {value}"))
    };
    let sorted = |pods: &[usize]| {
        let mut pods = pods.to_vec();
        pods.sort_unstable();
        pods
    };
    let holds = if expected.is_array() {
        picked == list(expected)?
    } else {
        known(expected, &["set", "first_two_set", "third", "any_of", "one_of"])?;
        let mut holds = expected.as_object().is_some_and(|expected| !expected.is_empty());
        if let Some(set) = expected.get("set") {
            holds &= sorted(picked) == sorted(&list(set)?);
        }
        if let Some(two) = expected.get("first_two_set") {
            holds &= picked.get(..2).is_some_and(|first| Ok(sorted(first)) == list(two).map(|two| sorted(&two)));
        }
        if let Some(third) = expected.get("third") {
            holds &= picked.get(2).map(|pod| *pod as u64) == third.as_u64();
        }
        if let Some(any) = expected.get("any_of").or(expected.get("one_of")) {
            let any = list(any)?;
            holds &= !picked.is_empty() && picked.iter().all(|pod| any.contains(pod));
        }
        holds
    };
    if holds { Ok(()) } else { Err(format!("picked {picked:?}, expected {expected}")) }
}

/// What the evaluator does not know, or what is wrong, is not passed over.
#[test]
fn wrong_and_unknown_cases_fail() {
    let case = |params: Value, input: Value, expected: Value| {
        let case = serde_json::json!({
            "id": "x", "plugin": "max-score-picker", "kind": "pick", "params": params, "input": input, "expected": expected,
        });
        check(&serde_json::from_value(case).expect("a case"))
    };
    let json = |text: &str| -> Value { serde_json::from_str(text).expect("json") };
    let (params, input) = (json(r#"{"maxNumOfEndpoints": 2}"#), json(r#"{"scores": [1, 2, 3]}"#));
    assert!(matches!(case(params.clone(), input.clone(), json(r#"{"picked": [2, 1]}"#)), Verdict::Passed));
    for (params, input, expected) in [
        (params.clone(), input.clone(), r#"{"picked": [1, 2]}"#),
        (params.clone(), input.clone(), r#"{"picked": {"set": [0, 1]}}"#),
        (params.clone(), input.clone(), r#"{"picked": {}}"#),
        (params.clone(), input.clone(), r#"{"picked": {"odd": 1}}"#),
        (params.clone(), input.clone(), "{}"),
        (json(r#"{"odd": 2}"#), input, r#"{"picked": [2, 1]}"#),
        (params, json(r#"{"scores": [1, 2, 3], "odd": 1}"#), r#"{"picked": [2, 1]}"#),
    ] {
        assert!(matches!(case(params, input, json(expected)), Verdict::Failed(_)), "{expected}");
    }
}
