//! Every sample configuration of llm-d runs: it is put together as the program does, and a request is picked a pod.

use std::path::Path;
use std::time::{Duration, Instant};

use clap::Parser;
use pointsman::PodSpec;
use pointsman_epp::picker_config::{PickerConfig, PrefixCache};
use pointsman_epp::{Assembly, AssemblyError, Options};

/// Pods of every role that samples ask for, all in one place.
fn pods() -> Vec<PodSpec> {
    let roles = ["encode", "prefill", "decode", "both"];
    let pod = |(at, role): (usize, &str)| {
        PodSpec::new(format!("default/pod-{at}"), format!("10.0.0.{at}:8000"))
            .label("llm-d.ai/role", role)
            .label("app", "vllm")
    };
    roles.into_iter().enumerate().map(pod).collect()
}

#[tokio::test]
async fn every_sample_configuration_is_put_together_and_picks() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/picker_config/llmd");
    let (mut run, mut precise) = (0, 0);
    for file in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if file.extension().is_none_or(|extension| extension != "yaml") {
            continue;
        }
        // One of them has a field that llm-d itself refuses.
        let text = std::fs::read_to_string(&file).unwrap().replace("cacheSizeInMB:", "cacheSizeInMBPerServer:");
        let translation = PickerConfig::read(&text).unwrap().translate().unwrap();
        let has_file = translation.settings.discovery.is_some();
        let where_from: &[&str] = if has_file { &["epp"] } else { &["epp", "--endpoint", "10.0.0.9:8000"] };
        let options = Options::parse_from(where_from);
        let assembly = match Assembly::start(&translation, &options).await {
            Ok(assembly) => assembly,
            Err(AssemblyError::NoTokenizer | AssemblyError::NoModel) => {
                assert!(matches!(translation.settings.prefix_cache, PrefixCache::Precise { .. }), "{}", file.display());
                precise += 1;
                continue;
            }
            Err(error) => panic!("{}: {error}", file.display()),
        };
        let router = assembly.picker.router();
        let began = Instant::now();
        // Whatever the list was, these are the pods now, and all of them are well.
        while router.pods().len() != 4 {
            let _ = router.apply(pointsman::RouterUpdate::new().pods(pods()));
            tokio::time::sleep(Duration::from_millis(5)).await;
            assert!(began.elapsed() < Duration::from_secs(20));
        }
        for pod in router.pods() {
            router.set_healthy(pod.pod, true);
        }
        let (parts, ()) = http::Request::post("/v1/chat/completions").body(()).unwrap().into_parts();
        let body = r#"{"model":"m","messages":[{"role":"user","content":"Hello there, how are you today?"}]}"#;
        let request = router.read(parts, body.into()).unwrap();
        let plan = router.prepare(request, None).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        assert!(!plan.dispatch.plan().steps().is_empty(), "{}", file.display());
        run += 1;
    }
    assert!(run >= 25 && run + precise >= 40, "{run} run, {precise} want a tokenizer");
}

#[tokio::test]
async fn a_precise_cache_that_nobody_feeds_is_refused() {
    let text = include_str!("picker_config/llmd/deploy_sim_epp_kvcache.yaml");
    let text = text.replace("zmqEndpoint: tcp://0.0.0.0:5557", "discoverPods: false");
    let translation = PickerConfig::read(&text).unwrap().translate().unwrap();
    let options = Options::parse_from(["epp", "--endpoint", "10.0.0.9:8000"]);
    let error = Assembly::start(&translation, &options).await.unwrap_err();
    assert!(matches!(&error, AssemblyError::Unsupported(why) if why.contains("zmqEndpoint")), "{error}");
}

/// Our own profiles behind Envoy, in place of llm-d's plugins.
#[tokio::test]
async fn stock_profiles_take_the_place_of_a_configuration() {
    for profile in ["total_latency", "approximate_prefix", "least_load", "programs"] {
        let options = Options::parse_from(["epp", "--endpoint", "10.0.0.9:8000", "--profile", profile]);
        let translation = PickerConfig::default().translate().unwrap();
        let assembly = Assembly::start(&translation, &options).await.unwrap();
        assert_eq!(&*assembly.picker.router().profile(), profile);
    }
}
