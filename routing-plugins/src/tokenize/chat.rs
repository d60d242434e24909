//! Chat templates: the model's own Jinja template, rendered as Hugging Face does.
//!
//! The rule: the text is what an engine makes of the same messages, or there is an error. So the environment is that of
//! Hugging Face's `apply_chat_template`: blocks are trimmed, values are printed and written as JSON as Python does, and
//! Python's methods of strings, lists and dictionaries are there, with `raise_exception` and `strftime_now`.

mod messages;
mod python;

use std::time::SystemTime;

use minijinja::value::{Kwargs, Value};
use minijinja::{Environment, Error, ErrorKind, Output, State, context};
use minijinja_contrib::pycompat::unknown_method_callback;
use serde::Deserialize;

use self::messages::{Arguments, prepared};
use super::{PromptError, TemplateError};

/// A model's chat template with its special tokens.
///
/// # Examples
///
/// ```
/// use routing_plugins::tokenize::{Chat, ChatTemplate};
///
/// let config = r#"{"eos_token": "</s>", "chat_template":
///     "{% for m in messages %}{{ m.role }}: {{ m.content | trim }}{{ eos_token }}{% endfor %}"}"#;
/// let template = ChatTemplate::from_config(config)?;
/// let chat = Chat::from_json(br#"{"messages": [{"role": "user", "content": " hello "}]}"#)?;
/// assert_eq!(template.render(&chat)?, "user: hello</s>");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ChatTemplate {
    environment: Environment<'static>,
    special: Vec<(Box<str>, Value)>,
    format: ContentFormat,
}

impl ChatTemplate {
    /// Reads the template and the special tokens from a `tokenizer_config.json`.
    ///
    /// Of several templates `default` is taken, and `tool_use`, where it is there, for chats with tools.
    ///
    /// # Errors
    ///
    /// When it is not such a file, has no template, or one that cannot be parsed.
    pub fn from_config(json: &str) -> Result<Self, TemplateError> {
        let config = Config::read(json)?;
        let templates = match config.chat_template {
            None => return Err(TemplateError::Missing),
            Some(Templates::One(source)) => vec![Named { name: DEFAULT.into(), template: source }],
            Some(Templates::Named(list)) => list,
        };
        Self::new(templates, config.special)
    }

    /// Takes the template from a `chat_template.jinja`, and the special tokens from a `tokenizer_config.json`.
    ///
    /// # Errors
    ///
    /// As [`Self::from_config`].
    pub fn from_source(source: &str, config: &str) -> Result<Self, TemplateError> {
        let template = Named { name: DEFAULT.into(), template: source.into() };
        Self::new(vec![template], Config::read(config)?.special)
    }

    fn new(templates: Vec<Named>, special: Tokens) -> Result<Self, TemplateError> {
        let mut environment = environment();
        for Named { name, template } in templates {
            environment
                .add_template_owned(name.into_string(), python::without_generation_tags(&template))
                .map_err(|error| TemplateError::Parse { line: error.line().unwrap_or(0), reason: reason(&error) })?;
        }
        if environment.get_template(DEFAULT).is_err() {
            return Err(TemplateError::Missing);
        }
        let special = special.0.into_iter().map(|(name, token)| (name, Value::from(token.as_ref()))).collect();
        let mut template = Self { environment, special, format: ContentFormat::Text };
        template.format = template.detect();
        Ok(template)
    }

    /// Sets how a message's parts are given to the template, instead of what was found out.
    #[must_use]
    pub fn content_format(mut self, format: ContentFormat) -> Self {
        self.format = format;
        self
    }

    /// Sets the clock of `strftime_now`, instead of the system's, in UTC. Engines take their own day: a template that
    /// prints the date gives other tokens around midnight.
    #[must_use]
    pub fn clock(mut self, clock: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        self.environment.add_function("strftime_now", move |format: &str| python::strftime(clock(), format));
        self
    }

    /// The text of a chat.
    ///
    /// Messages reach the template as the client wrote them, but for two things, which engines do as well: parts of text
    /// become one text (see [`ContentFormat`]), and the arguments of tool calls are given as objects where the template
    /// takes them.
    ///
    /// # Errors
    ///
    /// When there are no messages, or the template refuses them or fails on them.
    pub fn render(&self, chat: &Chat) -> Result<String, TemplateError> {
        let (messages, parsed) = prepared(&chat.messages, self.format, Arguments::Parsed)?;
        match self.render_messages(chat, &messages) {
            // Some templates put the arguments together with strings, and so want them as strings.
            Err(TemplateError::Failed { .. }) if parsed => {
                self.render_messages(chat, &prepared(&chat.messages, self.format, Arguments::AsGiven)?.0)
            }
            rendered => rendered,
        }
    }

    fn render_messages(&self, chat: &Chat, messages: &Value) -> Result<String, TemplateError> {
        let special: Value = self.special.iter().map(|(name, token)| (name.as_ref(), token.clone())).collect();
        let own = context! {
            messages => messages,
            tools => chat.tools,
            documents => chat.documents,
            add_generation_prompt => chat.add_generation_prompt,
        };
        let named = if chat.tools.is_true() { self.environment.get_template("tool_use").ok() } else { None };
        let template = match named {
            Some(template) => template,
            None => self.environment.get_template(DEFAULT).map_err(|_| TemplateError::Missing)?,
        };
        // The first that has a name wins: a client cannot replace the messages by an argument.
        template.render(context! { ..own, ..chat.kwargs.clone(), ..special }).map_err(|error| failure(&error))
    }

    /// Whether the template reads parts: it is shown one.
    fn detect(&self) -> ContentFormat {
        const SHOWN: &str = r#"{"messages": [{"role": "user", "content": [{"type": "text", "text": "aWord"}]}]}"#;
        let Ok(chat) = Chat::from_json(SHOWN.as_bytes()) else { return ContentFormat::Text };
        match self.render_messages(&chat, &chat.messages) {
            // A template that takes content for a text prints the whole list.
            Ok(text) if text.contains("aWord") && !text.contains("'aWord'") && !text.contains("\"aWord\"") => {
                ContentFormat::Parts
            }
            _ => ContentFormat::Text,
        }
    }
}

/// What a template takes as a message's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ContentFormat {
    /// A text. Parts of text are joined by line breaks, as vLLM does; a part of another kind is an error.
    Text,
    /// A list of parts as well. Parts of any kind are the template's business. What it writes for an image is a mark
    /// that engines replace by many tokens, so tokens agree with the engine's up to there.
    Parts,
}

/// What a client sent to be rendered.
#[derive(Debug)]
pub struct Chat {
    pub(super) messages: Value,
    pub(super) tools: Value,
    pub(super) documents: Value,
    pub(super) kwargs: Value,
    pub(super) add_generation_prompt: bool,
}

impl Chat {
    /// Reads the body of a chat request: `messages`, `tools`, `documents`, `add_generation_prompt` (true unless given)
    /// and `chat_template_kwargs`; all else is left alone.
    ///
    /// # Errors
    ///
    /// When it is not one. Its messages are looked at when it is rendered.
    pub fn from_json(body: &[u8]) -> Result<Self, PromptError> {
        super::prompt::read_chat(body)
    }
}

/// The environment that Hugging Face renders in.
fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_trim_blocks(true);
    environment.set_lstrip_blocks(true);
    environment.set_unknown_method_callback(unknown_method_callback);
    environment.set_formatter(print);
    environment.add_filter("tojson", to_json);
    environment.add_function("raise_exception", |message: Value| -> Result<Value, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, "raised").with_source(Raised(message.to_string().into())))
    });
    #[expect(
        clippy::disallowed_methods,
        reason = "the one clock here: templates that print the date ask for it by name"
    )]
    environment.add_function("strftime_now", |format: &str| python::strftime(SystemTime::now(), format));
    environment
}

/// Prints a value as Python does: `None`, `True`, and lists with quotes.
fn print(out: &mut Output<'_>, _: &State<'_, '_>, value: &Value) -> Result<(), Error> {
    python::write_str(out, value).map_err(|_| Error::from(ErrorKind::WriteFailure))
}

fn to_json(value: &Value, options: Kwargs) -> Result<Value, Error> {
    let json = python::Json {
        indent: options.get("indent")?,
        separators: options.get("separators")?,
        ensure_ascii: options.get::<Option<bool>>("ensure_ascii")?.unwrap_or(false),
        sort_keys: options.get::<Option<bool>>("sort_keys")?.unwrap_or(false),
    };
    options.assert_all_used()?;
    Ok(Value::from_safe_string(json.dump(value)))
}

/// What a template said by `raise_exception`.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Raised(Box<str>);

fn failure(error: &Error) -> TemplateError {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(at) = cause {
        if let Some(Raised(message)) = at.downcast_ref() {
            return TemplateError::Refused(message.clone());
        }
        cause = at.source();
    }
    TemplateError::Failed { line: error.line().unwrap_or(0), reason: reason(error) }
}

fn reason(error: &Error) -> Box<str> {
    match error.detail() {
        Some(detail) => format!("{}: {detail}", error.kind()).into(),
        None => error.kind().to_string().into(),
    }
}

/// The name of the template that is taken where none is asked for.
const DEFAULT: &str = "default";

/// What is read of a `tokenizer_config.json`.
#[derive(Deserialize)]
struct Config {
    chat_template: Option<Templates>,
    #[serde(flatten)]
    special: Tokens,
}

impl Config {
    fn read(json: &str) -> Result<Self, TemplateError> {
        serde_json::from_str(json).map_err(|error| TemplateError::Config(error.to_string().into()))
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Templates {
    One(Box<str>),
    Named(Vec<Named>),
}

#[derive(Deserialize)]
struct Named {
    name: Box<str>,
    template: Box<str>,
}

/// The special tokens by the names that templates know them by: `bos_token`, `eos_token` and the like.
struct Tokens(Vec<(Box<str>, Box<str>)>);

impl<'de> Deserialize<'de> for Tokens {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Token {
            Plain(Box<str>),
            Added { content: Box<str> },
            Else(serde::de::IgnoredAny),
        }
        let all = std::collections::BTreeMap::<Box<str>, Token>::deserialize(deserializer)?;
        let token = |(name, token): (Box<str>, Token)| match token {
            Token::Plain(content) | Token::Added { content } if name.ends_with("_token") => Some((name, content)),
            Token::Plain(_) | Token::Added { .. } | Token::Else(_) => None,
        };
        Ok(Self(all.into_iter().filter_map(token).collect()))
    }
}
