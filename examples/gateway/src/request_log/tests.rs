//! Tests of the request log.

use kv_index::{BlockSize, Config, Index};
use routing_core::{Fleet, RoutingPlan};
use routing_exec::handoff::Plain;
use routing_exec::{ClientRequest, Dispatch, DispatchConfig};
use routing_plugins::{Hashing, PluginState, profiles};

use super::*;
use crate::config::Limits;
use crate::live_config::{LiveConfig, WorkflowPool};

fn live_config() -> Arc<LiveConfig> {
    let index: Arc<Index> = Arc::new(Index::new(Config::default()));
    let plugin_state = PluginState::new(index, Hashing::Native(BlockSize::new(16).unwrap()));
    Arc::new(LiveConfig {
        profile: "round_robin".into(),
        workflows: Arc::new(WorkflowPool::new(profiles::round_robin(&plugin_state).build().unwrap().into())),
        fleet: Arc::new(Fleet::new(1, [])),
        limits: Limits::default(),
        client_idle_timeout: Duration::from_secs(30),
        client_fields: routing_exec::ClientFields::default(),
        dispatch: DispatchConfig::new(Arc::new(Plain::default()), Arc::new(())),
    })
}

/// The report of a run that found no pod.
fn report() -> DispatchReport {
    let (parts, ()) = http::Request::post("/v1/completions").body(()).unwrap().into_parts();
    let client = ClientRequest::new(&parts, bytes::Bytes::from_static(b"{}"), 1);
    let config = DispatchConfig::new(Arc::new(Plain::default()), Arc::new(()));
    let mut dispatch = Dispatch::new(config, client, RoutingPlan::default(), Vec::new());
    dispatch.start(Instant::now());
    loop {
        match dispatch.next_action().expect("it ends at once") {
            routing_exec::Action::Finish(report) => return report,
            routing_exec::Action::Replan(_) => dispatch.handle(Instant::now(), routing_exec::Input::Replanned(None)),
            _ => {}
        }
    }
}

#[test]
fn a_request_is_counted_once_and_is_under_way_until_it_ends() {
    let (request_log, live_config) = (RequestLog::new(Instant::now()), live_config());
    let decision = Decision {
        prompt_tokens: 100,
        expected_tokens: 64,
        ..Decision::new("req-1".into(), Instant::now(), Arc::clone(&live_config))
    };
    let key = request_log.record_decision(decision);
    assert_eq!(request_log.active(10)[0].stage, Stage::Prefill);
    request_log.record_first_byte(key);
    request_log.record_first_byte(key);
    assert_eq!(request_log.active(10)[0].stage, Stage::Streaming);
    assert!(request_log.decisions()[0].ended.is_none());
    assert!(request_log.record_outcome(key, &report(), None).is_some());
    assert!(request_log.record_outcome(key, &report(), None).is_none());
    let totals = request_log.totals();
    assert_eq!((totals.requests, totals.failed, totals.completed), (1, 1, 0));
    assert_eq!((totals.prompt_tokens, totals.cached_tokens), (100, 64));
    assert_eq!(totals.ttft.iter().sum::<u64>(), 1);
    let ended = request_log.decisions()[0].ended.clone().expect("it has ended");
    assert_eq!(ended.outcome, "failed: no_pod_available");
    assert!(request_log.active(10).is_empty());
}

#[test]
fn the_last_fifty_decisions_are_kept_newest_first() {
    let (request_log, live_config) = (RequestLog::new(Instant::now()), live_config());
    for at in 0..60 {
        request_log.record_decision(Decision::new(
            format!("req-{at}").into(),
            Instant::now(),
            Arc::clone(&live_config),
        ));
    }
    let decisions = request_log.decisions();
    assert_eq!((decisions.len(), &*decisions[0].id, &*decisions[49].id), (50, "req-59", "req-10"));
    assert_eq!(request_log.active(20).len(), 20);
}
