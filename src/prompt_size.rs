//! Size of a request: tokens of its prompt, and those that its answer is expected to have.

use kv_index::{BlockSize, Pod};
use routing_core::{PlanStep, Request, Role};
use routing_plugins::load::Work;
use routing_plugins::{AnswerKey, AnswerLengths};

use crate::router::Router;

impl<const W: usize> Router<W> {
    /// The size of a request, with an answer as long as such were lately.
    pub(crate) fn prompt_size(&self, request: &Request<'_>) -> PromptSize {
        PromptSize::of(request, self.block_size().tokens(), &self.plugin_state().answer_lengths)
    }
}

/// How much work a prompt is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PromptSize {
    tokens: u64,
    /// Tokens that its answer is expected to have.
    output: u64,
    /// What answers like it are known by.
    key: AnswerKey,
    /// Whether several answers are wanted.
    has_samples: bool,
}

impl PromptSize {
    fn of(request: &Request<'_>, block_tokens: usize, lengths: &AnswerLengths) -> Self {
        let hashed = request.hashes.map(|hashes| hashes.len() * block_tokens);
        let counted = request.tokens.map(<[u32]>::len).filter(|tokens| *tokens > 0).or(hashed);
        // Without a tokenizer four bytes are taken for a token; images in a body are not that long a prompt.
        let tokens = counted.unwrap_or((request.body.len() / 4).min(MOST_GUESSED)) as u64;
        let key = AnswerKey::of(request, tokens);
        // A cast from a float saturates.
        let expected = lengths.expected(key).round() as u64;
        let output = request.most_output.map_or(expected, |most| expected.min(most.into()));
        Self { tokens, output, key, has_samples: false }
    }

    /// Tokens that its answer is expected to have.
    pub(crate) fn output(self) -> u64 {
        self.output
    }

    /// The tokens of the prompt.
    pub(crate) fn tokens(self) -> u64 {
        self.tokens
    }

    /// What its answer teaches of others like it; nothing, where there are several.
    pub(crate) fn key(self) -> Option<AnswerKey> {
        (!self.has_samples).then_some(self.key)
    }

    /// The same where several answers may be wanted.
    pub(crate) fn of_samples(self, has_samples: bool) -> Self {
        Self { has_samples, ..self }
    }

    /// What the prompt costs a pod of a step; `prefilled` where another pod computed it before.
    pub(crate) fn work(self, size: BlockSize, step: &PlanStep, pod: Pod, prefilled: bool) -> Work {
        let work = Work::of(self.tokens);
        // What the plan knows is about the first candidate.
        let held = step.cache.filter(|_| step.candidates.first().is_some_and(|first| first.pod == pod));
        let work = match held {
            // What another pod computed comes over the wire.
            _ if step.role == Role::Decode && prefilled => work.held(self.tokens),
            Some(cache) => work.held_blocks(cache.held, size),
            None => work,
        };
        match step.role {
            Role::Prefill => work.output(1),
            _ => work.output(self.output),
        }
    }
}

/// The longest prompt that a body without tokens is taken for.
const MOST_GUESSED: usize = 1 << 17;
