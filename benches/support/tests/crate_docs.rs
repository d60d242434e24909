//! Documentation test of the libraries' first pages: an example first, every feature listed, and marked on docs.rs.

use std::fs;
use std::path::{Path, PathBuf};

/// The published libraries with features, by folder.
const LIBRARIES: [&str; 5] = [".", "kv-index", "routing-core", "routing-plugins", "routing-exec"];

fn folder(library: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(library)
}

fn read(library: &str, file: &str) -> String {
    fs::read_to_string(folder(library).join(file)).expect("a file of the repository")
}

/// A crate's own docs.
fn docs(library: &str) -> String {
    let source = read(library, "src/lib.rs");
    let lines = source.lines().map_while(|line| line.strip_prefix("//!"));
    lines.map(|line| format!("{}\n", line.strip_prefix(' ').unwrap_or(line))).collect()
}

/// The features of a manifest. One that only stands for a dependency is named by none.
fn features(library: &str) -> Vec<String> {
    let manifest = read(library, "Cargo.toml");
    let section = manifest.split("[features]\n").nth(1).expect("it has features");
    let lines = section.lines().take_while(|line| !line.starts_with('['));
    lines.filter_map(|line| Some(line.split_once(" = ")?.0.to_owned())).filter(|name| !name.starts_with('#')).collect()
}

#[test]
fn a_librarys_docs_begin_with_an_example() {
    for library in LIBRARIES {
        let docs = docs(library);
        let example = docs.find("```\n").unwrap_or_else(|| panic!("{library}: no code block that is run"));
        let headings = docs[..example].lines().filter(|line| line.starts_with("# ")).collect::<Vec<_>>();
        assert!(headings.is_empty() || headings == ["# Example"], "{library}: {headings:?} before the example");
    }
}

#[test]
fn a_librarys_docs_list_its_features() {
    for library in LIBRARIES {
        let docs = docs(library);
        let listed = docs.split("# Features\n").nth(1).unwrap_or_else(|| panic!("{library} lists no features"));
        let features = features(library);
        assert!(!features.is_empty());
        for feature in features {
            assert!(listed.contains(&format!("`{feature}`")), "{library} does not list `{feature}`");
        }
    }
}

#[test]
fn what_needs_a_feature_says_so_on_docs_rs() {
    for library in LIBRARIES {
        let manifest = read(library, "Cargo.toml");
        let section = "[package.metadata.docs.rs]\nall-features = true\nrustdoc-args = [\"--cfg\", \"docsrs\"]\n";
        assert!(manifest.contains(section), "{library}: {section}");
        assert!(read(library, "src/lib.rs").contains("#![cfg_attr(docsrs, feature(doc_cfg))]\n"), "{library}");
    }
}
