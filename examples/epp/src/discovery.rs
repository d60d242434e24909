//! Pod discovery: the lists of pods that clusters keep, each as a [`pointsman::Discovery`].
//!
//! - [`EndpointsFile`]: the file of llm-d's `file-discovery` plugin.
//! - [`Dns`]: the addresses of a headless service, with a port or several.
//! - `kubernetes` (with the feature `kube`): an `InferencePool` and the pods that it selects.
//!
//! A source that fails says so and is asked again; the pods stay as they were. [`Synced`] tells whether a first list came.

mod dns;
mod endpoints_file;
#[cfg(feature = "kube")]
pub mod kubernetes;
mod role_label;
mod synced;

pub use dns::{Dns, DnsNameError};
pub use endpoints_file::{EndpointsFile, EndpointsFileError, EntryError};
pub use role_label::{ROLE_LABEL, role_of};
pub use synced::{Synced, WithSynced};
