//! Request parsing: the fields of an OpenAI request that routing needs, read in place; only a model alias is rewritten.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode};
use json_edit::{Edit, Object};

use super::config::ModelSettings;
use super::error_response::ErrorResponse;

/// The fields of a request that routing needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ParsedRequest {
    /// The body for pods: the client's own, but for an alias.
    pub(super) body: Bytes,
    /// The LoRA adapter that the request names as its model.
    pub(super) adapter: Option<String>,
    pub(super) salt: Option<String>,
    pub(super) user: Option<String>,
    pub(super) max_output_tokens: Option<u32>,
    pub(super) priority: i32,
    /// Whether the engine computes the whole prompt, whatever it has cached: log probabilities of a prompt are not cached.
    pub(super) bypasses_cache: bool,
    /// Whether several answers are wanted: engines then report the cached tokens of one of them, which had the others' blocks.
    pub(super) has_samples: bool,
    /// The tokens of the prompt to which the engine truncates it.
    pub(super) truncate_prompt_tokens: Option<usize>,
    /// Whether it keeps the first ones of them; the last, unless asked for.
    pub(super) truncates_end: bool,
}

impl ParsedRequest {
    /// Parses a body.
    ///
    /// # Errors
    ///
    /// 400 if it is no JSON object or names no model, 404 if the model is not served here.
    pub(super) fn parse(body: Bytes, model: &ModelSettings) -> Result<Self, ErrorResponse> {
        let object =
            Object::parse(&body).map_err(|error| ErrorResponse::bad_request("invalid_json", error.to_string()))?;
        let text = |name: &str| object.get(name).and_then(|value| value.as_str()).map(|text| text.into_owned());
        let number = |name: &str| object.get(name).and_then(|value| value.as_u64());
        let is_given = |name: &str| object.get(name).is_some_and(|value| !value.is_null());
        let is_true = |name: &str| object.get(name).and_then(|value| value.as_bool()) == Some(true);
        let Some(name) = text("model") else {
            return Err(ErrorResponse::bad_request("missing_model", "the request names no `model`"));
        };
        let is_alias = model.aliases.contains(&name);
        let is_adapter = model.adapters.contains_key(&name);
        if name != model.name && !is_alias && !is_adapter {
            let message = format!("the model `{}` is not served here", shortened(&name));
            return Err(ErrorResponse::new(StatusCode::NOT_FOUND, "model_not_found", message));
        }
        let max_output = number("max_completion_tokens").or_else(|| number("max_tokens"));
        let priority = object.get("priority").and_then(|value| value.as_f64()).map_or(0, |priority| priority as i32);
        let parsed = Self {
            adapter: is_adapter.then_some(name),
            salt: text("cache_salt").filter(|salt| !salt.is_empty()),
            user: text("user"),
            max_output_tokens: max_output.map(|tokens| u32::try_from(tokens).unwrap_or(u32::MAX)),
            priority,
            bypasses_cache: is_given("prompt_logprobs") || is_true("echo") && is_given("logprobs"),
            has_samples: number("n").is_some_and(|n| n > 1) || number("best_of").is_some_and(|n| n > 1),
            truncate_prompt_tokens: number("truncate_prompt_tokens").and_then(|tokens| usize::try_from(tokens).ok()),
            truncates_end: text("truncation_side").as_deref() == Some("right"),
            body: Bytes::new(),
        };
        let edited = is_alias.then(|| Bytes::from(Edit::new(object).set("model", &*model.name).finish()));
        Ok(Self { body: edited.unwrap_or(body), ..parsed })
    }
}

/// The request id: the client's own if it is a short header value, or one made of a number.
pub(super) fn request_id(headers: &HeaderMap, number: u64) -> HeaderValue {
    let own = headers.get(REQUEST_ID).filter(|id| id.len() <= LONGEST_ID && id.to_str().is_ok_and(|id| !id.is_empty()));
    own.cloned().unwrap_or_else(|| {
        HeaderValue::try_from(format!("req-{number:016x}")).expect("letters and digits are a header's value")
    })
}

/// The header of the request id, towards clients and pods.
pub(super) const REQUEST_ID: &str = "x-request-id";
const LONGEST_ID: usize = 128;

fn shortened(name: &str) -> String {
    name.chars().take(100).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model() -> ModelSettings {
        let mut model = ModelSettings::new("sim");
        model.aliases.push("default".to_owned());
        model.adapters.insert("sql".to_owned(), None);
        model
    }

    fn read(body: &'static str) -> Result<ParsedRequest, ErrorResponse> {
        ParsedRequest::parse(Bytes::from_static(body.as_bytes()), &model())
    }

    #[test]
    fn a_body_stays_as_it_is() {
        let body = r#"{ "model":"sim",  "max_tokens": 7, "cache_salt":"s", "user": "u", "temperature":1.0}"#;
        let parsed = read(body).unwrap();
        assert_eq!(parsed.body, body);
        assert_eq!(
            (parsed.salt.as_deref(), parsed.user.as_deref(), parsed.max_output_tokens),
            (Some("s"), Some("u"), Some(7))
        );
    }

    #[test]
    fn an_alias_is_replaced_and_nothing_else() {
        assert_eq!(read(r#"{"n": 1.0, "model":"default" }"#).unwrap().body, r#"{"n": 1.0, "model":"sim" }"#);
    }

    #[test]
    fn an_adapter_is_named_as_a_model() {
        let body = r#"{"model":"sql"}"#;
        let parsed = read(body).unwrap();
        assert_eq!((parsed.adapter.as_deref(), &parsed.body[..]), (Some("sql"), body.as_bytes()));
        assert_eq!(read(r#"{"model":"sim"}"#).unwrap().adapter, None);
    }

    #[test]
    fn what_is_not_served_is_refused() {
        for (body, status, code) in [
            (r#"{"model":"other"}"#, 404, "model_not_found"),
            (r#"{"messages":[]}"#, 400, "missing_model"),
            (r#"{"model":7}"#, 400, "missing_model"),
            ("[]", 400, "invalid_json"),
            ("", 400, "invalid_json"),
        ] {
            let error = read(body).unwrap_err();
            assert_eq!((error.status.as_u16(), error.code), (status, code), "{body}");
        }
    }

    #[test]
    fn a_clients_id_is_kept_unless_it_is_too_long() {
        let mut headers = HeaderMap::new();
        assert_eq!(request_id(&headers, 0xab), "req-00000000000000ab");
        headers.insert(REQUEST_ID, HeaderValue::from_static("mine"));
        assert_eq!(request_id(&headers, 1), "mine");
        headers.insert(REQUEST_ID, HeaderValue::try_from("x".repeat(200)).unwrap());
        assert_eq!(request_id(&headers, 1), "req-0000000000000001");
    }
}
