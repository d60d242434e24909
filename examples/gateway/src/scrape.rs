//! Engine load from vLLM's metrics in the Prometheus text format.

use routing_core::Load;

/// The load in a metrics text; none if it has none of the metrics.
///
/// An engine with several ranks has several samples: requests are summed, and the fullest cache counts.
pub(super) fn load(text: &str) -> Option<Load> {
    let (mut load, mut found) = (Load::default(), false);
    for line in text.lines() {
        let Some((name, value)) = sample(line) else { continue };
        match name {
            "vllm:num_requests_running" => load.running = load.running.saturating_add(value as u32),
            "vllm:num_requests_waiting" => load.waiting = load.waiting.saturating_add(value as u32),
            // The second is what releases before 0.10 call it.
            "vllm:kv_cache_usage_perc" | "vllm:gpu_cache_usage_perc" => load.kv_used = load.kv_used.max(value as f32),
            _ => continue,
        }
        found = true;
    }
    found.then_some(load)
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
        assert_eq!(load(text), Some(Load { running: 5, waiting: 4, tokens: 0, kv_used: 0.5 }));
        assert_eq!(load("vllm:gpu_cache_usage_perc 0.75"), Some(Load { kv_used: 0.75, ..Load::default() }));
    }

    #[test]
    fn other_texts_have_no_load() {
        for text in ["", "a b\n{", "vllm:num_requests_running NaN", "vllm:num_requests_running", "<html>"] {
            assert_eq!(load(text), None, "{text}");
        }
    }
}
