//! Whatever happens to a pool's pods and to the connection, the list comes to be that of a literal model.

use std::collections::BTreeMap;
use std::time::Duration;

use pointsman::Discovery;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::api_server::{ApiServer, PODS, POOLS, Watch, brief, gone};

#[derive(Clone, Copy, Debug)]
enum Step {
    /// A pod comes to be in a state, or is deleted for good.
    Pod(u8, Option<Is>),
    /// The pool has so many ports.
    Ports(u16),
    Bookmark,
    /// The connection is cut; what follows is told to whoever asks again.
    Cut,
    /// The watch ends in good order.
    End,
    /// The watch has expired.
    Gone,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Is {
    Pending,
    Unready,
    Ready,
    Deleting,
    Stopped,
}

fn step() -> impl Strategy<Value = Step> {
    let is = prop::sample::select(vec![Is::Pending, Is::Unready, Is::Ready, Is::Ready, Is::Deleting, Is::Stopped]);
    prop_oneof![
        8 => (0..4_u8, prop::option::weighted(0.8, is)).prop_map(|(pod, is)| Step::Pod(pod, is)),
        1 => (1..4_u16).prop_map(Step::Ports),
        1 => Just(Step::Bookmark),
        1 => Just(Step::Cut),
        1 => Just(Step::End),
        1 => Just(Step::Gone),
    ]
}

/// The cluster: its pods and its pool, and a server that tells of them.
struct Model {
    server: ApiServer,
    version: u32,
    pods: BTreeMap<u8, Is>,
    ports: u16,
    pod_watch: Watch,
    pool_watch: Watch,
    /// What was told of pods since they were last listed.
    told: Vec<Value>,
}

impl Model {
    fn new() -> Self {
        let server = ApiServer::start();
        let (pod_watch, pool_watch) = (server.watch(PODS), server.watch(POOLS));
        let model =
            Self { server, version: 100, pods: BTreeMap::new(), ports: 1, pod_watch, pool_watch, told: Vec::new() };
        let list =
            json!({"kind": "InferencePoolList", "metadata": {"resourceVersion": "100"}, "items": [model.pool()]});
        model.server.list(POOLS, 200, list.to_string());
        model.server.list(PODS, 200, model.pod_list());
        model
    }

    fn apply(&mut self, step: Step) {
        self.version += 1;
        match step {
            Step::Pod(at, Some(is)) => {
                let kind = if self.pods.insert(at, is).is_some() { "MODIFIED" } else { "ADDED" };
                self.tell(json!({"type": kind, "object": self.pod(at, is)}));
            }
            Step::Pod(at, None) => {
                if let Some(is) = self.pods.remove(&at) {
                    self.tell(json!({"type": "DELETED", "object": self.pod(at, is)}));
                }
            }
            Step::Ports(ports) => {
                self.ports = ports;
                self.pool_watch.send(&json!({"type": "MODIFIED", "object": self.pool()}));
            }
            Step::Bookmark => {
                let metadata = json!({"resourceVersion": self.version.to_string(), "creationTimestamp": null});
                let object = json!({"kind": "Pod", "apiVersion": "v1", "metadata": metadata});
                self.pod_watch.send(&json!({"type": "BOOKMARK", "object": object}));
            }
            Step::Cut => {
                // What was on its way may be lost with the connection, so all of it is told again: to hear of a pod twice
                // changes nothing.
                self.rewatch().cut();
                self.told.iter().for_each(|event| self.pod_watch.send(event));
            }
            Step::End => drop(self.rewatch()),
            Step::Gone => {
                self.server.list(PODS, 200, self.pod_list());
                self.rewatch().send(&gone());
                self.told.clear();
            }
        }
    }

    fn tell(&mut self, event: Value) {
        self.pod_watch.send(&event);
        self.told.push(event);
    }

    /// Has the next watch ready, and returns the one before it.
    fn rewatch(&mut self) -> Watch {
        let next = self.server.watch(PODS);
        std::mem::replace(&mut self.pod_watch, next)
    }

    fn pool(&self) -> Value {
        let ports: Vec<_> = (0..self.ports).map(|rank| json!({"number": 8000 + rank})).collect();
        json!({
            "apiVersion": "inference.networking.k8s.io/v1", "kind": "InferencePool",
            "metadata": {"name": "vllm", "namespace": "default", "resourceVersion": self.version.to_string()},
            "spec": {"selector": {"matchLabels": {"app": "vllm"}}, "targetPorts": ports},
        })
    }

    fn pod_list(&self) -> String {
        let items: Vec<Value> = self.pods.iter().map(|(at, is)| self.pod(*at, *is)).collect();
        let metadata = json!({"resourceVersion": self.version.to_string()});
        json!({"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": items}).to_string()
    }

    fn pod(&self, at: u8, is: Is) -> Value {
        let mut metadata = json!({"name": format!("p{at}"), "labels": {"app": "vllm"}});
        metadata["resourceVersion"] = self.version.to_string().into();
        if matches!(is, Is::Deleting | Is::Stopped) {
            metadata["deletionTimestamp"] = "2026-03-02T08:42:10Z".into();
        }
        let state = if is == Is::Stopped { json!({"terminated": {"exitCode": 0}}) } else { json!({"running": {}}) };
        let container =
            json!({"name": "c", "image": "", "imageID": "", "ready": true, "restartCount": 0, "state": state});
        let ready = if is == Is::Ready { "True" } else { "False" };
        let status = match is {
            Is::Pending => json!({"phase": "Pending"}),
            _ => json!({
                "phase": "Running", "podIP": format!("10.0.0.{at}"), "containerStatuses": [container],
                "conditions": [{"type": "Ready", "status": ready}],
            }),
        };
        json!({"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": {"containers": []}, "status": status})
    }

    fn expected(&self) -> Vec<String> {
        let mut expected = Vec::new();
        for (at, is) in &self.pods {
            let mark = match is {
                Is::Ready => "",
                Is::Deleting => "~",
                Is::Pending | Is::Unready | Is::Stopped => continue,
            };
            for rank in 0..self.ports {
                expected.push(format!("{mark}p{at}-rank-{rank} 10.0.0.{at}:{} Both", 8000 + rank));
            }
        }
        expected
    }
}

/// Plays the steps, and asks for news after every so many of them.
async fn play(steps: Vec<Step>, pause: usize) {
    let mut model = Model::new();
    let mut pods = model.server.pods().debounce(Duration::from_millis(1));
    let mut last = None;
    for (at, step) in steps.iter().enumerate() {
        model.apply(*step);
        if at % pause == 0 {
            // Whatever is said in the meantime, errors and half-way lists among it.
            if let Ok(Ok(list)) = tokio::time::timeout(Duration::from_millis(3), pods.next()).await {
                last = Some(list);
            }
        }
    }
    let settled = tokio::time::timeout(Duration::from_secs(10), async {
        while last.as_deref().map(brief) != Some(model.expected()) {
            if let Ok(list) = pods.next().await {
                last = Some(list);
            }
        }
    });
    let settled = settled.await.is_ok();
    assert!(settled, "{:?} where {:?} was expected", last.as_deref().map(brief), model.expected());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_list_comes_to_be_the_models(steps in prop::collection::vec(step(), 0..40), pause in 1..8_usize) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(play(steps, pause));
    }
}
