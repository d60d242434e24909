//! TLS towards pods: certificates that are trusted, and the gateway's own.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::{get, post};
use http::StatusCode;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use pointsman_gateway::config::{PodSettings, PodTls};
use pointsman_gateway::{Config, Gateway};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

use super::fixture::{Client, WHOLE, until};

/// An authority, and what it signed for a pod and for the gateway, as files.
struct Files {
    folder: PathBuf,
    authority: CertifiedIssuer<'static, KeyPair>,
}

impl Files {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("pointsman-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        std::fs::write(folder.join("ca.pem"), authority.pem()).unwrap();
        Self { folder, authority }
    }

    fn path(&self, name: &str) -> Option<PathBuf> {
        Some(self.folder.join(name))
    }

    /// A certificate for a name, and its key.
    fn sign(&self, name: &str) -> (rcgen::Certificate, KeyPair) {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new([name.to_owned()]).unwrap().signed_by(&key, &self.authority).unwrap();
        (certificate, key)
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A pod that wants a certificate of whoever connects.
async fn pod(files: &Files, name: &str) -> PodSettings {
    let (certificate, key) = files.sign(name);
    let mut roots = RootCertStore::empty();
    roots.add(files.authority.der().clone()).unwrap();
    let provider = Arc::new(ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider)).build().unwrap();
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier)
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let routes = Router::new()
        .route("/v1/chat/completions", post(async || WHOLE))
        .route("/health", get(async || StatusCode::OK))
        .route("/metrics", get(async || "vllm:num_requests_running 0\nvllm:num_requests_waiting 7\n"));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, service) = (acceptor.clone(), TowerToHyperService::new(routes.clone()));
            tokio::spawn(async move {
                if let Ok(stream) = acceptor.accept(stream).await {
                    let _ = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                }
            });
        }
    });
    PodSettings::new("t", &format!("https://localhost:{}", address.port()))
}

fn settings(files: &Files) -> PodTls {
    let (certificate, key) = files.sign("gateway.test");
    std::fs::write(files.folder.join("gateway.pem"), certificate.pem()).unwrap();
    std::fs::write(files.folder.join("gateway.key"), key.serialize_pem()).unwrap();
    let mut tls = PodTls::default();
    (tls.ca, tls.certificate, tls.key) = (files.path("ca.pem"), files.path("gateway.pem"), files.path("gateway.key"));
    tls
}

async fn start(pod: PodSettings, tls: PodTls) -> (Gateway, Client) {
    let mut config = Config::default_for(vec![pod]);
    config.health_check.interval = Duration::from_millis(50);
    config.pod_tls = Some(tls);
    let gateway = Gateway::start(config).await.unwrap();
    let client = Client::new(gateway.address());
    (gateway, client)
}

#[tokio::test]
async fn pods_are_reached_over_tls_with_a_certificate_of_the_gateways_own() {
    let files = Files::new("pod-tls");
    let (gateway, client) = start(pod(&files, "localhost").await, settings(&files)).await;
    let answer = client.chat().await;
    assert_eq!((answer.status, answer.text()), (200, WHOLE));
    until("the engine's load", || gateway.state().pods[0].waiting == 7).await;
    gateway.drain(Duration::ZERO).await;
}

#[tokio::test]
async fn a_pod_that_is_not_trusted_is_not_sent_anything() {
    let (files, others) = (Files::new("pod-tls-a"), Files::new("pod-tls-b"));
    let mut by_others = settings(&files);
    by_others.ca = others.path("ca.pem");
    let mut nameless = settings(&files);
    (nameless.certificate, nameless.key) = (None, None);
    for (name, tls) in [("localhost", by_others), ("other.test", settings(&files)), ("localhost", nameless)] {
        let (gateway, client) = start(pod(&files, name).await, tls).await;
        assert_eq!((client.chat().await.status, gateway.state().pods[0].healthy), (503, false), "{name}");
        gateway.drain(Duration::ZERO).await;
    }
    // With the name that the certificate is for, it is.
    let mut named = settings(&files);
    named.server_name = Some("other.test".to_owned());
    let (gateway, client) = start(pod(&files, "other.test").await, named).await;
    assert_eq!(client.chat().await.status, 200);
    gateway.drain(Duration::ZERO).await;
}

#[tokio::test]
async fn files_that_cannot_be_used_are_told_at_the_start() {
    let files = Files::new("pod-tls-wrong");
    std::fs::write(files.folder.join("empty.pem"), "").unwrap();
    for name in ["none.pem", "empty.pem"] {
        let mut config = Config::default_for(vec![PodSettings::new("t", "https://localhost:1")]);
        let mut tls = PodTls::default();
        tls.ca = files.path(name);
        config.pod_tls = Some(tls);
        let error = Gateway::start(config).await.map(drop).unwrap_err().to_string();
        assert!(error.starts_with("pod_tls: ") && error.contains(name), "{error}");
    }
}
