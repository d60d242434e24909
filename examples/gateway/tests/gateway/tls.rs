//! TLS in front of clients, and of the internal listener.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use kv_index::{BlockHash, BlockSize, EventSemantics, Parent, Tier};
use pointsman_gateway::config::{Events, TlsFiles};
use pointsman_gateway::{Config, Gateway};
use pointsman_reporter::MessageSink;
use pointsman_reporter::http::HttpSink;
use pointsman_reporter::tls::Tls;
use pointsman_reporter::wire::{AckStatus, Change, EventBatch, HashScheme, Message};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::fixture::{CHAT, FakePod, Script, WHOLE, config, within};

/// A folder with certificates; removed in the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("pointsman-tls-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// A certificate of its own signature, for `localhost`.
    fn certificate(&self, name: &str) -> TlsFiles {
        let names = ["gateway.test".to_owned(), "localhost".to_owned()];
        let certified = rcgen::generate_simple_self_signed(names).unwrap();
        let certificate = self.write(&format!("{name}.pem"), &certified.cert.pem());
        TlsFiles::new(certificate, self.write(&format!("{name}.key"), &certified.signing_key.serialize_pem()))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What is answered over TLS; none where the handshake fails.
async fn ask(address: SocketAddr, trusted: &Path, request: &str) -> Option<String> {
    use tokio_rustls::rustls::pki_types::CertificateDer;
    use tokio_rustls::rustls::pki_types::pem::PemObject;

    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(trusted).unwrap()).unwrap();
    let trust = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("gateway.test").unwrap();
    let mut stream = within("keys", TlsConnector::from(Arc::new(trust)).connect(name, stream)).await.ok()?;
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = Vec::new();
    within("an answer", stream.read_to_end(&mut answer)).await.ok()?;
    Some(String::from_utf8(answer).unwrap())
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: gateway.test\r\nconnection: close\r\n\r\n")
}

/// Whether it answers plain HTTP.
async fn speaks_plain(address: SocketAddr) -> bool {
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    stream.write_all(get("/livez").as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let _ = within("an end", stream.read_to_end(&mut answer)).await;
    answer.starts_with(b"HTTP/1.1 200")
}

/// Pushed events, and an internal listener.
fn internal(pod: &FakePod, tls: &TlsFiles) -> Config {
    let mut config = config(&[pod]);
    config.pods[0].events = Events::Pushed;
    config.internal.listen = Some(([127, 0, 0, 1], 0).into());
    config.internal.token = Some("secret".to_owned());
    config.tls = Some(tls.clone());
    config
}

fn batch() -> Message {
    let changes = vec![Change::Stored { parent: Parent::Root, blocks: vec![BlockHash::new(1)], tier: Tier::Gpu }];
    let hashing = HashScheme::native("sim", BlockSize::new(16).unwrap());
    let source = EventSemantics::Copies;
    Message::Batch(EventBatch { pod: "a".into(), incarnation: 1, sequence: 0, hashing, source, changes })
}

async fn push(gateway: &Gateway, tls: &Tls) -> Result<AckStatus, pointsman_reporter::SinkError> {
    let base = format!("https://localhost:{}", gateway.internal_address().unwrap().port());
    HttpSink::with_tls(&base, "secret", tls).unwrap().send(&batch()).await.map(|ack| ack.status)
}

#[tokio::test]
async fn clients_are_served_over_tls() {
    let folder = Folder::new("clients");
    let files = folder.certificate("server");
    let pod = FakePod::start("a", Script::Whole(WHOLE)).await;
    let mut config = config(&[&pod]);
    config.tls = Some(files.clone());
    let gateway = Gateway::start(config).await.unwrap();
    let request = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: gateway.test\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{CHAT}",
        CHAT.len()
    );
    let answer = ask(gateway.address(), &files.certificate, &request).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with(WHOLE), "{answer}");
    gateway.drain(Duration::ZERO).await;
}

#[tokio::test]
async fn the_internal_listener_has_tls_where_clients_have_and_reporters_push_over_it() {
    let folder = Folder::new("internal");
    let (public, own) = (folder.certificate("public"), folder.certificate("own"));
    let pod = FakePod::start("a", Script::Whole(WHOLE)).await;

    let gateway = Gateway::start(internal(&pod, &public)).await.unwrap();
    let address = gateway.internal_address().unwrap();
    assert!(!speaks_plain(address).await, "no token in clear");
    assert!(ask(address, &public.certificate, &get("/readyz")).await.unwrap().starts_with("HTTP/1.1 200"));
    assert_eq!(push(&gateway, &Tls::new(&public.certificate).unwrap()).await, Ok(AckStatus::Applied));
    push(&gateway, &Tls::new(&own.certificate).unwrap()).await.expect_err("it is not the one that is trusted");
    gateway.drain(Duration::ZERO).await;

    let mut with_own = internal(&pod, &public);
    with_own.internal.tls = Some(own.clone());
    let gateway = Gateway::start(with_own).await.unwrap();
    assert_eq!(push(&gateway, &Tls::new(&own.certificate).unwrap()).await, Ok(AckStatus::Applied));
    assert!(ask(gateway.address(), &public.certificate, &get("/livez")).await.is_some(), "clients have theirs");
    gateway.drain(Duration::ZERO).await;

    let mut plain = internal(&pod, &public);
    plain.internal.plain = true;
    let gateway = Gateway::start(plain).await.unwrap();
    assert!(speaks_plain(gateway.internal_address().unwrap()).await && !speaks_plain(gateway.address()).await);
    let base = format!("http://{}", gateway.internal_address().unwrap());
    assert!(HttpSink::with_tls(&base, "secret", &Tls::new(&public.certificate).unwrap()).is_err());
    assert_eq!(HttpSink::new(&base, "secret").unwrap().send(&batch()).await.unwrap().status, AckStatus::Applied);
    gateway.drain(Duration::ZERO).await;
}

#[tokio::test]
async fn where_client_certificates_are_asked_for_nobody_comes_in_without_one() {
    let folder = Folder::new("mutual");
    let server = folder.certificate("server");
    // An authority, a worker that it knows, and one that it does not.
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let ca = folder.write("ca.pem", &params.self_signed(&key).unwrap().pem());
    let issuer = rcgen::Issuer::new(params, key);
    let worker_key = rcgen::KeyPair::generate().unwrap();
    let worker = rcgen::CertificateParams::new(vec!["worker".to_owned()]).unwrap();
    let worker = folder.write("worker.pem", &worker.signed_by(&worker_key, &issuer).unwrap().pem());
    let worker_key = folder.write("worker.key", &worker_key.serialize_pem());
    let stranger = folder.certificate("stranger");

    let pod = FakePod::start("a", Script::Whole(WHOLE)).await;
    let mut config = internal(&pod, &server);
    config.internal.tls = Some(server.clone().client_ca(&ca));
    let gateway = Gateway::start(config).await.unwrap();
    let known = Tls::with_certificate(&server.certificate, &worker, &worker_key).unwrap();
    assert_eq!(push(&gateway, &known).await, Ok(AckStatus::Applied));
    let unknown = Tls::with_certificate(&server.certificate, &stranger.certificate, &stranger.key).unwrap();
    push(&gateway, &unknown).await.expect_err("another authority's");
    push(&gateway, &Tls::new(&server.certificate).unwrap()).await.expect_err("none");
    assert!(ask(gateway.address(), &server.certificate, &get("/livez")).await.is_some(), "clients need none");
    gateway.drain(Duration::ZERO).await;

    let mut config = internal(&pod, &server);
    config.tls = Some(server.clone().client_ca(folder.write("empty.pem", "")));
    let error = Gateway::start(config).await.unwrap_err().to_string();
    assert!(error.contains("empty.pem") && error.contains("no certificate"), "{error}");
}
