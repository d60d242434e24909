//! Connections over TLS: handshakes beside each other, so that none waits for another's.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::unfold;
use futures_util::{Stream, StreamExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::server::TlsStream;
use tonic::transport::server::TcpIncoming;

use super::{Certificate, TlsError};

/// The connections of a listener, once their handshakes are done. Those that fail are nobody's.
///
/// # Errors
///
/// When TLS cannot be set up.
pub(crate) fn over_tls(
    incoming: TcpIncoming,
    certificate: Arc<Certificate>,
) -> Result<impl Stream<Item = io::Result<TlsStream<TcpStream>>>, TlsError> {
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| TlsError::Setup(error.to_string()))?
        .with_no_client_auth()
        .with_cert_resolver(certificate);
    config.alpn_protocols = vec![b"h2".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(config));
    Ok(unfold((incoming, JoinSet::new(), acceptor), |(mut incoming, mut handshakes, acceptor)| async move {
        loop {
            tokio::select! {
                connected = incoming.next(), if handshakes.len() < MOST_HANDSHAKES => match connected? {
                    Ok(connection) => {
                        let accepting = timeout(HANDSHAKE_TIMEOUT, acceptor.accept(connection));
                        handshakes.spawn(async move { accepting.await.ok()?.ok() });
                    }
                    Err(error) => return Some((Err(error), (incoming, handshakes, acceptor))),
                },
                Some(done) = handshakes.join_next() => {
                    if let Ok(Some(connection)) = done {
                        return Some((Ok(connection), (incoming, handshakes, acceptor)));
                    }
                }
            }
        }
    }))
}

/// Handshakes under way, at most; the rest waits to be accepted.
const MOST_HANDSHAKES: usize = 1_024;
/// How long one may take.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
