//! The client before every hop: a few connections, each with one request at a time, and how late what they get is.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::workload::{CHUNKS, Workload};

/// What a lap gave.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lap {
    /// Microseconds: of whole answers from request to end, of streams from sending to receiving, a chunk each.
    pub(crate) late: Vec<f64>,
    /// Streams whose first chunk was here before the last was sent.
    pub(crate) streamed: usize,
    /// Requests that were answered as they should be.
    pub(crate) answered: usize,
    /// What was wrong with another.
    pub(crate) wrong: Option<String>,
}

impl Lap {
    fn add(&mut self, other: Self) {
        self.late.extend(other.late);
        self.streamed += other.streamed;
        self.answered += other.answered;
        self.wrong = self.wrong.take().or(other.wrong);
    }
}

/// Sends requests, as many connections at once as the workload has; each waits between two for so long.
pub(crate) async fn lap(
    hop: SocketAddr,
    workload: Workload,
    first: usize,
    requests: usize,
    wait: Duration,
    start: Instant,
) -> Lap {
    let connections = workload.connections().min(requests);
    let mut tasks = JoinSet::new();
    for connection in 0..connections {
        let numbers: Vec<usize> = (first + connection..first + requests).step_by(connections).collect();
        tasks.spawn(async move {
            let mut lap = Lap::default();
            if let Err(error) = converse(hop, workload, &numbers, wait, start, &mut lap).await {
                lap.wrong = Some(error);
            }
            lap
        });
    }
    let mut all = Lap::default();
    while let Some(Ok(lap)) = tasks.join_next().await {
        all.add(lap);
    }
    all
}

/// The requests of one connection.
async fn converse(
    hop: SocketAddr,
    workload: Workload,
    numbers: &[usize],
    wait: Duration,
    start: Instant,
    lap: &mut Lap,
) -> Result<(), String> {
    let mut sender = connect(hop).await?;
    for &number in numbers {
        if sender.ready().await.is_err() {
            sender = connect(hop).await?;
        }
        let body = workload.body(number);
        let request = Request::post("/v1/chat/completions")
            .header("host", "hop")
            .header("content-type", "application/json")
            .body(Full::new(body));
        let begun = Instant::now();
        let response = sender.send_request(request.map_err(|error| error.to_string())?).await;
        let response = response.map_err(|error| error.to_string())?;
        let status = response.status();
        let mut answer = Answer::new(start);
        let mut body = response.into_body();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| error.to_string())?;
            if let Some(data) = frame.data_ref() {
                answer.read(data, workload.streams());
            }
        }
        if !status.is_success() || (workload.streams() && (answer.late.len() != CHUNKS || !answer.is_done())) {
            let text = String::from_utf8_lossy(&answer.text).chars().take(300).collect::<String>();
            return Err(format!("{status}, {} chunks: {text}", answer.late.len()));
        }
        lap.answered += 1;
        match workload.streams() {
            true => {
                lap.streamed += usize::from(answer.first < answer.last_sent);
                lap.late.append(&mut answer.late);
            }
            false => lap.late.push(begun.elapsed().as_secs_f64() * 1e6),
        }
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
    }
    Ok(())
}

async fn connect(hop: SocketAddr) -> Result<SendRequest<Full<Bytes>>, String> {
    let stream = TcpStream::connect(hop).await.map_err(|error| error.to_string())?;
    let _ = stream.set_nodelay(true);
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
    tokio::spawn(connection);
    Ok(sender)
}

/// An answer as it comes.
struct Answer {
    start: Instant,
    text: Vec<u8>,
    /// How far times were looked for.
    looked: usize,
    late: Vec<f64>,
    /// Nanoseconds after the start: when the first chunk was here, and when the last one was sent.
    first: u128,
    last_sent: u128,
}

impl Answer {
    fn new(start: Instant) -> Self {
        Self { start, text: Vec::new(), looked: 0, late: Vec::new(), first: u128::MAX, last_sent: 0 }
    }

    fn read(&mut self, data: &[u8], is_stream: bool) {
        let now = self.start.elapsed().as_nanos();
        self.text.extend_from_slice(data);
        if !is_stream {
            return;
        }
        // A time stands between two `@`; one that is cut is read with the rest of it.
        while let Some((sent, end)) = time(&self.text, self.looked) {
            self.looked = end;
            self.late.push(now.saturating_sub(sent) as f64 / 1e3);
            self.first = self.first.min(now);
            self.last_sent = self.last_sent.max(sent);
        }
    }

    fn is_done(&self) -> bool {
        self.text.ends_with(b"data: [DONE]\n\n")
    }
}

/// The next time in a text, and where it ends.
fn time(text: &[u8], from: usize) -> Option<(u128, usize)> {
    let begin = from + text.get(from..)?.iter().position(|byte| *byte == b'@')? + 1;
    let end = begin + text[begin..].iter().position(|byte| *byte == b'@')?;
    let number = std::str::from_utf8(&text[begin..end]).ok()?.parse().ok()?;
    Some((number, end + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_however_chunks_are_cut() {
        let text = b"data: {\"content\":\"@12@\"}\n\ndata: {\"content\":\"@345@\"}\n\ndata: [DONE]\n\n";
        for cut in 0..text.len() {
            let mut answer = Answer::new(Instant::now());
            answer.read(&text[..cut], true);
            answer.read(&text[cut..], true);
            assert_eq!((answer.late.len(), answer.last_sent, answer.is_done()), (2, 345, true), "cut at {cut}");
        }
    }
}
