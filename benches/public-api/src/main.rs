//! Public API snapshots: each library's, a line an item, compared with what is checked in.
//!
//! `cargo run -p pointsman-public-api` fails where a library's public API is not its file in `snapshots/`, and says how; with
//! `--bless` it writes the files. The API is read from rustdoc's JSON with all features on, by one toolchain, so that a newer Rust
//! changes no line.

#![forbid(unsafe_code)]

mod diff;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::{env, fs};

use public_api::{Builder, MINIMUM_NIGHTLY_RUST_VERSION};

/// The Rust whose rustdoc writes the JSON that this release of `public-api` reads.
const TOOLCHAIN: &str = "1.95.0";

/// Package, and the name of its library.
const LIBRARIES: [(&str, &str); 5] = [
    ("pointsman", "pointsman"),
    ("pointsman-kv-index", "kv_index"),
    ("pointsman-routing-core", "routing_core"),
    ("pointsman-routing-plugins", "routing_plugins"),
    ("pointsman-routing-exec", "routing_exec"),
];

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let bless = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => false,
        ["--bless"] => true,
        _ => return Err("usage: cargo run -p pointsman-public-api [-- --bless]".into()),
    };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = folder.ancestors().nth(2).ok_or("the repository is two folders up")?;
    let documented = rustdoc(root)?;
    let mut changed = Vec::new();
    for (package, library) in LIBRARIES {
        let file = folder.join("snapshots").join(format!("{package}.txt"));
        let current = public_api(&documented.join(format!("{library}.json")))?;
        if bless {
            fs::write(&file, current)?;
            continue;
        }
        let checked_in = fs::read_to_string(&file).unwrap_or_default();
        let differences = diff::lines(&checked_in, &current);
        if !differences.is_empty() {
            println!("the public API of {package} is not what {} says:\n{}\n", file.display(), differences.join("\n"));
            changed.push(package);
        }
    }
    if changed.is_empty() {
        println!("public API: {}", if bless { "written" } else { "as checked in" });
        return Ok(ExitCode::SUCCESS);
    }
    println!(
        "If that is meant: `cargo run -p pointsman-public-api -- --bless`, commit the files, and tell users in the changelog of {}.",
        changed.join(", ")
    );
    Ok(ExitCode::FAILURE)
}

/// A library's public items, one a line, sorted. Impls that every type has, and those of auto traits, say nothing and are left out.
fn public_api(json: &Path) -> Result<String, Box<dyn Error>> {
    let api = Builder::from_rustdoc_json(json).omit_blanket_impls(true).omit_auto_trait_impls(true).build();
    let api = api.map_err(|error| {
        format!(
            "{} by Rust {TOOLCHAIN} cannot be read ({error}): this public-api is for {MINIMUM_NIGHTLY_RUST_VERSION}; change its \
             version in Cargo.toml and TOOLCHAIN together",
            json.display()
        )
    })?;
    Ok(api.to_string())
}

/// Has rustdoc write the JSON of all libraries, and says where. In a target folder of its own: what allows JSON on a stable
/// toolchain changes how dependencies are built.
fn rustdoc(root: &Path) -> Result<PathBuf, Box<dyn Error>> {
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from).join("public_api");
    let status = Command::new("rustup")
        .args(["run", TOOLCHAIN, "cargo", "doc", "--quiet", "--lib", "--no-deps", "--all-features", "--target-dir"])
        .arg(&target)
        .args(LIBRARIES.iter().flat_map(|(package, _)| ["-p", package]))
        .env("RUSTC_BOOTSTRAP", "1")
        .env("RUSTDOCFLAGS", "-Zunstable-options --output-format json --cap-lints allow")
        // Set by the cargo that runs this one, for itself.
        .env_remove("RUSTUP_TOOLCHAIN")
        .current_dir(root)
        .status()?;
    if status.success() {
        return Ok(target.join("doc"));
    }
    Err(format!("rustdoc of Rust {TOOLCHAIN} failed; `rustup toolchain install {TOOLCHAIN} --profile minimal` gets it")
        .into())
}
