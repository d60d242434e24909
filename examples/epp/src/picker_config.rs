//! `EndpointPickerConfig`, as llm-d reads it, turned into a workflow of stock plugins.
//!
//! [`PickerConfig::read`] checks a configuration as strictly as llm-d does and lists all that is wrong;
//! [`PickerConfig::translate`] makes a workflow document of it, with the same filters in the same order, scorers of the same
//! formula and weight, and the same defaults. `docs/llmd_plugins.md` says of every type what it becomes.
//!
//! - Totals here are means by weight, there they are sums: the order of pods is the same.
//! - Health, drain and circuit breaker filters come first, which llm-d has not: a pod that fails is no candidate. They
//!   never leave nobody, so that decisions among healthy pods are llm-d's.
//! - Roles of pods are read from their label `llm-d.ai/role` by the workflow itself.
//! - Where a token estimate suffices, prefixes are blocks of text; with a tokenizer they are blocks of tokens.
//!
//! A document may have plugins of the picker's own: [`register`] them beside the stock ones.
//!
//! # Examples
//!
//! ```
//! use pointsman_epp::picker_config::PickerConfig;
//!
//! let translation = PickerConfig::read(
//!     "
//! apiVersion: llm-d.ai/v1alpha1
//! kind: EndpointPickerConfig
//! plugins:
//! - type: queue-scorer
//! schedulingProfiles:
//! - name: default
//!   plugins:
//!   - pluginRef: queue-scorer
//!     weight: 2
//! ",
//! )?
//! .translate()?;
//! assert!(translation.workflow.contains("type: least_load_scorer, parameters: { by: waiting } } # queue-scorer"));
//! # Ok::<(), pointsman_epp::picker_config::PickerConfigError>(())
//! ```

mod assemble;
mod data_layer;
mod detectors;
mod disagg;
mod draft;
mod error;
mod estimate;
mod fields;
mod filters;
mod flow_control;
mod flow_schema;
mod handlers;
mod label_filters;
mod locate;
mod own;
mod parts;
mod pickers;
mod plugin_types;
mod prefix_cache;
mod producers;
mod quantity;
mod schema;
mod scorers;
mod sessions;
mod settings;
mod translate;

pub use error::{PickerConfigError, PickerProblem};
pub use estimate::EstimateTokenizer;
pub use own::register;
pub use plugin_types::{TypeSupport, plugin_types};
pub use settings::{
    Fairness, FileDiscovery, KvEvents, MetricsScrape, Parser, PickerSettings, PrefixCache, Profiles, Saturation,
    SessionToken, Tokenizer,
};

use error::Findings;
use schema::Schema;

/// llm-d's configuration, read and checked.
#[derive(Clone, Debug)]
pub struct PickerConfig {
    schema: Schema,
    text: String,
}

/// What a configuration becomes.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Translation {
    /// A workflow document as YAML; behind each plugin stands what it was to llm-d.
    pub workflow: String,
    /// A [flow document](routing_plugins::flow::FlowDocument) as YAML, if the feature gate is on.
    pub flow_control: Option<String>,
    /// What an operator should know: what is deprecated, and what is not the same here.
    pub warnings: Vec<String>,
    /// What is no plugin of a decision.
    pub settings: PickerSettings,
}

impl PickerConfig {
    /// Reads a configuration and checks all of it. An empty text is the default one, as to llm-d.
    ///
    /// # Errors
    ///
    /// With every problem there is: what llm-d refuses too, and what has no counterpart here.
    pub fn read(text: &str) -> Result<Self, PickerConfigError> {
        let (found, text) = (Findings::default(), if text.is_empty() { DEFAULT } else { text });
        let document = match serde_yaml_ng::from_str(text) {
            Ok(document) => document,
            Err(error) => {
                let (line, message) = (error.location().map(|place| place.line()), error.to_string());
                return Err(PickerConfigError {
                    problems: vec![PickerProblem { place: String::new(), line, message }],
                });
            }
        };
        let schema = Schema::read(&document, &found);
        translate::translate(&schema, &found, text)?;
        Ok(Self { schema, text: text.to_owned() })
    }

    /// Makes a workflow of it.
    ///
    /// # Errors
    ///
    /// None, of a configuration that was read: it was translated then, too.
    pub fn translate(&self) -> Result<Translation, PickerConfigError> {
        translate::translate(&self.schema, &Findings::default(), &self.text)
    }
}

impl Default for PickerConfig {
    /// What llm-d runs without any configuration: queue 2, KV cache 2, prefixes 3.
    fn default() -> Self {
        Self::read(DEFAULT).expect("the default configuration is valid, by a test")
    }
}

/// What llm-d's loader makes where no configuration is given.
const DEFAULT: &str = "
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: queue-scorer
- type: kv-cache-utilization-scorer
- type: prefix-cache-scorer
- type: metrics-data-source
- type: core-metrics-extractor
schedulingProfiles:
- name: default
  plugins:
  - pluginRef: queue-scorer
    weight: 2
  - pluginRef: kv-cache-utilization-scorer
    weight: 2
  - pluginRef: prefix-cache-scorer
    weight: 3
dataLayer:
  sources:
  - pluginRef: metrics-data-source
    extractors:
    - pluginRef: core-metrics-extractor
";
