//! Prompt extraction from request bodies of OpenAI's and SGLang's APIs.
//!
//! The body is a client's: whatever is in it, the answer is tokens or a typed error.

use std::fmt;
use std::sync::Arc;

use minijinja::Value;
use serde::Deserialize;
use serde::de::{Deserializer, SeqAccess, Visitor};

use super::{Chat, ChatTemplate, PromptError, PromptTokenizer, Tokenizer};

/// Makes tokens of the bodies of requests for one model.
///
/// The first of these that the body has is the prompt:
///
/// | field | is | framed |
/// |---|---|---|
/// | `messages` | rendered by the chat template | no, the template writes what is needed |
/// | `prompt` | a text, token ids, or a list of one of these | a text is |
/// | `input_ids` | token ids, or a list of one list of them | no |
/// | `text` | a text, or a list of one | yes |
///
/// `add_special_tokens` in the body says otherwise about the frame, which token ids never get. Several prompts in one
/// body are an error: a request goes to one place, so the host has to split it.
///
/// # Examples
///
/// ```
/// # use routing_plugins::tokenize::{TokenizeError, Tokenizer};
/// # #[derive(Debug)]
/// # struct Bytes;
/// # impl Tokenizer for Bytes {
/// #     fn encode(&self, text: &str, out: &mut Vec<u32>) -> Result<(), TokenizeError> {
/// #         out.extend(text.bytes().map(u32::from));
/// #         Ok(())
/// #     }
/// # }
/// use routing_plugins::tokenize::{ModelPrompts, PromptTokenizer};
///
/// let prompts = ModelPrompts::new(Bytes);
/// let mut tokens = Vec::new();
/// prompts.tokenize(br#"{"prompt": "ab"}"#, &mut tokens)?;
/// assert_eq!(tokens, [97, 98]);
/// # Ok::<(), routing_plugins::tokenize::PromptError>(())
/// ```
#[derive(Debug)]
pub struct ModelPrompts {
    tokenizer: Arc<dyn Tokenizer>,
    template: Option<ChatTemplate>,
}

impl ModelPrompts {
    /// Prompts of a model without a chat template: chats are refused.
    #[must_use]
    pub fn new(tokenizer: impl Tokenizer + 'static) -> Self {
        Self { tokenizer: Arc::new(tokenizer), template: None }
    }

    /// The same with a chat template.
    #[must_use]
    pub fn chat(mut self, template: ChatTemplate) -> Self {
        self.template = Some(template);
        self
    }

    fn encode(&self, text: &str, framed: bool, out: &mut Vec<u32>) -> Result<(), PromptError> {
        let frame = if framed { self.tokenizer.frame() } else { Default::default() };
        out.extend_from_slice(frame.before);
        self.tokenizer.encode(text, out)?;
        out.extend_from_slice(frame.after);
        Ok(())
    }
}

impl PromptTokenizer for ModelPrompts {
    fn tokenize(&self, body: &[u8], out: &mut Vec<u32>) -> Result<(), PromptError> {
        let mut body = Body::read(body)?;
        let framed = body.add_special_tokens;
        if body.messages.is_some() {
            let template = self.template.as_ref().ok_or(super::TemplateError::Missing)?;
            let text = template.render(&body.into_chat()?)?;
            return self.encode(&text, framed.unwrap_or(false), out);
        }
        let given = body.prompt.take().or(body.input_ids.take()).or(body.text.take()).ok_or(PromptError::NoPrompt)?;
        match given.one()? {
            One::Text(text) => self.encode(&text, framed.unwrap_or(true), out),
            One::Ids(ids) => {
                out.extend_from_slice(&ids);
                Ok(())
            }
        }
    }
}

/// Reads a body as a chat.
pub(super) fn read_chat(body: &[u8]) -> Result<Chat, PromptError> {
    Body::read(body)?.into_chat()
}

/// What is read of a body.
#[derive(Deserialize)]
struct Body {
    messages: Option<Value>,
    tools: Option<Value>,
    documents: Option<Value>,
    chat_template_kwargs: Option<Value>,
    add_generation_prompt: Option<bool>,
    continue_final_message: Option<bool>,
    add_special_tokens: Option<bool>,
    prompt: Option<Given>,
    input_ids: Option<Given>,
    text: Option<Given>,
}

impl Body {
    fn read(body: &[u8]) -> Result<Self, PromptError> {
        serde_json::from_slice(body).map_err(|error| PromptError::Body {
            line: error.line(),
            column: error.column(),
            reason: error.to_string().into(),
        })
    }

    fn into_chat(self) -> Result<Chat, PromptError> {
        if self.continue_final_message == Some(true) {
            return Err(PromptError::Unsupported("continue_final_message"));
        }
        let none = || Value::from(());
        Ok(Chat {
            messages: self.messages.ok_or(super::TemplateError::NoMessages)?,
            tools: self.tools.unwrap_or_else(none),
            documents: self.documents.unwrap_or_else(none),
            kwargs: self.chat_template_kwargs.unwrap_or_else(|| Value::from_iter([("", Value::UNDEFINED)])),
            add_generation_prompt: self.add_generation_prompt.unwrap_or(true),
        })
    }
}

/// A prompt in one of its shapes.
#[derive(Debug)]
enum Given {
    Text(String),
    Ids(Vec<u32>),
    /// Several prompts, of which only the first is kept.
    List(Box<Given>, usize),
}

/// One prompt.
enum One {
    Text(String),
    Ids(Vec<u32>),
}

impl Given {
    fn one(self) -> Result<One, PromptError> {
        match self {
            Self::Text(text) => Ok(One::Text(text)),
            Self::Ids(ids) => Ok(One::Ids(ids)),
            Self::List(first, 1) => first.one(),
            Self::List(_, count) => Err(PromptError::SeveralPrompts(count)),
        }
    }
}

impl<'de> Deserialize<'de> for Given {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(GivenVisitor { outermost: true }).and_then(|element| match element {
            Element::Given(given) => Ok(given),
            Element::Id(_) => Err(serde::de::Error::custom("a prompt is a text, or a list of token ids")),
        })
    }
}

/// What stands in a list.
enum Element {
    Id(u32),
    Given(Given),
}

impl<'de> Deserialize<'de> for Element {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(GivenVisitor { outermost: false })
    }
}

struct GivenVisitor {
    outermost: bool,
}

impl<'de> Visitor<'de> for GivenVisitor {
    type Value = Element;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, a list of token ids, or a list of one of these")
    }

    fn visit_str<E>(self, text: &str) -> Result<Element, E> {
        Ok(Element::Given(Given::Text(text.to_owned())))
    }

    fn visit_string<E>(self, text: String) -> Result<Element, E> {
        Ok(Element::Given(Given::Text(text)))
    }

    fn visit_u64<E: serde::de::Error>(self, id: u64) -> Result<Element, E> {
        let beyond = || E::invalid_value(serde::de::Unexpected::Unsigned(id), &"a token id of 32 bits");
        u32::try_from(id).map(Element::Id).map_err(|_| beyond())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Element, A::Error> {
        if !self.outermost {
            let mut ids = Vec::new();
            while let Some(id) = list.next_element()? {
                ids.push(id);
            }
            return Ok(Element::Given(Given::Ids(ids)));
        }
        let (mut ids, mut first, mut count) = (Vec::new(), None, 0);
        while let Some(element) = list.next_element()? {
            match element {
                Element::Id(id) => ids.push(id),
                Element::Given(given) => {
                    first.get_or_insert(given);
                    count += 1;
                }
            }
        }
        match first {
            None => Ok(Element::Given(Given::Ids(ids))),
            Some(_) if !ids.is_empty() => Err(serde::de::Error::custom("token ids and other prompts in one list")),
            Some(first) => Ok(Element::Given(Given::List(Box::new(first), count))),
        }
    }
}
