//! Key extraction: header, cookie, body field, client or the prompt's beginning.

use std::num::NonZeroUsize;

use json_edit::{Object, Raw};
use routing_core::Request;
use xxhash_rust::xxh3::xxh3_64;

use super::prompt_finder::spans;

/// Where a request's key is found. Keys are compared by a hash of 64 bits that is the same in every gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum KeySource {
    /// The value of a header.
    Header(String),
    /// The value of a cookie.
    Cookie(String),
    /// A text or a number in the body, by its path: `metadata.session_id`.
    Body(String),
    /// The value of a label that the gateway knows of the client.
    Label(String),
    /// The tenant.
    Tenant,
    /// The prompt's first so many tokens, or all if there are fewer; of a request that brings [its
    /// hashes](Request::hashes), its first block.
    Tokens(NonZeroUsize),
    /// The first so many bytes of the prompt's text, or all if there are fewer.
    Text(NonZeroUsize),
}

impl KeySource {
    /// The whole number, if there is one: in a header, the body or a label.
    pub(crate) fn number(&self, request: &Request<'_>) -> Option<u32> {
        let parsed = |text: &str| text.trim().parse().ok();
        match self {
            Self::Header(name) => parsed(std::str::from_utf8(request.header(name)?).ok()?),
            Self::Body(path) => {
                let value = member(request.body, path)?;
                value.as_u64().and_then(|number| u32::try_from(number).ok()).or_else(|| parsed(&value.as_str()?))
            }
            Self::Label(name) => parsed(request.label(name)?),
            _ => None,
        }
    }

    /// The key, if the request has one there that is not empty.
    #[must_use]
    pub fn find(&self, request: &Request<'_>, tokens: Option<&[u32]>) -> Option<u64> {
        let hash = |bytes: &[u8]| (!bytes.is_empty()).then(|| xxh3_64(bytes));
        match self {
            Self::Header(name) => hash(request.header(name)?),
            Self::Cookie(name) => {
                // In HTTP/2 a client may send each cookie in a header of its own.
                let mut found = None;
                request.each_header("cookie", &mut |header| {
                    found = found.or_else(|| hash(cookie(header, name.as_bytes())?));
                });
                found
            }
            Self::Body(path) => {
                let value = member(request.body, path)?;
                match value.as_str() {
                    Some(text) => hash(text.as_bytes()),
                    None => value.as_f64().and_then(|_| hash(value.as_bytes())),
                }
            }
            Self::Label(name) => hash(request.label(name)?.as_bytes()),
            Self::Tenant => hash(request.tenant?.as_bytes()),
            Self::Tokens(most) => {
                // Who brings hashes may bring tokens for their number alone.
                if let Some(first) = request.hashes.and_then(<[_]>::first) {
                    return hash(&first.get().to_le_bytes());
                }
                let tokens = tokens.or(request.tokens)?;
                let mut hasher = xxhash_rust::xxh3::Xxh3Default::new();
                tokens.iter().take(most.get()).for_each(|token| hasher.update(&token.to_le_bytes()));
                (!tokens.is_empty()).then(|| hasher.digest())
            }
            Self::Text(most) => {
                let text = request.body.get(spans(request).text).unwrap_or_default();
                hash(&text[..text.len().min(most.get())])
            }
        }
    }
}

/// What is in a body at a path.
fn member<'b>(body: &'b [u8], path: &str) -> Option<Raw<'b>> {
    let (first, rest) = path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
    let mut value = Object::find(body, first).ok()??;
    for name in rest.into_iter().flat_map(|rest| rest.split('.')) {
        value = value.object()?.get(name)?;
    }
    Some(value)
}

/// Reads where to look for a number.
#[cfg(feature = "serde")]
pub(crate) fn read_number_sources<'d, D: serde::Deserializer<'d>>(from: D) -> Result<Vec<KeySource>, D::Error> {
    use serde::de::Error;

    let sources = read_any_sources(from)?;
    let has_numbers =
        |source: &KeySource| matches!(source, KeySource::Header(_) | KeySource::Body(_) | KeySource::Label(_));
    match sources.iter().all(has_numbers) {
        true => Ok(sources),
        false => Err(D::Error::custom("a number is in a `header`, in the `body` or in a `label`")),
    }
}

/// Reads where to look, for parameters: somewhere, and nowhere without a name.
#[cfg(feature = "serde")]
pub(super) fn read_sources<'d, D: serde::Deserializer<'d>>(from: D) -> Result<Vec<KeySource>, D::Error> {
    use serde::de::Error;

    let sources = read_any_sources(from)?;
    if sources.is_empty() { Err(D::Error::custom("there is no place to look")) } else { Ok(sources) }
}

/// The same, or nowhere at all.
#[cfg(feature = "serde")]
pub(crate) fn read_any_sources<'d, D: serde::Deserializer<'d>>(from: D) -> Result<Vec<KeySource>, D::Error> {
    use serde::{Deserialize, de::Error};

    let sources = Vec::<KeySource>::deserialize(from)?;
    let nameless = sources.iter().any(|source| match source {
        KeySource::Header(name) | KeySource::Cookie(name) | KeySource::Label(name) => name.is_empty(),
        KeySource::Body(path) => path.split('.').any(str::is_empty),
        KeySource::Tenant | KeySource::Tokens(_) | KeySource::Text(_) => false,
    });
    if nameless { Err(D::Error::custom("a place to look has no name")) } else { Ok(sources) }
}

/// A cookie's value in a header of cookies.
fn cookie<'h>(header: &'h [u8], name: &[u8]) -> Option<&'h [u8]> {
    header.split(|byte| *byte == b';').find_map(|pair| pair.trim_ascii().strip_prefix(name)?.strip_prefix(b"="))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prepare::tests::request;

    fn found(source: KeySource, request: &Request<'_>) -> Option<u64> {
        source.find(request, None)
    }

    #[test]
    fn numbers_are_read_where_they_are_whole_and_not_too_large() {
        let body = br#"{"a":{"b":7},"text":" 8 ","half":0.5,"large":4294967296}"#;
        let headers = &[("x-left", "3"), ("x-minus", "-1"), ("x-word", "many")][..];
        let request = request().body(body).headers(&headers);
        let of = |source: KeySource| source.number(&request);
        let header = |name: &str| of(KeySource::Header(name.to_owned()));
        let body = |path: &str| of(KeySource::Body(path.to_owned()));
        assert_eq!(["x-left", "x-minus", "x-word", "x-none"].map(header), [Some(3), None, None, None]);
        assert_eq!(["a.b", "text", "half", "large", "a", "none"].map(body), [Some(7), Some(8), None, None, None, None]);
        assert_eq!(of(KeySource::Tenant), None);
    }

    #[test]
    fn a_prompt_that_comes_as_hashes_is_known_by_its_first_block() {
        let source = || KeySource::Tokens(NonZeroUsize::new(4).unwrap());
        let [a, b, c] = [[1, 2], [1, 3], [2, 2]].map(|hashes| hashes.map(kv_index::BlockHash::new));
        let key = |hashes, tokens| found(source(), &request().hashes(hashes).tokens(tokens));
        assert_eq!(key(&a, &[0, 0]), key(&b, &[0, 0, 0]));
        assert_ne!(key(&a, &[0, 0]), key(&c, &[0, 0]));
        assert_eq!(key(&[], &[7]), found(source(), &request().tokens(&[7])), "less than a block");
    }

    #[test]
    fn each_place_is_looked_at() {
        let headers: &[(&str, &str)] = &[("X-Session", "s"), ("Cookie", "a=1; session=s ; b=2")];
        let body = br#"{"user": "s", "metadata": {"session": "s", "number": 12.50, "list": [1]}, "prompt": "s"}"#;
        let request = request().headers(&headers).body(body).tenant("s").labels(&[("org", "s")]);
        let key = Some(xxh3_64(b"s"));
        let text = |text: &str| text.to_owned();
        assert_eq!(found(KeySource::Header(text("x-session")), &request), key);
        assert_eq!(found(KeySource::Cookie(text("session")), &request), key);
        assert_eq!(found(KeySource::Body(text("user")), &request), key);
        assert_eq!(found(KeySource::Body(text("metadata.session")), &request), key);
        assert_eq!(found(KeySource::Body(text("metadata.number")), &request), Some(xxh3_64(b"12.50")));
        assert_eq!(found(KeySource::Label(text("org")), &request), key);
        assert_eq!(found(KeySource::Tenant, &request), key);
        for absent in ["metadata", "metadata.list", "metadata.session.deeper", "", ".", "metadata."] {
            assert_eq!(found(KeySource::Body(text(absent)), &request), None, "{absent}");
        }
        assert_eq!(found(KeySource::Cookie(text("essio")), &request), None);
    }

    #[test]
    fn cookies_may_come_in_several_headers() {
        let headers: &[(&str, &str)] = &[("cookie", "a=1"), ("Cookie", "session=s; b=2"), ("cookie", "session=t")];
        let request = request().headers(&headers);
        assert_eq!(found(KeySource::Cookie("session".to_owned()), &request), Some(xxh3_64(b"s")));
        assert_eq!(found(KeySource::Cookie("a".to_owned()), &request), Some(xxh3_64(b"1")));
        assert_eq!(found(KeySource::Cookie("c".to_owned()), &request), None);
    }

    /// A header map that has one value of a name is one too.
    #[test]
    fn cookies_are_found_in_a_map_that_knows_first_values_only() {
        struct One;

        impl routing_core::Headers for One {
            fn header(&self, name: &str) -> Option<&[u8]> {
                name.eq_ignore_ascii_case("cookie").then_some(b"session=s")
            }
        }

        assert_eq!(found(KeySource::Cookie("session".to_owned()), &request().headers(&One)), Some(xxh3_64(b"s")));
        assert_eq!(found(KeySource::Cookie("session".to_owned()), &request()), None);
    }

    #[test]
    fn of_several_fields_the_first_that_is_a_prompt_counts() {
        let of =
            |body: &[u8]| KeySource::Text(NonZeroUsize::new(64).expect("not zero")).find(&request().body(body), None);
        let prompt = of(br#"{"prompt": "abc", "max_tokens": 2}"#);
        assert_eq!(of(br#"{"messages": null, "prompt": "abc", "max_tokens": 1}"#), prompt);
        assert_ne!(of(br#"{"messages": [], "prompt": "abc", "max_tokens": 1}"#), prompt);
        assert_eq!(of(br#"{"n": 1, "input_ids": [1, 2]}"#), of(br#"{"input_ids": [1, 2], "n": 2}"#));
    }

    #[test]
    fn what_is_empty_or_broken_is_no_key() {
        let headers: &[(&str, &str)] = &[("x-session", ""), ("cookie", "session=")];
        let request = request().headers(&headers).body(b"{\"user\": ").tenant("").tokens(&[]);
        let text = |text: &str| text.to_owned();
        assert_eq!(found(KeySource::Header(text("x-session")), &request), None);
        assert_eq!(found(KeySource::Cookie(text("session")), &request), None);
        assert_eq!(found(KeySource::Body(text("user")), &request), None);
        assert_eq!(found(KeySource::Tenant, &request), None);
        assert_eq!(found(KeySource::Tokens(NonZeroUsize::MIN), &request), None);
    }

    #[test]
    fn of_a_prompt_only_its_beginning_counts() {
        let two = NonZeroUsize::new(2).expect("not zero");
        let of = |tokens: &[u32]| KeySource::Tokens(two).find(&request(), Some(tokens));
        assert_eq!(of(&[1, 2, 3]), of(&[1, 2, 4]));
        assert_ne!(of(&[1, 2, 3]), of(&[1, 3, 3]));
        let of = |body: &[u8]| KeySource::Text(two).find(&request().body(body), None);
        assert_eq!(of(br#"{"prompt": "abc"}"#), of(br#"{"n": 1, "prompt": "abd"}"#));
        assert_ne!(of(br#"{"prompt": "abc"}"#), of(br#"{"prompt": "bbc"}"#));
    }
}
