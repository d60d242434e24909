//! Shortest first: what a pod holds of a prompt is not new.

use super::*;

/// A turn that goes on with a long prompt, which its pod has, goes before a shorter prompt that nobody has.
#[test]
fn a_turn_that_is_held_goes_before_a_shorter_prompt_that_is_new() {
    let clock = TestClock::new();
    let time = clock.clone();
    let router = Router::builder("m").pod(PodSpec::new("pod", "http://pod")).tokenizer(Arc::new(Bytewise));
    let router = router.clock(move || *time.0.lock()).seed(7);
    let band = BandConfig::new("all").order(FlowOrder::ShortestFirst);
    let config = FlowConfig::default().band(band);
    let router = router.flow_control(move |state| Ok(control(1, &config, state))).build().unwrap();
    let admit = |letter: &str, tokens: usize| -> Admitting<'_> {
        let (parts, ()) = http::Request::post("/v1/completions").body(()).unwrap().into_parts();
        let body = format!(r#"{{"model":"m","prompt":"{}"}}"#, letter.repeat(tokens));
        Box::pin(router.admit(router.read(parts, Bytes::from(body)).unwrap(), false, &clock))
    };
    let first = begin(now(&mut admit("a", 20_000)).unwrap().unwrap());
    let (mut new, mut next) = (admit("b", 2_000), admit("a", 20_100));
    assert!(now(&mut new).is_none() && now(&mut next).is_none());
    drop(first);
    assert!(now(&mut new).is_none(), "it has more to compute");
    assert!(now(&mut next).unwrap().is_ok());
    assert!(now(&mut new).unwrap().is_ok());
}
