//! Named values: said once, the same for every plugin that refers to them, and errors where they are written.

use kv_index::Index;
use routing_core::{Document, Fleet, PodInfo, Problem, Value, Warning};

use crate::common::{decide, request};
use crate::format::{self, read_json, read_toml, read_yaml};
use crate::plugins::registry;

/// Two scorers whose regions are one value.
fn text(region: &str) -> String {
    format!(
        "values:
  home: {region}
  near: [{region}]
plugins:
  - {{ name: a, type: region, parameters: {{ region: {{ $value: home }} }} }}
  - {{ name: b, type: region, parameters: {{ region: x, near: {{ $value: near }} }} }}
  - {{ name: health, type: label, parameters: {{ key: region, value: {{ $value: home }} }} }}
  - type: best
profiles:
  - {{ name: p, filter: [{{ plugin: health }}], score: [{{ plugin: a, weight: 1 }}, {{ plugin: b, weight: 1 }}], pick: best }}
"
    )
}

#[test]
fn one_place_is_changed_and_every_plugin_with_it() {
    let index: Index = Index::new(kv_index::Config::default());
    let regions = ["eu", "us"];
    let pods = regions.map(|name| PodInfo::new(index.join(name).unwrap(), name).label("region", name));
    let fleet: Fleet = Fleet::new(1, pods);
    for (at, region) in regions.into_iter().enumerate() {
        let document = format::yaml(&registry(), &text(region)).expect("it is sound");
        let plan = decide(&document.build(&registry()).expect("it fits"), &request(), &fleet).expect("a pod is left");
        let [only] = &plan.steps()[0].candidates[..] else { panic!("the filter keeps one: {plan:?}") };
        // A full score of both: had one of them another value, it would be half.
        assert_eq!((only.pod.id().index(), only.score), (at, 1.0), "{region}");
    }
}

#[test]
fn what_is_read_is_kept_as_it_is_written() {
    let document = format::yaml(&registry(), &text("eu")).expect("it is sound");
    assert_eq!(document.values["home"], Value::from("eu"));
    assert!(
        matches!(&document.plugins[0].parameters["region"], Value::Map(map) if map["$value"] == Value::from("home"))
    );
    let json = serde_json::to_string(&document).expect("JSON writes it");
    assert_eq!(format::json(&registry(), &json), Ok(document.clone()));
    let toml = toml::to_string(&document).expect("TOML writes it");
    assert_eq!(format::toml(&registry(), &toml), Ok(document.clone()));
    let workflow = document.build(&registry()).expect("it fits");
    assert_eq!(workflow.document(), Some(&document));
    assert!(Document::default().values.is_empty(), "documents without values are as they were");
}

/// The only problem of a text, as it is told.
fn told(text: &str) -> String {
    let error = registry().load(|seed| read_yaml(text, seed)).expect_err("something is wrong");
    assert_eq!(error.problems().len(), 1, "{error}");
    error.to_string().lines().nth(1).expect("a problem").trim_start_matches(' ').to_owned()
}

#[test]
fn a_value_that_is_not_there_is_told_with_its_place() {
    assert_eq!(
        told(&text("eu").replacen("$value: home", "$value: hoem", 1)),
        "- plugins[0].parameters.region.$value (line 5 column 62): plugin `a` refers to value `hoem`, which is not defined (did \
         you mean `home`?)"
    );
    let number = told(&text("eu").replacen("$value: home", "$value: 3", 1));
    assert!(
        number.starts_with("- plugins[0].parameters.region.$value (line 5 column 62): expected the name of a value")
    );
    let without = text("eu").replace("values:\n  home: eu\n  near: [eu]\n", "");
    let error = registry().load(|seed| read_yaml(&without, seed)).expect_err("nothing is defined");
    let unknown = |problem: &Problem| matches!(problem, Problem::UnknownValue { suggestion: None, .. });
    assert!(error.problems().len() == 3 && error.problems().iter().all(unknown), "{error}");
}

/// Inside of a list, or of a map, a reference is as good as in place of a whole parameter.
#[test]
fn inside_of_a_parameter() {
    let nested = text("eu").replacen("near: { $value: near }", "near: [us, { $value: home }]", 1);
    let nested = nested.replacen("  near: [eu]\n", "", 1);
    let workflow = registry().load(|seed| read_yaml(&nested, seed)).expect("it is sound");
    assert!(!workflow.placed_warnings().any(|(path, _)| path.to_string().starts_with("values")));
    assert_eq!(
        told(&nested.replacen("us, { $value: home }", "us, { $value: hoem }", 1)),
        "- plugins[1].parameters.near[1].$value (line 5 column 76): plugin `b` refers to value `hoem`, which is not defined (did \
         you mean `home`?)"
    );
    // What is wrong inside of the value is told where it stands, what is wrong beside it where that does.
    let only = nested.replacen("region: { $value: home }", "region: eu", 1).replacen(
        "value: { $value: home }",
        "value: eu",
        1,
    );
    let wrong = told(&only.replacen("home: eu", "home: 4", 1));
    assert!(wrong.starts_with("- values.home (line 2 column 9): plugin `b`"), "{wrong}");
    let beside = told(&only.replacen("us, {", "7, {", 1));
    assert!(beside.starts_with("- plugins[1].parameters.near[0] (line "), "{beside}");
}

#[test]
fn in_every_format() {
    let yaml = text("eu").replacen("$value: home", "$value: hoem", 1);
    let value: serde_json::Value = serde_yaml_ng::from_str(&yaml).expect("YAML");
    let (json, toml) = (serde_json::to_string_pretty(&value).expect("JSON"), toml::to_string(&value).expect("TOML"));
    let errors = [
        registry().load(|seed| read_json(&json, seed)).expect_err("no such value"),
        registry().load(|seed| read_toml(&toml, seed)).expect_err("no such value"),
    ];
    for (error, text) in errors.iter().zip([&json, &toml]) {
        let (place, _) = error.placed().next().expect("a problem");
        let line = text.lines().nth(place.line().expect("a line") - 1).expect("it is there");
        assert!(line.contains("hoem"), "{line}");
    }
}

#[test]
fn what_is_wrong_with_a_value_is_told_once_where_it_stands() {
    let wrong = text("eu").replacen("near: [eu]", "near: [eu, 4]", 1);
    let twice = wrong.replacen("{ region: { $value: home } }", "{ near: { $value: near } }", 1);
    for text in [&wrong, &twice] {
        let problem = told(text);
        assert!(problem.starts_with("- values.near[1] (line 3 column 14): plugin `"), "{problem}");
    }
}

#[test]
fn a_value_is_no_reference_and_one_that_nobody_refers_to_is_warned_of() {
    let of_value = told(
        &text("eu").replacen("near: [eu]", "near: [{ $value: home }]", 1).replace("near: { $value: near }", "near: []"),
    );
    assert!(of_value.starts_with("- values.near (line 3 column 9): value `near` refers to another"), "{of_value}");
    let unused = text("eu").replacen("near: { $value: near }", "near: []", 1);
    let workflow = registry().load(|seed| read_yaml(&unused, seed)).expect("it works");
    let warned =
        workflow.placed_warnings().find(|(path, _)| path.to_string() == "values.near").expect("it is warned of");
    assert_eq!(warned.1, &Warning::UnusedValue { value: "near".into() });
    assert!(
        told("values: [1]\nplugins: [{ type: best }]\nprofiles: [{ name: p, pick: best }]\n")
            .contains("expected values by name")
    );
}
