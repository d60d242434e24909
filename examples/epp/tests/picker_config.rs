//! llm-d's sample configurations and test cases, run through the translation.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "picker_config/agreement.rs"]
mod agreement;
#[path = "picker_config/cases.rs"]
mod cases;
#[path = "picker_config/decide.rs"]
mod decide;
#[path = "picker_config/docs.rs"]
mod docs;
#[path = "picker_config/errors.rs"]
mod errors;
#[path = "picker_config/integration.rs"]
mod integration;
#[path = "picker_config/samples.rs"]
mod samples;
#[path = "picker_config/settings.rs"]
mod settings;
