//! Requests by model, fairness id and priority: how many, how long, how large, as llm-d counts them.
//!
//! Labels are what clients say, so there is a bound: what is beyond it is counted under [`OTHER`].

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use pointsman::ApiError;
use pointsman::exec::TokenUsage;

use super::histogram::Histogram;

/// What a request is counted under.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RequestLabels {
    /// The model as the client called it, and as the pod knows it; nothing where the body was not read.
    pub(crate) model: Arc<str>,
    pub(crate) target: Arc<str>,
    pub(crate) fairness: Arc<str>,
    pub(crate) priority: i32,
}

/// Requests of the same labels.
#[derive(Clone, Debug)]
pub(super) struct Series {
    pub(super) requests: u64,
    pub(super) running: u64,
    pub(super) errors: BTreeMap<&'static str, u64>,
    pub(super) duration: Histogram,
    pub(super) request_bytes: Histogram,
    pub(super) response_bytes: Histogram,
    pub(super) input_tokens: Histogram,
    pub(super) output_tokens: Histogram,
    pub(super) cached_tokens: Histogram,
    pub(super) time_per_token: Histogram,
    pub(super) streaming_time_per_token: Histogram,
    /// Of answers that are streamed, and of those that are not.
    pub(super) first_token: [Histogram; 2],
}

impl Default for Series {
    fn default() -> Self {
        let first_token = || Histogram::new(&LATENCY[..FIRST_TOKEN]);
        Self {
            requests: 0,
            running: 0,
            errors: BTreeMap::new(),
            duration: Histogram::new(&LATENCY),
            request_bytes: Histogram::new(&REQUEST_BYTES),
            response_bytes: Histogram::new(&TOKENS[..RESPONSE_BYTES]),
            input_tokens: Histogram::new(&TOKENS),
            output_tokens: Histogram::new(&TOKENS[..OUTPUT_TOKENS]),
            cached_tokens: Histogram::new(&TOKENS),
            time_per_token: Histogram::new(&TIME_PER_TOKEN),
            streaming_time_per_token: Histogram::new(&STREAMING_TIME_PER_TOKEN),
            first_token: [first_token(), first_token()],
        }
    }
}

impl Series {
    /// Adds what another counted, for labels that leave some of ours out.
    pub(super) fn add(&mut self, other: &Self) {
        (self.requests, self.running) = (self.requests + other.requests, self.running + other.running);
        other.errors.iter().for_each(|(code, count)| *self.errors.entry(code).or_default() += count);
        self.duration.add(&other.duration);
        self.request_bytes.add(&other.request_bytes);
        self.response_bytes.add(&other.response_bytes);
        self.input_tokens.add(&other.input_tokens);
        self.output_tokens.add(&other.output_tokens);
        self.cached_tokens.add(&other.cached_tokens);
        self.time_per_token.add(&other.time_per_token);
        self.streaming_time_per_token.add(&other.streaming_time_per_token);
        self.first_token.iter_mut().zip(&other.first_token).for_each(|(own, other)| own.add(other));
    }
}

type Shared = Arc<Mutex<Series>>;

/// All series.
#[derive(Debug, Default)]
pub(crate) struct RequestMetrics(Mutex<BTreeMap<RequestLabels, Shared>>);

impl RequestMetrics {
    /// A request is sent on. It runs until the meter ends or is dropped.
    pub(crate) fn begin(&self, labels: RequestLabels, received: Instant) -> RequestMeter {
        let series = self.of(labels);
        let mut counted = series.lock();
        (counted.requests, counted.running) = (counted.requests + 1, counted.running + 1);
        drop(counted);
        RequestMeter {
            series,
            received,
            first: None,
            request_bytes: Some(0),
            bytes: 0,
            streams: false,
            has_failed: false,
        }
    }

    /// A request is answered in the pods' place.
    pub(crate) fn refused(&self, labels: RequestLabels, error: &ApiError) {
        *self.of(labels).lock().errors.entry(error_code(error.status.as_u16())).or_default() += 1;
    }

    pub(super) fn all(&self) -> Vec<(RequestLabels, Series)> {
        self.0.lock().iter().map(|(labels, series)| (labels.clone(), series.lock().clone())).collect()
    }

    fn of(&self, labels: RequestLabels) -> Shared {
        let mut known = self.0.lock();
        if let Some(series) = known.get(&labels) {
            return Arc::clone(series);
        }
        let is_long = [&labels.model, &labels.target, &labels.fairness].iter().any(|label| is_too_long(label));
        let labels = match is_long || known.len() >= MOST_SERIES {
            // Priorities are an operator's: few.
            true => RequestLabels { model: OTHER.into(), target: OTHER.into(), fairness: OTHER.into(), ..labels },
            false => labels,
        };
        Arc::clone(known.entry(labels).or_default())
    }
}

/// A request that was sent on, as it is counted.
#[derive(Debug)]
pub(crate) struct RequestMeter {
    series: Shared,
    received: Instant,
    first: Option<Instant>,
    /// Of its body, while more of it may come.
    request_bytes: Option<usize>,
    bytes: usize,
    streams: bool,
    has_failed: bool,
}

impl RequestMeter {
    pub(crate) fn head(&mut self, is_success: bool, streams: bool) {
        (self.has_failed, self.streams) = (!is_success, streams);
    }

    /// Of its body so many bytes were sent on.
    pub(crate) fn request_piece(&mut self, bytes: usize) {
        self.request_bytes.iter_mut().for_each(|sent| *sent += bytes);
    }

    /// All of its body was sent on.
    pub(crate) fn request_ended(&mut self) {
        if let Some(bytes) = self.request_bytes.take() {
            self.series.lock().request_bytes.record(bytes as f64);
        }
    }

    /// A piece of its answer came.
    pub(crate) fn chunk(&mut self, bytes: usize) {
        self.bytes += bytes;
        if bytes > 0 {
            self.first.get_or_insert_with(Instant::now);
        }
    }

    /// Its answer ended.
    pub(crate) fn end(self, usage: Option<TokenUsage>, is_whole: bool) {
        let now = Instant::now();
        let since = |from: Instant| now.saturating_duration_since(from).as_secs_f64();
        let (took, usage) = (since(self.received), usage.unwrap_or_default());
        let mut series = self.series.lock();
        if self.has_failed || !is_whole {
            *series.errors.entry(MODEL_SERVER_ERROR).or_default() += 1;
        }
        series.duration.record(took);
        series.response_bytes.record(self.bytes as f64);
        let told = |tokens: Option<u64>| tokens.filter(|tokens| *tokens > 0).map(|tokens| tokens as f64);
        if let Some(tokens) = told(usage.prompt_tokens) {
            series.input_tokens.record(tokens);
        }
        if let Some(tokens) = usage.cached_tokens {
            series.cached_tokens.record(tokens as f64);
        }
        let output = told(usage.completion_tokens);
        if let Some(tokens) = output {
            series.output_tokens.record(tokens);
            series.time_per_token.record(took / tokens);
        }
        let Some(first) = self.first else { return };
        series.first_token[usize::from(!self.streams)].record(took - since(first));
        if let Some(tokens) = output.filter(|tokens| self.streams && *tokens > 1.0) {
            series.streaming_time_per_token.record(since(first) / (tokens - 1.0));
        }
    }
}

impl Drop for RequestMeter {
    fn drop(&mut self) {
        self.request_ended();
        self.series.lock().running -= 1;
    }
}

/// A label as it is kept: what clients say may be as long as their bodies.
pub(super) fn bounded(label: Arc<str>) -> Arc<str> {
    if is_too_long(&label) { OTHER.into() } else { label }
}

fn is_too_long(label: &str) -> bool {
    label.len() > LONGEST_LABEL
}

/// llm-d's word for an answer in the pods' place.
fn error_code(status: u16) -> &'static str {
    match status {
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "NotFound",
        412 => "PreconditionFailed",
        429 => "ResourceExhausted",
        400..500 => "BadRequest",
        503 => "ServiceUnavailable",
        _ => "Internal",
    }
}

/// llm-d's word for a pod that failed.
const MODEL_SERVER_ERROR: &str = "ModelServerError";
/// What labels say beyond the bound.
pub(super) const OTHER: &str = "other";
/// Series at most: each is up to 400 lines of the page.
const MOST_SERIES: usize = 256;
/// Bytes of a label at most.
const LONGEST_LABEL: usize = 256;

// Upper bounds of buckets, all of them llm-d's.
const LATENCY: [f64; 35] = [
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0,
    45.0, 60.0, 120.0, 180.0, 240.0, 300.0, 360.0, 480.0, 600.0, 900.0, 1200.0, 1800.0, 2700.0, 3600.0,
];
/// So many of them for first tokens.
const FIRST_TOKEN: usize = 24;
const REQUEST_BYTES: [f64; 25] = [
    64.0,
    128.0,
    256.0,
    512.0,
    1024.0,
    2048.0,
    4096.0,
    8192.0,
    16384.0,
    32768.0,
    65536.0,
    131072.0,
    262144.0,
    524288.0,
    1048576.0,
    2097152.0,
    4194304.0,
    8388608.0,
    16777216.0,
    33554432.0,
    67108864.0,
    134217728.0,
    268435456.0,
    536870912.0,
    1073741824.0,
];
/// 32778 is how llm-d writes it.
const TOKENS: [f64; 19] = [
    1.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0, 32778.0, 65536.0,
    131072.0, 262144.0, 524288.0, 1048576.0,
];
/// So many of them for the bytes of answers, and for their tokens.
const RESPONSE_BYTES: usize = 15;
const OUTPUT_TOKENS: usize = 12;
const TIME_PER_TOKEN: [f64; 13] = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0];
const STREAMING_TIME_PER_TOKEN: [f64; 19] =
    [0.0005, 0.00205, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.125, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0, 2.0];

#[cfg(test)]
mod tests {
    use super::*;

    fn of(model: &str, priority: i32) -> RequestLabels {
        RequestLabels { model: model.into(), target: model.into(), fairness: "f".into(), priority }
    }

    #[test]
    fn a_request_runs_until_its_answer_ends_or_nobody_waits_for_it() {
        let metrics = RequestMetrics::default();
        let begin = || metrics.begin(of("m", 0), Instant::now());
        let (mut first, second) = (begin(), begin());
        first.request_piece(100);
        first.request_piece(11);
        first.request_ended();
        first.request_piece(1);
        assert_eq!(metrics.all()[0].1.running, 2);
        drop(second);
        first.head(true, true);
        first.chunk(0);
        first.chunk(7);
        let mut usage = TokenUsage::new(3, 0);
        usage.completion_tokens = Some(5);
        first.end(Some(usage), true);
        let series = &metrics.all()[0].1;
        assert_eq!((series.requests, series.running, series.errors.len()), (2, 0, 0));
        assert_eq!((series.duration.count(), series.response_bytes.sum()), (1, 7.0));
        assert_eq!((series.request_bytes.count(), series.request_bytes.sum()), (2, 111.0));
        assert_eq!(
            (series.input_tokens.sum(), series.cached_tokens.count(), series.output_tokens.sum()),
            (3.0, 1, 5.0)
        );
        assert_eq!([0, 1].map(|at| series.first_token[at].count()), [1, 0], "it was streamed");
        assert_eq!((series.time_per_token.count(), series.streaming_time_per_token.count()), (1, 1));
    }

    #[test]
    fn labels_are_bounded_in_number_and_length() {
        let metrics = RequestMetrics::default();
        drop(metrics.begin(of(&"x".repeat(300), 3), Instant::now()));
        assert_eq!((&*metrics.all()[0].0.model, metrics.all()[0].0.priority), (OTHER, 3));
        for n in 0..2 * MOST_SERIES {
            drop(metrics.begin(of(&n.to_string(), 0), Instant::now()));
        }
        let all = metrics.all();
        assert_eq!(all.len(), MOST_SERIES + 1, "and one for the rest");
        assert_eq!(all.iter().map(|(_, series)| series.requests).sum::<u64>(), 2 * MOST_SERIES as u64 + 1);
    }
}
