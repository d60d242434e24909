//! A Kubernetes pod of a pool: whether it serves, and the pods of the router's that it makes.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use pointsman::PodSpec;

use crate::discovery::role_of;

/// What is kept of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PoolPod {
    name: String,
    serving: Option<Serving>,
    labels: BTreeMap<String, String>,
    /// The ports that its annotation names; all, where it has none.
    active_ports: Option<Vec<u16>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Serving {
    address: IpAddr,
    draining: bool,
}

impl PoolPod {
    pub(super) fn read(pod: Pod) -> Self {
        let annotations = pod.metadata.annotations.unwrap_or_default();
        let active = ACTIVE_PORTS.iter().find_map(|key| annotations.get(*key));
        let deleted = pod.metadata.deletion_timestamp.is_some();
        Self {
            name: pod.metadata.name.unwrap_or_default(),
            serving: pod.status.and_then(|status| serving(&status, deleted)),
            labels: pod.metadata.labels.unwrap_or_default(),
            active_ports: active.map(|ports| ports.split(',').filter_map(|port| port.trim().parse().ok()).collect()),
        }
    }

    /// A pod for every rank, where it serves.
    pub(super) fn specs<'a>(&'a self, ports: &'a [u16]) -> impl Iterator<Item = PodSpec> + 'a {
        let active = |port: &u16| self.active_ports.as_ref().is_none_or(|active| active.contains(port));
        self.serving.iter().flat_map(move |serving| {
            ports
                .iter()
                .enumerate()
                .filter(move |(_, port)| active(port))
                .map(|(rank, port)| self.spec(serving, rank, *port))
        })
    }

    fn spec(&self, serving: &Serving, rank: usize, port: u16) -> PodSpec {
        let address = SocketAddr::new(serving.address, port).to_string();
        let mut spec = PodSpec::new(format!("{}-rank-{rank}", self.name), address).role(role_of(&self.labels));
        spec.labels = self.labels.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
        spec.draining = serving.draining;
        spec
    }
}

fn serving(status: &PodStatus, deleted: bool) -> Option<Serving> {
    let address = status.pod_ip.as_ref()?.parse().ok()?;
    // An engine that was told to stop fails its readiness probe while it finishes what it has, so a deleted pod is judged
    // by its containers.
    let serves = if deleted { has_running_container(status) } else { is_ready(status) };
    serves.then_some(Serving { address, draining: deleted })
}

fn is_ready(status: &PodStatus) -> bool {
    let ready = status.conditions.iter().flatten().find(|condition| condition.type_ == "Ready");
    ready.is_some_and(|condition| condition.status == "True")
}

fn has_running_container(status: &PodStatus) -> bool {
    let mut containers = status.container_statuses.iter().flatten();
    status.phase.as_deref() == Some("Running")
        && containers.any(|container| container.state.as_ref().is_some_and(|state| state.running.is_some()))
}

/// llm-d's, and the older one.
const ACTIVE_PORTS: [&str; 2] = ["llm-d.ai/active-ports", "inference.networking.k8s.io/active-ports"];

#[cfg(test)]
mod tests {
    use super::*;
    use pointsman::core::Role;
    use serde_json::{Value, json};

    fn pod(metadata: Value, status: Value) -> PoolPod {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": status});
        PoolPod::read(serde_json::from_value(pod).unwrap())
    }

    fn status(ip: &str, ready: &str, running: bool) -> Value {
        let state = if running {
            json!({"running": {"startedAt": "2026-03-02T08:15:07Z"}})
        } else {
            json!({"terminated": {"exitCode": 0}})
        };
        json!({
            "phase": "Running", "podIP": ip, "conditions": [{"type": "Ready", "status": ready}],
            "containerStatuses": [{"name": "vllm", "image": "", "imageID": "", "ready": running, "restartCount": 0, "state": state}],
        })
    }

    #[test]
    fn each_port_is_a_rank_with_the_labels_of_the_pod() {
        let labels = json!({"app": "vllm", "llm-d.ai/role": "prefill"});
        let found = pod(json!({"name": "vllm-0", "labels": labels}), status("fd00::7", "True", true));
        let rank = |name, address| {
            PodSpec::new(name, address).role(Role::Prefill).label("app", "vllm").label("llm-d.ai/role", "prefill")
        };
        let expected = [rank("vllm-0-rank-0", "[fd00::7]:8000"), rank("vllm-0-rank-1", "[fd00::7]:8001")];
        assert_eq!(found.specs(&[8000, 8001]).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn an_annotation_leaves_ports_out_and_ranks_keep_their_numbers() {
        for key in ACTIVE_PORTS {
            let found =
                pod(json!({"name": "p", "annotations": {key: "8001, 9000,x"}}), status("10.0.0.1", "True", true));
            let names: Vec<_> = found.specs(&[8000, 8001]).map(|spec| spec.name).collect();
            assert_eq!(names, ["p-rank-1"], "{key}");
        }
    }

    #[test]
    fn ready_pods_serve_and_deleted_ones_drain_until_their_containers_stop() {
        let draining =
            |metadata: &Value, status| pod(metadata.clone(), status).specs(&[8000]).next().map(|spec| spec.draining);
        let alive = json!({"name": "p"});
        assert_eq!(draining(&alive, status("10.0.0.1", "True", true)), Some(false));
        assert_eq!(draining(&alive, status("10.0.0.1", "False", true)), None);
        assert_eq!(draining(&alive, json!({"phase": "Pending"})), None, "no address");
        let deleted = json!({"name": "p", "deletionTimestamp": "2026-03-02T09:00:00Z"});
        assert_eq!(draining(&deleted, status("10.0.0.1", "True", true)), Some(true));
        assert_eq!(draining(&deleted, status("10.0.0.1", "False", true)), Some(true));
        assert_eq!(draining(&deleted, status("10.0.0.1", "False", false)), None);
        assert_eq!(draining(&deleted, json!({"phase": "Succeeded", "podIP": "10.0.0.1"})), None);
    }
}
