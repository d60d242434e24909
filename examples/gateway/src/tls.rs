//! TLS termination by rustls; without the feature `tls`, configuring it is an error.

use std::sync::Arc;

use tokio::net::TcpStream;

use super::config::TlsFiles;
use super::error::StartError;

#[cfg(feature = "tls")]
mod real {
    use tokio_rustls::rustls::ServerConfig;
    use tokio_rustls::rustls::crypto::ring;
    use tokio_rustls::rustls::pki_types::pem::PemObject;
    use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
    use tokio_rustls::server::TlsStream;

    use super::*;

    /// Accepts TLS connections.
    #[derive(Clone)]
    pub(crate) struct Acceptor(tokio_rustls::TlsAcceptor);

    impl Acceptor {
        /// Reads a certificate chain and its key.
        pub(crate) fn new(files: &TlsFiles) -> Result<Self, StartError> {
            let wrong = |what: &std::path::Path, error: &dyn std::fmt::Display| {
                StartError::Tls(format!("`{}`: {error}", what.display()).into())
            };
            let chain = CertificateDer::pem_file_iter(&files.certificate)
                .and_then(Iterator::collect::<Result<Vec<_>, _>>)
                .map_err(|error| wrong(&files.certificate, &error))?;
            let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|error| wrong(&files.key, &error))?;
            let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
                .with_safe_default_protocol_versions()
                .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
                .map_err(|error| wrong(&files.certificate, &error))?;
            Ok(Self(Arc::new(config).into()))
        }

        /// The handshake; none if it fails.
        pub(crate) async fn accept(&self, stream: TcpStream) -> Option<TlsStream<TcpStream>> {
            self.0.accept(stream).await.ok()
        }
    }
}

#[cfg(not(feature = "tls"))]
mod real {
    use super::*;

    /// There is none of these.
    #[derive(Clone)]
    pub(crate) enum Acceptor {}

    impl Acceptor {
        /// Says what is missing.
        pub(crate) fn new(_: &TlsFiles) -> Result<Self, StartError> {
            let _: Option<Arc<()>> = None;
            Err(StartError::Feature { setting: "tls", feature: "tls" })
        }

        /// Never called.
        pub(crate) async fn accept(&self, _: TcpStream) -> Option<TcpStream> {
            match *self {}
        }
    }
}

pub(super) use self::real::Acceptor;
