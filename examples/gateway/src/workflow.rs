//! Builds the configured routing profile into a workflow.

use routing_core::{Registry, Workflow};
use routing_plugins::profiles::StockProfile;
use routing_plugins::{PluginState, register};

use super::config::Profile;
use super::error::ProfileError;

/// Builds a profile.
///
/// # Errors
///
/// Every problem of its document, or that there is no such document.
pub(super) fn build(profile: &Profile, plugin_state: &PluginState) -> Result<Workflow, ProfileError> {
    match profile {
        Profile::Stock(name) => ready(name, plugin_state),
        Profile::File(file) => {
            let text = std::fs::read_to_string(&file.file).map_err(|error| ProfileError::File {
                path: file.file.display().to_string().into(),
                kind: error.kind(),
            })?;
            document(serde_yaml_ng::Deserializer::from_str(&text), plugin_state)
        }
        Profile::Document(mapping) => document(serde_yaml_ng::Value::Mapping(mapping.clone()), plugin_state),
    }
}

fn ready(name: &str, plugin_state: &PluginState) -> Result<Workflow, ProfileError> {
    let Some(profile) = StockProfile::find(name) else { return Err(ProfileError::Unknown(name.into())) };
    (profile.build)(plugin_state).map_err(|error| ProfileError::Document(error.to_string().into()))
}

fn document<'de>(
    document: impl serde::Deserializer<'de>,
    plugin_state: &PluginState,
) -> Result<Workflow, ProfileError> {
    let wrong = |error: &dyn std::fmt::Display| ProfileError::Document(error.to_string().into());
    let mut registry = Registry::new();
    register(&mut registry, plugin_state).map_err(|error| wrong(&error))?;
    let document = registry.read(document).map_err(|error| wrong(&error))?;
    document.build(&registry).map_err(|error| wrong(&error))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kv_index::{BlockSize, Config, Index};
    use routing_plugins::Hashing;

    use super::*;

    fn plugin_state() -> PluginState {
        let index: Arc<Index> = Arc::new(Index::new(Config::default()));
        PluginState::new(index, Hashing::Native(BlockSize::new(16).unwrap()))
    }

    #[test]
    fn every_stock_profile_is_known_and_builds() {
        for StockProfile { name, .. } in <StockProfile>::ALL {
            build(&Profile::stock(name), &plugin_state()).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
        assert_eq!(build(&Profile::stock("x"), &plugin_state()).err(), Some(ProfileError::Unknown("x".into())));
    }

    #[test]
    fn a_document_in_place_is_built_and_its_problems_are_named() {
        let profile = |text: &str| Profile::Document(serde_yaml_ng::from_str(text).unwrap());
        let good = "{ plugins: [{ name: p, type: max_score_picker }], profiles: [{ name: a, pick: p }] }";
        build(&profile(good), &plugin_state()).unwrap();
        let error = build(&profile(&good.replace("max_score_picker", "max_scor_picker")), &plugin_state()).err();
        assert!(error.unwrap().to_string().contains("max_score_picker"));
    }
}
