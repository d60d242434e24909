//! What goes wrong between the picker and the API server, in words an operator can act on.

use std::error::Error;

use kube::core::Status;
use kube::runtime::watcher;

use super::pool::PoolFault;
use super::resource::Resource;

/// Why there is no news of a pool. All of these are tried again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KubernetesError {
    /// The service account may not do it. An operator gives it a role.
    #[error(
        "not allowed to {verb} {resource} in namespace `{namespace}`: the service account needs a Role with get, list and \
         watch on {resource}, and a RoleBinding ({said})"
    )]
    Forbidden {
        /// `list` or `watch`.
        verb: &'static str,
        /// What it may not.
        resource: String,
        /// Where.
        namespace: String,
        /// What the API server says.
        said: String,
    },
    /// The credentials are not accepted: a token has run out, or is another cluster's.
    #[error("credentials are not accepted for {verb} of {resource}: {said}")]
    Unauthorized {
        /// `list` or `watch`.
        verb: &'static str,
        /// Of what.
        resource: String,
        /// What the API server says.
        said: String,
    },
    /// The cluster does not know the kind. An operator installs its definition.
    #[error("the cluster has no {resources}: install the CRD")]
    NoApi {
        /// The kinds that were looked for.
        resources: String,
    },
    /// The watch is further behind than the API server remembers. The objects are listed again.
    #[error("watch of {resource} has expired and starts over with a list: {said}")]
    Expired {
        /// Of what.
        resource: String,
        /// What the API server says.
        said: String,
    },
    /// The API server answered with another status.
    #[error("{verb} of {resource} failed with status {code}: {said}")]
    Refused {
        /// `list` or `watch`.
        verb: &'static str,
        /// Of what.
        resource: String,
        /// The status.
        code: u16,
        /// What the API server says.
        said: String,
    },
    /// There was no answer, or none that can be read.
    #[error("{verb} of {resource} had no usable answer from the API server: {why}")]
    Unreachable {
        /// `list` or `watch`.
        verb: &'static str,
        /// Of what.
        resource: String,
        /// Why.
        why: String,
    },
    /// There is no such pool, nor has there been one.
    #[error("no InferencePool `{name}` in namespace `{namespace}`")]
    NoPool {
        /// Its name.
        name: String,
        /// Where it was looked for.
        namespace: String,
    },
    /// The pool does not say which pods or ports it has.
    #[error("InferencePool `{name}` in namespace `{namespace}`: {fault}")]
    Pool {
        /// Its name.
        name: String,
        /// Where it is.
        namespace: String,
        /// What is wrong with it.
        fault: PoolFault,
    },
}

impl KubernetesError {
    pub(super) fn new<K>(resource: &Resource<K>, error: &watcher::Error) -> Self {
        let verb = verb(error);
        match status(error) {
            Some(status) => Self::of_status(resource, verb, status),
            None => Self::Unreachable { verb, resource: resource.name.clone(), why: chain(error) },
        }
    }

    fn of_status<K>(resource: &Resource<K>, verb: &'static str, status: &Status) -> Self {
        let (namespace, resource) = (resource.namespace.clone(), resource.name.clone());
        let said = if status.message.is_empty() { status.reason.clone() } else { status.message.clone() };
        match status.code {
            401 => Self::Unauthorized { verb, resource, said },
            403 => Self::Forbidden { verb, resource, namespace, said },
            404 => Self::NoApi { resources: resource },
            410 => Self::Expired { resource, said },
            code => Self::Refused { verb, resource, code, said },
        }
    }
}

/// The API server's answer, where it gave one.
pub(super) fn status(error: &watcher::Error) -> Option<&Status> {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status))
        | watcher::Error::WatchError(status) => Some(status),
        _ => None,
    }
}

fn verb(error: &watcher::Error) -> &'static str {
    if matches!(error, watcher::Error::InitialListFailed(_)) { "list" } else { "watch" }
}

/// The error and its causes; those whose text a later one repeats are left out.
fn chain(error: &dyn Error) -> String {
    let mut texts: Vec<String> = Vec::new();
    let mut next = Some(error);
    while let Some(error) = next {
        let text = error.to_string();
        texts.retain(|before| !before.ends_with(&text));
        texts.push(text);
        next = error.source();
    }
    texts.join(": ")
}
