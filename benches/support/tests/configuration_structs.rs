//! API evolution test: what a host configures can get another setting without breaking it.

use std::fs;
use std::path::{Path, PathBuf};

const FOLDERS: [&str; 5] = ["src", "kv-index/src", "routing-core/src", "routing-plugins/src", "routing-exec/src"];

/// How structs end that are settings.
const SETTINGS: [&str; 9] =
    ["Config", "Policy", "Parameters", "Settings", "Limits", "Options", "Weights", "Costs", "CostModel"];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of the repository") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Names of public structs of a source that a host makes by naming all their fields, as far as they are settings.
fn exhaustive(source: &str) -> Vec<&str> {
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Some(name) = line.strip_prefix("pub struct ").and_then(|rest| rest.split([' ', '<', '(', ';']).next())
        else {
            continue;
        };
        let is_settings = SETTINGS.iter().any(|end| name.ends_with(end)) && name != "NoParameters";
        let mut attributes =
            lines[..at].iter().rev().take_while(|line| line.starts_with("#[") || line.starts_with("//"));
        let mut fields = lines[at + 1..].iter().take_while(|line| **line != "}");
        // Those that a macro defines, each default beside its field, are marked by it.
        let by_macro = fields.clone().any(|field| field.starts_with("pub ") && field.contains(" = "));
        let is_public = fields.any(|field| field.starts_with("pub "));
        if is_settings && is_public && !by_macro && !attributes.any(|line| *line == "#[non_exhaustive]") {
            found.push(name);
        }
    }
    found
}

#[test]
fn every_configuration_struct_can_grow() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = Vec::new();
    FOLDERS.iter().for_each(|folder| sources(&root.join(folder), &mut files));
    let mut settings = 0;
    for file in files {
        let source = fs::read_to_string(&file).expect("a file");
        settings += source.matches("#[non_exhaustive]").count();
        assert_eq!(exhaustive(&source), [""; 0], "{}: add #[non_exhaustive] and setters", file.display());
    }
    assert!(settings > 100, "{settings} marks were found at all");
    let by_macro = fs::read_to_string(root.join("routing-plugins/src/parameters.rs")).expect("a file");
    assert!(by_macro.contains("#[non_exhaustive]\n        pub struct $name {"));
}

#[test]
fn what_cannot_grow_is_found() {
    assert_eq!(exhaustive("#[derive(Debug)]\npub struct AConfig {\n    pub a: u8,\n}\n"), ["AConfig"]);
    assert!(exhaustive("#[non_exhaustive]\npub struct AConfig {\n    pub a: u8,\n}\n").is_empty());
    assert!(exhaustive("pub struct AConfig {\n    a: u8,\n}\n").is_empty(), "it has a builder");
}
