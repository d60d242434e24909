//! A served model: its router made of the configuration, and what executes its plans.

use std::sync::Arc;

use kv_index::Index;
use pointsman::{PodSpec, Profile as RouterProfile, ProfileError, Router, RouterUpdate, document};
use routing_core::Workflow;
use routing_exec::adapter::{HyperTransport, TokioTimer};
use routing_exec::handoff::Api;
use routing_exec::observe::{RequestLabels, RequestMeters};
use routing_exec::{DispatchPolicy, TransportExecutor};
use routing_plugins::PluginState;

use super::config::{Config, Profile, Served};
use super::error::StartError;
use super::pod_client::{PodClient, PodTransport};
use super::tokenizer;

/// One model of the gateway.
pub(super) struct Model {
    pub(super) router: Router,
    pub(super) executor: TransportExecutor<PodTransport, TokioTimer>,
    /// What requests that wait are woken by.
    pub(super) timer: TokioTimer,
    /// By what its requests are called.
    meters: [(&'static str, Arc<RequestMeters>); OPERATIONS.len()],
}

impl Model {
    /// A model as it is configured, over an index that a snapshot may have brought. No pod gets a request before its first
    /// health check.
    ///
    /// # Errors
    ///
    /// When a file that it names, its profile or a pod cannot be used.
    pub(super) fn new(
        config: &Config,
        served: &Served<'_>,
        index: Arc<Index>,
        client: &PodClient,
    ) -> Result<Self, StartError> {
        let settings = served.model;
        let mut builder = Router::builder(&settings.name).block_size(settings.block_size.get()).index(index);
        builder = settings.aliases.iter().fold(builder, |builder, alias| builder.alias(alias));
        let adapters = settings.adapters.iter();
        builder = adapters.fold(builder, |builder, (name, path)| builder.adapter(name, path.as_deref()));
        if let Some(hashes) = &settings.hashing {
            let dialect = hashes.dialect().map_err(|error| StartError::Hashing(error.to_string().into()))?;
            builder = builder.engine_hashes(dialect);
        }
        let builder = builder
            .profile(ReadProfile::read(served)?)
            .pods(specs(config, served)?)
            .health_checked()
            .policy(policy(config))
            .breakers(config.breakers.config())
            .retry_budget(config.retry.budget())
            .handoff(served.handoff.handoff(Arc::new(())))
            .client_fields(config.client_fields.allow.clone());
        let builder = match config.flow_document() {
            Some(document) => builder.flow_control(move |state| document.build(state)),
            None => builder,
        };
        let builder = match tokenizer::load(settings)? {
            Some(tokenizer) => builder.tokenizer(tokenizer),
            None => builder,
        };
        let router = builder.build().map_err(|error| StartError::model(served, &error))?;
        let transport = HyperTransport::new(client.clone(), router.addresses());
        let meters = OPERATIONS.map(|operation| {
            let labels = RequestLabels::new(operation).model(router.name().to_owned());
            (operation, Arc::new(RequestMeters::new(labels)))
        });
        Ok(Self { executor: router.executor(transport, TokioTimer::new()), router, timer: TokioTimer::new(), meters })
    }

    /// The metrics of its requests to an API.
    pub(super) fn meters(&self, api: Api) -> Arc<RequestMeters> {
        let operation = operation(api);
        let found = self.meters.iter().find(|(name, _)| *name == operation);
        Arc::clone(found.map_or(&self.meters[0].1, |(_, meters)| meters))
    }
}

/// What a request is called in metrics, as OpenTelemetry has it where it has a name.
pub(super) fn operation(api: Api) -> &'static str {
    let [text_completion, chat, embeddings, count_tokens] = OPERATIONS;
    match api {
        Api::Chat | Api::Responses | Api::Messages => chat,
        Api::Embeddings => embeddings,
        Api::CountTokens => count_tokens,
        _ => text_completion,
    }
}

const OPERATIONS: [&str; 4] = ["text_completion", "chat", "embeddings", "count_tokens"];

/// What a router has to change to be as it is configured.
///
/// # Errors
///
/// When the file of its profile cannot be read.
pub(super) fn update(config: &Config, served: &Served<'_>) -> Result<RouterUpdate, StartError> {
    let update = RouterUpdate::new()
        .profile(ReadProfile::read(served)?)
        .pods(specs(config, served)?)
        .policy(policy(config))
        .breakers(config.breakers.config())
        .handoff(served.handoff.handoff(Arc::new(())))
        .client_fields(config.client_fields.allow.clone());
    Ok(match config.flow_document() {
        Some(document) => update.flow_control(move |state| document.build(state)),
        None => update.no_flow_control(),
    })
}

/// The pods of a model, with their keys.
fn specs(config: &Config, served: &Served<'_>) -> Result<Vec<PodSpec>, StartError> {
    let specs = served.pods.iter().map(|pod| pod.spec(config));
    specs.collect::<Result<_, _>>().map_err(|error| StartError::model(served, &error))
}

/// The execution settings of a configuration: timeouts, attempts, what is a failure.
fn policy(config: &Config) -> DispatchPolicy {
    let timeouts = &config.timeouts;
    DispatchPolicy::default()
        .max_attempts(config.retry.max_attempts)
        .retry_on(config.retry.retry_on.conditions())
        .require_done(config.retry.require_done)
        .fail_open(config.breakers.fail_open)
        .prefill_first_byte_timeout(timeouts.prefill_first_byte_timeout)
        .first_byte_timeout(timeouts.first_byte_timeout)
        .per_try_timeout(timeouts.per_try_timeout)
        .request_timeout(timeouts.request_timeout)
        .idle_timeout(timeouts.stream_idle_timeout)
}

/// A configured profile; a file is read once, so that what was checked is what is built.
struct ReadProfile {
    label: String,
    source: Source,
}

enum Source {
    Stock(String),
    Text(String),
    Document(serde_yaml_ng::Mapping),
}

impl ReadProfile {
    fn read(served: &Served<'_>) -> Result<Self, StartError> {
        let source = match served.profile {
            Profile::Stock(name) => Source::Stock(name.clone()),
            Profile::Document(mapping) => Source::Document(mapping.clone()),
            Profile::File(file) => {
                let path = file.file.display();
                let text = std::fs::read_to_string(&file.file).map_err(|error| {
                    StartError::model(served, &format!("cannot read the profile `{path}`: {error}"))
                })?;
                Source::Text(text)
            }
        };
        Ok(Self { label: served.profile.label(), source })
    }
}

impl RouterProfile for ReadProfile {
    fn name(&self) -> &str {
        &self.label
    }

    fn workflow(&self, state: &PluginState) -> Result<Workflow, ProfileError> {
        match &self.source {
            Source::Stock(name) => name.workflow(state),
            Source::Document(mapping) => document(serde_yaml_ng::Value::Mapping(mapping.clone()), state),
            Source::Text(text) => {
                routing_core::check_nesting(text).map_err(|error| ProfileError::Other(error.to_string().into()))?;
                document(serde_yaml_ng::Deserializer::from_str(text), state)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use kv_index::{BlockSize, Config as IndexConfig};
    use routing_plugins::Hashing;
    use routing_plugins::profiles::StockProfile;

    use super::*;

    fn build(profile: &Profile) -> Result<Workflow, ProfileError> {
        let index: Arc<Index> = Arc::new(Index::new(IndexConfig::default()));
        let mut config = Config::default_for(Vec::new());
        config.profile = profile.clone();
        let state = PluginState::new(index, Hashing::Native(BlockSize::new(16).unwrap()));
        ReadProfile::read(&config.served()[0]).unwrap().workflow(&state)
    }

    #[test]
    fn every_stock_profile_is_known_and_builds() {
        for StockProfile { name, .. } in <StockProfile>::ALL {
            build(&Profile::stock(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
        assert!(build(&Profile::stock("x")).unwrap_err().to_string().contains("no stock profile `x`"));
    }

    #[test]
    fn a_document_in_place_is_built_and_its_problems_are_named() {
        let profile = |text: &str| Profile::Document(serde_yaml_ng::from_str(text).unwrap());
        let good = "{ plugins: [{ name: p, type: max_score_picker }], profiles: [{ name: a, pick: p }] }";
        build(&profile(good)).unwrap();
        let error = build(&profile(&good.replace("max_score_picker", "max_scor_picker"))).unwrap_err();
        assert!(error.to_string().contains("max_score_picker"));
    }
}
