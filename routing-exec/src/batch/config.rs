//! How a batch is carried out: how much at once, how patiently, and in which order results come.

use std::time::Duration;

use crate::failure::RetryOn;

/// How a batch is carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "settings that a host fills in by name")]
pub struct BatchRunConfig {
    /// How much a pod has under way at once, unless [`BatchRunner::bound`](crate::batch::BatchRunner::bound) says otherwise.
    pub bound: Bound,
    /// Whether a cohort's first request goes ahead of the others.
    pub lead: Lead,
    /// How often a request is tried whose pods had it and failed; at least once. A try that never reached a pod, because
    /// there was no connection or its circuit was open, is not counted, unless there were four times as many.
    pub attempts: u32,
    /// Which failures are worth another try.
    pub retry_on: RetryOn,
    /// How long a request waits before another try. It keeps its pod's place meanwhile, so a pod that pushes back is sent less.
    pub back_off: BackOff,
    /// So many failures in a row to connect, to answer or to finish an answer, and no answer between, and a pod is dead; at
    /// least one. A pod whose circuit is open is dead at once.
    pub dead_after: u32,
    /// After how long a dead pod is sent one request to see whether it lives again; none if that is for the host to say, by
    /// [`BatchRunner::join`](crate::batch::BatchRunner::join).
    pub revive: Option<Duration>,
    /// How long to wait for a pod when none lives, before the batch ends with an error; and how long requests wait for a dead
    /// pod that is looked after when none that lives has room for them, before they are given up.
    pub patience: Duration,
    /// How long a pod is left alone that [`BatchWork::admit`](crate::batch::BatchWork::admit) refused, unless something else
    /// happens.
    pub ask_again: Duration,
    /// In which order results come.
    pub order: Order,
    /// Requests under way and results that nobody has taken, together: beyond that nothing new is sent. At least one.
    pub window: usize,
    /// Bytes of an answer; one that is longer is given up for good.
    pub most_answer: usize,
}

impl Default for BatchRunConfig {
    /// 64 requests a pod, first ones ahead, five tries from half a second to 30 s apart, dead after three failures and tried
    /// again after 30 s, five minutes without a pod, refused pods asked
    /// again after 20 ms, results as they come, 16,384 of them held, 16 MiB each.
    fn default() -> Self {
        Self {
            bound: Bound::default(),
            lead: Lead::Ahead,
            attempts: 5,
            retry_on: RetryOn::default(),
            back_off: BackOff::default(),
            dead_after: 3,
            revive: Some(Duration::from_secs(30)),
            patience: Duration::from_secs(300),
            ask_again: Duration::from_millis(20),
            order: Order::AsTheyCome,
            window: 16_384,
            most_answer: 16 << 20,
        }
    }
}

/// How much a pod has under way at once. A request that waits to be tried again counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "settings that a host fills in by name")]
pub struct Bound {
    /// Requests; at least one.
    pub requests: u32,
    /// Tokens of their prompts and expected answers, as the pod's KV cache has to hold them; none for no such bound. What
    /// requests share is counted for each. A request that is larger than that is sent when the pod has nothing else.
    pub tokens: Option<u64>,
}

impl Default for Bound {
    /// 64 requests of any size.
    fn default() -> Self {
        Self { requests: 64, tokens: None }
    }
}

/// Whether a cohort's first request, which computes what all of it share, goes ahead of the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Lead {
    /// The others wait until its answer begins; later cohorts of the pod pass them meanwhile. For engines that share blocks only
    /// once they are computed: sent together, each request of the cohort would compute the shared ones.
    ///
    /// An answer that is not streamed begins when it is complete, so this costs a large cohort one answer's time.
    Ahead,
    /// All are sent as the pod's bound allows. For engines that see what two waiting prompts share.
    Together,
}

/// How long a request waits before it is tried again: twice as long each time, less up to half of it by chance, so that
/// requests that failed together do not come back together. A pod's `Retry-After` is heeded up to the longest wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "settings that a host fills in by name")]
pub struct BackOff {
    /// Before the second try.
    pub first: Duration,
    /// The longest wait.
    pub most: Duration,
}

impl Default for BackOff {
    /// From half a second to 30 s.
    fn default() -> Self {
        Self { first: Duration::from_millis(500), most: Duration::from_secs(30) }
    }
}

/// In which order results come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Order {
    /// As they come.
    AsTheyCome,
    /// By the requests' places in the batch.
    ///
    /// Results that are early are held, and no more of them than the window allows: when it is full, nothing is sent but the
    /// request whose result is next, ahead of its turn in the plan. A window that is small beside the batch thus costs the
    /// plan its order; a host that can sort afterwards, by a journal for one, had better take them as they come.
    /// Failures of requests that a plan leaves out are held besides, whatever the window: they are there at once.
    ByPlace,
}
