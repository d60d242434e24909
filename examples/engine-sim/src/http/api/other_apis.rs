//! Handlers of OpenAI's Responses and embeddings and of Anthropic's Messages: as chats, and without the engine.

use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::HeaderMap;
use routing_plugins::tokenize::PromptApi;
use serde_json::{Value, json};

use super::Api;
use super::completions::respond;
use super::error::ApiError;
use super::response_body::Kind;

/// `POST /v1/responses`.
pub(super) async fn responses(State(api): State<Arc<Api>>, headers: HeaderMap, body: Bytes) -> Response {
    as_chat(&api, (Kind::Responses, PromptApi::Responses, "max_output_tokens"), &headers, &body).await
}

/// `POST /v1/messages`.
pub(super) async fn messages(State(api): State<Arc<Api>>, headers: HeaderMap, body: Bytes) -> Response {
    as_chat(&api, (Kind::Messages, PromptApi::Messages, "max_tokens"), &headers, &body).await
}

/// `POST /v1/messages/count_tokens`.
pub(super) async fn count_tokens(State(api): State<Arc<Api>>, body: Bytes) -> Response {
    match tokens(&api, PromptApi::Messages, &body) {
        Ok(tokens) => Json(json!({ "input_tokens": tokens })).into_response(),
        Err(error) => error.of_kind(Kind::Messages),
    }
}

/// `POST /v1/embeddings`: a vector for each input, of the input's length.
pub(super) async fn embeddings(State(api): State<Arc<Api>>, body: Bytes) -> Result<Response, ApiError> {
    let read = read(&body)?;
    let inputs = match &read["input"] {
        Value::Array(inputs) if !inputs.iter().any(Value::is_number) => inputs.clone(),
        one => vec![one.clone()],
    };
    let mut total = 0;
    let mut data = Vec::new();
    for (index, input) in inputs.iter().enumerate() {
        let tokens = tokens(&api, PromptApi::Embeddings, json!({ "input": input }).to_string().as_bytes())?;
        total += tokens;
        data.push(json!({"object": "embedding", "index": index, "embedding": [tokens as f64, 0.5]}));
    }
    let usage = json!({"prompt_tokens": total, "total_tokens": total});
    Ok(Json(json!({"object": "list", "data": data, "model": api.engine.config.model, "usage": usage})).into_response())
}

/// Answers a request as the chat that it is.
async fn as_chat(
    api: &Api,
    (kind, prompt, limit): (Kind, PromptApi, &str),
    headers: &HeaderMap,
    body: &[u8],
) -> Response {
    let chat = || -> Result<Value, ApiError> {
        let (given, chat) = (read(body)?, prompt.chat(body).map_err(|error| ApiError::bad_request(error.to_string()))?);
        let mut chat = read(&chat)?;
        for name in
            ["model", "stream", "cache_salt", "kv_transfer_params"].iter().filter(|name| !given[**name].is_null())
        {
            chat[*name] = given[*name].clone();
        }
        if !given[limit].is_null() {
            chat["max_tokens"] = given[limit].clone();
        }
        Ok(chat)
    };
    match chat() {
        Ok(chat) => respond(api, kind, headers, chat.to_string().as_bytes()).await,
        Err(error) => error.of_kind(kind),
    }
}

fn read(body: &[u8]) -> Result<Value, ApiError> {
    serde_json::from_slice(body).map_err(|error| ApiError::bad_request(format!("the body cannot be read: {error}")))
}

fn tokens(api: &Api, prompt: PromptApi, body: &[u8]) -> Result<usize, ApiError> {
    let mut tokens = Vec::new();
    prompt.tokenize(&api.prompts, body, &mut tokens).map_err(|error| ApiError::bad_request(error.to_string()))?;
    Ok(tokens.len())
}
