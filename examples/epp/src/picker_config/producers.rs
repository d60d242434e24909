//! llm-d's other producers: tokens, loads, latencies and sessions.

use std::time::Duration;

use super::fields::Fields;
use super::parts::World;
use super::schema::PluginSpec;
use super::sessions;
use super::settings::Tokenizer;

/// Checks a producer's parameters; whether it is one.
pub(super) fn check(world: World<'_>, plugin: &PluginSpec) -> bool {
    let mut fields = world.parameters(plugin);
    match plugin.kind.as_str() {
        "token-producer" | "tokenizer" => drop(read_tokenizer(&fields)),
        "session-id-producer" => sessions::check_producer(&fields),
        "agent-identity" => drop(fields.texts("additionalSessionHeaders")),
        "inflight-load-producer" => in_flight(&fields),
        "predicted-latency-producer" => {
            fields.skip(&LATENCY);
            world.found.warn(
                "predicted-latency-producer: times to first tokens are predicted by prefill throughput; there is no trained predictor",
            );
        }
        _ => {
            fields.skip_all();
            return false;
        }
    }
    true
}

/// Who makes tokens of prompts.
pub(super) fn tokenizer(world: World<'_>) -> Tokenizer {
    let plugin = ["token-producer", "tokenizer"].into_iter().find_map(|kind| world.of_type(kind).next());
    plugin.map(|plugin| read_tokenizer(&world.parameters(plugin))).unwrap_or_default()
}

fn read_tokenizer(fields: &Fields<'_>) -> Tokenizer {
    let (estimate, vllm) = (fields.fields("estimate"), fields.fields("vllm"));
    let model = fields.text("modelName");
    if fields.get("udsTokenizerConfig").is_some() {
        fields.problem("udsTokenizerConfig", "tokenizers behind a socket are not asked here: give `vllm` instead");
    }
    let is_estimate = estimate.is_some();
    if let Some(mut estimate) = estimate {
        // Images and videos are counted by their bytes here.
        estimate.skip(&["image", "video"]);
        if vllm.is_some() || model.is_some() {
            fields.problem("estimate", "there is `vllm` or `modelName` too: remove one of them");
        }
        estimate.skip_all();
    }
    if is_estimate || vllm.is_none() && model.is_none() {
        return Tokenizer::Estimate;
    }
    if model.is_none() {
        fields.problem("modelName", "it is missing: give the model whose prompts are rendered");
    }
    let text = |name| vllm.as_ref().and_then(|vllm| vllm.text(name));
    let timeout = vllm.as_ref().and_then(|vllm| vllm.duration("timeout")).unwrap_or(Duration::from_secs(5));
    let url = text("url").unwrap_or("http://localhost:8000").trim_end_matches('/').to_owned();
    if let Some(vllm) = &vllm {
        vllm.duration("mmTimeout");
    }
    Tokenizer::Vllm { url, model: model.unwrap_or_default().to_owned(), timeout }
}

/// What is in flight is counted by the router; answers are estimated there.
fn in_flight(fields: &Fields<'_>) {
    fields.skip(&["addEstimatedOutputTokens", "prefixMatchInfoProducerName", "syncCrossReplicaState"]);
    for name in ["outputRatio", "maxEstimatedOutputTokens"] {
        if fields.number(name).is_some_and(|number| number < 0.0) {
            fields.problem(name, "expected a number from 0 on");
        }
    }
}

const LATENCY: [&str; 10] = [
    "samplingMean",
    "maxDecodeTokenSamplesForPrediction",
    "sloBufferFactor",
    "contextTTL",
    "streamingMode",
    "endpointRoleLabel",
    "predictInProduce",
    "prefixMatchInfoProducerName",
    "inFlightLoadProducerName",
    "useEncoderCacheFeatures",
];
