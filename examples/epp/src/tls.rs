//! TLS towards Envoy: a certificate that is given, or one of our own making, which proxies take without verifying it.

use std::path::{Path, PathBuf};

use tonic::transport::{Identity, ServerTlsConfig};

/// The TLS of a server.
///
/// # Errors
///
/// When the files cannot be read, or no certificate can be made.
pub fn server_tls(folder: Option<&Path>) -> Result<ServerTlsConfig, TlsError> {
    let identity = match folder {
        Some(folder) => {
            let read = |name: &str| {
                let path = folder.join(name);
                std::fs::read(&path).map_err(|source| TlsError::File { path, source })
            };
            Identity::from_pem(read("tls.crt")?, read("tls.key")?)
        }
        None => {
            let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
            Identity::from_pem(made.cert.pem(), made.signing_key.serialize_pem())
        }
    };
    Ok(ServerTlsConfig::new().identity(identity))
}

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read.
    #[error("`{}`: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// No certificate can be made.
    #[error("no certificate can be made: {0}")]
    Made(#[from] rcgen::Error),
}
