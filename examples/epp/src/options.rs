//! Options of the program; those that llm-d's picker has are called as there.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Parser};
use pointsman::exec::ClientFields;

/// An endpoint picker for Envoy: routes by what pods hold in their caches, with llm-d's own configuration.
#[derive(Clone, Debug, Parser)]
#[command(name = "epp", version)]
#[non_exhaustive]
pub struct Options {
    /// The EndpointPickerConfig; llm-d's defaults without one.
    #[arg(long, alias = "config", value_name = "FILE", conflicts_with = "config_text")]
    pub config_file: Option<PathBuf>,
    /// The same as a text.
    #[arg(long, value_name = "YAML")]
    pub config_text: Option<String>,
    /// A stock profile of Pointsman's in place of llm-d's plugins: total_latency (with --tokenizer and --kv-events-port),
    /// approximate_prefix, least_load, …
    #[arg(long, value_name = "NAME", conflicts_with_all = ["config_file", "config_text", "translate"])]
    pub profile: Option<String>,
    /// With --profile: the port at which each pod's engine publishes its cache events (5557 with vLLM's usual settings).
    #[arg(long, value_name = "PORT", requires = "profile")]
    pub kv_events_port: Option<u16>,
    /// With --profile: the port at which it replays them.
    #[arg(long, value_name = "PORT", requires = "kv_events_port")]
    pub kv_replay_port: Option<u16>,
    /// With --profile: tokens in a block of the engines' caches.
    #[arg(long, value_name = "TOKENS", default_value_t = 16)]
    pub block_size: u32,
    /// Prints the workflow that the configuration becomes, and what there is to say about it, and ends.
    #[arg(long)]
    pub translate: bool,

    /// A pod; may be given more than once.
    #[arg(long = "endpoint", value_name = "IP:PORT")]
    pub endpoints: Vec<String>,
    /// A file of pods, as llm-d's `file-discovery` reads it; watched.
    #[arg(long, value_name = "FILE")]
    pub endpoints_file: Option<PathBuf>,
    /// A name whose addresses are pods, such as a headless service's: HOST:PORT, or several ports for ranks.
    #[arg(long, value_name = "HOST:PORT[,PORT]")]
    pub dns: Option<String>,
    /// The InferencePool whose pods are picked (needs the feature `kube`).
    #[arg(long, value_name = "NAME")]
    pub pool_name: Option<String>,
    /// Its namespace; unless given that of the variable NAMESPACE, or `default`.
    #[arg(long, value_name = "NAME", default_value_t = own_namespace())]
    pub pool_namespace: String,
    /// Its API group, unless it is to be found out.
    #[arg(long, value_name = "GROUP")]
    pub pool_group: Option<String>,

    /// llm-d's pods by label, without a pool: refused, with what to say instead.
    #[arg(long, alias = "endpoint-target-ports", hide = true, value_parser = no_selector)]
    pub endpoint_selector: Option<String>,
    /// Passes over which endpoints Envoy allows for a request.
    #[arg(long, value_name = "BOOL", default_value_t = false, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub disable_endpoint_subset_filter: bool,

    /// The model's name; other names are its LoRA adapters'. Needed where engines' events are followed.
    #[arg(long, value_name = "NAME", default_value = "")]
    pub model: String,
    /// The model's `tokenizer.json` (needs the feature `tokenizers`): a precise prefix cache wants it.
    #[arg(long, value_name = "FILE")]
    pub tokenizer: Option<PathBuf>,

    /// Where to listen.
    #[arg(long, value_name = "IP", default_value = "0.0.0.0")]
    pub listen: IpAddr,
    /// The port that Envoy connects to; 0 takes a free one.
    #[arg(long, value_name = "PORT", default_value_t = 9002)]
    pub grpc_port: u16,
    /// The port of gRPC health checks.
    #[arg(long, value_name = "PORT", default_value_t = 9003)]
    pub grpc_health_port: u16,
    /// The port of the page of metrics.
    #[arg(long, value_name = "PORT", default_value_t = 9090)]
    pub metrics_port: u16,
    /// A file with the bearer token that requests for it need; followed. Whoever reaches the port is let in without one.
    #[arg(long, value_name = "FILE")]
    pub metrics_token_file: Option<PathBuf>,
    /// TLS towards Envoy, by a certificate of its own making unless one is given.
    #[arg(long, value_name = "BOOL", default_value_t = true, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    pub secure_serving: bool,
    /// The folder of `tls.crt` and `tls.key`, which are followed.
    #[arg(long, value_name = "FOLDER")]
    pub cert_path: Option<PathBuf>,

    /// How often engines are asked for their figures.
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = duration)]
    pub refresh_metrics_interval: Duration,
    /// The longest body of a request.
    #[arg(long, value_name = "BYTES", default_value_t = 64 << 20)]
    pub max_body_bytes: usize,
    /// The bytes of all bodies together that are held until they are decided about; beyond, requests are answered 503.
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 30)]
    pub max_buffered_bytes: usize,
    /// How long it goes on serving when it stops, while it says that it is not ready any more.
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = duration)]
    pub drain_grace: Duration,
    /// How long requests under way may take when the program stops.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    pub drain_timeout: Duration,
    /// A field of bodies that is otherwise removed, since it would let clients name hosts or ranks, by its path: kv_transfer_params,
    /// vllm_xargs.kv_transfer_params, … May be given more than once.
    #[arg(long = "allow-client-field", value_name = "NAME", value_parser = client_field)]
    pub allowed_client_fields: Vec<String>,
    /// Lets requests name their endpoints in a header, as conformance tests do. Not where others can reach it.
    #[arg(long)]
    pub allow_test_selection: bool,

    /// The level of the log: error, warn, info, debug.
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    pub log_level: String,
    /// The log as JSON.
    #[arg(long)]
    pub log_json: bool,
}

fn own_namespace() -> String {
    std::env::var("NAMESPACE").ok().filter(|name| !name.is_empty()).unwrap_or_else(|| "default".to_owned())
}

fn no_selector(_: &str) -> Result<String, String> {
    Err("pods by label need an InferencePool that selects them (--pool-name); or name them by --dns, --endpoints-file or --endpoint".to_owned())
}

/// A field that is restricted; no other can be allowed.
fn client_field(name: &str) -> Result<String, String> {
    ClientFields::default().allow(name).map(|_| name.to_owned()).map_err(|error| error.to_string())
}

/// A time as Go writes it: `50ms`, `1m30s`.
fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is no time: write 50ms, 2s or 1m30s");
    let (mut total, mut rest) = (0.0, text);
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
        let number: f64 = rest[..digits].parse().map_err(|_| wrong())?;
        let unit = rest[digits..].find(|c: char| c.is_ascii_digit()).map_or(rest.len(), |at| digits + at);
        total += number
            * match &rest[digits..unit] {
                "ms" => 1e-3,
                "us" | "µs" => 1e-6,
                "s" => 1.0,
                "m" => 60.0,
                "h" => 3600.0,
                _ => return Err(wrong()),
            };
        rest = &rest[unit..];
    }
    Duration::try_from_secs_f64(total).ok().filter(|time| !time.is_zero()).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_in_go() {
        for (text, seconds) in [("50ms", 0.05), ("2s", 2.0), ("1m30s", 90.0), ("1.5h", 5400.0)] {
            assert_eq!(duration(text).unwrap().as_secs_f64(), seconds, "{text}");
        }
        for wrong in ["", "5", "s", "5 s", "5d", "-1s", "0s"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn llmds_flags_are_taken() {
        let parse = |args: &[&str]| Options::try_parse_from([&["epp"], args].concat());
        let options = parse(&[
            "--config-file=/etc/epp/config.yaml",
            "--pool-name",
            "vllm",
            "--pool-namespace=ns",
            "--grpc-port=1",
            "--secure-serving=false",
            "--refresh-metrics-interval",
            "50ms",
        ])
        .unwrap();
        assert_eq!((options.grpc_port, options.secure_serving, options.pool_name.as_deref()), (1, false, Some("vllm")));
        assert!(parse(&["--config", "a", "--secure-serving"]).unwrap().secure_serving);
        let fields =
            parse(&["--allow-client-field", "bootstrap_host", "--allow-client-field=data_parallel_rank"]).unwrap();
        assert_eq!(fields.allowed_client_fields, ["bootstrap_host", "data_parallel_rank"]);
        assert!(
            parse(&["--allow-client-field=temperature"]).unwrap_err().to_string().contains("not a restricted field")
        );
        assert!(parse(&["--disable-endpoint-subset-filter"]).unwrap().disable_endpoint_subset_filter);
        for flag in ["--endpoint-selector=app=vllm", "--endpoint-target-ports=8000"] {
            assert!(parse(&[flag]).unwrap_err().to_string().contains("--pool-name"), "{flag}");
        }
        assert!(parse(&[]).unwrap().secure_serving && parse(&["--config", "a", "--config-text", "b"]).is_err());
    }
}
