//! The certificate towards Envoy follows its files, as Kubernetes changes them, and no stream ends by that.
#![expect(clippy::unwrap_used, reason = "what helps a test may stop it")]

use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Parser;
use envoy_types::pb::envoy::service::ext_proc::v3::external_processor_client::ExternalProcessorClient;
use envoy_types::pb::envoy::service::ext_proc::v3::processing_request::Request;
use envoy_types::pb::envoy::service::ext_proc::v3::{HttpHeaders, ProcessingRequest};
use futures_util::stream::unfold;
use pointsman_epp::picker_config::PickerConfig;
use pointsman_epp::{Assembly, Options, Program};
use pointsman_test_support::programs;
use rcgen::{CertifiedKey, KeyPair};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint};

type Made = CertifiedKey<KeyPair>;

/// A secret as it is mounted: files are links into `..data`, which is a link to the folder in force.
struct Secret {
    folder: PathBuf,
    versions: u32,
}

impl Secret {
    fn new(made: &Made) -> Self {
        let folder = programs::temp_folder(env!("CARGO_TARGET_TMPDIR"), "secret");
        let mut secret = Self { folder, versions: 0 };
        secret.swap(&made.cert.pem(), &made.signing_key.serialize_pem());
        for name in ["tls.crt", "tls.key"] {
            symlink(Path::new("..data").join(name), secret.folder.join(name)).unwrap();
        }
        secret
    }

    fn swap(&mut self, chain: &str, key: &str) {
        self.versions += 1;
        let version = format!("..{}", self.versions);
        let data = self.folder.join(&version);
        std::fs::create_dir(&data).unwrap();
        std::fs::write(data.join("tls.crt"), chain).unwrap();
        std::fs::write(data.join("tls.key"), key).unwrap();
        let new = self.folder.join("..data_tmp");
        symlink(&version, &new).unwrap();
        std::fs::rename(&new, self.folder.join("..data")).unwrap();
    }
}

fn made() -> Made {
    rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap()
}

/// The certificate that a new connection is shown.
async fn shown(address: SocketAddr, trusted: &[&Made]) -> CertificateDer<'static> {
    let mut roots = RootCertStore::empty();
    trusted.iter().for_each(|made| roots.add(made.cert.der().clone()).unwrap());
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = config.with_safe_default_protocol_versions().unwrap().with_root_certificates(roots);
    let connector = TlsConnector::from(Arc::new(config.with_no_client_auth()));
    let stream = TcpStream::connect(address).await.unwrap();
    let stream = connector.connect("localhost".try_into().unwrap(), stream).await.unwrap();
    stream.get_ref().1.peer_certificates().unwrap()[0].clone()
}

async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let began = Instant::now();
    while !holds().await {
        assert!(began.elapsed() < Duration::from_secs(20), "never: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_pair_is_taken_over_a_broken_one_is_not_and_streams_go_on() {
    let (one, two) = (made(), made());
    let both = [&one, &two];
    let mut secret = Secret::new(&one);
    let options = Options::parse_from([
        "epp",
        "--endpoint=127.0.0.1:1",
        "--listen=127.0.0.1",
        "--grpc-port=0",
        "--grpc-health-port=0",
        "--metrics-port=0",
        "--cert-path",
        secret.folder.to_str().unwrap(),
    ]);
    let translation = PickerConfig::default().translate().unwrap();
    let program = Program::start(Assembly::start(&translation, &options).await.unwrap(), &options).await.unwrap();
    let address = program.addresses().grpc;
    assert_eq!(shown(address, &both).await, *one.cert.der());

    // A stream that is open before anything changes, of a client that trusts the first certificate alone.
    let tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(one.cert.pem())).domain_name("localhost");
    let endpoint = Endpoint::from_shared(format!("https://{address}")).unwrap().tls_config(tls).unwrap();
    let mut client = ExternalProcessorClient::new(endpoint.connect().await.unwrap());
    let (to, from) = mpsc::channel::<ProcessingRequest>(1);
    let requests = unfold(from, |mut from| async move { Some((from.recv().await?, from)) });
    let mut responses = client.process(requests).await.unwrap().into_inner();

    let reloads = || program.picker().metrics().certificate_reloads();
    secret.swap(&two.cert.pem(), &one.signing_key.serialize_pem());
    until("the broken pair is counted", async || reloads().1 == 1).await;
    assert_eq!(shown(address, &both).await, *one.cert.der(), "the old one stays");
    secret.swap(&two.cert.pem(), &two.signing_key.serialize_pem());
    until("the new pair is taken over", async || shown(address, &both).await == *two.cert.der()).await;
    assert_eq!(reloads(), (1, 1), "each of them once");

    let headers = HttpHeaders { end_of_stream: true, ..HttpHeaders::default() };
    let request = Some(Request::RequestHeaders(headers));
    to.send(ProcessingRequest { request, ..ProcessingRequest::default() }).await.unwrap();
    assert!(responses.message().await.unwrap().is_some(), "the stream goes on");
    let page = program.picker().metrics_page();
    assert!(page.contains("\npointsman_epp_certificate_reload_failures_total 1\n"), "{page}");
}
