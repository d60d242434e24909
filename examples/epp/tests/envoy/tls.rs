//! Envoy speaks TLS to the program, as gateways of clusters do: it takes the picker's own certificate without verifying it.

use clap::Parser;
use pointsman_epp::picker_config::PickerConfig;
use pointsman_epp::{Assembly, Options, Program};

use crate::engines::{Load, addresses, engines};
use crate::envoy::{Cluster, Envoy, is_there};

#[tokio::test(flavor = "multi_thread")]
async fn the_program_serves_over_tls_by_llmds_defaults() {
    if !is_there() {
        return;
    }
    let pods = engines(2).await;
    let [a, b] = [0, 1].map(|pod| addresses(&pods)[pod].to_string());
    let ports = ["--listen", "127.0.0.1", "--grpc-port", "0", "--grpc-health-port", "0", "--metrics-port", "0"];
    let options = Options::parse_from([&["epp", "--endpoint", &a, "--endpoint", &b][..], &ports].concat());
    let translation = PickerConfig::default().translate().unwrap();
    let assembly = Assembly::start(&translation, &options).await.unwrap();
    let program = Program::start(assembly, &options).await.unwrap();
    let envoy = Envoy::start_with(Cluster::OriginalDst, program.addresses().grpc, &[], 0, |config| {
        let plain = "    typed_extension_protocol_options:";
        assert_eq!(config.matches(plain).count(), 1);
        let socket = "    transport_socket:\n      name: envoy.transport_sockets.tls\n      typed_config: {\"@type\": \
                      type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext}\n";
        config.replace(plain, &format!("{socket}{plain}"))
    })
    .await;
    let load = Load::start(4, envoy.clients);
    load.serves(40).await;
    let counts = load.stop().await;
    assert_eq!(counts.failed(), 0, "{counts:?}");
    let (ended, failed) = program.picker().metrics().answers();
    assert!(ended >= 40 && failed == 0, "{ended} {failed}");
    drop(envoy);
    assert!(program.drain(std::time::Duration::ZERO, std::time::Duration::from_secs(20)).await);
}
