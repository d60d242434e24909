//! Request metadata, borrowed from the host: no body is copied to route it.

use std::fmt;
use std::ops::Range;
use std::time::Instant;

use kv_index::BlockHash;

/// A request as plugins see it.
///
/// # Examples
///
/// ```
/// use std::time::Instant;
///
/// use routing_core::Request;
///
/// let headers: &[(&str, &str)] = &[("x-session", "s-1")];
/// let request = Request::new("llama-8b", Instant::now()).headers(&headers).body(b"{}").tenant("acme");
/// assert_eq!(request.header("X-Session"), Some(&b"s-1"[..]));
/// ```
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Request<'r> {
    /// The model it asks for.
    pub model: &'r str,
    /// The host's header map.
    pub headers: Option<&'r dyn Headers>,
    /// The body's bytes, as far as the host has them.
    pub body: &'r [u8],
    /// Where in the body the prompt is, if the host read it already.
    pub prompt: Option<&'r PromptSpans>,
    /// The prompt's token ids, if the host has them already.
    pub tokens: Option<&'r [u32]>,
    /// The hashes of the prompt's whole blocks, if the host has them already.
    pub hashes: Option<&'r [BlockHash]>,
    /// Whose request it is.
    pub tenant: Option<&'r str>,
    /// Who sent it, as the host knows it and not by its own word: the holder of an API key, such as a tenant with users of its own.
    pub client: Option<&'r str>,
    /// Labels of the client, such as its region.
    pub labels: &'r [(&'r str, &'r str)],
    /// When it is decided.
    pub now: Instant,
    /// When its answer is of no use any more.
    pub deadline: Option<Instant>,
    /// The LoRA adapter that it asks for.
    pub adapter: Option<&'r str>,
    /// What tells its cache from others of the same prompt, if the client or the host wants that.
    pub salt: Option<&'r str>,
    /// How urgent it is; higher goes first, and what is below 0 may be turned away first.
    pub priority: i32,
    /// How many tokens it may generate at most.
    pub most_output: Option<u32>,
    /// How many leading tokens count for what pods hold; all, unless set.
    pub most_prefix: Option<u32>,
    /// What ties and chance are decided by. The same seed gives the same plan, so give each request its own: with the 0
    /// it has unless set, ties always fall to the same pods.
    pub seed: u64,
}

/// Methods that set one field and leave the others as they are.
macro_rules! setters {
    ($($(#[$doc:meta])* $field:ident($value:ident: $type:ty) => $set:expr;)*) => {$(
        $(#[$doc])*
        #[must_use]
        pub const fn $field(self, $value: $type) -> Self {
            Self { $field: $set, ..self }
        }
    )*};
}

impl<'r> Request<'r> {
    /// A request for a model, and nothing else known of it. Its seed is 0: set one by [`Self::seed`].
    #[must_use]
    pub const fn new(model: &'r str, now: Instant) -> Self {
        Self {
            model,
            headers: None,
            body: &[],
            prompt: None,
            tokens: None,
            hashes: None,
            tenant: None,
            client: None,
            labels: &[],
            now,
            deadline: None,
            adapter: None,
            salt: None,
            priority: 0,
            most_output: None,
            most_prefix: None,
            seed: 0,
        }
    }

    setters! {
        /// The same with headers.
        headers(headers: &'r dyn Headers) => Some(headers);
        /// The same with where in its body the prompt is.
        prompt(spans: &'r PromptSpans) => Some(spans);
        /// The same with its prompt as tokens.
        tokens(tokens: &'r [u32]) => Some(tokens);
        /// The same with the hashes of its prompt's whole blocks, made by the rules that the index is filled by.
        hashes(hashes: &'r [BlockHash]) => Some(hashes);
        /// The same of a tenant.
        tenant(tenant: &'r str) => Some(tenant);
        /// The same of a client that the host knows.
        client(client: &'r str) => Some(client);
        /// The same of a client with these labels.
        labels(labels: &'r [(&'r str, &'r str)]) => labels;
        /// The same with a deadline.
        deadline(deadline: Instant) => Some(deadline);
        /// The same for a LoRA adapter.
        adapter(name: &'r str) => Some(name);
        /// The same with a cache salt.
        salt(salt: &'r str) => Some(salt);
        /// The same with a priority.
        priority(priority: i32) => priority;
        /// The same, generating at most so many tokens.
        most_output(tokens: u32) => Some(tokens);
        /// The same, with only so many leading tokens counting for what pods hold.
        most_prefix(tokens: u32) => Some(tokens);
        /// The same with a seed for ties and chance.
        seed(seed: u64) => seed;
    }

    /// The same with a body. Where its prompt is has to be said after this: places in another body are none in this one.
    #[must_use]
    pub const fn body(self, body: &'r [u8]) -> Self {
        Self { body, prompt: None, ..self }
    }

    /// A header's value; names are compared without regard to case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&'r [u8]> {
        self.headers?.header(name)
    }

    /// Visits every value of a header, in order: of one that may come several times.
    pub fn each_header(&self, name: &str, visit: &mut dyn FnMut(&[u8])) {
        if let Some(headers) = self.headers {
            headers.all(name, visit);
        }
    }

    /// A label of the client.
    #[must_use]
    pub fn label(&self, key: &str) -> Option<&'r str> {
        self.labels.iter().find(|(known, _)| *known == key).map(|(_, value)| *value)
    }
}

impl fmt::Debug for Request<'_> {
    /// Without the contents: they are a client's.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tokens = self.tokens.map(<[u32]>::len);
        write!(f, "Request({:?}, {} bytes, tokens: {tokens:?}, seed {})", self.model, self.body.len(), self.seed)
    }
}

/// Where in a request's body its prompt is written: found once by whoever reads the body, for plugins that go by its text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PromptSpans {
    /// The prompt's bytes.
    pub text: Range<usize>,
    /// What comes before it in what an engine computes, wherever in the body it is.
    pub before: [Option<Range<usize>>; 3],
}

impl PromptSpans {
    /// A prompt at a place, and nothing before it.
    #[must_use]
    pub const fn new(text: Range<usize>) -> Self {
        Self { text, before: [const { None }; 3] }
    }

    /// The same with what comes before it.
    #[must_use]
    pub fn before(self, before: [Option<Range<usize>>; 3]) -> Self {
        Self { before, ..self }
    }
}

/// A header map, as any gateway has one.
pub trait Headers: Sync {
    /// The first value of a header; names are compared without regard to case.
    fn header(&self, name: &str) -> Option<&[u8]>;

    /// Visits every value of a header, in order. The first alone, unless an implementation knows the others.
    fn all(&self, name: &str, visit: &mut dyn FnMut(&[u8])) {
        if let Some(value) = self.header(name) {
            visit(value);
        }
    }
}

impl Headers for &[(&str, &str)] {
    fn header(&self, name: &str) -> Option<&[u8]> {
        self.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_bytes())
    }

    fn all(&self, name: &str, visit: &mut dyn FnMut(&[u8])) {
        let own = self.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
        own.for_each(|(_, value)| visit(value.as_bytes()));
    }
}

#[cfg(feature = "http")]
impl Headers for http::HeaderMap {
    fn header(&self, name: &str) -> Option<&[u8]> {
        self.get(name).map(http::HeaderValue::as_bytes)
    }

    fn all(&self, name: &str, visit: &mut dyn FnMut(&[u8])) {
        self.get_all(name).iter().for_each(|value| visit(value.as_bytes()));
    }
}

#[cfg(all(test, feature = "http"))]
mod tests {
    use super::*;

    #[test]
    fn a_header_map_works_as_it_is() {
        let mut map = http::HeaderMap::new();
        map.append("x-key", http::HeaderValue::from_static("1"));
        map.append("X-Key", http::HeaderValue::from_static("2"));
        let headers: &dyn Headers = &map;
        assert_eq!((headers.header("X-KEY"), headers.header("other")), (Some(&b"1"[..]), None));
        let mut all = Vec::new();
        headers.all("x-key", &mut |value| all.push(value.to_vec()));
        assert_eq!(all, [b"1", b"2"]);
        assert_eq!(headers.header("not a name"), None);
    }
}
