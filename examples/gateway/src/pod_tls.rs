//! TLS towards pods by rustls; without the feature `tls`, configuring it is an error.

use super::config::Config;
use super::error::StartError;

/// Whether a pod, or a setting, asks for TLS.
fn is_wanted(config: &Config) -> bool {
    let is_tls = |url: &str| url.starts_with("https://");
    config.pod_tls.is_some() || config.served().iter().any(|served| served.pods.iter().any(|pod| is_tls(&pod.url)))
}

#[cfg(feature = "tls")]
mod real {
    use std::io;
    use std::path::Path;
    use std::sync::Arc;

    use tokio::net::TcpStream;
    use tokio_rustls::TlsConnector;
    use tokio_rustls::rustls::crypto::ring;
    use tokio_rustls::rustls::pki_types::pem::PemObject;
    use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
    use tokio_rustls::rustls::{ClientConfig, RootCertStore};

    use super::super::config::PodTls;
    use super::*;

    /// A TLS connection to a pod.
    pub(crate) type TlsStream = tokio_rustls::client::TlsStream<TcpStream>;

    /// Makes TLS of connections to pods.
    pub(crate) struct Wrapper {
        connector: TlsConnector,
        /// The name that certificates are for, whatever the host.
        name: Option<ServerName<'static>>,
    }

    impl Wrapper {
        /// As it is configured. A pod at `https://` may join later, so there is always one.
        pub(crate) fn new(config: &Config) -> Result<Option<Self>, StartError> {
            let settings = config.pod_tls.clone().unwrap_or_default();
            let roots = roots(&settings, is_wanted(config))?;
            let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
                .with_safe_default_protocol_versions()
                .map_err(|error| StartError::PodTls(error.to_string().into()))?
                .with_root_certificates(roots);
            let mut made = match (&settings.certificate, &settings.key) {
                (Some(chain), Some(key)) => {
                    let own = PrivateKeyDer::from_pem_file(key).map_err(|error| wrong(key, &error))?;
                    builder.with_client_auth_cert(certificates(chain)?, own).map_err(|error| wrong(chain, &error))?
                }
                _ => builder.with_no_client_auth(),
            };
            made.alpn_protocols = vec![b"http/1.1".to_vec()];
            let name = settings.server_name.map(ServerName::try_from).transpose();
            let name = name.map_err(|error| StartError::PodTls(format!("server_name: {error}").into()))?;
            Ok(Some(Self { connector: TlsConnector::from(Arc::new(made)), name }))
        }

        /// The handshake with a pod at a host.
        pub(crate) async fn connect(&self, host: &str, stream: TcpStream) -> io::Result<TlsStream> {
            let own = || ServerName::try_from(host.to_owned()).map_err(io::Error::other);
            let name = self.name.clone().map_or_else(own, Ok)?;
            self.connector.connect(name, stream).await
        }
    }

    /// The certificates that are trusted.
    fn roots(settings: &PodTls, is_wanted: bool) -> Result<RootCertStore, StartError> {
        let mut roots = RootCertStore::empty();
        if let Some(path) = &settings.ca {
            for certificate in certificates(path)? {
                roots.add(certificate).map_err(|error| wrong(path, &error))?;
            }
            return Ok(roots);
        }
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if roots.is_empty() && is_wanted {
            return Err(StartError::PodTls("the system has no trusted certificates; name a file as `ca`".into()));
        }
        Ok(roots)
    }

    fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, StartError> {
        let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        match read.map_err(|error| wrong(path, &error))? {
            none if none.is_empty() => Err(wrong(path, &"there is no certificate in it")),
            some => Ok(some),
        }
    }

    fn wrong(path: &Path, error: &dyn std::fmt::Display) -> StartError {
        StartError::PodTls(format!("`{}`: {error}", path.display()).into())
    }
}

#[cfg(not(feature = "tls"))]
mod real {
    use std::io;

    use tokio::net::TcpStream;

    use super::*;

    /// There is none of these.
    pub(crate) type TlsStream = TcpStream;

    /// There is none of these.
    pub(crate) enum Wrapper {}

    impl Wrapper {
        /// Says what is missing, where it is wanted.
        pub(crate) fn new(config: &Config) -> Result<Option<Self>, StartError> {
            match is_wanted(config) {
                true => Err(StartError::Feature { setting: "pods at https://", feature: "tls" }),
                false => Ok(None),
            }
        }

        /// Never called.
        pub(crate) async fn connect(&self, _: &str, _: TcpStream) -> io::Result<TlsStream> {
            match *self {}
        }
    }
}

pub(super) use self::real::{TlsStream, Wrapper};
