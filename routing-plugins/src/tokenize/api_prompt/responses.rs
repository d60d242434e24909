//! Requests of OpenAI's Responses as a chat: what vLLM's `/v1/responses` makes of them, for models without a format of their own.

use json_edit::{Fragment, Kind, Object, Raw};

use super::conversation::{Assistant, Conversation, Message};
use super::messages::{media, part};
use super::tools;

/// Reads a body; none if it has no input.
pub(super) fn read(body: Object<'_>) -> Option<Conversation<'_>> {
    let mut chat = Conversation::default();
    let given = |name: &str| body.get(name).filter(|value| !value.is_null());
    if let Some(instructions) = given("instructions").filter(|text| !matches!(text.as_bytes(), b"\"\"")) {
        chat.say("system", Fragment::from(instructions));
    }
    let input = given("input")?;
    if given("previous_response_id").is_some() || given("conversation").is_some() || given("prompt").is_some() {
        // What was said before is the pod's alone to know.
        chat.leave_open();
    } else if input.kind() == Kind::String {
        chat.say("user", Fragment::from(input));
    } else {
        add_items(input.array()?.filter_map(Raw::object).collect(), &mut chat);
    }
    let listed = given("tools").and_then(Raw::array).map(|listed| listed.filter_map(Raw::object));
    let functions = listed.map(|listed| listed.filter(|tool| is(tool, "type", "function")));
    let functions: Vec<_> = functions.into_iter().flatten().map(|tool| tools::function(tool, schema(tool))).collect();
    chat.tools = (!functions.is_empty()).then(|| Fragment::array(functions));
    let effort = body.get_path(&["reasoning", "effort"]).and_then(Raw::as_str);
    chat.set_arguments(given("chat_template_kwargs"), effort.as_deref());
    // Unlike a chat's, the rendered text gets the special tokens of the vocabulary.
    chat.framed = Some(Fragment::from(true));
    Some(chat)
}

fn schema(tool: Object<'_>) -> Option<Fragment<'_>> {
    tool.get("parameters").map(Fragment::from)
}

fn add_items<'b>(mut items: Vec<Object<'b>>, chat: &mut Conversation<'b>) {
    if items.last().is_some_and(is_unfinished) {
        // The answer goes on within the last message.
        items.pop();
        chat.leave_open();
    }
    for item in items {
        let kind = item.get("type").and_then(Raw::as_str).unwrap_or("message".into());
        let is_added = match &*kind {
            "message" if is(&item, "role", "assistant") => say(item, chat),
            "message" => ask(item, chat),
            "function_call" => call(item, chat),
            "function_call_output" => answer(item, chat),
            "reasoning" => think(item, chat),
            _ => false,
        };
        if !is_added {
            // What an engine makes of it is not known.
            return chat.leave_open();
        }
    }
}

/// Whether an item is a message that is to be continued.
fn is_unfinished(item: &Object<'_>) -> bool {
    let is_message = item.get("type").is_none() || is(item, "type", "message") || is(item, "type", "reasoning");
    is_message && (is(item, "status", "in_progress") || is(item, "status", "incomplete"))
}

/// What the assistant said: of several parts the first.
fn say<'b>(item: Object<'b>, chat: &mut Conversation<'b>) -> bool {
    let Some(content) = item.get("content") else { return false };
    let first = || content.array()?.next()?.object()?.get("text");
    let text = if content.kind() == Kind::String { Some(content) } else { first() };
    let Some(text) = text else { return false };
    let text = Fragment::from(text);
    match chat.last_assistant().filter(|last| last.content.is_none()) {
        Some(last) => last.content = Some(text),
        None => chat.push(Message::Assistant(Assistant { content: Some(text), ..Assistant::default() })),
    }
    true
}

/// A message of anybody else.
fn ask<'b>(item: Object<'b>, chat: &mut Conversation<'b>) -> bool {
    let (Some(role), Some(content)) = (item.get("role").and_then(Raw::as_str), item.get("content")) else {
        return false;
    };
    let content = parts(content, chat);
    chat.say(&role, content);
    true
}

/// A message's content for a chat: a text as it is, or its parts.
fn parts<'b>(content: Raw<'b>, chat: &mut Conversation<'b>) -> Fragment<'b> {
    let Some(listed) = content.array() else { return Fragment::from(content) };
    let texts: Vec<Option<Raw<'b>>> = listed.map(text_of).collect();
    if texts.contains(&None) {
        chat.mark_unknown();
    }
    Fragment::array(texts.into_iter().map(|text| text.map_or_else(media, part)))
}

/// The text of a part; none if it is none.
fn text_of(part: Raw<'_>) -> Option<Raw<'_>> {
    if part.kind() == Kind::String {
        return Some(part);
    }
    let part = part.object()?;
    match &*part.get("type")?.as_str()? {
        "input_text" | "output_text" | "text" => part.get("text"),
        "refusal" => part.get("refusal"),
        _ => None,
    }
}

fn call<'b>(item: Object<'b>, chat: &mut Conversation<'b>) -> bool {
    if item.get("namespace").is_some_and(|namespace| !namespace.is_null()) {
        return false;
    }
    let field = |name: &str| item.get(name).map_or(Fragment::NULL, Fragment::from);
    let made = tools::call(field("call_id"), field("name"), field("arguments"));
    match chat.last_assistant() {
        Some(last) => last.calls.push(made),
        None => chat.push(Message::Assistant(Assistant { calls: vec![made], ..Assistant::default() })),
    }
    true
}

fn answer<'b>(item: Object<'b>, chat: &mut Conversation<'b>) -> bool {
    let field = |name: &str| item.get(name).map_or(Fragment::NULL, Fragment::from);
    let Some(output) = item.get("output") else { return false };
    let content = parts(output, chat);
    chat.push(Message::Other(tools::result(field("call_id"), content)));
    true
}

/// What the assistant thought: the first text of it, or of its summary.
fn think<'b>(item: Object<'b>, chat: &mut Conversation<'b>) -> bool {
    let first = |name: &str| Some(item.get(name)?.array()?.next()?.object()?.get("text")?.as_str()?.into_owned());
    if item.get("encrypted_content").is_some_and(|content| !content.is_null()) {
        return false;
    }
    let thought = first("content").or_else(|| first("summary")).unwrap_or_default();
    match chat.last_assistant().filter(|last| last.reasoning.is_none()) {
        Some(last) => last.reasoning = Some(thought),
        None => chat.push(Message::Assistant(Assistant { reasoning: Some(thought), ..Assistant::default() })),
    }
    true
}

fn is(object: &Object<'_>, name: &str, value: &str) -> bool {
    object.get(name).and_then(Raw::as_str).is_some_and(|own| own == value)
}
