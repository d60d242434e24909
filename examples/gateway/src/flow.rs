//! Flow control of the gateway: who requests are of, and what became of them, by band and key.
//!
//! The rule: never more series than bands and [`MOST_KEYS`] keys; whoever comes later is counted as `other`.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::HeaderMap;
use parking_lot::Mutex;
use pointsman::{FlowClass, LlmRequest};
use routing_core::flow::{FlowTrace, Waited};

use super::config::ClientSettings;
use super::histogram::Histogram;

/// What the headers of a request say of who it is of; what its body says is added later.
#[derive(Clone, Debug, Default)]
pub(super) struct Claimed {
    key: Option<Arc<str>>,
    priority: Option<i32>,
    deadline: Option<Instant>,
}

impl Claimed {
    pub(super) fn of(settings: &ClientSettings, headers: &HeaderMap, now: Instant) -> Self {
        let text = |name: &Option<String>| headers.get(name.as_deref()?)?.to_str().ok();
        let client = settings.client(headers);
        let deadline = text(&settings.deadline_header).and_then(|millis| millis.parse().ok());
        Self {
            key: client.map(|client| &*client.name).or_else(|| text(&settings.key_header)).map(bounded),
            // Whoever has a key of its own can ask for less than it is given, and not for more.
            priority: match (text(&settings.priority_header).and_then(|priority| priority.parse().ok()), client) {
                (Some(asked), Some(client)) => Some(client.priority.min(asked)),
                (asked, client) => asked.or(client.map(|client| client.priority)),
            },
            deadline: deadline.and_then(|millis| now.checked_add(Duration::from_millis(millis))),
        }
    }

    /// With what the request's own body says, where that is believed.
    pub(super) fn class(self, settings: &ClientSettings, model: &str, request: &LlmRequest) -> FlowClass {
        let seen = request.request(model, Instant::now());
        // So that nobody passes for a client that has a key.
        let user = || seen.tenant.filter(|_| settings.trust_user).map(|user| bounded(&format!("user:{user}")));
        let adapter = || seen.adapter.filter(|_| settings.by_adapter).map(|name| bounded(&format!("adapter:{name}")));
        let priority = self.priority.or(settings.trust_priority.then_some(seen.priority)).unwrap_or(0);
        let mut class = FlowClass::new(priority, self.key.or_else(user).or_else(adapter).unwrap_or_default());
        class.deadline = self.deadline;
        class
    }
}

/// A key that is not too long to be kept: of a longer one its beginning, and what tells it from others.
fn bounded(key: &str) -> Arc<str> {
    if key.len() <= LONGEST_KEY {
        return key.into();
    }
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    let beginning: String = key.chars().take(LONGEST_KEY / 4).collect();
    format!("{beginning}…{:016x}", hasher.finish()).into()
}

/// Counters of flow control.
#[derive(Debug, Default)]
pub(super) struct FlowMetrics(Mutex<FlowCounts>);

/// What was counted.
#[derive(Clone, Debug, Default)]
pub(super) struct FlowCounts {
    /// Requests, by band and outcome: `passed`, `waited`, `left` if their client did, or why they were shed.
    pub(super) bands: BTreeMap<(Arc<str>, &'static str), u64>,
    /// How long those waited that went, by band.
    pub(super) waits: BTreeMap<Arc<str>, Histogram>,
    /// Requests that were let go, and those that were not, by key.
    pub(super) keys: BTreeMap<Arc<str>, [u64; 2]>,
}

impl FlowMetrics {
    pub(super) fn went(&self, trace: &FlowTrace) {
        let mut counts = self.0.lock();
        let is_waiting = trace.why != Waited::No;
        let outcome = if is_waiting { "waited" } else { "passed" };
        *counts.bands.entry((Arc::clone(&trace.band), outcome)).or_default() += 1;
        if is_waiting {
            counts.waits.entry(Arc::clone(&trace.band)).or_default().record(trace.waited);
        }
        counts.key(&trace.key, 0);
    }

    /// A request was not let go: why it was shed, or `left`.
    pub(super) fn shed(&self, band: Arc<str>, key: &Arc<str>, why: &'static str) {
        let mut counts = self.0.lock();
        *counts.bands.entry((band, why)).or_default() += 1;
        counts.key(key, 1);
    }

    pub(super) fn counts(&self) -> FlowCounts {
        self.0.lock().clone()
    }
}

impl FlowCounts {
    fn key(&mut self, key: &Arc<str>, outcome: usize) {
        let is_known = self.keys.contains_key(key) || self.keys.len() < MOST_KEYS;
        let key = if is_known { Arc::clone(key) } else { "other".into() };
        self.keys.entry(key).or_default()[outcome] += 1;
    }
}

/// Keys that are counted by themselves.
const MOST_KEYS: usize = 256;
/// Bytes of a key that is kept as it is.
const LONGEST_KEY: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(given: &[(&'static str, &'static str)]) -> HeaderMap {
        given.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn an_api_key_says_more_than_a_header_and_headers_count_if_they_are_configured() {
        let text =
            "api_keys: [{ name: team, api_key: secret, priority: 5 }]\nkey_header: x-tenant\npriority_header: x-urgent";
        let settings: ClientSettings = serde_yaml_ng::from_str(text).unwrap();
        let of = |given: &[(&'static str, &'static str)]| {
            let claimed = Claimed::of(&settings, &headers(given), Instant::now());
            (claimed.key.as_deref().map(str::to_owned), claimed.priority)
        };
        assert_eq!(of(&[("authorization", "Bearer secret")]), (Some("team".to_owned()), Some(5)));
        assert_eq!(of(&[("x-api-key", "secret"), ("x-tenant", "t")]), (Some("team".to_owned()), Some(5)));
        assert_eq!(
            of(&[("x-api-key", "wrong"), ("x-tenant", "t"), ("x-urgent", "9")]),
            (Some("t".to_owned()), Some(9))
        );
        assert_eq!(of(&[("x-api-key", "secret"), ("x-urgent", "-3")]), (Some("team".to_owned()), Some(-3)));
        assert_eq!(of(&[("x-api-key", "secret"), ("x-urgent", "99")]), (Some("team".to_owned()), Some(5)), "no more");
        let nobody =
            Claimed::of(&ClientSettings::default(), &headers(&[("x-tenant", "t"), ("x-urgent", "9")]), Instant::now());
        assert_eq!((nobody.key, nobody.priority), (None, None), "nobody's word counts unless it is said so");
    }

    #[test]
    fn users_and_adapters_are_keys_where_it_is_said_so_and_nobody_else_is() {
        let router: pointsman::Router = pointsman::Router::builder("m")
            .adapter("sql", None)
            .pod(pointsman::PodSpec::new("p", "p"))
            .build()
            .unwrap();
        let key = |settings: &str, headers: &[(&'static str, &'static str)], body: &'static str| {
            let settings: ClientSettings = serde_yaml_ng::from_str(settings).unwrap();
            let (parts, ()) = http::Request::post("/v1/completions").body(()).unwrap().into_parts();
            let request = router.read(parts, bytes::Bytes::from_static(body.as_bytes())).unwrap();
            let claimed = Claimed::of(&settings, &self::headers(headers), Instant::now());
            let class = claimed.class(&settings, "m", &request);
            (class.key.to_string(), class.priority)
        };
        let both = r#"{"model":"sql","prompt":"p","user":"ann","priority":7}"#;
        assert_eq!(key("{}", &[], both), (String::new(), 0), "nobody's word counts");
        assert_eq!(key("by_adapter: true", &[], both).0, "adapter:sql");
        assert_eq!(key("by_adapter: true", &[], r#"{"model":"m","prompt":"p"}"#).0, "", "the model itself is nobody's");
        assert_eq!(
            key("{ by_adapter: true, trust_user: true, trust_priority: true }", &[], both),
            ("user:ann".to_owned(), 7)
        );
        let tenant = &[("x-tenant", "t")];
        assert_eq!(key("{ by_adapter: true, trust_user: true, key_header: x-tenant }", tenant, both).0, "t");
    }

    #[test]
    fn keys_are_counted_up_to_a_bound() {
        let metrics = FlowMetrics::default();
        for at in 0..2_000 {
            metrics.went(&FlowTrace::passed("all".into(), format!("key-{at}").into()));
        }
        let counts = metrics.counts();
        assert_eq!(counts.keys.len(), MOST_KEYS + 1);
        assert_eq!(counts.keys.values().map(|counts| counts[0]).sum::<u64>(), 2_000);
        let long = "x".repeat(10_000);
        assert!(bounded(&long).len() < 2 * LONGEST_KEY && bounded(&long) != bounded(&format!("{long}y")));
        assert_eq!(counts.bands[&("all".into(), "passed")], 2_000);
    }
}
