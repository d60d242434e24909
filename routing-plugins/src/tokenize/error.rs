//! Errors of tokenizing: one type per operation.

/// Why a text has no ids. The vocabulary's file is at fault, or the text is beyond all measure.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the vocabulary cannot encode the text: {reason}")]
#[non_exhaustive]
pub struct TokenizeError {
    /// In the words of the tokenizer.
    pub reason: Box<str>,
}

impl TokenizeError {
    /// A failure in the tokenizer's own words; lower case, without a full stop.
    pub fn new(reason: impl std::fmt::Display) -> Self {
        Self { reason: reason.to_string().into() }
    }
}

/// Why a chat has no text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TemplateError {
    /// The files of the model have no chat template. The operator gave the wrong ones, or the model is no chat model.
    #[error("the model has no chat template")]
    Missing,
    /// The model's `tokenizer_config.json` is not what it should be. The operator's to fix.
    #[error("the tokenizer's configuration cannot be read: {0}")]
    Config(Box<str>),
    /// The template is not one. The operator's to fix.
    #[error("the chat template cannot be parsed, line {line}: {reason}")]
    Parse {
        /// Where, counted from 1; 0 if it is not known.
        line: usize,
        /// In the words of the template engine.
        reason: Box<str>,
    },
    /// The template itself refuses these messages, by `raise_exception`. The client's to fix.
    #[error("the chat template refuses the messages: {0}")]
    Refused(Box<str>),
    /// The template fails on these messages: the client left out what it needs, or it is faulty.
    #[error("the chat template fails, line {line}: {reason}")]
    Failed {
        /// Where, counted from 1; 0 if it is not known.
        line: usize,
        /// In the words of the template engine.
        reason: Box<str>,
    },
    /// There is nothing to render. The client's to fix.
    #[error("there are no messages")]
    NoMessages,
    /// The messages are no list of objects. The client's to fix.
    #[error("message {0} is not an object")]
    NotAMessage(usize),
    /// A message has a part that is not text, and the template knows text only. The client's to fix.
    #[error("message {message} has a part of type `{kind}`, and the chat template takes text only")]
    ContentPart {
        /// Which message, counted from 0.
        message: usize,
        /// What the part is, in the client's words.
        kind: Box<str>,
    },
}

/// Why a request has no tokens.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PromptError {
    /// No tokenizer is known for the model. The operator left it out, or the client misspelt it.
    #[error("no tokenizer for model `{0}`")]
    UnknownModel(Box<str>),
    /// The body is not JSON, or a part of it has another shape than the API says. The client's to fix.
    #[error("the body cannot be read, line {line}, column {column}: {reason}")]
    Body {
        /// Counted from 1.
        line: usize,
        /// Counted from 1.
        column: usize,
        /// In the words of the JSON reader.
        reason: Box<str>,
    },
    /// The body has none of `messages`, `prompt`, `text` and `input_ids`. The client's to fix, or no request that has
    /// a prompt.
    #[error("the body has no `messages`, `prompt`, `text` or `input_ids`")]
    NoPrompt,
    /// The body has more than one prompt, and a request goes to one place. The host may split it.
    #[error("the body has {0} prompts, and one request is routed by one")]
    SeveralPrompts(usize),
    /// The body asks for something that changes the prompt and is not done here.
    #[error("`{0}` is not supported")]
    Unsupported(&'static str),
    /// The chat has no text.
    #[error("the messages cannot be rendered")]
    Template(#[from] TemplateError),
    /// The text has no ids.
    #[error("the prompt cannot be tokenized")]
    Tokenize(#[from] TokenizeError),
}
