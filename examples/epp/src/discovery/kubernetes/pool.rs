//! An `InferencePool` as it is written: which pods it selects, and on which ports they listen.

use std::collections::BTreeMap;

use kube::core::DynamicObject;
use serde::Deserialize;

/// What a pool says, in either version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pool {
    /// The selector as a request has it: `app=vllm,tier=gpu`.
    pub(super) selector: String,
    /// Its ports, in their order: the place of one is the rank that it serves.
    pub(super) ports: Vec<u16>,
    /// Whether it is being deleted.
    pub(super) deleted: bool,
}

impl Pool {
    pub(super) fn read(object: DynamicObject) -> Result<Self, PoolFault> {
        let spec: Spec = serde_json::from_value(object.data.get("spec").cloned().unwrap_or_default())
            .map_err(|error| PoolFault::Malformed(error.to_string()))?;
        let labels = match spec.selector {
            Selector::Labels { match_labels } => match_labels,
            Selector::Flat(labels) => labels,
        };
        // Everything in the namespace, the picker among it, is never what is meant.
        if labels.is_empty() {
            return Err(PoolFault::NoSelector);
        }
        let selector: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let numbers = spec.target_ports.into_iter().map(|port| port.number).chain(spec.target_port_number);
        let mut ports = Vec::new();
        for number in numbers {
            match u16::try_from(number) {
                Ok(port) if port != 0 && !ports.contains(&port) => ports.push(port),
                _ => return Err(PoolFault::Port(number)),
            }
        }
        if ports.is_empty() {
            return Err(PoolFault::NoPort);
        }
        Ok(Self { selector: selector.join(","), ports, deleted: object.metadata.deletion_timestamp.is_some() })
    }
}

/// What is wrong with a pool.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PoolFault {
    /// It is not a pool in any version we know.
    #[error("spec: {0}")]
    Malformed(String),
    /// It would select every pod of the namespace.
    #[error("spec.selector: has no labels")]
    NoSelector,
    /// It has no port.
    #[error("spec.targetPorts: has no port")]
    NoPort,
    /// A port is listed twice, or is none.
    #[error("spec.targetPorts: {0} is listed twice, or is not between 1 and 65535")]
    Port(i64),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    selector: Selector,
    #[serde(default)]
    target_ports: Vec<Port>,
    /// Of the older version.
    target_port_number: Option<i64>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Selector {
    Labels {
        #[serde(rename = "matchLabels")]
        match_labels: BTreeMap<String, String>,
    },
    /// Of the older version.
    Flat(BTreeMap<String, String>),
}

#[derive(Deserialize)]
struct Port {
    number: i64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(spec: serde_json::Value) -> Result<Pool, PoolFault> {
        let object = serde_json::json!({"metadata": {"name": "p"}, "spec": spec});
        Pool::read(serde_json::from_value(object).unwrap())
    }

    #[test]
    fn both_versions_say_the_same() {
        let pool = Pool { selector: "app=vllm,tier=gpu".to_owned(), ports: vec![8000], deleted: false };
        let v1 = serde_json::json!({
            "selector": {"matchLabels": {"tier": "gpu", "app": "vllm"}}, "targetPorts": [{"number": 8000}],
            "appProtocol": "http", "endpointPickerRef": {"name": "epp", "port": {"number": 9002}},
        });
        let old = serde_json::json!({
            "selector": {"tier": "gpu", "app": "vllm"}, "targetPortNumber": 8000, "extensionRef": {"name": "epp"},
        });
        assert_eq!(read(v1), Ok(pool.clone()));
        assert_eq!(read(old), Ok(pool));
    }

    #[test]
    fn pools_without_selector_or_port_are_refused() {
        let with = |ports: &[i64]| {
            let ports: Vec<_> = ports.iter().map(|number| serde_json::json!({"number": number})).collect();
            read(serde_json::json!({"selector": {"matchLabels": {"app": "vllm"}}, "targetPorts": ports}))
        };
        assert_eq!(with(&[]), Err(PoolFault::NoPort));
        assert_eq!(with(&[0]), Err(PoolFault::Port(0)));
        assert_eq!(with(&[8000, 65_536]), Err(PoolFault::Port(65_536)));
        assert_eq!(with(&[8000, 8000]), Err(PoolFault::Port(8000)));
        assert_eq!(with(&[8001, 8000]).unwrap().ports, [8001, 8000], "in their order");
        let empty = serde_json::json!({"selector": {"matchLabels": {}}, "targetPorts": [{"number": 1}]});
        assert_eq!(read(empty), Err(PoolFault::NoSelector));
        assert!(matches!(read(serde_json::json!({})), Err(PoolFault::Malformed(_))));
    }
}
