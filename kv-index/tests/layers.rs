//! The crate's folders stand in layers: each imports only from those below it.

use std::fs;
use std::path::{Path, PathBuf};

/// From the bottom up; folders side by side do not import each other.
const LAYERS: [&[&str]; 9] = [
    &["map", "prefetch", "sync"],
    &["blocks", "reclamation"],
    &["pods", "writers"],
    &["directory"],
    &["segments"],
    &["index"],
    &["feeds"],
    &["engine"],
    &["model", "loom_tests", "miri_tests"],
];

/// Of `index`: what an index has, the index, what is done with it.
const INDEX: [&[&str]; 5] = [
    &["config", "digest", "expiry", "matches", "room", "state", "streams"],
    &["detail"],
    &["cache"],
    &["pod_update"],
    &["locate", "reconcile", "search", "snapshot", "stats", "sweep", "updates"],
];

fn layer(of: &str, layers: &[&[&str]]) -> usize {
    layers.iter().position(|layer| layer.contains(&of)).unwrap_or_else(|| panic!("`{of}` is in no layer"))
}

/// What a file imports by paths that begin with this; its tests may import anything.
fn imports(file: &Path, root: &str) -> Vec<String> {
    let text = fs::read_to_string(file).expect("a file of ours");
    let code = text.lines().take_while(|line| !line.starts_with("#[cfg(test)]") && !line.starts_with("#[cfg(all(test"));
    let code = code.filter(|line| !line.trim_start().starts_with("//"));
    let name = |rest: &str| rest.chars().take_while(|c| c.is_ascii_lowercase() || *c == '_').collect::<String>();
    let names = code.flat_map(|line| line.split(root).skip(1)).map(name);
    names.filter(|name| !name.is_empty()).collect()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder of ours").map(|entry| entry.expect("an entry").path());
    let (folders, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    let mut all = files;
    folders.iter().for_each(|folder| all.extend(self::files(folder)));
    all
}

/// The first folder, or file, under `folder` that a path leads to.
fn part(path: &Path, folder: &Path) -> String {
    let inside = path.strip_prefix(folder).expect("inside").iter().next().expect("a name");
    inside.to_string_lossy().trim_end_matches(".rs").to_owned()
}

fn upward(folder: &Path, root: &str, layers: &[&[&str]], ignored: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for file in files(folder) {
        let own = part(&file, folder);
        let is_test = file.file_stem().is_some_and(|stem| stem == "tests" || stem == "loom_tests");
        if ignored.contains(&&*own) || is_test {
            continue;
        }
        for name in imports(&file, root).into_iter().filter(|name| *name != own) {
            if layer(&name, layers) >= layer(&own, layers) {
                found.push(format!("{} imports {name}", file.display()));
            }
        }
    }
    found
}

#[test]
fn folders_import_downwards() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    assert_eq!(upward(&src, "crate::", &LAYERS, &["lib"]), Vec::<String>::new());
}

#[test]
fn the_index_is_layered_too() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/index");
    assert_eq!(upward(&folder, "crate::index::", &INDEX, &[]), Vec::<String>::new());
    // What is done with an index is nothing that the index knows of.
    let own = folder.with_extension("rs");
    let known = imports(&own, "crate::index::");
    assert!(known.iter().all(|name| layer(name, &INDEX) <= layer("cache", &INDEX)), "{known:?}");
}

#[test]
fn an_import_is_seen() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    assert!(imports(&src.join("segments.rs"), "crate::").contains(&"directory".to_owned()));
}
