//! Tokenizer of a batch's prompts: the model's own, or words as simulated pods have them.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use routing_plugins::tokenize::PromptTokenizer;

use pointsman_example_common::words;

/// Loads a model's `tokenizer.json`, with the chat template beside it; without a file prompts are cut into words.
pub(crate) fn load(file: Option<&Path>) -> Result<Arc<dyn PromptTokenizer>, Box<dyn Error>> {
    match file {
        Some(file) => by_file(file),
        None => Ok(Arc::new(words::prompts()?)),
    }
}

#[cfg(feature = "tokenizers")]
fn by_file(file: &Path) -> Result<Arc<dyn PromptTokenizer>, Box<dyn Error>> {
    Ok(pointsman::tokenizer_files(file, None)?)
}

#[cfg(not(feature = "tokenizers"))]
fn by_file(_: &Path) -> Result<Arc<dyn PromptTokenizer>, Box<dyn Error>> {
    Err("`--tokenizer` needs the feature `tokenizers`: build with `--features tokenizers`".into())
}
