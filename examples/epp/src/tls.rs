//! TLS towards Envoy: a certificate that is given, and followed, or one of our own making, which proxies take without verifying it.

mod certificate;
mod connections;

pub(crate) use certificate::Certificate;
pub use certificate::TlsError;
pub(crate) use connections::over_tls;
