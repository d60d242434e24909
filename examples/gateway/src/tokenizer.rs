//! Tokenizer of the served model: the toy `words`, or its `tokenizer.json` and chat template.

use std::sync::Arc;

use routing_plugins::tokenize::PromptTokenizer;

use super::config::{ModelSettings, NamedTokenizer, TokenizerFiles, TokenizerSettings};
use super::error::StartError;
use pointsman_example_common::words;

/// Loads the tokenizer of a model.
pub(super) fn load(model: &ModelSettings) -> Result<Arc<dyn PromptTokenizer>, StartError> {
    match &model.tokenizer {
        TokenizerSettings::Named(NamedTokenizer::Words) => {
            let prompts = words::prompts().map_err(|error| StartError::Tokenizer(error.to_string().into()))?;
            Ok(Arc::new(prompts))
        }
        TokenizerSettings::Files(files) => by_files(files),
    }
}

#[cfg(feature = "tokenizers")]
fn by_files(files: &TokenizerFiles) -> Result<Arc<dyn PromptTokenizer>, StartError> {
    use routing_plugins::tokenize::{ChatTemplate, ModelPrompts, PrefixCache, Vocabulary};

    let wrong = |error: &dyn std::fmt::Display| StartError::Tokenizer(error.to_string().into());
    let vocabulary = Vocabulary::from_file(&files.file).map_err(|error| wrong(&error))?;
    let prompts = ModelPrompts::new(PrefixCache::new(vocabulary, 64 << 20));
    let Some(path) = &files.template else { return Ok(Arc::new(prompts)) };
    let text = std::fs::read_to_string(path)
        .map_err(|error| StartError::Tokenizer(format!("cannot read `{}`: {error}", path.display()).into()))?;
    let is_config = path.extension().is_some_and(|extension| extension == "json");
    let template = if is_config { ChatTemplate::from_config(&text) } else { ChatTemplate::from_source(&text, "{}") };
    Ok(Arc::new(prompts.chat(template.map_err(|error| wrong(&error))?)))
}

#[cfg(not(feature = "tokenizers"))]
fn by_files(_: &TokenizerFiles) -> Result<Arc<dyn PromptTokenizer>, StartError> {
    Err(StartError::Feature { setting: "model.tokenizer.file", feature: "tokenizers" })
}
