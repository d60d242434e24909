//! Assembly: a router and a picker of what a configuration and the options say, and the tasks that keep them up to date.

use std::fmt::{self, Debug};
use std::io;
use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::Arc;
use std::time::Duration;

use http::uri::Scheme;
use pointsman::exec::ClientFields;
use pointsman::plugins::flow::FlowDocument;
use pointsman::plugins::pick::SessionLimits;
use pointsman::plugins::record::PredictedBlocks;
use pointsman::plugins::tokenize::PromptTokenizer;
use pointsman::plugins::{PluginState, SessionTables};
use pointsman::{
    Discovering, Discovery, HealthChecks, Housekeeping, HttpHealth, PodSpec, ProfileError, Router, RouterError,
    StaticPods, named,
};
use routing_core::{Registry, Workflow};

use crate::discovery::{Dns, DnsNameError, EndpointsFile, Synced};
use crate::figures::Figures;
use crate::kv_events::{EventStatuses, FollowingPods, follow_pods};
use crate::model_rewrites::ModelRewrites;
use crate::options::Options;
use crate::picker::{Objectives, Picker, PickerOptions};
use crate::picker_config::{
    self, EstimateTokenizer, KvEvents, MetricsScrape, Parser, PickerSettings, PrefixCache, Profiles, Tokenizer,
    Translation,
};
use crate::sidecar::SidecarHandoff;

/// A picker, with the tasks behind it. Dropped, they end.
#[derive(Debug)]
pub struct Assembly {
    /// The picker.
    pub picker: Arc<Picker>,
    /// Whether a first list of pods came.
    pub synced: Synced,
    _discovering: DiscoveryTasks,
    _checks: Option<HealthChecks>,
    _following: Option<FollowingPods>,
    _housekeeping: Housekeeping,
}

impl Assembly {
    /// Puts a picker together, on the current tokio runtime.
    ///
    /// # Errors
    ///
    /// When what is asked for does not go together, or is not in this build.
    pub async fn start(translation: &Translation, options: &Options) -> Result<Self, AssemblyError> {
        let by_profile = options.profile.is_some().then(|| by_profile(translation, options));
        let translation = by_profile.as_ref().unwrap_or(translation);
        let settings = &translation.settings;
        check(settings)?;
        let figures = Arc::new(Figures::default());
        let router = router(translation, options, &figures)?;
        let Discovered { priorities, model_rewrites, synced, _tasks: tasks } =
            discover(&router, settings, options).await?;
        let checks = (!settings.metrics.disabled).then(|| {
            let interval = settings.metrics.interval.unwrap_or(options.refresh_metrics_interval);
            router.spawn_health_checks(scrape(&router, &settings.metrics, figures), interval)
        });
        let events = EventStatuses::default();
        let following = match &settings.prefix_cache {
            PrefixCache::Precise { events: from, .. } => {
                let following = follow_pods(&router, from.clone(), Arc::clone(&events)).await;
                let endpoint = from.endpoint.clone().unwrap_or_default();
                Some(following.map_err(|error| AssemblyError::EventsAddress { endpoint, error })?)
            }
            _ => None,
        };
        let housekeeping = router.spawn_housekeeping();
        let picker = Picker::new(router, picker_options(settings, options)).events(events);
        let picker = Arc::new(picker.objectives(priorities).model_rewrites(model_rewrites));
        Ok(Self {
            picker,
            synced,
            _discovering: tasks,
            _checks: checks,
            _following: following,
            _housekeeping: housekeeping,
        })
    }
}

/// Asks engines for their metrics. One that answers at all is one that serves: engines differ in what else they would say to that.
fn scrape(router: &Router, settings: &MetricsScrape, figures: Arc<Figures>) -> HttpHealth {
    let check = HttpHealth::new(router.addresses()).timeout(SCRAPE_TIMEOUT).by_metrics();
    // Whatever pods themselves speak: `check` refuses any other scheme of a configuration.
    let check = check.metrics_path(settings.path.as_str()).metrics_scheme(Scheme::HTTP);
    let check = settings.port.into_iter().fold(check, HttpHealth::metrics_port);
    let attributes = settings.attributes.clone();
    check.on_metrics(move |pod, metrics| figures.learn(pod, metrics, &attributes))
}

/// What a stock profile goes by, in place of what a configuration says.
fn by_profile(translation: &Translation, options: &Options) -> Translation {
    let mut by_profile = translation.clone();
    by_profile.settings.prefix_cache = match options.kv_events_port {
        Some(port) => {
            let events =
                KvEvents { socket_port: Some(port), replay_port: options.kv_replay_port, ..KvEvents::default() };
            PrefixCache::Precise { block_tokens: options.block_size, hash_seed: String::new(), events }
        }
        None => PrefixCache::None,
    };
    by_profile
}

/// What a configuration may say and this program does not do.
fn check(settings: &PickerSettings) -> Result<(), AssemblyError> {
    if let Profiles::ByHeader { header, .. } = &settings.profiles {
        return Err(AssemblyError::Unsupported(format!(
            "profiles that the header `{header}` chooses: run a picker for each"
        )));
    }
    if settings.metrics.scheme != "http" {
        return Err(AssemblyError::Unsupported(format!(
            "metrics over `{}`: engines are asked over http",
            settings.metrics.scheme
        )));
    }
    match &settings.prefix_cache {
        PrefixCache::Precise { events, .. } if events.socket_port.is_none() && events.endpoint.is_none() => {
            let why = "a precise prefix cache without events: `discoverPods` is false, and there is no `zmqEndpoint`";
            Err(AssemblyError::Unsupported(why.to_owned()))
        }
        _ => Ok(()),
    }
}

/// Runs a job in a task of its own: the answer to the request need not wait for it.
fn after_answer(job: Box<dyn FnOnce() + Send>) {
    match tokio::runtime::Handle::try_current() {
        Ok(runtime) => drop(runtime.spawn(async move { job() })),
        Err(_) => job(),
    }
}

/// The router of a configuration. It has no pods yet.
fn router(translation: &Translation, options: &Options, figures: &Arc<Figures>) -> Result<Router, AssemblyError> {
    let settings = &translation.settings;
    let is_precise = matches!(settings.prefix_cache, PrefixCache::Precise { .. });
    let name = match (&*options.model, &settings.tokenizer) {
        ("", Tokenizer::Vllm { model, .. }) if !model.is_empty() => model,
        // An engine's blocks are the model's own, and not those of an adapter of something else.
        ("", _) if is_precise => return Err(AssemblyError::NoModel),
        ("", _) => "pool",
        (model, _) => model,
    };
    let mut builder = Router::builder(name).any_adapter().handoff(Arc::new(SidecarHandoff::default()));
    if let Some(tokens) = settings.prefix_cache.block_tokens() {
        builder = builder.block_size(tokens);
    }
    if !settings.metrics.disabled {
        builder = builder.health_checked();
    }
    match tokenizer(options)? {
        Some(tokenizer) => builder = builder.tokenizer(tokenizer),
        None if is_precise => return Err(AssemblyError::NoTokenizer),
        // Whoever asks for tokens gets estimates.
        None => builder = builder.tokens_given(),
    }
    let (figures, cache, waits) =
        (Arc::clone(figures), settings.prefix_cache.clone(), translation.flow_control.is_some());
    let estimates = options.tokenizer.is_none();
    if estimates && settings.tokenizer != Tokenizer::Estimate {
        tracing::warn!(
            "prompts are not rendered by a vLLM server: tokens are estimated; name the model's tokenizer.json by --tokenizer"
        );
    }
    let session_ttl =
        settings.session_time_to_live.and_then(|time| NonZeroU32::new(time.as_secs().try_into().unwrap_or(u32::MAX)));
    builder = builder.plugin_state(move |mut state: PluginState| {
        if estimates {
            state = state.tokenizers(Arc::new(EstimateTokenizer::default()));
        }
        if let PrefixCache::Approximate { blocks_per_pod, .. } = cache {
            let blocks = PredictedBlocks::new(NonZeroUsize::new(blocks_per_pod).unwrap_or(NonZeroUsize::MIN));
            // Requests that waited are decided about one right after the other: each is to see the ones before.
            state.predicted_blocks = Arc::new(if waits { blocks } else { blocks.later(after_answer) });
        }
        if let Some(seconds) = session_ttl {
            state.sessions = Arc::new(SessionTables::new(SessionLimits::default().ttl_seconds(seconds)));
        }
        state.metrics(figures)
    });
    if let Some(text) = &translation.flow_control {
        let document: FlowDocument =
            serde_yaml_ng::from_str(text).map_err(|error| AssemblyError::FlowControl(error.to_string()))?;
        builder = builder.flow_control(move |state| document.build(state));
    }
    let workflow = translation.workflow.clone();
    let profile = move |state: &PluginState| build(&workflow, state);
    let builder = match &options.profile {
        Some(stock) => builder.profile(stock.clone()),
        None => builder.profile(named("endpoint_picker_config", profile)),
    };
    Ok(builder.build()?)
}

/// A workflow of a document of stock plugins and the picker's own.
fn build(document: &str, state: &PluginState) -> Result<Workflow, ProfileError> {
    let other = |error: &dyn fmt::Display| ProfileError::Other(error.to_string().into());
    let mut registry = Registry::new();
    pointsman::plugins::register(&mut registry, state).map_err(|error| other(&error))?;
    picker_config::register(&mut registry, state).map_err(|error| other(&error))?;
    let document = registry.read(serde_yaml_ng::Deserializer::from_str(document)).map_err(|error| other(&error))?;
    document.build(&registry).map_err(|error| other(&error))
}

fn picker_options(settings: &PickerSettings, options: &Options) -> PickerOptions {
    let data_parallel_port = match settings.profiles {
        Profiles::DataParallel { primary_port } => Some(primary_port),
        Profiles::Disaggregated { primary_port, .. } => primary_port,
        _ => None,
    };
    PickerOptions {
        pool_name: options.pool_name.clone().unwrap_or_else(|| "pool".to_owned()),
        endpoints: settings.fallbacks.max(1),
        max_body_bytes: options.max_body_bytes,
        max_buffered_bytes: options.max_buffered_bytes,
        reads_bodies: settings.parsers.first() != Some(&Parser::Passthrough),
        client_fields: client_fields(options),
        data_parallel_port,
        subsets: !options.disable_endpoint_subset_filter,
        test_selection: options.allow_test_selection,
        fairness: settings.fairness,
        saturation: settings.saturation,
        session_tokens: settings.session_tokens.clone(),
        agent_headers: settings.agent_headers.clone(),
    }
}

/// What clients may say to engines. The options were checked when they were read.
fn client_fields(options: &Options) -> ClientFields {
    let allow = |fields: ClientFields, name: &String| fields.clone().allow(name).unwrap_or(fields);
    options.allowed_client_fields.iter().fold(ClientFields::default(), allow)
}

/// The tasks that follow pods and, in a cluster, objectives and rewrites: those handles are of a feature's types.
type DiscoveryTasks = (Discovering, Option<Box<dyn Debug + Send + Sync>>);

/// What keeps the list of pods, and priorities and rules for models' names where there are some.
struct Discovered {
    priorities: Objectives,
    model_rewrites: ModelRewrites,
    synced: Synced,
    _tasks: DiscoveryTasks,
}

impl Discovered {
    /// Pods without priorities.
    fn plain((synced, discovering): (Synced, Discovering)) -> Self {
        let (priorities, model_rewrites) = (Objectives::default(), ModelRewrites::default());
        Self { priorities, model_rewrites, synced, _tasks: (discovering, None) }
    }
}

/// Follows the pods, by the one way that is named.
async fn discover(router: &Router, settings: &PickerSettings, options: &Options) -> Result<Discovered, AssemblyError> {
    let file = options.endpoints_file.clone().map(|path| EndpointsFile::new(path).watch_file(true));
    let configured = settings.discovery.as_ref().map(|file| EndpointsFile::new(&file.path).watch_file(file.watch));
    let ways = [
        !options.endpoints.is_empty(),
        file.is_some() || configured.is_some(),
        options.dns.is_some(),
        options.pool_name.is_some(),
    ];
    if ways.iter().filter(|way| **way).count() != 1 {
        return Err(AssemblyError::Discovery);
    }
    if let Some(file) = file.or(configured) {
        return Ok(Discovered::plain(follow(router, file)));
    }
    if let Some(name) = &options.dns {
        return Ok(Discovered::plain(follow(router, Dns::new(name)?)));
    }
    if let Some(pool) = &options.pool_name {
        return kubernetes(router, pool, options).await;
    }
    let pods = options.endpoints.iter().map(|endpoint| PodSpec::new(endpoint, endpoint));
    Ok(Discovered::plain(follow(router, StaticPods::new(pods))))
}

fn follow(router: &Router, discovery: impl Discovery) -> (Synced, Discovering) {
    let (synced, discovery) = Synced::of(discovery);
    let told = |error: &dyn fmt::Display| tracing::warn!(%error, "the list of pods stays as it was");
    (synced, router.spawn_discovery(discovery, told))
}

#[cfg(feature = "kube")]
async fn kubernetes(router: &Router, pool: &str, options: &Options) -> Result<Discovered, AssemblyError> {
    use crate::discovery::kubernetes::{self, InferencePoolPods, PoolVersion};

    let client = kube::Client::try_default().await.map_err(|error| AssemblyError::Kubernetes(error.to_string()))?;
    let mut pods = InferencePoolPods::new(client.clone(), &options.pool_namespace, pool);
    if let Some(group) = &options.pool_group {
        let version = PoolVersion::of_group(group);
        pods =
            pods.version(version.ok_or_else(|| AssemblyError::Kubernetes(format!("`{group}` has no InferencePool")))?);
    }
    let told = |error: &dyn fmt::Display| tracing::warn!(%error, "objectives stay as they were");
    let objectives = kubernetes::Objectives::follow(&client, &options.pool_namespace, pool, told);
    let told = |error: &dyn fmt::Display| tracing::warn!(%error, "rules for models' names stay as they were");
    let rewrites = kubernetes::Rewrites::follow(&client, &options.pool_namespace, pool, told);
    let (synced, discovering) = follow(router, pods);
    let (priorities, model_rewrites) = (objectives.priorities(), rewrites.rules());
    Ok(Discovered { priorities, model_rewrites, synced, _tasks: (discovering, Some(Box::new((objectives, rewrites)))) })
}

#[cfg(not(feature = "kube"))]
async fn kubernetes(_: &Router, _: &str, _: &Options) -> Result<Discovered, AssemblyError> {
    Err(AssemblyError::Feature { option: "--pool-name", feature: "kube" })
}

#[cfg(feature = "tokenizers")]
fn tokenizer(options: &Options) -> Result<Option<Arc<dyn PromptTokenizer>>, AssemblyError> {
    let made = options.tokenizer.as_ref().map(|file| pointsman::tokenizer_files(file, None));
    made.transpose().map_err(|error| AssemblyError::Tokenizer(error.to_string()))
}

#[cfg(not(feature = "tokenizers"))]
fn tokenizer(options: &Options) -> Result<Option<Arc<dyn PromptTokenizer>>, AssemblyError> {
    match options.tokenizer {
        Some(_) => Err(AssemblyError::Feature { option: "--tokenizer", feature: "tokenizers" }),
        None => Ok(None),
    }
}

/// How long an engine's answer may take.
const SCRAPE_TIMEOUT: Duration = Duration::from_secs(2);

/// Why there is no picker.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AssemblyError {
    /// There is no one way to the pods.
    #[error(
        "say once where the pods are: --endpoint, --endpoints-file, --dns, --pool-name, or `discovery` in the configuration"
    )]
    Discovery,
    /// Something is not in this build.
    #[error("{option} needs the feature `{feature}`: build with --features {feature}")]
    Feature {
        /// What was asked for.
        option: &'static str,
        /// What it needs.
        feature: &'static str,
    },
    /// Tokens cannot be had.
    #[error("a precise prefix cache knows blocks by their tokens: name the model's tokenizer.json by --tokenizer")]
    NoTokenizer,
    /// The model cannot be told from its adapters.
    #[error("a precise prefix cache tells the model from its adapters: name it by --model, as engines serve it")]
    NoModel,
    /// The tokenizer's files are wrong.
    #[error("the tokenizer cannot be used: {0}")]
    Tokenizer(String),
    /// Flow control's document is wrong.
    #[error("flow control cannot be used: {0}")]
    FlowControl(String),
    /// The cluster cannot be asked.
    #[error("the Kubernetes API cannot be used: {0}")]
    Kubernetes(String),
    /// Engines cannot bring their events.
    #[error("cache events cannot be taken at `{endpoint}` (`zmqEndpoint`): {error}")]
    EventsAddress {
        /// Where engines publish to.
        endpoint: String,
        /// Why nobody listens there.
        error: io::Error,
    },
    /// The configuration asks for what is not here.
    #[error("not here: {0}")]
    Unsupported(String),
    /// The name is none.
    #[error(transparent)]
    Dns(#[from] DnsNameError),
    /// The router refuses.
    #[error(transparent)]
    Router(#[from] RouterError),
}
