//! Program of a request: by a key that it brings, or by its prompt.

use std::sync::Arc;

use kv_index::DEFAULT_POD_WORDS;
use routing_core::{Declare, PluginError, PrepareContext, Preparer, Program, Read, Slot, TryRead, Write};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::prompt::ProgramPrompt;
use super::table::Programs;
use super::working_set::WorkingSetsSlot;
use crate::parameters::parameters;
use crate::prepare::{KeySource, PromptChain};
use crate::tokens::PromptTokens;

parameters! {
    /// What [`ProgramPreparer`] takes.
    #[derive(Clone, Debug)]
    pub struct ProgramParameters {
        /// Where a program's key is looked for, in this order. Unless given, where agents have one: the headers `x-session-id` and
        /// `x-conversation-id`, those of Claude Code, Codex and Dynamo (`x-claude-code-session-id`, `session-id`, `thread-id`,
        /// `x-dynamo-session-id`), and `x-agent-id`, an agent's own; OpenAI's `conversation`, as a text or an object with an `id`, and
        /// `prompt_cache_key`; Anthropic's `metadata.user_id`; and `session_id`. Nowhere, if empty: programs are then recognized by their
        /// prompts alone.
        #[cfg_attr(feature = "serde", serde(deserialize_with = "crate::prepare::read_any_sources"))]
        pub from: Vec<KeySource> = vec![
            KeySource::Header("x-session-id".to_owned()),
            KeySource::Header("x-conversation-id".to_owned()),
            KeySource::Header("x-claude-code-session-id".to_owned()),
            KeySource::Header("session-id".to_owned()),
            KeySource::Header("thread-id".to_owned()),
            KeySource::Header("x-dynamo-session-id".to_owned()),
            // After those of sessions, of which an agent may have several.
            KeySource::Header("x-agent-id".to_owned()),
            KeySource::Body("conversation".to_owned()),
            KeySource::Body("conversation.id".to_owned()),
            KeySource::Body("prompt_cache_key".to_owned()),
            KeySource::Body("metadata.user_id".to_owned()),
            KeySource::Body("session_id".to_owned()),
        ],
        /// Where it is said what the program did before this turn, such as the kind of tool that it called: pauses of one kind are learned
        /// together, and the next one is taken to be of the same. The header `x-tool`, unless given.
        #[cfg_attr(feature = "serde", serde(deserialize_with = "crate::prepare::read_any_sources"))]
        pub kind: Vec<KeySource> = vec![KeySource::Header("x-tool".to_owned())],
        /// Where the client tells how many turns follow this one on the longest way to the program's end: of a program's requests that wait, the one
        /// goes first that most of it waits for. A header, a field of the body, or a label; the header `x-remaining-turns`, unless given.
        #[cfg_attr(feature = "serde", serde(deserialize_with = "crate::prepare::read_number_sources"))]
        pub remaining: Vec<KeySource> = vec![KeySource::Header("x-remaining-turns".to_owned())],
    }
}

/// Writes [`Program`]: the program that a request is a turn of; none of a request without a key whose prompt is too short to tell. And beside
/// it the [working sets](WorkingSetsSlot) of all pods.
///
/// What one tenant says is nothing of another's, nor what one [client](routing_core::Request::client) says. A key bounds a program: within it, contexts are still told apart by their prompts, since
/// an agent and its helpers have one each.
#[derive(Debug)]
pub struct ProgramPreparer<const W: usize = DEFAULT_POD_WORDS> {
    parameters: ProgramParameters,
    programs: Arc<Programs<W>>,
    tokens: TryRead<PromptTokens>,
    chain: Read<PromptChain>,
    prompt: Write<RecognizedPrompt>,
    program: Write<Program>,
    working_sets: Write<WorkingSetsSlot>,
}

impl<const W: usize> ProgramPreparer<W> {
    /// Declares that it reads the prompt and writes its program.
    pub fn declare(declare: &mut Declare<'_>, parameters: ProgramParameters, programs: Arc<Programs<W>>) -> Self {
        let (tokens, chain) = (declare.tries(), declare.reads());
        let (prompt, program, working_sets) = (declare.writes(), declare.writes(), declare.writes());
        Self { parameters, programs, tokens, chain, prompt, program, working_sets }
    }
}

impl<const W: usize> Preparer<W> for ProgramPreparer<W> {
    fn prepare(&self, context: &mut PrepareContext<'_, W>) -> Result<(), PluginError> {
        let (request, fleet) = (context.request(), context.fleet());
        let (reads, prompt) = context.write(self.prompt)?;
        let given = reads.try_read(self.tokens)?.map(|tokens| tokens.of(request));
        let tokens = given.unwrap_or_default();
        let chain = reads.read(self.chain)?;
        let hashes = chain.hashes(request, tokens)?;
        let counted = if tokens.is_empty() { hashes.len() * chain.block_tokens() } else { tokens.len() };
        let find = |sources: &[KeySource]| sources.iter().find_map(|source| source.find(request, given));
        let tenant = xxh3_64(request.tenant.unwrap_or_default().as_bytes());
        // Users of two clients may have one name.
        let tenant = request.client.map_or(tenant, |client| xxh3_64_with_seed(client.as_bytes(), tenant));
        let key = find(&self.parameters.from);
        let kind = find(&self.parameters.kind).unwrap_or(0);
        *prompt = ProgramPrompt::new(&hashes, chain.block_tokens(), counted as u64).key(key).kind(kind).tenant(tenant);
        // What says nothing of whose it is, is nobody's.
        let turn = (!prompt.is_empty()).then(|| self.programs.find(prompt, request.now));
        let remaining = || self.parameters.remaining.iter().find_map(|source| source.number(request));
        let turn = turn.map(|turn| turn.remaining(remaining().unwrap_or(0)));
        *context.write(self.program)?.1 = turn;
        let sets = context.write(self.working_sets)?.1;
        turn.iter().for_each(|turn| self.programs.working_sets(turn, fleet, request.now, sets));
        Ok(())
    }
}

/// The prompt as it was looked at, for the recorder.
#[derive(Debug)]
pub(super) struct RecognizedPrompt;

impl Slot for RecognizedPrompt {
    type Value = ProgramPrompt;
    const NAME: &'static str = "program.prompt";
    const INCIDENTAL: bool = true;

    fn clear(value: &mut ProgramPrompt) {
        *value = ProgramPrompt::default();
    }
}
