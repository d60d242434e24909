//! Asks each pod how it is, and publishes a new fleet when that changes.
//!
//! One task a pod, so that one that hangs delays no other. A pod that refuses a connection is unhealthy at once; one that is
//! silent or says no, after the second time in a row. One good answer makes it healthy again, and closes its circuit.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use routing_core::{Load, Pod};

use super::config::server_seconds as seconds;
use super::roster::Member;
use super::scrape;
use super::shared::Shared;

/// Asks a pod again and again, until it is removed.
pub(super) async fn follow(shared: Arc<Shared>, member: Member) {
    let mut failures = 0;
    loop {
        let health = shared.config.lock().health.clone();
        let timeout = seconds(health.timeout_seconds);
        let asked = ask(&shared, &member, timeout).await;
        let verdict = match asked {
            Ok(()) => {
                failures = 0;
                Some(true)
            }
            Err(Ill::Refused) => Some(false),
            Err(Ill::Silent) => {
                failures += 1;
                (failures >= 2).then_some(false)
            }
        };
        let load = if asked.is_ok() { scraped(&shared, &member, timeout).await } else { None };
        take_in(&shared, member.pod, verdict, load);
        tokio::select! {
            () = member.stop.cancelled() => return,
            () = tokio::time::sleep(seconds(health.every_seconds)) => {}
        }
    }
}

/// Asks every pod once, at the start, so that the first request already knows who is there.
pub(super) async fn first_round(shared: &Arc<Shared>) {
    let members = shared.roster.lock().members.clone();
    let timeout = seconds(shared.config.lock().health.timeout_seconds);
    let asked = members.iter().map(|member| async {
        let well = ask(shared, member, timeout).await.is_ok();
        let load = if well { scraped(shared, member, timeout).await } else { None };
        take_in(shared, member.pod, Some(well), load);
    });
    futures_util::future::join_all(asked).await;
}

/// Why a pod is not well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ill {
    /// Nobody listens.
    Refused,
    /// No answer in time, or one that says no.
    Silent,
}

fn take_in(shared: &Shared, pod: Pod, healthy: Option<bool>, load: Option<Load>) {
    let mut roster = shared.roster.lock();
    let Some(member) = roster.member_mut(pod) else { return };
    if let Some(load) = load {
        member.load = load;
        shared.plugin_state.load.report(pod, load, Instant::now());
    }
    let Some(healthy) = healthy.filter(|healthy| *healthy != member.healthy) else { return };
    member.healthy = healthy;
    if healthy {
        shared.breakers.recovered(pod);
    }
    let fleet = roster.fleet();
    // Under the roster's lock: versions are published in their order.
    shared.serving.store(Arc::new(shared.serving.load().on(fleet)));
}

async fn ask(shared: &Shared, member: &Member, timeout: Duration) -> Result<(), Ill> {
    match tokio::time::timeout(timeout, get(shared, member, "/health")).await {
        Ok(Ok((status, _))) if status.is_success() => Ok(()),
        Ok(Err(true)) => Err(Ill::Refused),
        _ => Err(Ill::Silent),
    }
}

async fn scraped(shared: &Shared, member: &Member, timeout: Duration) -> Option<Load> {
    let (status, text) = tokio::time::timeout(timeout, get(shared, member, "/metrics")).await.ok()?.ok()?;
    status.is_success().then(|| scrape::load(&String::from_utf8_lossy(&text))).flatten()
}

/// A page of a pod; an error is true if there was no connection.
async fn get(shared: &Shared, member: &Member, path: &str) -> Result<(StatusCode, Bytes), bool> {
    let url = format!("{}{path}", member.settings.url.trim_end_matches('/'));
    let request = Request::get(url).body(Full::default()).map_err(|_| false)?;
    let answer = shared.client.request(request).await.map_err(|error| error.is_connect())?;
    let status = answer.status();
    let body = Limited::new(answer.into_body(), MOST_METRICS).collect().await.map_err(|_| false)?;
    Ok((status, body.to_bytes()))
}

/// What is read of a pod's metrics.
const MOST_METRICS: usize = 4 << 20;
