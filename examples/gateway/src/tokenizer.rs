//! Tokenizer of the served model: the toy `words`, or its `tokenizer.json` and chat template.

use std::sync::Arc;

use routing_plugins::tokenize::PromptTokenizer;

use super::config::{ModelSettings, NamedTokenizer, TokenizerFiles, TokenizerSettings};
use super::error::StartError;
use pointsman_example_common::words;

/// Loads the tokenizer of a model; none where its prompts are not read.
pub(super) fn load(model: &ModelSettings) -> Result<Option<Arc<dyn PromptTokenizer>>, StartError> {
    match &model.tokenizer {
        TokenizerSettings::Named(NamedTokenizer::None) => Ok(None),
        TokenizerSettings::Named(NamedTokenizer::Words) => {
            let prompts = words::prompts().map_err(|error| StartError::Tokenizer(error.to_string().into()))?;
            Ok(Some(Arc::new(prompts)))
        }
        TokenizerSettings::Files(files) => by_files(files).map(Some),
    }
}

#[cfg(feature = "tokenizers")]
fn by_files(files: &TokenizerFiles) -> Result<Arc<dyn PromptTokenizer>, StartError> {
    let made = pointsman::tokenizer_files(&files.file, files.template.as_deref());
    made.map_err(|error| StartError::Tokenizer(error.to_string().into()))
}

#[cfg(not(feature = "tokenizers"))]
fn by_files(_: &TokenizerFiles) -> Result<Arc<dyn PromptTokenizer>, StartError> {
    Err(StartError::Feature { setting: "model.tokenizer.file", feature: "tokenizers" })
}
