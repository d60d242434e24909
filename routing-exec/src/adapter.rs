//! Adapters: common HTTP clients as transports, and tokio's clock as a timer, each behind a feature.
//!
//! A request goes where [`PodAddresses`](crate::handoff::PodAddresses) says its pod is, and nowhere else: the authority of its URI is always set from
//! there, and a pod without an address is not contacted. An address is `host:port`, or has a scheme before it
//! (`https://host:port`); without one it is `http`.

#[cfg(any(feature = "tower", feature = "hyper-util", feature = "reqwest"))]
mod address;
#[cfg(feature = "hyper-util")]
mod hyper_util;
#[cfg(feature = "reqwest")]
mod reqwest;
#[cfg(feature = "tokio")]
mod tokio;
#[cfg(feature = "tower")]
mod tower;

#[cfg(feature = "hyper-util")]
pub use self::hyper_util::HyperTransport;
#[cfg(feature = "reqwest")]
pub use self::reqwest::ReqwestTransport;
#[cfg(feature = "tokio")]
pub use self::tokio::TokioTimer;
#[cfg(feature = "tower")]
pub use self::tower::TowerTransport;
