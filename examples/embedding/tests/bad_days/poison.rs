//! Requests that fail everywhere by themselves, more than there is retry budget to find out.

use std::time::Duration;

use pointsman::RouterUpdate;
use pointsman::exec::{BreakerState, RetryBudget};
use pointsman::plugins::profiles;
use tokio::time::{Instant, sleep, sleep_until};

use super::setup::{ALIKE, Fault, ask, router, served, transport};

/// Twenty bad requests a second beside twenty good ones, for twenty seconds. After a third of that the first pod fails all of them, if it is to,
/// and no budget is left at all.
///
/// Which pods had an open breaker, and how many good requests failed.
async fn poison(profile: &'static str, breaks: bool) -> (Vec<usize>, usize) {
    let router = router(profile, ALIKE);
    if breaks {
        router.apply(RouterUpdate::new().retry_budget(RetryBudget::new(0.0, 0.0, 0.0))).unwrap();
    }
    let _housekeeping = router.spawn_housekeeping();
    let pods: Vec<_> = router.pods().into_iter().map(|entry| entry.pod).collect();
    let start = Instant::now();
    let mut asked = tokio::task::JoinSet::new();
    for number in 0..40 * DURATION.as_secs() {
        let (router, first) = (router.clone(), pods[0]);
        asked.spawn(async move {
            sleep_until(start + Duration::from_millis(25 * number)).await;
            // Of streams and whole answers, long and short prompts alike.
            let is_poison = matches!(number % 4, 0 | 3);
            let transport = transport(move |pod, request| async move {
                let is_broken = breaks && pod == first && start.elapsed() > DURATION / 3;
                if !is_poison && !is_broken {
                    return served(&request).await;
                }
                sleep(Duration::from_millis(20)).await;
                Fault::Answer(500, &[]).happens(&request).await
            });
            ask(&router, transport, number as usize).await || is_poison
        });
    }
    let (mut opened, mut failed) = (vec![], 0);
    while let Some(is_well) = asked.join_next().await {
        failed += usize::from(!is_well.unwrap());
        let is_open = |at: &usize| router.breakers().status(pods[*at]).unwrap().state != BreakerState::Closed;
        opened.extend((0..pods.len()).filter(is_open));
    }
    opened.sort_unstable();
    opened.dedup();
    (opened, failed)
}

#[tokio::test(start_paused = true)]
async fn requests_that_fail_everywhere_open_no_breaker() {
    for profile in profiles::NAMES {
        assert_eq!(poison(profile, false).await, (vec![], 0), "{profile}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_fails_everything_beside_them_is_found_out() {
    for profile in profiles::NAMES {
        let (opened, failed) = poison(profile, true).await;
        println!("{profile:28} {failed} good ones failed");
        assert_eq!(opened, [0], "{profile}");
        assert!(failed <= 25, "{profile}: {failed} failed");
    }
}

const DURATION: Duration = Duration::from_secs(20);
