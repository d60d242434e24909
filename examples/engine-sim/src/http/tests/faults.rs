//! Each fault, and the way back.

use super::*;

/// A stream that lasts, with its first bytes read.
async fn streaming(pod: &SimPod) -> Incoming {
    let body = chat(&words(40), &[("stream", json!(true)), ("max_tokens", json!(3_000)), ("ignore_eos", json!(true))]);
    let mut body = send(pod, CHAT, &body.to_string()).await.unwrap().into_body();
    soon("first event", body.frame()).await.unwrap().unwrap();
    body
}

/// What else comes, and whether it comes to an end.
async fn rest(mut body: Incoming) -> (Vec<u8>, bool) {
    let mut bytes = Vec::new();
    while let Some(frame) = soon("end of the stream", body.frame()).await {
        match frame {
            Ok(frame) => bytes.extend(frame.into_data().unwrap_or_default()),
            Err(_) => return (bytes, false),
        }
    }
    (bytes, true)
}

/// Slow enough that streams last while a test does things to them.
async fn slow() -> (SimPod, Recorded) {
    start(|config| config.speed = 1.0).await
}

#[tokio::test]
async fn a_dead_pod_refuses_connections_and_comes_back_empty_under_its_address() {
    let (pod, told) = slow().await;
    let body = streaming(&pod).await;
    assert!(!pod.cache().is_empty());
    pod.fault(Fault::Die);
    assert!(pod.cache().is_empty());
    assert!(!rest(body).await.1, "answers under way are cut");
    let address = pod.address();
    let refused = async {
        while TcpStream::connect(address).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    soon("refusal", refused).await;
    assert_eq!((pod.metrics().lost, told.restarts()), (1, 0));
    pod.fault(Fault::Recover);
    assert!(TcpStream::connect(address).await.is_err(), "only a restart brings it back");
    pod.fault(Fault::Restart);
    until("back", || told.restarts() == 1).await;
    until("listening", || std::net::TcpStream::connect(address).is_ok()).await;
    ask(&pod, CHAT, &chat(&words(40), &[("max_tokens", json!(1))])).await;
    assert_eq!(pod.cache(), told.copies());
    pod.stop().await;
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn a_restart_cuts_and_forgets_and_another_seed_changes_the_engines_names_only() {
    #[derive(Clone, Default)]
    struct Blocks(Arc<Mutex<Vec<Block>>>);
    impl EventSink for Blocks {
        fn step(&mut self, events: &[CacheEvent]) {
            for event in events {
                if let CacheEvent::Stored { blocks, .. } = event {
                    self.0.lock().extend(blocks.clone());
                }
            }
        }
        fn restarted(&mut self) {}
    }
    let (blocks, told) = (Blocks::default(), Recorded::default());
    let config = PodConfig { speed: 1_000.0, ..PodConfig::new("pod", "sim") };
    let pod = SimPod::start(config, vec![Box::new(blocks.clone()), Box::new(told.clone())]).await.unwrap();
    let mut seen = Vec::new();
    for (incarnations, fault) in [None, Some(Fault::Restart), Some(Fault::ChangeHashSeed)].into_iter().enumerate() {
        if let Some(fault) = fault {
            pod.fault(fault);
            until("back", || told.restarts() == incarnations as u32).await;
            until("listening", || std::net::TcpStream::connect(pod.address()).is_ok()).await;
        }
        let answer = ask(&pod, CHAT, &chat(&words(40), &[("max_tokens", json!(1))])).await;
        assert_eq!(answer["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
        assert_eq!(pod.cache(), told.copies());
        seen.push(std::mem::take(&mut *blocks.0.lock()));
    }
    assert_eq!(seen[0], seen[1]);
    assert!(
        seen[0]
            .iter()
            .zip(&seen[2])
            .all(|(before, after)| before.hash == after.hash && before.engine_hash != after.engine_hash)
    );
    pod.stop().await;
}

#[tokio::test]
async fn many_restarts_in_a_row_end_in_a_pod_that_works() {
    let (pod, told) = start(|_| {}).await;
    for _ in 0..20 {
        pod.fault(Fault::Restart);
        tokio::task::yield_now().await;
    }
    let works = async {
        loop {
            let body = Full::from(chat(&words(40), &[("max_tokens", json!(1))]).to_string());
            if let Ok(mut sender) = connect(pod.address()).await {
                let answer = sender.send_request(Request::post(CHAT).body(body).unwrap()).await;
                if answer.is_ok_and(|answer| answer.status() == StatusCode::OK) {
                    return;
                }
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    soon("answer", works).await;
    until("told", || pod.cache() == told.copies()).await;
    pod.stop().await;
}

#[tokio::test]
async fn a_pod_that_hangs_says_nothing_until_it_recovers() {
    let (pod, _) = slow().await;
    let mut body = streaming(&pod).await;
    pod.fault(Fault::Hang);
    // What was on its way may still come; then nothing does.
    let silent = async { while tokio::time::timeout(Duration::from_millis(200), body.frame()).await.is_ok() {} };
    soon("silence", silent).await;
    let mut sender = connect(pod.address()).await.unwrap();
    let health = sender.send_request(Request::get("/health").body(Full::default()).unwrap());
    tokio::pin!(health);
    assert!(tokio::time::timeout(Duration::from_millis(200), &mut health).await.is_err());
    assert_eq!(post(&pod, "/sim/fault", &json!("recover")).await.0, StatusCode::NO_CONTENT);
    assert_eq!(soon("health", health).await.unwrap().status(), StatusCode::OK);
    soon("more of the stream", body.frame()).await.unwrap().unwrap();
    pod.stop().await;
}

#[tokio::test]
async fn streams_are_cut_in_the_middle_of_an_event_and_only_once() {
    let (pod, _) = slow().await;
    let body = streaming(&pod).await;
    pod.fault(Fault::CutStreams);
    let (bytes, ended) = rest(body).await;
    let text = String::from_utf8(bytes).unwrap();
    let half = text.rsplit("\n\n").next().unwrap();
    assert!(!ended && half.starts_with("data: {") && !half.ends_with('}'), "{text}");
    until("aborted", || pod.metrics().blocks_used == 0).await;
    let body = chat("hi", &[("stream", json!(true)), ("max_tokens", json!(3))]);
    let (_, _, bytes) = post(&pod, CHAT, &body).await;
    assert!(bytes.ends_with(b"data: [DONE]\n\n"));
    pod.stop().await;
}

#[tokio::test]
async fn a_pod_that_fails_at_once_says_so_until_it_recovers_and_is_healthy_all_the_while() {
    let (pod, _) = start(|_| {}).await;
    let hi = chat("hi", &[("max_tokens", json!(1))]);
    for status in [400, 401, 404, 429, 500, 503] {
        pod.fault(Fault::Respond(status));
        let (answered, _, body) = post(&pod, CHAT, &hi).await;
        let body: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!((answered.as_u16(), &body["error"]["code"]), (status, &json!(status)));
        assert_eq!(get(&pod, "/health").await.0, StatusCode::OK);
    }
    for fault in [Fault::Respond(200), Fault::Recover] {
        let failed = post(&pod, CHAT, &hi).await.0 == StatusCode::SERVICE_UNAVAILABLE;
        assert!(failed, "200 is no error, and nothing ends the one before");
        pod.fault(fault);
    }
    ask(&pod, CHAT, &hi).await;
    pod.stop().await;
}

#[tokio::test]
async fn a_ledger_has_what_a_pod_ran_and_how_that_ended() {
    let ledger = RequestLedger::default();
    let (pod, told) = start(|config| (config.ledger, config.speed) = (Some(ledger.clone()), 1.0)).await;
    ask(&pod, CHAT, &chat("hi", &[("max_tokens", json!(1))])).await;
    drop(streaming(&pod).await);
    until("aborted", || ledger.executions()[1].ended.is_some()).await;
    let _stream = streaming(&pod).await;
    assert!(ledger.executions()[2].ended.is_none());
    pod.fault(Fault::Restart);
    until("back", || told.restarts() == 1).await;
    let executions = ledger.executions();
    let ends: Vec<_> = executions.iter().map(|execution| execution.ended.unwrap().1).collect();
    assert_eq!(ends, [ExecutionEnd::Finished, ExecutionEnd::Aborted, ExecutionEnd::Lost]);
    assert!(executions.iter().all(|one| one.request == "abc" && one.pod == "pod" && !one.prefills));
    assert_eq!(ledger.finished_since("pod", executions[0].begun), 1);
    pod.stop().await;
}

#[tokio::test]
async fn a_slow_pod_takes_longer() {
    let (pod, _) = start(|_| {}).await;
    pod.fault(Fault::Slow(10_000.0));
    let before = std::time::Instant::now();
    ask(&pod, CHAT, &chat("hi", &[("max_tokens", json!(1))])).await;
    assert!(before.elapsed() > Duration::from_millis(48), "a prefill is at least 4.8 ms, ten times");
    pod.fault(Fault::Slow(0.0));
    pod.fault(Fault::Recover);
    ask(&pod, CHAT, &chat("hi", &[])).await;
    pod.stop().await;
}

/// The step under way when a pod is slow would take hours.
#[tokio::test]
async fn a_pod_that_recovers_or_restarts_is_not_held_up_by_its_slowness() {
    let (pod, told) = start(|_| {}).await;
    let hi = chat("hi", &[("max_tokens", json!(1))]);
    let body = hi.to_string();
    for fault in [Fault::Recover, Fault::Restart] {
        pod.fault(Fault::Slow(1e6));
        let waits = send(&pod, CHAT, &body);
        let recovers = async {
            until("running", || pod.metrics().running == 1).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
            pod.fault(fault);
        };
        let (answer, ()) = soon("end", async { tokio::join!(waits, recovers) }).await;
        assert_eq!(answer.is_ok(), fault == Fault::Recover);
        if fault == Fault::Restart {
            until("back", || told.restarts() == 1).await;
            until("listening", || std::net::TcpStream::connect(pod.address()).is_ok()).await;
        }
        soon("answer", ask(&pod, CHAT, &hi)).await;
    }
    pod.stop().await;
}

#[tokio::test]
async fn a_pod_that_dies_for_a_while_comes_back_by_itself_unless_it_is_called_before() {
    let (pod, told) = start(|_| {}).await;
    let listens = || std::net::TcpStream::connect(pod.address()).is_ok();
    let body = json!({"die_for": 0.3});
    // It may be gone before it has answered.
    let _ = send(&pod, "/sim/fault", &body.to_string()).await;
    until("gone", || !listens()).await;
    until("back", || told.restarts() == 1 && listens()).await;
    pod.fault(Fault::DieFor(3_600.0));
    until("gone", || !listens()).await;
    pod.fault(Fault::Restart);
    until("back", || told.restarts() == 2 && listens()).await;
    ask(&pod, CHAT, &chat("hi", &[("max_tokens", json!(1))])).await;
    pod.fault(Fault::DieFor(0.0));
    until("back", || told.restarts() == 3 && listens()).await;
    pod.stop().await;
}

#[tokio::test]
async fn faults_are_passed_on() {
    let (pod, _) = start(|_| {}).await;
    let heard = Arc::new(Mutex::new(Vec::new()));
    let hook = Arc::clone(&heard);
    pod.on_fault(move |fault| hook.lock().push(fault));
    let faults = [Fault::DropEvents(3), Fault::PartitionEvents, Fault::Slow(2.0), Fault::Recover];
    for fault in faults {
        let body = serde_json::to_value(fault).unwrap();
        assert_eq!(post(&pod, "/sim/fault", &body).await.0, StatusCode::NO_CONTENT);
    }
    pod.fault(Fault::ReorderEvents);
    let wrong =
        [json!("explode"), json!({"slow": 0}), json!({"slow": 1e300}), json!({"die_for": -1}), json!({"die_for": 1e9})];
    for wrong in wrong {
        assert_eq!(post(&pod, "/sim/fault", &wrong).await.0, StatusCode::BAD_REQUEST, "{wrong}");
    }
    assert_eq!(heard.lock().split_last(), Some((&Fault::ReorderEvents, &faults[..])), "and nothing of what is wrong");
    pod.stop().await;
}

#[tokio::test]
async fn neither_stopping_nor_dropping_leaves_a_task() {
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    for stop in [true, false] {
        let (pod, _) = slow().await;
        let body = streaming(&pod).await;
        if stop {
            pod.stop().await;
        } else {
            drop(pod);
        }
        assert!(!rest(body).await.1);
        until("without tasks", || tasks() == before).await;
    }
}
