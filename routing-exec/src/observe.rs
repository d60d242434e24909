//! What runs do, for those who watch a fleet: spans, counters and histograms.
//!
//! Each observer is a [`Host`](crate::Host) around another, made for one run. It changes nothing and costs nothing per chunk. Names are
//! OpenTelemetry's for generative AI where it has one.

#[cfg(feature = "metrics")]
mod metrics;
mod names;
#[cfg(feature = "tracing")]
mod tracing;

#[cfg(feature = "metrics")]
pub use self::metrics::{Counted, describe};
pub use self::names::About;
#[cfg(feature = "tracing")]
pub use self::tracing::{Traced, TracedHold};
