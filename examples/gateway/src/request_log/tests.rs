//! Tests of the request log.

use routing_core::{Fleet, RoutingPlan};
use routing_exec::handoff::Plain;
use routing_exec::{AttemptRecord, ClientRequest, Dispatch, DispatchConfig};

use super::*;

fn decision(id: &str) -> Decision {
    Decision::new(id.into(), Instant::now(), "sim", "round_robin".into(), Arc::new(Fleet::new(1, [])))
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
    let request_log = RequestLog::new(Instant::now());
    let decision = Decision { prompt_tokens: 100, expected_tokens: 64, ..decision("req-1") };
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
    assert_eq!(totals.ttft.count(), 0, "an error has no first token");
    let ended = request_log.decisions()[0].ended.clone().expect("it has ended");
    assert_eq!(ended.outcome, "failed: no_pod_available");
    assert!(request_log.active(10).is_empty());
}

#[test]
fn the_last_fifty_decisions_are_kept_newest_first() {
    let request_log = RequestLog::new(Instant::now());
    for at in 0..60 {
        request_log.record_decision(decision(&format!("req-{at}")));
    }
    let decisions = request_log.decisions();
    assert_eq!((decisions.len(), &*decisions[0].id, &*decisions[49].id), (50, "req-59", "req-10"));
    assert_eq!(request_log.active(20).len(), 20);
}

#[test]
fn a_clients_error_is_no_completion_and_an_answer_has_a_first_token() {
    let index: kv_index::Index = kv_index::Index::new(kv_index::Config::default());
    let (request_log, pod) = (RequestLog::new(Instant::now()), index.join("a").unwrap());
    for status in [200, 422] {
        let key = request_log.record_decision(decision("req"));
        request_log.record_first_byte(key);
        let mut attempt = AttemptRecord::completed("decode".into(), pod, Instant::now(), None);
        (attempt.bytes, attempt.first_byte, attempt.status) = (10, attempt.ended, Some(status));
        let mut report = DispatchReport::new(DispatchOutcome::Completed(status));
        (report.attempts, report.bytes) = (vec![attempt], 10);
        let ended = request_log.record_outcome(key, &report, None).unwrap();
        assert_eq!((ended.outcome, ended.ttft.is_some()), (format!("completed {status}"), status == 200));
    }
    let totals = request_log.totals();
    assert_eq!((totals.completed, totals.client_errors, totals.failed, totals.ttft.count()), (1, 1, 0, 1));
}
