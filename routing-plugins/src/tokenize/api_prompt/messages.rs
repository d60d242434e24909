//! Anthropic's Messages as a chat: what vLLM's `/v1/messages` makes of them.

use json_edit::{Fragment, Kind, Object, Raw};

use super::conversation::{Assistant, Conversation, Message};
use super::tools;

/// Reads a body; none if it has no messages.
pub(super) fn read(body: Object<'_>) -> Option<Conversation<'_>> {
    let messages: Vec<Object<'_>> = body.get("messages")?.array()?.filter_map(Raw::object).collect();
    let mut chat = Conversation::default();
    // Templates want what the system says first: vLLM puts messages of that role there too.
    let inline = messages.iter().filter(|message| is(message, "role", "system"));
    let said = body.get("system").into_iter().chain(inline.filter_map(|message| message.get("content")));
    let system: String = said.enumerate().flat_map(|(at, said)| system_texts(said, at > 0)).collect();
    if !system.is_empty() {
        chat.say("system", Fragment::from(&*system));
    }
    for message in messages.iter().filter(|message| !is(message, "role", "system")) {
        add(*message, &mut chat);
    }
    let listed = body.get("tools").and_then(Raw::array);
    chat.tools = listed.map(|listed| Fragment::array(listed.filter_map(Raw::object).map(tool)));
    let effort = body.get_path(&["output_config", "effort"]).and_then(Raw::as_str);
    chat.set_arguments(body.get("chat_template_kwargs"), effort.as_deref());
    Some(chat)
}

/// The texts of what the system says, without the header that is another in each request of one client and would be in the way of
/// every prefix; vLLM looks for it in a text alone if that is `inline`.
fn system_texts(said: Raw<'_>, inline: bool) -> Vec<String> {
    if let Some(text) = said.as_str() {
        return if inline && text.starts_with(BILLING) { Vec::new() } else { vec![text.into_owned()] };
    }
    let blocks = said.array().into_iter().flatten().filter_map(Raw::object);
    let texts = blocks.filter(|block| is(block, "type", "text")).filter_map(|block| block.get("text")?.as_str());
    texts.filter(|text| !text.starts_with(BILLING)).map(|text| text.into_owned()).collect()
}

fn add<'b>(message: Object<'b>, chat: &mut Conversation<'b>) {
    let Some(role) = message.get("role").and_then(Raw::as_str) else { return };
    let is_user = role == "user";
    let Some(content) = message.get("content") else { return };
    if content.kind() == Kind::String {
        return match is_user {
            true => chat.say("user", Fragment::from(content)),
            false => chat.push(assistant(Some(Fragment::from(content)), Parts::default())),
        };
    }
    let mut parts = Parts::default();
    for block in content.array().into_iter().flatten().filter_map(Raw::object) {
        parts.add(block, is_user, chat);
    }
    if parts.has_media {
        chat.mark_unknown();
    }
    let content = match (&parts.content[..], parts.only_text) {
        ([], _) => None,
        ([_], Some(text)) => Some(Fragment::from(text)),
        (several, _) => Some(Fragment::array(several.iter().cloned())),
    };
    match (is_user, content) {
        (true, Some(content)) => chat.say("user", content),
        // All of it was results of tools.
        (true, None) => {}
        (false, content) => chat.push(assistant(content, parts)),
    }
}

fn assistant<'b>(content: Option<Fragment<'b>>, parts: Parts<'b>) -> Message<'b> {
    let reasoning = (!parts.reasoning.is_empty()).then(|| parts.reasoning.concat());
    Message::Assistant(Assistant { content, reasoning, calls: parts.calls })
}

/// What the blocks of a message come to.
#[derive(Debug, Default)]
struct Parts<'b> {
    content: Vec<Fragment<'b>>,
    /// The text of the last part of text.
    only_text: Option<Raw<'b>>,
    has_media: bool,
    reasoning: Vec<String>,
    calls: Vec<Fragment<'b>>,
}

impl<'b> Parts<'b> {
    fn add(&mut self, block: Object<'b>, is_user: bool, chat: &mut Conversation<'b>) {
        let kind = block.get("type").and_then(Raw::as_str).unwrap_or_default();
        match &*kind {
            "text" => {
                let text = block.get("text").filter(|text| text.as_str().is_none_or(|text| !text.is_empty()));
                if let Some(text) = text {
                    self.only_text = Some(text);
                    self.content.push(part(text));
                }
            }
            "image" => {
                self.has_media = true;
                self.content.push(media());
            }
            "thinking" => {
                self.reasoning.extend(block.get("thinking").and_then(Raw::as_str).map(|text| text.into_owned()))
            }
            "tool_use" => {
                let (id, name) = (string(block, "id"), string(block, "name"));
                let input = block.get("input").filter(|input| !matches!(input.as_bytes(), b"null"));
                let input = input.map_or("{}", |input| std::str::from_utf8(input.as_bytes()).unwrap_or("{}"));
                self.calls.push(tools::call(id, name, Fragment::from(input)));
            }
            "tool_result" if is_user => add_result(block, chat),
            "tool_result" => {
                // Printed as Python does.
                self.has_media = true;
                self.content.push(media());
            }
            _ => {}
        }
    }
}

/// The result of a tool: a message of its own, before the user's.
fn add_result<'b>(block: Object<'b>, chat: &mut Conversation<'b>) {
    let (id, content) = (string(block, "tool_use_id"), block.get("content"));
    let items: Vec<Object<'b>> = content.and_then(Raw::array).into_iter().flatten().filter_map(Raw::object).collect();
    let texts = items.iter().filter(|item| is(item, "type", "text"));
    let texts: Vec<_> = texts.map(|item| item.get("text").and_then(Raw::as_str).unwrap_or_default()).collect();
    let text = match content.filter(|content| content.kind() == Kind::String) {
        Some(text) => Fragment::from(text),
        None => Fragment::from(&*texts.join("\n")),
    };
    chat.push(Message::Other(tools::result(id.clone(), text)));
    let images: Vec<_> = items.iter().filter(|item| is(item, "type", "image")).map(|_| media()).collect();
    if !images.is_empty() {
        chat.mark_unknown();
        chat.say("user", Fragment::array(images));
    }
    let references = items.iter().filter(|item| is(item, "type", "tool_reference"));
    let names = references.filter_map(|item| item.get("tool_name").or_else(|| item.get("name")));
    let references: Vec<_> = names
        .map(|name| Fragment::object([("type", Fragment::from("tool_reference")), ("name", Fragment::from(name))]))
        .collect();
    if !references.is_empty() {
        chat.mark_unknown();
        chat.push(Message::Other(tools::result(id, Fragment::array(references))));
    }
}

fn tool(tool: Object<'_>) -> Fragment<'_> {
    let given = tool.get("input_schema");
    // An object, unless it says otherwise: vLLM adds that at the end.
    let is_untyped = given.and_then(Raw::object).is_some_and(|schema| schema.get("type").is_none());
    let schema = given.map(|schema| if is_untyped { with_type(schema) } else { Fragment::from(schema) });
    tools::function(tool, schema)
}

fn with_type(schema: Raw<'_>) -> Fragment<'_> {
    let members = schema.object().into_iter().flat_map(|schema| schema.members());
    let members: Vec<_> = members.filter_map(|member| Some((member.name()?, member.value()))).collect();
    let own = members.iter().map(|(name, value)| (&**name, Fragment::from(*value)));
    Fragment::object(own.chain([("type", Fragment::from("object"))]))
}

fn is(object: &Object<'_>, name: &str, value: &str) -> bool {
    object.get(name).and_then(Raw::as_str).is_some_and(|own| own == value)
}

fn string<'b>(object: Object<'b>, name: &str) -> Fragment<'b> {
    object.get(name).filter(|value| value.kind() == Kind::String).map_or_else(|| Fragment::from(""), Fragment::from)
}

/// A part of text.
pub(super) fn part(text: Raw<'_>) -> Fragment<'_> {
    Fragment::object([("type", Fragment::from("text")), ("text", Fragment::from(text))])
}

/// A part that is no text: engines replace what the template writes for it.
pub(super) fn media<'b>() -> Fragment<'b> {
    Fragment::object([("type", Fragment::from("image"))])
}

/// What begins a block that Claude Code adds.
const BILLING: &str = "x-anthropic-billing-header";
