//! TLS termination by rustls; without the feature `tls`, configuring it is an error.

use std::sync::Arc;

use tokio::net::TcpStream;

use super::config::TlsFiles;
use super::error::StartError;

#[cfg(feature = "tls")]
mod real {
    use tokio_rustls::rustls::crypto::ring;
    use tokio_rustls::rustls::pki_types::pem::PemObject;
    use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
    use tokio_rustls::rustls::server::WebPkiClientVerifier;
    use tokio_rustls::rustls::{RootCertStore, ServerConfig};
    use tokio_rustls::server::TlsStream;

    use super::*;

    /// Accepts TLS connections.
    #[derive(Clone)]
    pub(crate) struct Acceptor(tokio_rustls::TlsAcceptor);

    impl Acceptor {
        /// Reads a certificate chain and its key, and the authorities of clients' certificates if there are some.
        pub(crate) fn new(files: &TlsFiles) -> Result<Self, StartError> {
            let wrong = |what: &std::path::Path, error: &dyn std::fmt::Display| {
                StartError::Tls(format!("`{}`: {error}", what.display()).into())
            };
            let chain = CertificateDer::pem_file_iter(&files.certificate)
                .and_then(Iterator::collect::<Result<Vec<_>, _>>)
                .map_err(|error| wrong(&files.certificate, &error))?;
            let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|error| wrong(&files.key, &error))?;
            let provider = Arc::new(ring::default_provider());
            let verifier = match &files.client_ca {
                None => WebPkiClientVerifier::no_client_auth(),
                Some(path) => {
                    let roots = roots(path).map_err(|error| wrong(path, &*error))?;
                    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
                    verifier.build().map_err(|error| wrong(path, &error))?
                }
            };
            let config = ServerConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()
                .and_then(|builder| builder.with_client_cert_verifier(verifier).with_single_cert(chain, key))
                .map_err(|error| wrong(&files.certificate, &error))?;
            Ok(Self(Arc::new(config).into()))
        }

        /// The handshake; none if it fails.
        pub(crate) async fn accept(&self, stream: TcpStream) -> Option<TlsStream<TcpStream>> {
            self.0.accept(stream).await.ok()
        }
    }

    /// The authorities in a file.
    fn roots(path: &std::path::Path) -> Result<RootCertStore, Box<dyn std::error::Error>> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_file_iter(path)? {
            roots.add(certificate?)?;
        }
        if roots.is_empty() { Err("there is no certificate in it".into()) } else { Ok(roots) }
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
