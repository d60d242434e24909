//! What is told of breakers: each change of a state once, with its cause, and nothing of what stays.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use kv_index::{Config, Index};
use routing_core::OpenBreakers;
use routing_exec::{BreakerConfig, BreakerSample, Breakers, Failure};

#[test]
#[expect(clippy::disallowed_methods, reason = "some instant to count from")]
fn each_change_is_told_once_with_its_cause() {
    let (index, mut now): (Index, _) = (Index::new(Config::default()), Instant::now());
    let pod = index.join("a").unwrap();
    let config = BreakerConfig::default().failure_threshold(2).success_threshold(1);
    let breakers: Arc<Breakers> = Arc::new(Breakers::new(config, Arc::new(OpenBreakers::new())));
    let (told, tells) = (Arc::new(Mutex::new(Vec::new())), Arc::clone(&breakers));
    let heard = Arc::clone(&told);
    assert!(breakers.on_change(move |change| {
        // Whoever is told may ask.
        assert_eq!(tells.status(change.pod).unwrap().name(), change.after.name());
        heard.lock().unwrap().push(format!("{} → {}: {}", change.before.name(), change.after.name(), change.cause));
    }));
    assert!(!breakers.on_change(|_| {}), "the first one stays");
    let judge = |sample: &BreakerSample, now| {
        let admission = breakers.admit(pod, now).or_else(|| breakers.admit_forced(pod, now)).unwrap().admission();
        breakers.record(admission, sample, now);
        admission
    };
    let told = || std::mem::take(&mut *told.lock().unwrap());
    let (good, bad) = (BreakerSample::Success(None), BreakerSample::Failure(Failure::FirstByteTimeout));

    judge(&good, now);
    judge(&bad, now);
    assert_eq!(told(), [""; 0], "one failure changes nothing");
    judge(&bad, now);
    judge(&bad, now);
    assert_eq!(told(), ["closed → open: first byte timed out"], "the last one went past it");
    now += Duration::from_secs(20);
    breakers.tick(now);
    breakers.tick(now);
    assert_eq!(told(), ["open → half_open: its time is up"]);
    judge(&good, now);
    assert_eq!(told(), ["half_open → closed: serves again"]);
    judge(&BreakerSample::Overloaded(None), now);
    judge(&BreakerSample::Overloaded(None), now);
    assert_eq!(told(), ["closed → cooling: pushed back"]);
    now += Duration::from_secs(60);
    judge(&good, now);
    assert_eq!(told(), ["cooling → closed: its time is up"]);
    judge(&bad, now);
    let last = judge(&bad, now);
    breakers.exonerate(last);
    assert_eq!(told(), ["closed → open: first byte timed out", "open → closed: the failure was the request's own"]);
    judge(&bad, now);
    breakers.recovered(pod);
    assert_eq!(told(), ["closed → open: first byte timed out", "open → closed: passes its health checks again"]);
}
