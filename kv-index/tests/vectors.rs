//! Golden hash vectors: what the engines themselves computed, case by case.
//!
//! Every case of every file is run. A file without cases, a field that is not understood and a case that was not
//! run all fail. If `POINTSMAN_VECTORS` names a folder, files of the same names there are run too.

#![expect(clippy::unwrap_used, reason = "a file that is not of the expected form fails the test")]

#[path = "vectors/fields.rs"]
mod fields;
#[path = "vectors/sglang.rs"]
mod sglang;
#[path = "vectors/vllm.rs"]
mod vllm;

use std::fs;
use std::path::{Path, PathBuf};

use kv_index::engine::Version;
use serde_json::Value;

use crate::fields::Fields;

#[test]
fn vllm_of_august_2026_hashes_as_it_did() {
    for version in [Version::new(0, 29, 0), Version::new(0, 30, 3)] {
        run("vllm_hash_vectors.json", |file| vllm::file(file, version));
    }
}

#[test]
fn vllm_0_32_hashes_as_it_did() {
    for version in [Version::new(0, 31, 0), Version::new(0, 32, 0), Version::new(0, 32, 9)] {
        run("vllm_hash_vectors_0.32.0.json", |file| vllm::file(file, version));
    }
}

#[test]
fn sglang_of_august_2026_hashes_as_it_did() {
    for version in [Version::new(0, 5, 18), Version::new(0, 5, 21)] {
        run("sglang_hash_vectors.json", |file| sglang::august(file, version));
    }
}

#[test]
fn sglang_0_5_23_hashes_as_it_did() {
    run("sglang_hash_vectors_0.5.23.json", sglang::newest);
}

/// Runs a file of each folder. `check` returns how many cases it ran.
fn run(name: &str, check: impl Fn(&mut Fields) -> usize) {
    for folder in folders() {
        let path = folder.join(name);
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let file: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let cases = file["cases"].as_array().map_or(0, Vec::len);
        assert!(cases > 0, "{} has no cases", path.display());
        let mut fields = Fields::new(name, file);
        assert_eq!(check(&mut fields), cases, "{}: not every case was run", path.display());
        fields.finish();
    }
}

#[expect(clippy::disallowed_methods, reason = "a test may be told where more cases are")]
fn folders() -> Vec<PathBuf> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors");
    std::iter::once(own).chain(std::env::var_os("POINTSMAN_VECTORS").map(PathBuf::from)).collect()
}
