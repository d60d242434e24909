//! The manifests of `deploy/`: each is YAML, and what they refer to is there.

use std::fs;
use std::path::{Path, PathBuf};

use pointsman_epp::picker_config::PickerConfig;
use serde::Deserialize;
use serde_yaml_ng::{Deserializer, Value};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy")
}

fn documents(file: &str) -> Vec<Value> {
    let text = fs::read_to_string(folder().join(file)).unwrap();
    Deserializer::from_str(&text).map(|document| Value::deserialize(document).expect(file)).collect()
}

/// All objects that the kustomization applies.
fn objects() -> Vec<Value> {
    let kustomization = documents("kustomization.yaml").remove(0);
    let files = kustomization["resources"].as_sequence().unwrap();
    files.iter().flat_map(|file| documents(file.as_str().unwrap())).collect()
}

/// The one object of a kind.
fn object(kind: &str) -> Value {
    let mut found: Vec<_> = objects().into_iter().filter(|object| object["kind"] == kind).collect();
    assert_eq!(found.len(), 1, "{kind}");
    found.remove(0)
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap()
}

fn items(value: &Value) -> &[Value] {
    value.as_sequence().map(Vec::as_slice).unwrap()
}

fn container() -> Value {
    object("Deployment")["spec"]["template"]["spec"]["containers"][0].clone()
}

#[test]
fn every_file_is_applied_and_every_object_is_in_the_namespace() {
    let kustomization = documents("kustomization.yaml").remove(0);
    let mut applied: Vec<&str> = items(&kustomization["resources"]).iter().map(|file| file.as_str().unwrap()).collect();
    // And what is for one gateway alone, or for clusters without GPUs.
    applied.extend(["kustomization.yaml", "istio.yaml", "sim.yaml"]);
    applied.sort_unstable();
    let files = fs::read_dir(folder()).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut manifests: Vec<String> = files.filter(|file| file.ends_with(".yaml")).collect();
    manifests.sort();
    assert_eq!(applied, manifests);
    for object in objects() {
        assert!(object["apiVersion"].is_string() && object["kind"].is_string(), "{object:?}");
        assert_eq!(object["metadata"]["namespace"], kustomization["namespace"], "{}", name(&object));
    }
}

#[test]
fn the_account_has_the_role_and_the_role_has_what_discovery_reads() {
    let (account, role, binding) = (object("ServiceAccount"), object("Role"), object("RoleBinding"));
    assert_eq!(binding["roleRef"]["name"], name(&role));
    assert_eq!(binding["subjects"][0]["name"], name(&account));
    assert_eq!(binding["subjects"][0]["namespace"], account["metadata"]["namespace"]);
    assert_eq!(object("Deployment")["spec"]["template"]["spec"]["serviceAccountName"], name(&account));
    let may = |group: &str, resource: &str, verb: &str| {
        let has = |rule: &Value, field: &str, wanted: &str| items(&rule[field]).iter().any(|value| value == wanted);
        let rules = items(&role["rules"]);
        rules
            .iter()
            .any(|rule| has(rule, "apiGroups", group) && has(rule, "resources", resource) && has(rule, "verbs", verb))
    };
    for (group, resource) in [
        ("", "pods"),
        ("inference.networking.k8s.io", "inferencepools"),
        ("inference.networking.x-k8s.io", "inferencepools"),
        ("llm-d.ai", "inferenceobjectives"),
        ("inference.networking.x-k8s.io", "inferenceobjectives"),
        ("llm-d.ai", "inferencemodelrewrites"),
        ("inference.networking.x-k8s.io", "inferencemodelrewrites"),
    ] {
        for verb in ["get", "list", "watch"] {
            assert!(may(group, resource, verb), "{verb} {resource}.{group}");
        }
    }
}

#[test]
fn the_service_finds_the_deployment_and_the_pool_finds_the_service() {
    let (deployment, service, pool) = (object("Deployment"), object("Service"), object("InferencePool"));
    let labels = &deployment["spec"]["template"]["metadata"]["labels"];
    assert_eq!(&deployment["spec"]["selector"]["matchLabels"], labels);
    assert_eq!(&service["spec"]["selector"], labels);
    assert_ne!(&pool["spec"]["selector"]["matchLabels"], labels, "the picker is no engine");
    let container = container();
    for port in items(&service["spec"]["ports"]) {
        let target = items(&container["ports"]).iter().find(|container| container["name"] == port["targetPort"]);
        assert_eq!(target.unwrap()["containerPort"], port["port"]);
    }
    let picker = &pool["spec"]["endpointPickerRef"];
    assert_eq!(picker["name"], name(&service));
    let port = items(&service["spec"]["ports"]).iter().find(|port| port["port"] == picker["port"]["number"]).unwrap();
    assert_eq!((port["name"].as_str(), port["appProtocol"].as_str()), (Some("grpc-ext-proc"), Some("http2")));
}

#[test]
fn the_route_joins_the_gateway_and_the_pool() {
    let (gateway, route, pool) = (object("Gateway"), object("HTTPRoute"), object("InferencePool"));
    assert_eq!(route["spec"]["parentRefs"][0]["name"], name(&gateway));
    let backend = &route["spec"]["rules"][0]["backendRefs"][0];
    assert_eq!((backend["kind"].as_str(), backend["name"].as_str()), (Some("InferencePool"), Some(name(&pool))));
    let group = pool["apiVersion"].as_str().unwrap().split('/').next();
    assert_eq!(backend["group"].as_str(), group);
}

#[test]
fn the_flags_name_the_pool_the_ports_and_the_mounted_configuration() {
    let (container, config) = (container(), object("ConfigMap"));
    let flag = |flag: &str| {
        let mut args =
            items(&container["args"]).iter().filter_map(|arg| arg.as_str()?.strip_prefix("--")?.split_once('='));
        args.find(|(name, _)| *name == flag).unwrap_or_else(|| panic!("--{flag}")).1.to_owned()
    };
    assert_eq!(flag("pool-name"), name(&object("InferencePool")));
    assert_eq!(
        (flag("pool-namespace"), container["env"][0]["name"].as_str()),
        ("$(NAMESPACE)".to_owned(), Some("NAMESPACE"))
    );
    for (name, port) in
        [("grpc-port", "grpc-ext-proc"), ("grpc-health-port", "grpc-health"), ("metrics-port", "metrics")]
    {
        let listed = items(&container["ports"]).iter().find(|listed| listed["name"] == port).unwrap();
        assert_eq!(flag(name), listed["containerPort"].as_u64().unwrap().to_string());
    }
    for probe in ["livenessProbe", "readinessProbe"] {
        assert_eq!(container[probe]["grpc"]["port"].as_u64().unwrap().to_string(), flag("grpc-health-port"));
    }
    let mount = &container["volumeMounts"][0];
    let volume = &object("Deployment")["spec"]["template"]["spec"]["volumes"][0];
    assert_eq!(
        (mount["name"].as_str(), volume["configMap"]["name"].as_str()),
        (volume["name"].as_str(), Some(name(&config)))
    );
    let file = flag("config-file");
    let key = file.strip_prefix(mount["mountPath"].as_str().unwrap()).unwrap().trim_start_matches('/');
    let picker = PickerConfig::read(config["data"][key].as_str().unwrap()).unwrap();
    assert!(picker.translate().is_ok());
}

#[test]
fn istio_is_told_of_the_service_that_the_pool_names() {
    let rule = documents("istio.yaml").remove(0);
    let service = name(&object("Service")).to_owned();
    assert_eq!(rule["spec"]["host"], format!("{service}.default.svc.cluster.local"));
    assert_eq!(object("InferencePool")["spec"]["endpointPickerRef"]["name"], service);
}

/// What its flags do is tested beside the program that takes them.
#[test]
fn simulated_pods_are_of_the_pool_and_listen_where_it_looks() {
    let (sim, pool) = (documents("sim.yaml").remove(0), object("InferencePool"));
    let pod = &sim["spec"]["template"];
    let labels = |of: &Value| of.as_mapping().unwrap().clone();
    let has = |all: &Value, some: &Value| labels(some).iter().all(|(key, value)| all[key] == *value);
    assert!(has(&pod["metadata"]["labels"], &pool["spec"]["selector"]["matchLabels"]));
    assert!(has(&pod["metadata"]["labels"], &sim["spec"]["selector"]["matchLabels"]));
    assert_ne!(
        labels(&sim["spec"]["selector"]["matchLabels"]),
        labels(&pool["spec"]["selector"]["matchLabels"]),
        "nobody else's pods"
    );
    assert_eq!(sim["metadata"]["namespace"], pool["metadata"]["namespace"]);
    let engine = &pod["spec"]["containers"][0];
    let listens = |flag: &str| {
        let address = items(&engine["args"]).iter().find_map(|arg| arg.as_str()?.strip_prefix(flag)).unwrap();
        address.strip_prefix("=0.0.0.0:").unwrap().parse::<u64>().unwrap()
    };
    let ports = |name: &str| {
        let port = items(&engine["ports"]).iter().find(|port| port["name"] == name).unwrap();
        port["containerPort"].as_u64().unwrap()
    };
    assert_eq!(Some(listens("--listen")), pool["spec"]["targetPorts"][0]["number"].as_u64());
    assert_eq!(["--listen", "--events", "--replay"].map(listens), ["http", "events", "replay"].map(ports));
    for probe in ["livenessProbe", "readinessProbe"] {
        assert_eq!(engine[probe]["httpGet"]["port"], "http");
    }
}

#[test]
fn bodies_fit_twice_into_the_memory_that_the_picker_may_take() {
    let container = container();
    let option = items(&container["args"]).iter().find_map(|arg| arg.as_str()?.strip_prefix("--max-buffered-bytes="));
    let (bytes, limit) = (option.unwrap().parse::<u64>().unwrap(), &container["resources"]["limits"]["memory"]);
    assert_eq!(*limit, "1Gi");
    assert!(2 * bytes + (512 << 20) <= 1 << 30);
}
