//! Everything that is wrong is told at once, with its path, line and column; versions; strict builds.

use routing_core::{DocumentError, Fault, Problem, Warning};

use crate::format::{read_json, read_toml, read_yaml};
use crate::plugins::registry;

const WRONG: &str = "version: 1
plugins:
  - type: bset
  - name: near
    type: region
    parameters: { elsewere: 1, region: 3, near: [a, 4] }
  - { type: best, nmae: x }
profiles:
  - name: p
    score:
      - { plugin: near, weight: much }
      - { plugin: far, weight: 1 }
    pick: best
    prepare: all
";

fn told(error: &DocumentError) -> Vec<(String, usize, usize)> {
    let place = |place: &routing_core::Place| {
        (place.path().to_string(), place.line().expect("a line"), place.column().expect("a column"))
    };
    error.placed().map(|(at, _)| place(at)).collect()
}

#[test]
fn all_that_is_wrong_is_told_at_once_with_its_place() {
    let error = registry().load(|seed| read_yaml(WRONG, seed)).expect_err("much is wrong");
    let expected = [
        ("plugins[0].type", 3, 11),
        ("plugins[1].parameters.elsewere", 6, 19),
        ("plugins[1].parameters.region", 6, 40),
        ("plugins[1].parameters.near[1]", 6, 53),
        ("plugins[2].nmae", 7, 19),
        ("profiles[0].score[0].weight", 11, 33),
        ("profiles[0].score[1].plugin", 12, 19),
        ("profiles[0].prepare", 14, 14),
    ];
    assert_eq!(told(&error), expected.map(|(path, line, column)| (path.to_owned(), line, column)), "{error}");
}

#[test]
fn faults_of_the_build_have_lines_and_columns_in_every_format() {
    let yaml = "plugins: [{ type: cache }, { type: best }]\nprofiles:\n  - name: p\n    score:\n      - { plugin: cache, weight: -1 }\n    pick: best\n";
    let value: serde_json::Value = serde_yaml_ng::from_str(yaml).expect("YAML");
    let json = serde_json::to_string_pretty(&value).expect("JSON");
    let toml = toml::to_string(&value).expect("TOML");
    let registry = registry();
    let errors = [
        registry.load(|seed| read_yaml(yaml, seed)).expect_err("a weight below 0"),
        registry.load(|seed| read_json(&json, seed)).expect_err("a weight below 0"),
        registry.load(|seed| read_toml(&toml, seed)).expect_err("a weight below 0"),
    ];
    for (error, text) in errors.iter().zip([yaml, &json, &toml]) {
        for (place, problem) in error.placed() {
            let line = text.lines().nth(place.line().expect("a line") - 1).expect("it is there");
            match problem {
                Problem::Fault(Fault::NoWriter { .. }) => {
                    assert_eq!(place.path().to_string(), "profiles[0].score[0].plugin");
                    assert!(line.contains("plugin"), "{line}");
                }
                Problem::Fault(Fault::BadWeight { .. }) => {
                    assert_eq!(place.path().to_string(), "profiles[0].score[0].weight");
                    assert!(line.contains("weight"), "{line}");
                }
                other => panic!("{other}"),
            }
        }
        assert_eq!(error.problems().len(), 2);
    }
}

#[test]
fn a_document_has_a_version() {
    let text =
        |version: &str| format!("{version}\nplugins: [{{ type: best }}]\nprofiles: [{{ name: p, pick: best }}]\n");
    let load = |version: &str| registry().load(|seed| read_yaml(&text(version), seed));
    assert!(load("version: 1").is_ok() && load("").is_ok());
    let error = load("version: 2\nsomething: else").expect_err("there is no version 2");
    assert_eq!(
        error.to_string(),
        "1 problem\n  - version (line 1 column 10): unknown version the number `2`: this reads version 1"
    );
    let mut document = routing_core::Document::default();
    document.version = 3;
    assert!(matches!(
        document.build(&registry()).expect_err("nor version 3").problems(),
        [Problem::UnknownVersion { supported: 1, .. }]
    ));
}

#[test]
fn a_strict_build_refuses_what_is_warned_of() {
    let text = "plugins: [{ type: best }]\nprofiles: [{ name: p, pick: best }]\n";
    let registry = registry();
    let document = registry.read(serde_yaml_ng::Deserializer::from_str(text)).expect("it is sound");
    let error = document.build_strict(&registry).expect_err("no health filter").locate(|seed| read_yaml(text, seed));
    let [Problem::Fault(Fault::Warning(Warning::NoHealthFilter { .. }))] = error.problems() else { panic!("{error}") };
    // The list of filters is not there, so the profile is told.
    let (place, _) = error.placed().next().expect("one");
    assert_eq!((place.path().to_string().as_str(), place.line()), ("profiles[0].filter", Some(2)));
}
