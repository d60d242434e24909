//! Where in a body in JSON its prompt is.

use std::ops::Range;

use json_edit::{Kind, Member, Object, Raw};
use routing_core::{PromptSpans, Request};

/// Finds where in a request's body its prompt is, from the members of it that whoever reads the body passes.
///
/// The prompt is the first of `messages`, `prompt`, `input`, `text` and `input_ids` that is a list or a text, byte for byte as it is
/// written; before it come `system`, `instructions` and `tools`. Of members of one name the last counts.
///
/// # Examples
///
/// ```
/// use json_edit::Object;
/// use routing_plugins::prepare::PromptFinder;
///
/// let body = br#"{"model": "m", "prompt": "Hello"}"#;
/// let mut finder = PromptFinder::default();
/// Object::parse_each(body, |member| finder.pass(&member))?;
/// assert_eq!(&body[finder.finish(body).text], b"\"Hello");
/// # Ok::<(), json_edit::JsonError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct PromptFinder<'a> {
    found: [Option<Raw<'a>>; NAMES.len()],
}

impl<'a> PromptFinder<'a> {
    /// Where the prompt is in a body; everything, if that is not JSON, or has none.
    #[must_use]
    pub fn find(body: &'a [u8]) -> PromptSpans {
        let mut finder = Self::default();
        match Object::parse_each(body, |member| finder.pass(&member)) {
            Ok(_) => finder.finish(body),
            Err(_) => PromptSpans::new(0..body.len()),
        }
    }

    /// Passes a member of the body.
    pub fn pass(&mut self, member: &Member<'a>) {
        if let Some(at) = NAMES.iter().position(|name| member.is(name)) {
            self.found[at] = Some(member.value());
        }
    }

    /// Where the prompt is, once all members of a body were passed; everything, if there is none.
    #[must_use]
    pub fn finish(self, body: &'a [u8]) -> PromptSpans {
        let place = |value: &Raw<'_>| {
            let text = value.as_bytes();
            // The wrapped start of what is no part of the body is beyond its end.
            let start = (text.as_ptr() as usize).wrapping_sub(body.as_ptr() as usize);
            start..start.wrapping_add(text.len())
        };
        let (prompts, before) = self.found.split_at(PROMPTS);
        let is_prompt = |value: &&Raw<'_>| matches!(value.kind(), Kind::Array | Kind::String);
        let Some(prompt) = prompts.iter().flatten().find(is_prompt) else { return PromptSpans::new(0..body.len()) };
        let Range { start, end } = place(prompt);
        // Without the bracket or quote at its end, which a longer prompt does not have there.
        let spans = PromptSpans::new(start..end.saturating_sub(1));
        let is_said = |value: &&Raw<'_>| value.kind() != Kind::Null;
        spans.before(std::array::from_fn(|at| before[at].as_ref().filter(is_said).map(place)))
    }
}

/// Where in a request's body its prompt is, as far as the body goes.
pub(super) fn spans(request: &Request<'_>) -> PromptSpans {
    request.prompt.cloned().unwrap_or_else(|| PromptFinder::find(request.body))
}

/// Names of what is the prompt, the first that is there; then of what comes before it.
const NAMES: [&str; 8] = ["messages", "prompt", "input", "text", "input_ids", "system", "instructions", "tools"];

/// How many of the names are a prompt's.
const PROMPTS: usize = 5;
