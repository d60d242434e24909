//! TLS in front of clients.

use std::sync::Arc;
use std::time::Duration;

use pointsman_gateway::Gateway;
use pointsman_gateway::config::TlsFiles;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::fixture::{CHAT, FakePod, Script, WHOLE, config, within};

#[tokio::test]
async fn clients_are_served_over_tls() {
    let certified = rcgen::generate_simple_self_signed(["gateway.test".to_owned()]).unwrap();
    let folder = std::env::temp_dir().join(format!("pointsman-tls-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let files = TlsFiles { certificate: folder.join("server.pem"), key: folder.join("server.key") };
    std::fs::write(&files.certificate, certified.cert.pem()).unwrap();
    std::fs::write(&files.key, certified.signing_key.serialize_pem()).unwrap();
    let pod = FakePod::start("a", Script::Whole(WHOLE)).await;
    let mut config = config(&[&pod]);
    config.tls = Some(files);
    let gateway = Gateway::start(config).await.unwrap();

    let mut roots = RootCertStore::empty();
    roots.add(certified.cert.der().clone()).unwrap();
    let trust = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = tokio::net::TcpStream::connect(gateway.address()).await.unwrap();
    let name = ServerName::try_from("gateway.test").unwrap();
    let mut stream = within("keys", TlsConnector::from(Arc::new(trust)).connect(name, stream)).await.unwrap();
    let request = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: gateway.test\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{CHAT}",
        CHAT.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    within("an answer", stream.read_to_end(&mut answer)).await.unwrap();
    let answer = String::from_utf8(answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with(WHOLE), "{answer}");
    gateway.drain(Duration::ZERO).await;
    std::fs::remove_dir_all(folder).unwrap();
}
