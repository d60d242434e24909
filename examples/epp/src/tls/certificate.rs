//! The server's certificate, hot-reloaded: new connections are shown the newest good one, and those that stand keep theirs.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;

use crate::followed;
use crate::picker::Picker;

/// What connections are shown. Replaced whole: a certificate is never shown with another's key.
#[derive(Debug)]
pub(crate) struct Certificate {
    current: ArcSwap<CertifiedKey>,
    /// The folder that it is of, and what was read there.
    files: Option<(PathBuf, Pair)>,
}

/// A certificate chain and its key, as the files have them.
#[derive(Clone, PartialEq, Eq)]
struct Pair {
    chain: Vec<u8>,
    key: Vec<u8>,
}

impl Certificate {
    /// That of a folder's `tls.crt` and `tls.key`; of our own making without one.
    ///
    /// # Errors
    ///
    /// When the files cannot be read or do not go together, or no certificate can be made.
    pub(crate) fn new(folder: Option<&Path>) -> Result<Self, TlsError> {
        let (key, files) = match folder {
            Some(folder) => {
                let pair = Pair::read(folder)?;
                (pair.certified()?, Some((folder.to_owned(), pair)))
            }
            None => {
                let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
                let (chain, key) = (made.cert.pem().into_bytes(), made.signing_key.serialize_pem().into_bytes());
                (Pair { chain, key }.certified()?, None)
            }
        };
        Ok(Self { current: ArcSwap::from_pointee(key), files })
    }

    /// Follows the files, if there are some. A pair that is broken changes nothing; it is logged and counted, once.
    pub(crate) async fn follow(self: Arc<Self>, picker: Arc<Picker>) {
        let Some((folder, known)) = self.files.clone() else { return };
        let read = {
            let folder = folder.clone();
            move || Pair::read(&folder)
        };
        followed::follow(known, followed::PERIOD, read, |pair| {
            let new = pair.map_err(str::to_owned).and_then(|pair| pair.certified().map_err(|error| error.to_string()));
            picker.metrics().certificate_reloaded(new.is_ok());
            match new {
                Ok(new) => {
                    self.current.store(Arc::new(new));
                    tracing::info!(folder = %folder.display(), "the certificate is a new one");
                }
                Err(error) => tracing::warn!(error, "the certificate stays as it was"),
            }
        })
        .await;
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current.load_full())
    }
}

/// Without the key.
impl fmt::Debug for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pair(..)")
    }
}

impl Pair {
    /// Both files, as they were at one time: a folder that is swapped in between would give a certificate and another's key.
    fn read(folder: &Path) -> Result<Self, TlsError> {
        let read = |name: &str| {
            let path = folder.join(name);
            std::fs::read(&path).map_err(|source| TlsError::File { path, source })
        };
        let mut chain = read(CHAIN)?;
        for _ in 0..TRIES {
            let key = read(KEY)?;
            let again = read(CHAIN)?;
            if again == chain {
                return Ok(Self { chain, key });
            }
            chain = again;
        }
        Ok(Self { chain, key: read(KEY)? })
    }

    /// What TLS shows, if both go together.
    fn certified(&self) -> Result<CertifiedKey, TlsError> {
        let wrong = |file: &'static str, error: &dyn fmt::Display| TlsError::Wrong { file, why: error.to_string() };
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&self.chain).collect();
        let chain = chain.map_err(|error| wrong(CHAIN, &error))?;
        let key = PrivateKeyDer::from_pem_slice(&self.key).map_err(|error| wrong(KEY, &error))?;
        CertifiedKey::from_der(chain, key, &ring::default_provider()).map_err(|error| wrong(CHAIN, &error))
    }
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
    /// What is in a file is not what it should be, or the key is another certificate's.
    #[error("`{file}`: {why}")]
    Wrong {
        /// Which.
        file: &'static str,
        /// Why.
        why: String,
    },
    /// The library refuses.
    #[error("TLS cannot be set up: {0}")]
    Setup(String),
    /// No certificate can be made.
    #[error("no certificate can be made: {0}")]
    Made(#[from] rcgen::Error),
}

/// Files of a Kubernetes secret of type `kubernetes.io/tls`.
const CHAIN: &str = "tls.crt";
const KEY: &str = "tls.key";
/// How often a pair is read again that changes while it is read.
const TRIES: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(chain: impl Into<Vec<u8>>, key: impl Into<Vec<u8>>) -> Pair {
        Pair { chain: chain.into(), key: key.into() }
    }

    #[test]
    fn a_pair_that_does_not_go_together_is_refused() {
        let [one, other] =
            [(), ()].map(|()| rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate"));
        let why = |pair: Pair| pair.certified().expect_err("broken").to_string();
        let key = one.signing_key.serialize_pem();
        assert!(pair(one.cert.pem(), key.clone()).certified().is_ok());
        assert!(why(pair(other.cert.pem(), key.clone())).starts_with("`tls.crt`: "), "another's key");
        assert!(why(pair("", key.clone())).starts_with("`tls.crt`: "), "no certificate");
        assert!(why(pair(one.cert.pem(), "")).starts_with("`tls.key`: "), "no key");
        assert!(why(pair(&one.cert.pem()[..200], key)).starts_with("`tls.crt`: "), "half a file");
    }
}
