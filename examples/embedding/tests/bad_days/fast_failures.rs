//! Some pods fail at once, all the time, and pass their health checks.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::setup::{Fault, ask, fleets, router, served, transport};

async fn is_no_black_hole(faults: &[(&str, Fault)]) {
    bad_day(faults, 1, |hits, bad_pods| hits <= 0.05 * bad_pods).await;
}

/// Eight clients for a minute, each of which thinks for a while after every answer; bad pods fail each so-many-th request of theirs. At most 3%
/// of clients may fail, and what bad pods fail, a share of the requests, may be so much and no more. What is counted begins after the first
/// fiftieth.
async fn bad_day(faults: &[(&str, Fault)], each: usize, may_be: impl Fn(f64, f64) -> bool) {
    let (mut worst_hits, mut worst_failed) = (0.0_f64, 0.0_f64);
    for (fault, bad) in faults.iter().copied() {
        for (roles, profile, bad_pods) in fleets() {
            let router = router(profile, roles);
            let _housekeeping = router.spawn_housekeeping();
            let bad_pods: Arc<[_]> = bad_pods.iter().map(|at| router.pod(&format!("pod-{at}")).unwrap()).collect();
            let bad_count = bad_pods.len() as f64;
            let [hits, failed, next, sent] = [(); 4].map(|()| Arc::new(AtomicUsize::new(0)));
            let start = Instant::now();
            let is_counted = move || start.elapsed() > DURATION / 50;
            let clients = (0..8).map(|_| async {
                while start.elapsed() < DURATION {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let (hits, sent, bad_pods) = (Arc::clone(&hits), Arc::clone(&sent), Arc::clone(&bad_pods));
                    let transport = transport(move |pod, request| {
                        let is_bad = bad_pods.contains(&pod) && sent.fetch_add(1, Ordering::Relaxed) % each == 0;
                        hits.fetch_add(usize::from(is_bad && is_counted()), Ordering::Relaxed);
                        async move { if is_bad { bad.happens(&request).await } else { served(&request).await } }
                    });
                    failed.fetch_add(usize::from(!ask(&router, transport, number).await), Ordering::Relaxed);
                    sleep(THINKING).await;
                }
            });
            futures_util::future::join_all(clients).await;
            let [hits, failed, asked] = [hits, failed, next].map(|count| count.load(Ordering::Relaxed) as f64);
            println!("{fault:22} {profile:28} of {}: {hits:4} hits {failed:4} failed of {asked}", roles.len());
            (worst_hits, worst_failed) = (worst_hits.max(hits / asked), worst_failed.max(failed / asked));
            assert!(failed <= asked * 0.03, "{fault}, {profile}: {failed} of {asked} clients failed");
            assert!(
                may_be(hits / asked, bad_count),
                "{fault}, {profile}: {hits} attempts of {asked} at pods that fail"
            );
        }
    }
    println!("at worst {worst_hits:.3} hits, {worst_failed:.3} failed");
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_broken_is_no_black_hole() {
    let redirect = Fault::Answer(307, &[("location", "http://10.0.0.9/")]);
    is_no_black_hole(&[("500", Fault::Answer(500, &[])), ("307", redirect), ("no end", Fault::Cut)]).await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_pushes_back_is_no_black_hole() {
    let asks = Fault::Answer(503, &[("retry-after", "1")]);
    let [busy, too_many] = [503, 429].map(|status| Fault::Answer(status, &[]));
    is_no_black_hole(&[("503", busy), ("503 with Retry-After", asks), ("429", too_many)]).await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_refuses_is_no_black_hole() {
    let [bad, unknown, missing] = [400, 401, 404].map(|status| Fault::Answer(status, &[]));
    is_no_black_hole(&[("400", bad), ("401", unknown), ("404", missing)]).await;
}

/// Too seldom for a breaker to open. Others answer for it, and it is asked less often than they: else nearly a third of what clients ask would fail
/// there under some profiles.
#[tokio::test(start_paused = true)]
async fn a_pod_that_fails_every_third_request_costs_few_clients_their_answers() {
    let [broken, busy, missing] = [500, 503, 404].map(|status| Fault::Answer(status, &[]));
    bad_day(&[("500", broken), ("503", busy), ("404", missing), ("refused", Fault::Refused)], 3, |hits, _| {
        hits <= 0.22
    })
    .await;
}

const DURATION: Duration = Duration::from_secs(60);
const THINKING: Duration = Duration::from_millis(600);
