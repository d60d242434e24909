//! Kinds of objects that are followed: which group and version of the API has them, and by which name they are listed.

use k8s_openapi::api::core::v1::Pod;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client};

/// A version of `InferencePool`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PoolVersion {
    /// `inference.networking.k8s.io/v1`.
    V1,
    /// `inference.networking.x-k8s.io/v1alpha2`, with one port.
    V1Alpha2,
}

impl PoolVersion {
    pub(super) const ALL: [Self; 2] = [Self::V1, Self::V1Alpha2];

    /// The version of a group's name, as `--pool-group` has it.
    pub fn of_group(group: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|version| version.group_and_version().0 == group)
    }

    fn group_and_version(self) -> (&'static str, &'static str) {
        match self {
            Self::V1 => ("inference.networking.k8s.io", "v1"),
            Self::V1Alpha2 => (OLD_GROUP, "v1alpha2"),
        }
    }
}

/// Objects of one kind, in one namespace.
pub(super) struct Resource<K> {
    pub(super) api: Api<K>,
    pub(super) namespace: String,
    /// As `kubectl` and roles write it: `pods`, `inferencepools.inference.networking.k8s.io`.
    pub(super) name: String,
}

impl Resource<Pod> {
    pub(super) fn pods(client: &Client, namespace: &str) -> Self {
        let api = Api::namespaced(client.clone(), namespace);
        Self { api, namespace: namespace.to_owned(), name: "pods".to_owned() }
    }
}

impl Resource<DynamicObject> {
    pub(super) fn pools(client: &Client, version: PoolVersion, namespace: &str) -> Self {
        let (group, version) = version.group_and_version();
        Self::custom(client, &GroupVersionKind::gvk(group, version, "InferencePool"), "inferencepools", namespace)
    }

    pub(super) fn objectives(client: &Client, namespace: &str) -> Vec<Self> {
        Self::of_either_group(client, "InferenceObjective", "inferenceobjectives", namespace)
    }

    pub(super) fn model_rewrites(client: &Client, namespace: &str) -> Vec<Self> {
        Self::of_either_group(client, "InferenceModelRewrite", "inferencemodelrewrites", namespace)
    }

    /// A kind of llm-d's group first, as it prefers them.
    fn of_either_group(client: &Client, kind: &str, plural: &str, namespace: &str) -> Vec<Self> {
        let of = |group| GroupVersionKind::gvk(group, "v1alpha2", kind);
        ["llm-d.ai", OLD_GROUP].map(|group| Self::custom(client, &of(group), plural, namespace)).into()
    }

    fn custom(client: &Client, kind: &GroupVersionKind, plural: &str, namespace: &str) -> Self {
        let resource = ApiResource::from_gvk_with_plural(kind, plural);
        let api = Api::namespaced_with(client.clone(), namespace, &resource);
        Self { api, namespace: namespace.to_owned(), name: format!("{plural}.{}", kind.group) }
    }
}

/// The pool that an object's `poolRef` names; none where the object is being deleted, or refers to something that is no pool.
pub(super) fn pool_of(object: &DynamicObject) -> Option<String> {
    let pool = &object.data["spec"]["poolRef"];
    // The API server fills an absent group in, so that one means the pool's own.
    let is_pool = pool["group"].as_str().is_none_or(|group| PoolVersion::of_group(group).is_some());
    let name = pool["name"].as_str().filter(|_| is_pool && object.metadata.deletion_timestamp.is_none());
    name.map(str::to_owned)
}

const OLD_GROUP: &str = "inference.networking.x-k8s.io";
