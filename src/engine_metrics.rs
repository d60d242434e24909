//! Engine load from vLLM's and SGLang's metrics in the Prometheus text format.

use std::collections::BTreeMap;

use routing_core::Load;

/// The load in a metrics text; none if it has none of the metrics. SGLang has them if it was started with `--enable-metrics`.
///
/// An engine with several ranks has several samples: requests are summed, and the fullest cache counts. SGLang's tensor-parallel
/// ranks all count the same requests, so these are summed over data-parallel ranks alone.
///
/// Tokens are those that requests hold in the cache: SGLang tells them, and of vLLM's they are the share that is used of all
/// blocks.
pub fn engine_load(text: &str) -> Option<Load> {
    let (mut load, mut found) = (Load::default(), false);
    let (mut running, mut waiting, mut tokens) = (PerRank::default(), PerRank::default(), PerRank::default());
    let mut caches: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for line in text.lines() {
        let Some((name, value)) = sample(line) else { continue };
        match name {
            "vllm:num_requests_running" => load.running = load.running.saturating_add(value as u32),
            "vllm:num_requests_waiting" => load.waiting = load.waiting.saturating_add(value as u32),
            // The second is what releases before 0.10 call it.
            "vllm:kv_cache_usage_perc" | "vllm:gpu_cache_usage_perc" => {
                load.kv_used = load.kv_used.max(value as f32);
                caches.entry(label(line, "engine").unwrap_or_default()).or_default().0 = value;
            }
            "vllm:cache_config_info" => {
                let number =
                    |name| label(line, name).and_then(|number| number.parse::<u32>().ok()).map_or(0.0, f64::from);
                caches.entry(label(line, "engine").unwrap_or_default()).or_default().1 =
                    number("num_gpu_blocks") * number("block_size");
                // It is no load.
                continue;
            }
            "sglang:num_running_reqs" => running.count(line, value),
            "sglang:num_queue_reqs" => waiting.count(line, value),
            "sglang:num_used_tokens" => tokens.count(line, value),
            "sglang:token_usage" => load.kv_used = load.kv_used.max(value as f32),
            _ => continue,
        }
        found = true;
    }
    load.running = load.running.saturating_add(running.sum());
    load.waiting = load.waiting.saturating_add(waiting.sum());
    load.tokens = u64::from(tokens.sum());
    let used = |(share, tokens): &(f64, f64)| (share.clamp(0.0, 1.0) * tokens) as u64;
    load.tokens = caches.values().map(used).fold(load.tokens, u64::saturating_add);
    found.then_some(load)
}

/// Tokens that the cache has room for, by a metrics text of vLLM or SGLang; of all ranks together.
pub fn engine_cache(text: &str) -> Option<u64> {
    let mut ranks: BTreeMap<&str, u64> = BTreeMap::new();
    for line in text.lines() {
        let Some((name, value)) = sample(line) else { continue };
        let number = |name| label(line, name).and_then(|number| number.parse::<u64>().ok()).unwrap_or(0);
        let (rank, tokens) = match name {
            "vllm:cache_config_info" => ("engine", number("num_gpu_blocks").saturating_mul(number("block_size"))),
            "sglang:max_total_num_tokens" => ("dp_rank", value as u64),
            _ => continue,
        };
        ranks.insert(label(line, rank).unwrap_or_default(), tokens);
    }
    Some(ranks.values().fold(0, |sum: u64, tokens| sum.saturating_add(*tokens))).filter(|tokens| *tokens > 0)
}

/// LoRA adapters as an engine tells of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EngineAdapters {
    /// Those that its requests run with.
    pub running: Vec<String>,
    /// Those that its requests wait for.
    pub waiting: Vec<String>,
    /// How many it has room for.
    pub slots: Option<u16>,
}

/// The adapters in a metrics text of vLLM, which tells of them once requests name some; the newest of several samples counts.
pub fn engine_adapters(text: &str) -> Option<EngineAdapters> {
    let samples = text.lines().filter_map(|line| Some((line, sample(line)?)));
    let of_adapters = samples.filter(|(_, (name, _))| *name == "vllm:lora_requests_info");
    let (line, _) = of_adapters.max_by(|a, b| a.1.1.total_cmp(&b.1.1))?;
    let names = |name| {
        let list = label(line, name).unwrap_or_default();
        list.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect()
    };
    let slots = label(line, "max_lora").and_then(|slots| slots.parse().ok());
    Some(EngineAdapters { running: names("running_lora_adapters"), waiting: names("waiting_lora_adapters"), slots })
}

/// Requests by SGLang's data-parallel rank.
#[derive(Default)]
struct PerRank<'t>(BTreeMap<&'t str, u32>);

impl<'t> PerRank<'t> {
    fn count(&mut self, line: &'t str, value: f64) {
        // Not summed within a rank: with priorities there is a sample for each, beside the one of all, which is the largest.
        let rank = self.0.entry(label(line, "dp_rank").unwrap_or_default()).or_default();
        *rank = (*rank).max(value as u32);
    }

    fn sum(&self) -> u32 {
        self.0.values().fold(0, |sum, requests| sum.saturating_add(*requests))
    }
}

/// The value of a sample's label.
fn label<'t>(line: &'t str, name: &str) -> Option<&'t str> {
    let labels = &line[line.find('{')?..line.rfind('}')?];
    let starts = |(at, _): &(usize, &str)| labels[..*at].ends_with(['{', ',']);
    let (at, _) =
        labels.match_indices(name).filter(starts).find(|(at, _)| labels[at + name.len()..].starts_with("=\""))?;
    let value = &labels[at + name.len() + 2..];
    value.find('"').map(|end| &value[..end])
}

/// The name and the value of a line, if it is a sample of a number.
fn sample(line: &str) -> Option<(&str, f64)> {
    let name = &line[..line.find(['{', ' '])?];
    if name.starts_with('#') {
        return None;
    }
    // Values of labels may have blanks and braces; what follows the last brace has neither.
    let rest = line.rfind('}').map_or(&line[name.len()..], |end| &line[end + 1..]);
    let value: f64 = rest.split_ascii_whitespace().next()?.parse().ok()?;
    value.is_finite().then_some((name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vllms_figures_are_read() {
        let text = "# HELP vllm:num_requests_running Number of requests\n# TYPE vllm:num_requests_running gauge\n\
            vllm:num_requests_running{engine=\"0\",model_name=\"a } b\"} 3.0\n\
            vllm:num_requests_running{engine=\"1\"} 2\nvllm:num_requests_waiting 4.0 1700000000\n\
            vllm:kv_cache_usage_perc{engine=\"0\"} 0.25\nvllm:kv_cache_usage_perc{engine=\"1\"} 0.5\n\
            vllm:prompt_tokens_total 9\n";
        assert_eq!(engine_load(text), Some(Load { running: 5, waiting: 4, tokens: 0, kv_used: 0.5 }));
        let caches = "vllm:cache_config_info{block_size=\"16\",cache_dtype=\"auto\",engine=\"0\",num_gpu_blocks=\"1000\"} 1.0\n\
            vllm:cache_config_info{block_size=\"16\",engine=\"1\",num_gpu_blocks=\"None\"} 1.0\n";
        assert_eq!(
            engine_load(&format!("{caches}{text}")).unwrap().tokens,
            4000,
            "a quarter of the first, and the second is not told"
        );
        assert_eq!(engine_load(caches), None);
        assert_eq!((engine_cache(caches), engine_cache(text)), (Some(16_000), None));
        let sglang = "sglang:max_total_num_tokens{dp_rank=\"0\",tp_rank=\"0\"} 500\nsglang:max_total_num_tokens{dp_rank=\"0\",tp_rank=\"1\"} 500\n\
            sglang:max_total_num_tokens{dp_rank=\"1\"} 400";
        assert_eq!(engine_cache(sglang), Some(900), "tensor-parallel ranks share one");
        assert_eq!(engine_load("vllm:gpu_cache_usage_perc 0.75"), Some(Load { kv_used: 0.75, ..Load::default() }));
    }

    #[test]
    fn sglangs_figures_are_read_and_no_request_counts_twice() {
        let text = "# TYPE sglang:num_running_reqs gauge\n\
            sglang:num_running_reqs{engine_type=\"unified\",model_name=\"m\",tp_rank=\"0\",pp_rank=\"0\"} 3.0\n\
            sglang:num_queue_reqs{model_name=\"m\"} 4.0\nsglang:token_usage{model_name=\"m\"} 0.28\n\
            sglang:num_running_reqs_total 9\nsglang:cache_hit_rate{model_name=\"m\"} 0.5\n";
        let load = engine_load(text).unwrap();
        assert_eq!((load.running, load.waiting, load.kv_used), (3, 4, 0.28));
        assert_eq!(
            engine_load("sglang:num_used_tokens{tp_rank=\"0\"} 70\nsglang:num_used_tokens{tp_rank=\"1\"} 70")
                .unwrap()
                .tokens,
            70
        );
        let ranks = "sglang:num_running_reqs{tp_rank=\"0\",dp_rank=\"0\"} 3\nsglang:num_running_reqs{tp_rank=\"1\",dp_rank=\"0\"} 3\n\
            sglang:num_running_reqs{dp_rank=\"1\"} 2\nsglang:token_usage{dp_rank=\"0\"} 0.5\nsglang:token_usage{dp_rank=\"1\"} 0.25\n";
        let load = engine_load(ranks).unwrap();
        assert_eq!((load.running, load.kv_used), (5, 0.5));
        let priorities = "sglang:num_queue_reqs{priority=\"\"} 5\nsglang:num_queue_reqs{priority=\"0\"} 1\n\
            sglang:num_queue_reqs{priority=\"9\"} 4\n";
        assert_eq!(engine_load(priorities).unwrap().waiting, 5);
        assert_eq!(engine_load("sglang:num_running_reqs{} 1.0").unwrap().running, 1);
    }

    #[test]
    fn adapters_are_those_of_the_newest_sample() {
        let text = "vllm:lora_requests_info{max_lora=\"4\",running_lora_adapters=\"old\",waiting_lora_adapters=\"\"} 1.7e9\n\
            vllm:lora_requests_info{max_lora=\"4\",running_lora_adapters=\"a, b\",waiting_lora_adapters=\"c\"} 1.8e9\n";
        let adapters = engine_adapters(text).unwrap();
        assert_eq!(
            (adapters.running, adapters.waiting, adapters.slots),
            (vec!["a".into(), "b".into()], vec!["c".into()], Some(4))
        );
        assert_eq!(engine_adapters("vllm:num_requests_running 1"), None);
    }

    #[test]
    fn other_texts_have_no_load() {
        for text in [
            "",
            "a b\n{",
            "vllm:num_requests_running NaN",
            "vllm:num_requests_running",
            "<html>",
            "sglang:num_running_reqs NaN",
            "sglang:x 1",
        ] {
            assert_eq!(engine_load(text), None, "{text}");
        }
    }
}
