//! Every sample configuration of llm-d translates, builds, and becomes what is written down for it.

use std::fs;
use std::path::{Path, PathBuf};

use pointsman_epp::picker_config::{PickerConfig, Profiles, Translation};
use routing_plugins::flow::FlowDocument;

use crate::decide::{build, state};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/picker_config").join(name)
}

/// A sample by its name.
pub(crate) fn sample(name: &str) -> String {
    fs::read_to_string(folder("llmd").join(format!("{name}.yaml"))).unwrap()
}

/// The names of all samples.
fn samples() -> Vec<String> {
    let files = fs::read_dir(folder("llmd")).unwrap().map(|file| file.unwrap().path());
    let mut names: Vec<String> = files
        .filter(|file| file.extension().is_some_and(|extension| extension == "yaml"))
        .map(|file| file.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    names.sort();
    names
}

/// The one sample that llm-d refuses itself: a parameter of it was renamed.
const REFUSED: &str = "deploy_epp_mm_embeddings_cache";

fn translated(name: &str) -> Translation {
    let text = sample(name);
    let text = if name == REFUSED { text.replace("cacheSizeInMB:", "cacheSizeInMBPerServer:") } else { text };
    let config = PickerConfig::read(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
    config.translate().unwrap()
}

/// Warnings and documents, as they are written down.
fn written(translation: &Translation) -> String {
    let warnings = translation.warnings.iter().map(|warning| format!("# warning: {warning}\n"));
    let flow = translation.flow_control.as_ref().map(|flow| format!("---\n{flow}")).unwrap_or_default();
    format!("{}{}{flow}", warnings.collect::<String>(), translation.workflow)
}

/// `POINTSMAN_BLESS=1` writes them down anew.
#[test]
fn samples_become_what_is_written_down() {
    let names = samples();
    assert!(names.len() >= 43, "only {} samples", names.len());
    for name in names {
        let (found, file) = (written(&translated(&name)), folder("golden").join(format!("{name}.yaml")));
        if std::env::var_os("POINTSMAN_BLESS").is_some() {
            fs::create_dir_all(folder("golden")).unwrap();
            fs::write(&file, &found).unwrap();
        }
        let expected = fs::read_to_string(&file).unwrap_or_default();
        assert!(found == expected, "{name} is not as in {}:\n{found}", file.display());
    }
}

#[test]
fn samples_build_without_warnings() {
    for name in samples() {
        let translation = translated(&name);
        let documents = match &translation.settings.profiles {
            Profiles::ByHeader { workflows, .. } => workflows.values().cloned().collect(),
            _ => vec![translation.workflow.clone()],
        };
        for document in documents {
            let workflow =
                build(&document, &state(&translation)).unwrap_or_else(|error| panic!("{name}: {error}\n{document}"));
            assert_eq!(workflow.warnings(), &[], "{name}\n{document}");
        }
        if let Some(flow) = &translation.flow_control {
            let document: FlowDocument =
                serde_yaml_ng::from_str(flow).unwrap_or_else(|error| panic!("{name}: {error}\n{flow}"));
            document.build(&state(&translation)).unwrap_or_else(|error| panic!("{name}: {error}\n{flow}"));
        }
    }
}

#[test]
fn what_llmd_runs_without_a_configuration_is_its_charts_default() {
    let default = PickerConfig::default().translate().unwrap();
    assert_eq!(default.workflow, translated("chart_default").workflow);
    assert_eq!(default.warnings, [""; 0]);
}

#[test]
fn the_sample_that_llmd_refuses_is_refused() {
    let error = PickerConfig::read(&sample(REFUSED)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "line 14: plugins[4].parameters.cacheSizeInMB: unknown field `cacheSizeInMB`: did you mean `cacheSizeInMBPerServer`?"
    );
}
