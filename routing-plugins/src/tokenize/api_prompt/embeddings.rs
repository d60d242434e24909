//! The prompt of an embedding: a text, token ids, or a chat without the beginning of an answer.

use json_edit::{Fragment, Kind, Object, Raw};

use super::Prompt;

/// Reads a body; none if it has no prompt. Of several inputs the first is taken: batches mostly share their beginning, and a request
/// goes to one place.
pub(super) fn read(body: Object<'_>) -> Option<Prompt<'_>> {
    let given = |name: &'static str| Some((name, Fragment::from(body.get(name)?)));
    let input = body.get("input");
    let messages = body.get("messages").or(input.filter(|input| is_chat(*input)));
    let (mut members, passed): (_, &[&'static str]) = match messages {
        Some(messages) => {
            let chat = messages.array()?.next().filter(|first| first.kind() == Kind::Array).unwrap_or(messages);
            let is_begun = body.get("add_generation_prompt").and_then(Raw::as_bool).unwrap_or(false);
            let members = vec![("messages", Fragment::from(chat)), ("add_generation_prompt", Fragment::from(is_begun))];
            (members, &["tools", "chat_template_kwargs", "continue_final_message", "add_special_tokens"])
        }
        None => (vec![("prompt", Fragment::from(first(input?)))], &["add_special_tokens"]),
    };
    members.extend(passed.iter().filter_map(|name| given(name)));
    Some(Prompt::Text(Fragment::object(members).as_str().as_bytes().to_vec()))
}

/// Whether an input is a chat, or a list of them.
fn is_chat(input: Raw<'_>) -> bool {
    let Some(first) = input.array().and_then(|mut inputs| inputs.next()) else { return false };
    first.kind() == Kind::Object || first.kind() == Kind::Array && is_chat(first)
}

/// The first of several inputs; a list of numbers is one.
fn first(input: Raw<'_>) -> Raw<'_> {
    let first = input.array().and_then(|mut inputs| inputs.next());
    first.filter(|first| matches!(first.kind(), Kind::String | Kind::Array)).unwrap_or(input)
}
