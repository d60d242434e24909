//! Tokenizer of the served model: the toy `words`, or its `tokenizer.json` and chat template.

#[cfg(feature = "tokenizers")]
use std::path::Path;
use std::sync::Arc;

use routing_plugins::tokenize::PromptTokenizer;
#[cfg(feature = "tokenizers")]
use routing_plugins::tokenize::{ChatTemplate, TemplateError};

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
    use routing_plugins::tokenize::{ModelPrompts, PrefixCache, Vocabulary};

    let wrong = |error: &dyn std::fmt::Display| StartError::Tokenizer(error.to_string().into());
    let vocabulary = Vocabulary::from_file(&files.file).map_err(|error| wrong(&error))?;
    let prompts = ModelPrompts::new(PrefixCache::new(vocabulary, 64 << 20));
    let Some(template) = template(files)? else { return Ok(Arc::new(prompts)) };
    Ok(Arc::new(prompts.chat(template)))
}

/// The chat template: the file that is named, completed by what models have beside it.
///
/// A model has its template in `tokenizer_config.json`, or in `chat_template.jinja` beside that, which then has the special
/// tokens only.
#[cfg(feature = "tokenizers")]
fn template(files: &TokenizerFiles) -> Result<Option<ChatTemplate>, StartError> {
    let wrong = |path: &Path, error: &dyn std::fmt::Display| {
        StartError::Tokenizer(format!("`{}`: {error}", path.display()).into())
    };
    let read = |path: &Path| std::fs::read_to_string(path).map_err(|error| wrong(path, &error));
    let beside = |name: &str| files.template.as_ref().unwrap_or(&files.file).with_file_name(name);
    let read_beside = |name: &str| {
        let path = beside(name);
        if path.exists() { read(&path).map(Some) } else { Ok(None) }
    };
    let (config, source) = match &files.template {
        Some(path) if path.extension().is_some_and(|extension| extension == "json") => {
            let config = read(path)?;
            let is_missing = matches!(ChatTemplate::from_config(&config), Err(TemplateError::Missing));
            (Some(config), if is_missing { read_beside("chat_template.jinja")? } else { None })
        }
        Some(path) => (read_beside("tokenizer_config.json")?, Some(read(path)?)),
        None => (read_beside("tokenizer_config.json")?, read_beside("chat_template.jinja")?),
    };
    let template = match (&config, &source) {
        (config, Some(source)) => ChatTemplate::from_source(source, config.as_deref().unwrap_or("{}")),
        (Some(config), None) => ChatTemplate::from_config(config),
        (None, None) => return Ok(None),
    };
    match template {
        // Nobody said that there is one.
        Err(TemplateError::Missing) if files.template.is_none() => Ok(None),
        template => template.map(Some).map_err(|error| wrong(files.template.as_ref().unwrap_or(&files.file), &error)),
    }
}

#[cfg(not(feature = "tokenizers"))]
fn by_files(_: &TokenizerFiles) -> Result<Arc<dyn PromptTokenizer>, StartError> {
    Err(StartError::Feature { setting: "model.tokenizer.file", feature: "tokenizers" })
}
