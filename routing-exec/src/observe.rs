//! Observability: spans by `tracing`, counters and histograms by `metrics`.
//!
//! Each observer wraps a [`DispatchHost`](crate::DispatchHost). It changes nothing and costs nothing per chunk. Names follow
//! OpenTelemetry's semantic conventions for generative AI.

#[cfg(feature = "metrics")]
mod metrics;
mod names;
#[cfg(feature = "tracing")]
mod tracing;

#[cfg(feature = "metrics")]
pub use self::metrics::{MeteredHost, RequestMeters, describe};
pub use self::names::RequestLabels;
#[cfg(feature = "tracing")]
pub use self::tracing::{TracedGuard, TracedHost};
