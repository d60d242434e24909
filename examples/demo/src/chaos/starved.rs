//! A gateway with few descriptors: a process of its own in front of two pods, and connections that take all of them.
//!
//! The limit is of a process, and the pods and clients of a chaos run are in the same one as its gateway. So this gateway is a
//! child, started by a shell that lowers the limit, with pods and a light load of its own.

use std::io::{self, BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pointsman_engine_sim::MODEL;
use pointsman_gateway::Gateway;
use pointsman_gateway::config::{Config, PodSettings};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::invariants::Invariant;
use crate::fleet::{Fleet, FleetShape};
use crate::load_generator::{Client, LoadGenerator, Outcome, RequestRecord, RequestTracker, Workload, WorkloadShape};

/// The gateway, its pods and its load.
pub(super) struct StarvedGateway {
    child: Child,
    address: SocketAddr,
    fleet: Fleet,
    tracker: Arc<RequestTracker>,
    stop: CancellationToken,
    load: JoinHandle<()>,
    /// The connections of a flood, while there is one.
    flood: Mutex<Option<JoinSet<()>>>,
    /// When floods began and ended.
    floods: Mutex<Vec<(Instant, Option<Instant>)>>,
}

impl StarvedGateway {
    /// Starts it; none where there is no shell that lowers limits.
    pub(super) async fn start(seed: u64) -> io::Result<Option<Self>> {
        if !cfg!(unix) {
            return Ok(None);
        }
        let fleet = Fleet::start(&FleetShape { pods: 2, speed: 8.0, ..FleetShape::default() }).await?;
        let pods: Vec<String> = fleet.pods().map(|pod| format!("http://{}", pod.address())).collect();
        let program = std::env::current_exe()?;
        let mut command = Command::new("sh");
        command.args(["-c", &format!("ulimit -n {DESCRIPTORS} && exec \"$0\" \"$@\"")]).arg(program);
        command.arg("--gateway-of").arg(pods.join(",")).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let stdout = child.stdout.take().ok_or_else(|| io::Error::other("the gateway has no output"))?;
        let line = tokio::task::spawn_blocking(move || BufReader::new(stdout).lines().next());
        let line = line.await.map_err(io::Error::other)?.transpose()?.unwrap_or_default();
        let Ok(address) = line.parse::<SocketAddr>() else {
            let _ = child.kill();
            let _ = child.wait();
            fleet.stop().await;
            return Err(io::Error::other(format!("the gateway with few descriptors said `{line}`")));
        };
        let (stop, tracker) = (CancellationToken::new(), Arc::new(RequestTracker::default()));
        let client = Client::new(&format!("http://{address}"), CLIENT_TIMEOUT);
        let mut load = LoadGenerator::new(client, Workload::new(SHAPE, seed), MODEL, usize::MAX);
        (load.concurrency, load.stop, load.tracker) = (CLIENTS, stop.clone(), Arc::clone(&tracker));
        let load = tokio::spawn(async { drop(load.run(|| {}).await) });
        let (flood, floods) = (Mutex::default(), Mutex::default());
        Ok(Some(Self { child, address, fleet, tracker, stop, load, flood, floods }))
    }

    /// Opens more connections than there are descriptors, asks something on each, which takes a connection to a pod, and keeps them open.
    pub(super) fn flood(&self) {
        let mut connections = JoinSet::new();
        for _ in 0..DESCRIPTORS * 2 {
            let address = self.address;
            connections.spawn(async move {
                // The listener's backlog takes those that the gateway cannot.
                let Ok(mut connection) = TcpStream::connect(address).await else { return };
                let _ = connection.write_all(question().as_bytes()).await;
                std::future::pending().await
            });
        }
        *self.flood.lock() = Some(connections);
        self.floods.lock().push((Instant::now(), None));
    }

    /// Closes all of them.
    pub(super) fn end_flood(&self) {
        self.flood.lock().take();
        if let Some((_, end)) = self.floods.lock().last_mut() {
            *end = Some(Instant::now());
        }
    }

    /// Lets the load go on until the last flood was long enough ago to be judged by, stops everything, and judges.
    pub(super) async fn stop(mut self) -> Invariant {
        let floods = std::mem::take(&mut *self.floods.lock());
        if let Some(end) = floods.last().and_then(|(_, end)| *end) {
            while Instant::now() < end + HEAL_BOUND + AFTERWARDS && !has_settled(&self.tracker.records(), end) {
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        }
        self.stop.cancel();
        let _ = self.load.await;
        // Its input ends, and so does it; if not, it is ended.
        drop(self.child.stdin.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.fleet.stop().await;
        verdict(&self.tracker.records(), &floods)
    }
}

/// A request as it goes over the wire.
fn question() -> String {
    let body = format!(r#"{{"model":"{MODEL}","messages":[{{"role":"user","content":" a day"}}],"max_tokens":64}}"#);
    let head = format!("POST /v1/chat/completions HTTP/1.1\r\nhost: gateway\r\ncontent-length: {}\r\n\r\n", body.len());
    head + &body
}

/// Whether requests that began a while after a flood were answered, one after the other, as the last ones there are.
fn has_settled(records: &[RequestRecord], end: Instant) -> bool {
    let later = records.iter().rev().take_while(|record| record.begun >= end + AFTERWARDS);
    later.take(SETTLED_BY).filter(|record| record.outcome == Outcome::Answered).count() == SETTLED_BY
}

/// Whether requests are answered without floods, and soon after each.
fn verdict(records: &[RequestRecord], floods: &[(Instant, Option<Instant>)]) -> Invariant {
    let failed: Vec<&RequestRecord> =
        records.iter().filter(|record| matches!(record.outcome, Outcome::Failed(_))).collect();
    let mut violations = Vec::new();
    let mut slowest = Duration::ZERO;
    for (at, (begin, end)) in floods.iter().enumerate() {
        let end = end.unwrap_or(*begin);
        let next = floods.get(at + 1).map(|(begin, _)| *begin);
        let is_before_next = |time: Instant| next.is_none_or(|next| time < next);
        let after = failed.iter().filter(|record| record.begun >= end && is_before_next(record.begun));
        let healed = after.map(|record| record.ended - end).max().unwrap_or_default();
        slowest = slowest.max(healed);
        if healed > HEAL_BOUND {
            violations.push(format!("requests failed until {:.1} s after a flood", healed.as_secs_f64()));
        }
        let answered = |record: &&RequestRecord| record.outcome == Outcome::Answered && record.begun >= end;
        if records.iter().filter(answered).count() == 0 {
            violations.push("nothing was answered after a flood".to_owned());
        }
    }
    let first = floods.first().map(|(begin, _)| *begin);
    let before = failed.iter().filter(|record| first.is_none_or(|first| record.ended < first)).count();
    if before > 0 {
        violations.push(format!("{before} requests failed before there was a flood"));
    }
    let checked = format!(
        "{} floods, {} requests, {} failed, healed within {:.1} s of {} s",
        floods.len(),
        records.len(),
        failed.len(),
        slowest.as_secs_f64(),
        HEAL_BOUND.as_secs()
    );
    Invariant::new("a gateway out of descriptors heals", checked, &violations)
}

/// The child: a gateway of these pods, until its input ends.
pub(crate) async fn run_gateway(pods: &[String]) -> Result<(), Box<dyn std::error::Error>> {
    let pods = pods.iter().enumerate().map(|(nth, url)| PodSettings::new(&format!("pod-{nth}"), url)).collect();
    let mut config = Config::default_for(pods);
    config.timeouts.first_byte_timeout = Duration::from_secs(3);
    config.timeouts.request_timeout = Duration::from_secs(10);
    let gateway = Gateway::start(config).await?;
    println!("{}", gateway.address());
    tokio::task::spawn_blocking(|| io::copy(&mut io::stdin(), &mut io::sink())).await??;
    Ok(())
}

/// What the gateway may have open: a dozen is its own, and a request takes two.
const DESCRIPTORS: usize = 128;
const CLIENTS: usize = 4;
const CLIENT_TIMEOUT: Duration = Duration::from_secs(15);
/// From the end of a flood until no request fails any more.
const HEAL_BOUND: Duration = Duration::from_secs(15);
/// Requests begun so long after a flood show whether it is over.
const AFTERWARDS: Duration = Duration::from_secs(1);
/// So many answers in a row, which is a few seconds of them.
const SETTLED_BY: usize = 60;

const SHAPE: WorkloadShape = WorkloadShape {
    system_prompts: 2,
    system_tokens: (100, 200),
    turns: (2, 4),
    user_tokens: (20, 60),
    answer_tokens: (4, 12),
    think_ms: (50, 150),
    document_every: 50,
    document_tokens: (200, 300),
    unstreamed_every: 3,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load_generator::{Failure, RequestTracker};

    /// Requests that began and ended so many seconds after some beginning, and whether they failed.
    fn records(start: Instant, requests: &[(u64, u64, bool)]) -> Vec<RequestRecord> {
        let tracker = RequestTracker::default();
        let record = |(begun, ended, failed): &(u64, u64, bool)| RequestRecord {
            id: tracker.begin(),
            begun: start + Duration::from_secs(*begun),
            ended: start + Duration::from_secs(*ended),
            outcome: if *failed { Outcome::Failed(Failure::Status(503)) } else { Outcome::Answered },
        };
        requests.iter().map(record).collect()
    }

    #[test]
    fn failures_during_a_flood_and_soon_after_are_excused_and_later_ones_are_not() {
        let start = Instant::now();
        let flood = |begin, end| (start + Duration::from_secs(begin), Some(start + Duration::from_secs(end)));
        let well = [(0, 1, false), (11, 12, true), (15, 18, true), (18, 19, false), (60, 61, false)];
        let found = verdict(&records(start, &well), &[flood(10, 14)]);
        assert!(found.holds() && found.result.clone().unwrap().contains("healed within 4.0 s"), "{found:?}");
        let late = [(0, 1, false), (30, 31, true), (32, 33, false)];
        assert!(!verdict(&records(start, &late), &[flood(10, 14)]).holds());
        let silent = [(0, 1, false), (11, 12, true)];
        assert!(!verdict(&records(start, &silent), &[flood(10, 14)]).holds());
        let end = start + Duration::from_secs(14);
        let mut answered = vec![(20, 21, false); SETTLED_BY];
        assert!(has_settled(&records(start, &answered), end));
        answered[3].2 = true;
        assert!(!has_settled(&records(start, &answered), end));
        assert!(!has_settled(&records(start, &well), end));
        let before = [(0, 1, true), (16, 17, false)];
        assert!(!verdict(&records(start, &before), &[flood(10, 14)]).holds());
    }
}
