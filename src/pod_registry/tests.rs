use kv_index::Config;

use super::*;

fn spec(name: &str) -> PodSpec {
    PodSpec::new(name, format!("http://{name}"))
}

fn next(registry: &PodRegistry, index: &Index, pods: &[PodSpec]) -> Result<PodRegistry, PodError> {
    registry.next(index, pods, true, Instant::now())
}

fn pods(registry: &PodRegistry) -> Vec<(&str, Pod)> {
    registry.pods.iter().map(|entry| (&*entry.spec.name, entry.pod)).collect()
}

#[test]
fn a_pod_keeps_its_handle_unless_it_moves() {
    let index: Index = Index::new(Config::default());
    let first = next(&PodRegistry::default(), &index, &[spec("a"), spec("b")]).unwrap();
    let second = next(&first, &index, &[spec("b").label("zone", "x"), PodSpec::new("a", "http://elsewhere")]).unwrap();
    assert_eq!(pods(&second)[0], pods(&first)[1]);
    assert_ne!(pods(&second)[1].1, pods(&first)[0].1);
    assert_eq!(first.without(&second).map(|entry| &*entry.spec.address).collect::<Vec<_>>(), ["http://a"]);
}

#[test]
fn a_pod_whose_events_come_from_elsewhere_is_another_one_and_as_well_as_before() {
    let index: Index = Index::new(Config::default());
    let mut first = next(&PodRegistry::default(), &index, &[spec("a").event_source("zmq")]).unwrap();
    first.pods[0].healthy = false;
    let second = next(&first, &index, &[spec("a")]).unwrap();
    assert_ne!(pods(&second)[0].1, pods(&first)[0].1);
    assert!(!second.pods[0].healthy);
    let third = next(&second, &index, &[PodSpec::new("a", "http://elsewhere")]).unwrap();
    assert!(third.pods[0].healthy, "another server was not probed yet");
}

#[test]
fn pods_that_move_stay_where_they_are_if_there_is_no_room_for_all() {
    let index: Index = Index::new(Config::default());
    let registry = next(&PodRegistry::default(), &index, &[spec("a"), spec("b")]).unwrap();
    for at in 0..253 {
        index.join(&format!("other-{at}")).unwrap();
    }
    // There is room for one more.
    let moved = ["a", "b"].map(|name| PodSpec::new(name, format!("http://elsewhere-{name}")));
    next(&registry, &index, &moved).unwrap_err();
    assert!(registry.pods.iter().all(|entry| index.pod(&entry.spec.name) == Some(entry.pod)));
    next(&registry, &index, &[spec("a"), moved[1].clone()]).unwrap();
}

#[test]
fn no_pod_is_retired_in_vain_where_the_index_is_smaller_than_its_width() {
    let index: Index = Index::new(Config::default().max_pods(2));
    let registry = next(&PodRegistry::default(), &index, &[spec("a"), spec("b")]).unwrap();
    next(&registry, &index, &[PodSpec::new("a", "http://elsewhere"), spec("b")]).unwrap_err();
    assert_eq!(index.pod("a"), Some(registry.pods[0].pod));
}

#[test]
fn a_list_that_finds_no_room_leaves_nobody_joined() {
    let index: Index = Index::new(Config::default().max_pods(2));
    let error = next(&PodRegistry::default(), &index, &["a", "b", "c"].map(spec)).unwrap_err();
    assert!(matches!(error, PodError::Join { name, .. } if &*name == "c"));
    assert!(index.alive().is_empty());
}

#[test]
fn what_is_no_pod_is_refused() {
    let index: Index = Index::new(Config::default());
    let refused = |pods: &[PodSpec]| next(&PodRegistry::default(), &index, pods).unwrap_err();
    assert!(matches!(refused(&[spec("a"), spec("a")]), PodError::Name(_)));
    assert!(matches!(refused(&[PodSpec::new("", "http://a")]), PodError::Name(_)));
    for address in ["", "ftp://a", "http://user@a", "http://a/path", "a b"] {
        assert!(matches!(refused(&[PodSpec::new("a", address)]), PodError::Address { .. }), "{address}");
    }
    for address in ["h:99999", "http://h:65536/", "h:0", "h:", "[::1]:70000"] {
        let error = refused(&[PodSpec::new("a", address)]);
        assert!(matches!(error, PodError::Port { .. }), "{address}: {error}");
        assert!(error.to_string().contains("from 1 to 65535") && error.to_string().contains(address), "{error}");
    }
    for address in ["h", "h:1", "http://h:65535/", "https://h", "[::1]:80", "[::1]"] {
        assert_eq!(check(&[PodSpec::new("a", address)]), Ok(()), "{address}");
    }
    assert!(index.alive().is_empty());
}

#[test]
fn requests_that_were_routed_before_find_pods_that_left_for_a_while() {
    let index: Index = Index::new(Config::default());
    let first = next(&PodRegistry::default(), &index, &[spec("a")]).unwrap();
    let (none, addresses, now) = (PodRegistry::default(), AddressTable::default(), Instant::now());
    addresses.publish(&first, &none, now);
    addresses.publish(&none, &first, now);
    let pod = first.pods[0].pod;
    addresses.publish(&none, &none, now + KEPT / 2);
    assert_eq!(addresses.address(pod).as_deref(), Some("http://a"));
    addresses.publish(&none, &none, now + KEPT);
    assert_eq!(addresses.address(pod), None);
}
