//! Encodings of request bodies: plain JSON is understood, and anything else gets a clear answer.

use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, StatusCode};

use crate::api_error::{ApiError, UNSUPPORTED_ENCODING};

/// Checks that a request's body is JSON that is not compressed, by its headers. One without a content type is taken for JSON.
///
/// # Errors
///
/// 415, with what is understood; the connection is closed, since the body is not read.
pub fn check_encoding(headers: &HeaderMap) -> Result<(), ApiError> {
    let refused =
        |code, message: String| Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, code, message).closing());
    let codings =
        headers.get_all(CONTENT_ENCODING).iter().flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    let mut codings = codings.map(<[u8]>::trim_ascii).filter(|coding| !coding.is_empty());
    if let Some(coding) = codings.find(|coding| !coding.eq_ignore_ascii_case(b"identity")) {
        let message = format!(
            "bodies encoded as `{}` are not understood: send them as they are, without Content-Encoding",
            shown(coding)
        );
        return refused(UNSUPPORTED_ENCODING, message);
    }
    let mut kinds = headers.get_all(CONTENT_TYPE).iter().map(|kind| kind.as_bytes());
    if let Some(kind) = kinds.find(|kind| !is_json(kind)) {
        let message = format!("bodies of type `{}` are not understood: send application/json", shown(kind));
        return refused("unsupported_content_type", message);
    }
    Ok(())
}

/// Whether a content type is JSON's: `application/json`, `text/json`, one that ends in `+json`; or what `curl -d` says of
/// whatever it sends.
fn is_json(kind: &[u8]) -> bool {
    let essence = kind.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii().to_ascii_lowercase();
    let is_curls = essence == b"application/x-www-form-urlencoded";
    essence.is_empty() || is_curls || essence.ends_with(b"/json") || essence.ends_with(b"+json")
}

/// A client's own text, and never too much of it.
fn shown(text: &[u8]) -> String {
    String::from_utf8_lossy(text).chars().take(100).collect()
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn check(name: http::HeaderName, value: &'static str) -> Result<(), ApiError> {
        check_encoding(&HeaderMap::from_iter([(name, HeaderValue::from_static(value))]))
    }

    #[test]
    fn json_as_it_is_is_understood() {
        assert_eq!(check_encoding(&HeaderMap::new()), Ok(()));
        let curls = "application/x-www-form-urlencoded";
        let kinds =
            ["application/json", "Application/JSON; charset=utf-8", "application/vnd.api+json", "text/json", ""];
        for kind in kinds.into_iter().chain([curls]) {
            assert_eq!(check(CONTENT_TYPE, kind), Ok(()), "{kind}");
        }
        for coding in ["identity", "Identity, ", ""] {
            assert_eq!(check(CONTENT_ENCODING, coding), Ok(()), "{coding}");
        }
    }

    #[test]
    fn anything_else_is_a_415_that_says_what_is_understood() {
        for (name, value) in [
            (CONTENT_ENCODING, "gzip"),
            (CONTENT_ENCODING, "identity, zstd"),
            (CONTENT_TYPE, "multipart/form-data; boundary=x"),
            (CONTENT_TYPE, "text/plain; a=application/json"),
        ] {
            let error = check(name, value).unwrap_err();
            assert_eq!((error.status.as_u16(), error.close), (415, true), "{value}");
        }
        let coded = check(CONTENT_ENCODING, "br").unwrap_err();
        assert!(coded.message.contains("`br`"));
        assert_eq!(coded.response().headers()["accept-encoding"], "identity");
        let typed = check(CONTENT_TYPE, "text/plain").unwrap_err();
        assert!(
            typed.message.contains("application/json") && !typed.response().headers().contains_key("accept-encoding")
        );
    }
}
