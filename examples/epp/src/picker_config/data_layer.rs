//! Where figures of pods, the pods themselves, and requests' formats come from: settings of the picker.

use super::fields::Fields;
use super::handlers::port;
use super::parts::World;
use super::plugin_types::{Part, PluginType};
use super::schema::{PluginSpec, Reference};
use super::scorers::required;
use super::settings::{FileDiscovery, MetricsScrape, Parser};

/// Checks a plugin's parameters; whether it is one of the data layer.
pub(super) fn check(world: World<'_>, plugin: &PluginSpec) -> bool {
    let mut fields = world.parameters(plugin);
    match plugin.kind.as_str() {
        "metrics-data-source" => drop(source(&fields, MetricsScrape::default())),
        "core-metrics-extractor" => drop(extractor(&fields, MetricsScrape::default())),
        "topology-extractor" => fields.skip(&["hostname", "rack", "zone", "region"]),
        "file-discovery" => drop(file(&fields)),
        "endpoint-notification-source" => fields.skip_all(),
        kind if PluginType::find(kind).is_some_and(|kind| kind.is(Part::Parser)) => fields.skip_all(),
        _ => {
            fields.skip_all();
            return false;
        }
    }
    true
}

/// How engines are asked.
pub(super) fn metrics(world: World<'_>) -> MetricsScrape {
    let data = &world.schema.data_layer;
    for name in &data.ignored {
        world.found.warn(format!("dataLayer.{name} is not used: replicas do not tell each other what they sent"));
    }
    check_kinds(world, &data.sources, Part::Source, "a data source");
    let mut scrape = MetricsScrape::default();
    if let Some(plugin) = world.of_type("metrics-data-source").next() {
        scrape = source(&world.parameters(plugin), scrape);
    }
    if let Some(plugin) = world.of_type("core-metrics-extractor").next() {
        scrape = extractor(&world.parameters(plugin), scrape);
    }
    let is_metrics = |reference: &Reference| {
        world.schema.plugin(&reference.name).is_some_and(|one| one.kind == "metrics-data-source")
    };
    scrape.disabled = data.without_defaults && !data.sources.iter().any(is_metrics);
    scrape
}

/// The file that pods are read from.
pub(super) fn discovery(world: World<'_>) -> Option<FileDiscovery> {
    let reference = world.schema.data_layer.discovery.as_ref()?;
    check_kinds(world, std::slice::from_ref(reference), Part::Discovery, "a discovery");
    let plugin = world.schema.plugin(&reference.name).filter(|plugin| plugin.kind == "file-discovery")?;
    file(&world.parameters(plugin))
}

/// The formats of bodies, in order; a parser needs no definition.
pub(super) fn parsers(world: World<'_>) -> Vec<Parser> {
    if world.schema.parsers.is_empty() {
        return vec![Parser::OpenAi, Parser::Anthropic, Parser::VllmHttp, Parser::Passthrough];
    }
    let mut parsers = Vec::new();
    for reference in &world.schema.parsers {
        let plugin = world.schema.plugin(&reference.name);
        let kind = plugin.map_or(reference.name.as_str(), |plugin| plugin.kind.as_str());
        match kind {
            "openai-parser" => parsers.push(Parser::OpenAi),
            "anthropic-parser" => parsers.push(Parser::Anthropic),
            "vllmhttp-parser" => parsers.push(Parser::VllmHttp),
            "sglanghttp-parser" => parsers.push(Parser::SglangHttp),
            "passthrough-parser" => parsers.push(Parser::Passthrough),
            _ if plugin.is_none() => drop(world.schema.resolve(reference, world.found)),
            kind if PluginType::find(kind).is_some_and(|kind| kind.is(Part::Parser)) => {}
            kind => world.found.problem(&reference.place, format!("`{}` is a {kind}: name a parser", reference.name)),
        }
    }
    parsers
}

fn check_kinds(world: World<'_>, references: &[Reference], part: Part, what: &str) {
    for reference in references {
        let kind = world.schema.plugin(&reference.name).and_then(|plugin| PluginType::find(&plugin.kind));
        if let Some(kind) = kind.filter(|kind| !kind.is(part)) {
            world.found.problem(&reference.place, format!("`{}` is a {}: name {what}", reference.name, kind.name));
        }
    }
}

fn source(fields: &Fields<'_>, scrape: MetricsScrape) -> MetricsScrape {
    fields.skip(&["caCertPath", "clientCertPath", "clientKeyPath"]);
    MetricsScrape {
        scheme: fields.text("scheme").map_or(scrape.scheme, str::to_owned),
        path: fields.text("path").map_or(scrape.path, str::to_owned),
        port: port(fields, "port"),
        interval: fields.duration("interval"),
        insecure_skip_verify: fields.flag("insecureSkipVerify").unwrap_or(scrape.insecure_skip_verify),
        ..scrape
    }
}

fn extractor(fields: &Fields<'_>, mut scrape: MetricsScrape) -> MetricsScrape {
    if let Some(label) = fields.text("engineLabelKey") {
        label.clone_into(&mut scrape.engine_label);
    }
    let mut engines = ENGINES.map(str::to_owned).to_vec();
    for engine in fields.objects("engineConfigs") {
        engines.extend(required(&engine, "name").map(str::to_owned));
        engine.skip(&SPECS);
        for custom in engine.objects("customMetrics") {
            if let (Some(attribute), Some(spec)) = (required(&custom, "attributeKey"), required(&custom, "metricSpec"))
            {
                scrape.attributes.insert(attribute.to_owned(), spec.to_owned());
            }
        }
    }
    if let Some(engine) = fields.text("defaultEngine") {
        if !engines.iter().any(|known| known == engine) {
            fields.problem("defaultEngine", format!("found `{engine}`, expected one of {}", engines.join(", ")));
        }
        engine.clone_into(&mut scrape.default_engine);
    }
    scrape
}

fn file(fields: &Fields<'_>) -> Option<FileDiscovery> {
    let (path, watch) = (required(fields, "path"), fields.flag("watchFile").unwrap_or_default());
    Some(FileDiscovery { path: path?.into(), watch })
}

const ENGINES: [&str; 5] = ["vllm", "sglang", "trtllm-serve", "triton-tensorrt-llm", "triton"];

const SPECS: [&str; 9] = [
    "queuedRequestsSpec",
    "runningRequestsSpec",
    "kvUsageSpec",
    "loraSpec",
    "cacheInfoSpec",
    "cacheBlockSizeLabelName",
    "cacheNumBlocksLabelName",
    "cacheBlockSizeSpec",
    "cacheNumBlocksSpec",
];
