//! A model's files: its vocabulary and its chat template.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use routing_plugins::tokenize::{ChatTemplate, ModelPrompts, PrefixCache, PromptTokenizer, TemplateError, Vocabulary};

/// Why a model's files make no tokenizer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{}`: {why}", path.display())]
#[non_exhaustive]
pub struct ModelFileError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub why: String,
}

impl ModelFileError {
    fn new(path: &Path, why: &dyn std::fmt::Display) -> Self {
        Self { path: path.to_owned(), why: why.to_string() }
    }
}

/// The tokenizer of a model: its `tokenizer.json`, and the chat template that is named, or beside it. The ids of prompts'
/// beginnings are cached, up to 64 MiB.
///
/// A model has its template in `tokenizer_config.json`, or in `chat_template.jinja` beside that, which then has the special tokens
/// only. Either may be named; without a template chats have no tokens.
///
/// # Errors
///
/// When a file cannot be read or is malformed, or the template that is named is none.
pub fn tokenizer_files(file: &Path, template: Option<&Path>) -> Result<Arc<dyn PromptTokenizer>, ModelFileError> {
    let vocabulary = Vocabulary::from_file(file).map_err(|error| ModelFileError::new(file, &error))?;
    let prompts = ModelPrompts::new(PrefixCache::new(vocabulary, 64 << 20));
    match chat_template(file, template)? {
        Some(template) => Ok(Arc::new(prompts.chat(template))),
        None => Ok(Arc::new(prompts)),
    }
}

fn chat_template(file: &Path, named: Option<&Path>) -> Result<Option<ChatTemplate>, ModelFileError> {
    let read = |path: &Path| std::fs::read_to_string(path).map_err(|error| ModelFileError::new(path, &error));
    let read_beside = |name: &str| {
        let path = named.unwrap_or(file).with_file_name(name);
        if path.exists() { read(&path).map(Some) } else { Ok(None) }
    };
    let (config, source) = match named {
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
        Err(TemplateError::Missing) if named.is_none() => Ok(None),
        template => template.map(Some).map_err(|error| ModelFileError::new(named.unwrap_or(file), &error)),
    }
}
