//! Answers of OpenAI's Responses and Anthropic's Messages: objects, and events that have names.

use serde_json::{Value, json};

use super::response_body::{Kind, Reply, Usage};
use crate::http::completion::FinishReason;

/// The whole answer.
pub(super) fn whole(reply: &Reply, text: &str, finish: FinishReason, usage: Usage) -> Value {
    match reply.kind {
        Kind::Messages => message(reply, json!([{"type": "text", "text": text}]), Some(finish), usage),
        _ => response(reply, "completed", json!([item(reply, text)]), Some(usage)),
    }
}

/// What a stream begins with.
pub(super) fn opening(reply: &Reply, prompt: usize) -> String {
    if reply.kind == Kind::Messages {
        let begun = message(reply, json!([]), None, Usage { prompt, cached: 0, completion: 0 });
        let block = json!({"type": "text", "text": ""});
        return event("message_start", json!({ "message": begun }))
            + &event("content_block_start", json!({"index": 0, "content_block": block}));
    }
    event("response.created", json!({"response": response(reply, "in_progress", json!([]), None)}))
}

/// Some more of the answer.
pub(super) fn part(reply: &Reply, text: &str) -> String {
    match reply.kind {
        Kind::Messages => {
            event("content_block_delta", json!({"index": 0, "delta": {"type": "text_delta", "text": text}}))
        }
        _ => {
            let delta = json!({"item_id": "msg_0", "output_index": 0, "content_index": 0, "delta": text});
            event("response.output_text.delta", delta)
        }
    }
}

/// What a stream ends with.
pub(super) fn closing(reply: &Reply, text: &str, finish: FinishReason, usage: Usage) -> String {
    if reply.kind == Kind::Messages {
        let delta = json!({"stop_reason": stop_reason(finish), "stop_sequence": null});
        return event("content_block_stop", json!({"index": 0}))
            + &event("message_delta", json!({"delta": delta, "usage": anthropic(usage)}))
            + &event("message_stop", json!({}));
    }
    event("response.completed", json!({"response": whole(reply, text, finish, usage)}))
}

fn event(kind: &str, mut data: Value) -> String {
    data["type"] = json!(kind);
    format!("event: {kind}\ndata: {data}\n\n")
}

fn message(reply: &Reply, content: Value, finish: Option<FinishReason>, usage: Usage) -> Value {
    json!({
        "id": reply.id, "type": "message", "role": "assistant", "model": reply.model, "content": content,
        "stop_reason": finish.map(stop_reason), "stop_sequence": null, "usage": anthropic(usage),
    })
}

fn stop_reason(finish: FinishReason) -> &'static str {
    if json!(finish) == "length" { "max_tokens" } else { "end_turn" }
}

/// The input is without what was cached.
fn anthropic(usage: Usage) -> Value {
    let Usage { prompt, cached, completion } = usage;
    json!({"input_tokens": prompt - cached, "cache_read_input_tokens": cached, "output_tokens": completion})
}

fn response(reply: &Reply, status: &str, output: Value, usage: Option<Usage>) -> Value {
    let usage = usage.map(|Usage { prompt, cached, completion }| {
        json!({
            "input_tokens": prompt, "input_tokens_details": {"cached_tokens": cached}, "output_tokens": completion,
            "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": prompt + completion,
        })
    });
    json!({
        "id": reply.id, "object": "response", "created_at": reply.created, "model": reply.model, "status": status,
        "output": output, "usage": usage, "parallel_tool_calls": true, "tool_choice": "auto", "tools": [],
    })
}

fn item(reply: &Reply, text: &str) -> Value {
    let content = json!([{"type": "output_text", "text": text, "annotations": []}]);
    json!({"id": format!("msg_{}", reply.id), "type": "message", "role": "assistant", "status": "completed", "content": content})
}
