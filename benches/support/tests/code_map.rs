//! Documentation test of the code map: `ARCHITECTURE.md` names every source file, and nothing that is gone.
//!
//! A section `### FOLDER` has tables whose first column names files and folders below FOLDER in backticks. A file is found by
//! its own name, by a folder's (`batch/`), or by its module's: `run.rs` stands for `run/` too.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// What a section names, by its folder.
fn code_map(text: &str) -> BTreeMap<String, Vec<String>> {
    let mut sections = BTreeMap::new();
    let mut names: Option<&mut Vec<String>> = None;
    for line in text.lines() {
        if let Some(title) = line.strip_prefix("### ") {
            names = title.split('`').nth(1).map(|folder| sections.entry(folder.to_owned()).or_insert_with(Vec::new));
        } else if line.starts_with('#') {
            names = None;
        } else if let (Some(names), Some(row)) = (&mut names, line.strip_prefix("| ")) {
            let first = row.split(" | ").next().unwrap_or_default();
            names.extend(first.split('`').skip(1).step_by(2).map(str::to_owned));
        }
    }
    sections
}

fn covers(name: &str, file: &str) -> bool {
    let module = name.strip_suffix(".rs").map(|stem| format!("{stem}/"));
    file == name || name.ends_with('/') && file.starts_with(name) || module.is_some_and(|m| file.starts_with(&m))
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of the repository") {
        let path = entry.expect("an entry").path();
        if path.is_dir() && !path.ends_with("target") {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn every_source_file_is_found_from_the_architecture_page() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository");
    let map = code_map(&fs::read_to_string(root.join("ARCHITECTURE.md")).expect("the page"));
    assert!(map.len() >= 6, "{:?}", map.keys());
    for (folder, names) in &map {
        for name in names {
            assert!(root.join(folder).join(name).exists(), "`{name}` is not in {folder}");
        }
    }
    let mut files = Vec::new();
    sources(&root, &mut files);
    let lost: Vec<String> = files
        .iter()
        .filter_map(|file| file.strip_prefix(&root).ok()?.to_str())
        // Tests stand beside what they test, under its name.
        .filter(|file| !file.contains("/tests/") && !file.ends_with("/lib.rs") && !file.ends_with("/main.rs"))
        .filter(|file| {
            let within = |folder: &str| file.strip_prefix(folder)?.strip_prefix('/');
            let named = |(folder, names): (&String, &Vec<String>)| {
                within(folder).is_some_and(|file| names.iter().any(|name| covers(name, file)))
            };
            !map.iter().any(named)
        })
        .map(str::to_owned)
        .collect();
    assert!(lost.is_empty(), "not in the code map: {lost:#?}");
}
