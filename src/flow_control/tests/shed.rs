//! What is told of a request that is shed, and what counts towards the bounds.

use super::*;

fn saturated(limits: QueueLimits) -> Scene {
    let band = BandConfig::new("all").time_to_live(Duration::from_secs(2)).limits(limits);
    Scene::new(1, 1, FlowConfig::default().band(band))
}

#[test]
fn an_error_says_who_was_shed_behind_whom_and_why_it_had_waited() {
    let scene = saturated(QueueLimits::default().requests(1));
    let _guard = scene.going();
    let mut waits = scene.admit(0, "first");
    assert!(now(&mut waits).is_none());
    let full = now(&mut scene.admit(0, "second")).unwrap().unwrap_err().shed.unwrap();
    assert_eq!((&*full.band, &*full.key, full.why, full.ahead), ("all", "second", Waited::No, 1));
    scene.clock.advance(Duration::from_secs(2));
    let expired = now(&mut waits).unwrap().unwrap_err().shed.unwrap();
    assert_eq!((&*expired.key, expired.why, expired.ahead), ("first", Waited::Saturated, 0));
    assert_eq!(expired.waited, Duration::from_secs(2));
    let (parts, ()) = http::Request::post("/v1/completions").body(()).unwrap().into_parts();
    let request = scene.router.read(parts, Bytes::from_static(br#"{"model":"m","prompt":"p"}"#)).unwrap();
    let refused = scene.router.prepare(request.classify(FlowClass::new(0, "third")), None).unwrap_err();
    assert_eq!((refused.code, &*refused.shed.unwrap().key), ("saturated", "third"));
}

/// Four bytes a token, beside the body that they were made of.
#[test]
fn bytes_are_bounded_with_the_tokens_of_prompts() {
    const BODY: &str = r#"{"model":"m","prompt":"0123456789"}"#;
    let bounds = |bytes| {
        let clock = TestClock::new();
        let router = Router::builder("m").pod(PodSpec::new("pod", "http://pod")).tokenizer(Arc::new(Bytewise)).seed(7);
        let band = BandConfig::new("all").limits(QueueLimits::default().bytes(bytes));
        let config = FlowConfig::default().band(band);
        let router = router.flow_control(move |state| Ok(control(1, &config, state))).build().unwrap();
        let admit = || -> Admitting<'_> {
            let (parts, ()) = http::Request::post("/v1/completions").body(()).unwrap().into_parts();
            Box::pin(router.admit(router.read(parts, Bytes::from_static(BODY.as_bytes())).unwrap(), false, &clock))
        };
        let _going = begin(now(&mut admit()).unwrap().unwrap());
        let mut waits = admit();
        let outcome = now(&mut waits).map(|outcome| outcome.unwrap_err().status.as_u16());
        (outcome, router.flow_status(0)[0].bytes)
    };
    let bytes = BODY.len() as u64 * 5;
    assert_eq!(bounds(bytes), (None, bytes));
    assert_eq!(bounds(bytes - 1), (Some(413), 0));
}
