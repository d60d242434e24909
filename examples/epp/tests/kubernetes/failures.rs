//! What goes wrong: refusals, expired watches, connections cut. All of it is told and got over, and the list stays.

use std::time::Duration;

use pointsman::Discovery;
use pointsman_epp::discovery::kubernetes::{KubernetesError, PoolVersion};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::api_server::{ApiServer, OLD_POOLS, PODS, POOLS, brief, gone, next};

fn line(at: usize) -> Value {
    serde_json::from_str(include_str!("pods.watch.jsonl").lines().nth(at).unwrap()).unwrap()
}

const READY: usize = 3;

#[tokio::test]
async fn a_missing_role_is_named_and_once_it_is_there_the_list_comes() {
    let server = ApiServer::start();
    server.list(POOLS, 200, include_str!("pools.v1.list.json"));
    server.list(PODS, 403, include_str!("pods.forbidden.json"));
    let mut pods = server.pods();
    for _ in 0..2 {
        let error = next(&mut pods).await.unwrap_err();
        assert!(matches!(error, KubernetesError::Forbidden { verb: "list", .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains("Role with get, list and watch on pods"), "{text}");
        assert!(text.contains("system:serviceaccount:default:pointsman-epp"), "{text}");
    }
    server.list(PODS, 200, include_str!("pods.list.json"));
    assert_eq!(until_list(&mut pods).await.len(), 2);
}

#[tokio::test]
async fn a_cluster_without_the_kind_is_told_so() {
    let server = ApiServer::start();
    let error = next(&mut server.pods()).await.unwrap_err().to_string();
    assert_eq!(
        error,
        "the cluster has no inferencepools.inference.networking.k8s.io or \
         inferencepools.inference.networking.x-k8s.io: install the CRD"
    );
    let before = server.requests(OLD_POOLS).len();
    let error = next(&mut server.pods().version(PoolVersion::V1)).await.unwrap_err().to_string();
    assert_eq!(error, "the cluster has no inferencepools.inference.networking.k8s.io: install the CRD");
    assert_eq!(server.requests(OLD_POOLS).len(), before, "the older one is not looked for");
}

/// Asked for by the older group since the newer one was not there, and not allowed to read it: once the newer one is there it is read.
#[tokio::test]
async fn a_refusal_by_the_older_group_is_not_the_last_word() {
    let server = ApiServer::start();
    server.list(PODS, 200, include_str!("pods.list.json"));
    server.list(OLD_POOLS, 403, include_str!("pods.forbidden.json"));
    let mut pods = server.pods();
    for _ in 0..2 {
        let error = next(&mut pods).await.unwrap_err();
        assert!(matches!(error, KubernetesError::Forbidden { verb: "list", .. }), "{error}");
        assert!(error.to_string().contains("inferencepools.inference.networking.x-k8s.io"), "{error}");
    }
    server.list(POOLS, 200, include_str!("pools.v1.list.json"));
    assert_eq!(until_list(&mut pods).await.len(), 2);
}

/// Where the kind of a pool's version is gone for a while, and the older one, which the cluster has too, knows of no pool: that it is deleted
/// nobody said, and once it is there again it is followed.
#[tokio::test]
async fn a_pool_whose_version_is_gone_for_a_while_stays() {
    let server = ApiServer::recorded();
    server.list(OLD_POOLS, 200, r#"{"metadata":{"resourceVersion":"7"},"items":[]}"#);
    let watch = server.watch(POOLS);
    let mut pods = server.pods().retry_at_most(Duration::from_millis(20));
    assert_eq!(next(&mut pods).await.unwrap().len(), 2);
    server.list(POOLS, 404, "404 page not found\n");
    watch.send(&gone());
    // It is asked for again, and refused, some times.
    let is_asked = async {
        while server.requests(OLD_POOLS).len() < 4 {
            let told = timeout(Duration::from_millis(5), pods.next()).await;
            assert!(!matches!(told, Ok(Ok(_))), "{told:?}");
        }
    };
    timeout(Duration::from_secs(30), is_asked).await.expect("it is asked for again and again");
    let mut pool: Value = serde_json::from_str(include_str!("pools.v1.list.json")).unwrap();
    pool["items"] = json!([]);
    server.list(POOLS, 200, pool.to_string());
    assert_eq!(until_list(&mut pods).await.len(), 0, "now it is said to be deleted");
}

/// A pool that is made in the version that is preferred after the older one was found, without a pool.
#[tokio::test]
async fn a_version_that_comes_later_is_followed() {
    let server = ApiServer::start();
    server.list(PODS, 200, include_str!("pods.list.json"));
    server.list(OLD_POOLS, 200, r#"{"metadata":{"resourceVersion":"7"},"items":[]}"#);
    let mut pods = server.pods().retry_at_most(Duration::from_millis(20));
    assert!(matches!(next(&mut pods).await, Err(KubernetesError::NoPool { .. })));
    server.list(POOLS, 200, include_str!("pools.v1.list.json"));
    assert_eq!(until_list(&mut pods).await.len(), 2);
}

#[tokio::test]
async fn an_expired_watch_lists_again() {
    let server = ApiServer::recorded();
    let watch = server.watch(PODS);
    let mut pods = server.pods();
    next(&mut pods).await.unwrap();
    let mut fewer: Value = serde_json::from_str(include_str!("pods.list.json")).unwrap();
    fewer["items"].as_array_mut().unwrap().pop();
    server.list(PODS, 200, fewer.to_string());
    watch.send(&gone());
    assert!(matches!(next(&mut pods).await, Err(KubernetesError::Expired { .. })));
    assert_eq!(next(&mut pods).await.unwrap().len(), 1, "what went in between is gone");
}

#[tokio::test]
async fn a_watch_refused_as_expired_lists_again_too() {
    let server = ApiServer::recorded();
    let status = gone()["object"].to_string();
    server.refuse_watch(PODS, 410, status);
    let watch = server.watch(PODS);
    let mut pods = server.pods();
    next(&mut pods).await.unwrap();
    assert!(matches!(next(&mut pods).await, Err(KubernetesError::Expired { .. })));
    watch.send(&line(READY));
    assert_eq!(next(&mut pods).await.unwrap().len(), 3);
    assert_eq!(server.requests(PODS).iter().filter(|request| !request.is_watch()).count(), 2);
}

#[tokio::test]
async fn a_connection_cut_in_a_line_goes_on_from_the_last_whole_one() {
    let server = ApiServer::recorded();
    let (first, second) = (server.watch(PODS), server.watch(PODS));
    let mut pods = server.pods();
    next(&mut pods).await.unwrap();
    first.send(&line(READY));
    assert_eq!(next(&mut pods).await.unwrap().len(), 3);
    let text = line(4).to_string();
    first.raw(&text[..text.len() / 2]);
    first.cut();
    second.send(&line(4));
    assert!(brief(&until_list(&mut pods).await)[2].starts_with('~'));
    let watches: Vec<_> = server.requests(PODS).into_iter().filter(|request| request.is_watch()).collect();
    assert_eq!(watches.last().unwrap().query["resourceVersion"], "48266");
}

#[tokio::test]
async fn a_server_that_fails_or_goes_away_is_tried_again_and_the_list_stays() {
    let server = ApiServer::recorded();
    let watch = server.watch(PODS);
    server.refuse_watch(PODS, 500, "etcdserver: leader changed");
    let again = server.watch(PODS);
    let mut pods = server.pods();
    next(&mut pods).await.unwrap();
    drop(watch);
    let error = next(&mut pods).await.unwrap_err().to_string();
    assert_eq!(error, "watch of pods failed with status 500: etcdserver: leader changed");
    again.send(&line(READY));
    assert_eq!(next(&mut pods).await.unwrap().len(), 3);
    server.stop();
    for _ in 0..3 {
        let error = next(&mut pods).await.unwrap_err();
        assert!(matches!(error, KubernetesError::Unreachable { verb: "watch", .. }), "{error}");
    }
}

/// The next list, whatever errors come before it.
async fn until_list(pods: &mut pointsman_epp::discovery::kubernetes::InferencePoolPods) -> Vec<pointsman::PodSpec> {
    loop {
        if let Ok(list) = next(pods).await {
            return list;
        }
    }
}
