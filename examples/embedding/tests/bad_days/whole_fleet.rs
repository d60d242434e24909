//! Every pod fails for a while. What is asked a quarter of a second after that is answered.

use std::ops::Range;
use std::time::Duration;

use pointsman::core::Pod;
use pointsman::{Health, HealthCheck};
use tokio::time::{Instant, sleep_until};

use super::setup::{Fault, ask, fleets, router, served, transport};

/// What all pods do with requests, and with health checks.
const FAULTS: [(&str, Fault, Health); 8] = [
    ("500", Fault::Answer(500, &[]), Health::Healthy(None)),
    ("500, checks too", Fault::Answer(500, &[]), Health::Failing),
    ("refused", Fault::Refused, Health::Healthy(None)),
    ("refused, checks too", Fault::Refused, Health::Unreachable),
    ("503 with Retry-After", Fault::Answer(503, &[("retry-after", "30")]), Health::Healthy(None)),
    ("the same, checks too", Fault::Answer(503, &[("retry-after", "30")]), Health::Failing),
    ("silent", Fault::Silent, Health::Healthy(None)),
    ("silent, checks too", Fault::Silent, Health::Failing),
];

/// Health checks of pods that are all down for a while.
struct Checks {
    down: Range<Instant>,
    is: Health,
}

impl HealthCheck for Checks {
    async fn check(&self, _: Pod) -> Health {
        if self.down.contains(&Instant::now()) { self.is } else { Health::Healthy(None) }
    }
}

async fn is_over_when_it_is_over(seconds: u64) {
    for (name, fault, health) in FAULTS {
        for (roles, profile, _) in fleets() {
            let start = Instant::now();
            let (begin, end) = (start + BEGIN, start + BEGIN + Duration::from_secs(seconds));
            let router = router(profile, roles);
            let _housekeeping = router.spawn_housekeeping();
            let _checks = router.spawn_health_checks(Checks { down: begin..end, is: health }, Duration::from_secs(1));
            let mut asked = tokio::task::JoinSet::new();
            // What was sent to silent pods is given up after a minute, all at once.
            let tail = if matches!(fault, Fault::Silent) && seconds == 1 { 65 } else { 5 };
            for number in 0..usize::try_from((seconds + tail) * PER_SECOND).unwrap() {
                let router = router.clone();
                let at = start + Duration::from_millis(1000 * number as u64 / PER_SECOND);
                asked.spawn(async move {
                    sleep_until(at).await;
                    let transport = transport(move |_, request| async move {
                        let is_down = (begin..end).contains(&Instant::now());
                        if is_down { fault.happens(&request).await } else { served(&request).await }
                    });
                    (at, ask(&router, transport, number).await)
                });
            }
            let answers = asked.join_all().await;
            let after: Vec<_> = answers.iter().filter(|(at, _)| *at >= end + Duration::from_millis(250)).collect();
            let failed = after.iter().filter(|(_, served)| !served).count();
            println!(
                "{seconds:2} s {name:22} {profile:28} of {}: {failed} of {} failed afterwards",
                roles.len(),
                after.len()
            );
            assert!(failed * 100 <= after.len(), "{seconds} s, {name}, {profile}: {failed} of {}", after.len());
            let before = begin - Duration::from_millis(200);
            assert!(answers.iter().filter(|(at, _)| *at < before).all(|(_, served)| *served), "{name}, {profile}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_fault_of_a_second_is_over_when_it_is_over() {
    is_over_when_it_is_over(1).await;
}

#[tokio::test(start_paused = true)]
async fn a_fault_of_five_seconds_is_over_when_it_is_over() {
    is_over_when_it_is_over(5).await;
}

#[tokio::test(start_paused = true)]
async fn a_fault_of_half_a_minute_is_over_when_it_is_over() {
    is_over_when_it_is_over(30).await;
}

/// Not together with a health check.
const BEGIN: Duration = Duration::from_millis(2_300);
const PER_SECOND: u64 = 10;
