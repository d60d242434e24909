//! Options of llm-d's picker that change nothing here: a deployment that has them starts all the same.

/// Options that take a value, and those that are switches: Go gives switches a value by `=` alone.
const VALUED: [&str; 19] = [
    "v",
    "zap-encoder",
    "zap-log-level",
    "zap-stacktrace-level",
    "zap-time-encoding",
    "grpc-max-recv-msg-size",
    "grpc-max-send-msg-size",
    "refresh-prometheus-metrics-interval",
    "metrics-staleness-threshold",
    "total-queued-requests-metric",
    "total-running-requests-metric",
    "kv-cache-usage-percentage-metric",
    "lora-info-metric",
    "cache-info-metric",
    "tls-min-version",
    "tls-cipher-suites",
    "metrics-client-ca-file",
    "metrics-cert-dir",
    "kubeconfig",
];
const SWITCHES: [&str; 10] = [
    "zap-devel",
    "ha-enable-leader-election",
    "emit-endpoint-scores",
    "tracing",
    "health-checking",
    "enable-pprof",
    "enable-cert-reload",
    "enable-grpc-stream-metrics",
    "metrics-endpoint-auth",
    "allow-experimental-plugins",
];

/// Arguments without those that change nothing, and the names of these.
pub fn without_foreign(arguments: impl IntoIterator<Item = String>) -> (Vec<String>, Vec<String>) {
    let (mut kept, mut foreign, mut arguments) = (Vec::new(), Vec::new(), arguments.into_iter().peekable());
    while let Some(argument) = arguments.next() {
        // Go takes one dash for two.
        let named = argument.strip_prefix("--").or_else(|| argument.strip_prefix('-')).unwrap_or_default();
        let (name, has_value) = named.split_once('=').map_or((named, false), |(name, _)| (name, true));
        let is_valued = VALUED.contains(&name);
        if !is_valued && !SWITCHES.contains(&name) {
            kept.push(argument);
            continue;
        }
        foreign.push(name.to_owned());
        if is_valued && !has_value {
            arguments.next_if(|value| !value.starts_with('-'));
        }
    }
    (kept, foreign)
}

#[cfg(test)]
mod tests {
    use super::without_foreign;

    #[test]
    fn what_changes_nothing_is_left_out_with_its_value() {
        let arguments = [
            "epp",
            "--v=4",
            "--zap-encoder",
            "json",
            "-v",
            "2",
            "--tracing=false",
            "--health-checking",
            "--grpc-port",
            "1",
            "--nonsense",
        ];
        let (kept, foreign) = without_foreign(arguments.map(str::to_owned));
        assert_eq!(kept, ["epp", "--grpc-port", "1", "--nonsense"], "what nobody knows is for others to refuse");
        assert_eq!(foreign, ["v", "zap-encoder", "v", "tracing", "health-checking"]);
    }
}
