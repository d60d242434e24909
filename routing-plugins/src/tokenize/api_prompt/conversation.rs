//! A conversation under construction: messages for a chat template, and how many of them are text for certain.

use json_edit::{Fragment, Kind, Object, Raw};

/// Messages and what a template is given beside them.
#[derive(Debug, Default)]
pub(super) struct Conversation<'b> {
    messages: Vec<Message<'b>>,
    /// How many messages are text alone; all of them, unless something was found.
    text_until: Option<usize>,
    /// Whether the prompt goes on where this ends: then no answer begins here.
    is_open: bool,
    /// The tools, as a chat has them.
    pub(super) tools: Option<Fragment<'b>>,
    /// The template's arguments.
    pub(super) arguments: Option<Fragment<'b>>,
    /// Whether the rendered text gets special tokens around it; the tokenizer's default, unless known.
    pub(super) framed: Option<Fragment<'b>>,
}

/// A message for a chat template.
#[derive(Debug)]
pub(super) enum Message<'b> {
    /// An assistant's, which items may add to.
    Assistant(Assistant<'b>),
    /// Any other.
    Other(Fragment<'b>),
}

/// What an assistant said, thought and called.
#[derive(Debug, Default)]
pub(super) struct Assistant<'b> {
    pub(super) content: Option<Fragment<'b>>,
    pub(super) reasoning: Option<String>,
    pub(super) calls: Vec<Fragment<'b>>,
}

impl<'b> Conversation<'b> {
    /// Appends a message of a role.
    pub(super) fn say(&mut self, role: &str, content: Fragment<'_>) {
        let message = Fragment::object([("role", Fragment::from(role)), ("content", content)]);
        self.messages.push(Message::Other(message));
    }

    pub(super) fn push(&mut self, message: Message<'b>) {
        self.messages.push(message);
    }

    /// The last message, if it is an assistant's.
    pub(super) fn last_assistant(&mut self) -> Option<&mut Assistant<'b>> {
        match self.messages.last_mut() {
            Some(Message::Assistant(assistant)) => Some(assistant),
            _ => None,
        }
    }

    /// The next message has something that is no text: an engine makes tokens of it that are not known here.
    pub(super) fn mark_unknown(&mut self) {
        self.text_until.get_or_insert(self.messages.len());
    }

    /// What follows is not known at all.
    pub(super) fn leave_open(&mut self) {
        self.is_open = true;
    }

    /// The template's arguments: the client's own, and the effort of its reasoning as vLLM gives it.
    pub(super) fn set_arguments(&mut self, own: Option<Raw<'b>>, effort: Option<&str>) {
        self.arguments = own.filter(|own| own.kind() == Kind::Object).map(Fragment::from);
        let own = own.and_then(Raw::object);
        let Some(effort) = effort else { return };
        let is_thinking_given = own.is_some_and(|own| own.get(THINKING).is_some());
        let kept = own.into_iter().flat_map(members).filter(|(name, _)| name != EFFORT);
        let thinking = (!is_thinking_given).then(|| (THINKING.to_owned(), Fragment::from(effort != "none")));
        let all: Vec<_> = kept.chain([(EFFORT.to_owned(), Fragment::from(effort))]).chain(thinking).collect();
        self.arguments = Some(Fragment::object(all.iter().map(|(name, value)| (&**name, value.clone()))));
    }

    /// The body of a chat with all messages.
    pub(super) fn whole(&self) -> Vec<u8> {
        self.body(self.messages.len(), self.is_open)
    }

    /// The body of a chat with the messages that are text alone; none if those are all, or none are.
    pub(super) fn beginning(&self) -> Option<Vec<u8>> {
        let count = self.text_until.filter(|count| *count > 0)?;
        Some(self.body(count, true))
    }

    fn body(&self, count: usize, is_open: bool) -> Vec<u8> {
        let messages = Fragment::array(self.messages.iter().take(count).map(Message::json));
        let mut members = vec![("messages", messages)];
        let optional = [("tools", &self.tools), (ARGUMENTS, &self.arguments), ("add_special_tokens", &self.framed)];
        members.extend(optional.into_iter().filter_map(|(name, value)| Some((name, value.clone()?))));
        members.extend(is_open.then(|| ("add_generation_prompt", Fragment::from(false))));
        Fragment::object(members).as_str().as_bytes().to_vec()
    }
}

impl<'b> Message<'b> {
    fn json(&self) -> Fragment<'b> {
        let Self::Assistant(Assistant { content, reasoning, calls }) = self else {
            let Self::Other(message) = self else { return Fragment::NULL };
            return message.clone();
        };
        // An empty list: vLLM makes an empty text of it, or leaves it one, by what the template takes.
        let content = content.clone().unwrap_or_else(|| Fragment::array([]));
        let mut members = vec![("role", Fragment::from("assistant")), ("content", content)];
        if let Some(reasoning) = reasoning {
            members.extend(REASONING.map(|name| (name, Fragment::from(&**reasoning))));
        }
        if !calls.is_empty() {
            members.push(("tool_calls", Fragment::array(calls.iter().cloned())));
        }
        Fragment::object(members)
    }
}

fn members(object: Object<'_>) -> impl Iterator<Item = (String, Fragment<'_>)> {
    object.members().filter_map(|member| Some((member.name()?.into_owned(), Fragment::from(member.value()))))
}

const ARGUMENTS: &str = "chat_template_kwargs";
const EFFORT: &str = "reasoning_effort";
const THINKING: &str = "enable_thinking";
/// Templates know it by either name.
const REASONING: [&str; 2] = ["reasoning", "reasoning_content"];
