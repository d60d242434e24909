//! Text blocks: the prompt's bytes hashed in blocks, for gateways without a tokenizer.

use std::num::NonZeroUsize;
use std::ops::Range;

use json_edit::{Kind, Object, Raw};
use routing_core::{Declare, PluginError, PrepareContext, Preparer, Request, Write};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::parameters::parameters;
use crate::prepare::text_chain::TextHasher;
use crate::prepare::{PromptChain, PromptHasher};

parameters! {
    /// What [`TextBlockPreparer`] takes.
    #[derive(Clone, Copy, Debug)]
    #[cfg_attr(feature = "serde", serde(try_from = "Written"))]
    pub struct TextBlockParameters {
        /// Bytes in a block; 256 unless given: about as many tokens as engines have in four blocks.
        pub block_bytes: NonZeroUsize = const { NonZeroUsize::new(256).expect("not zero") },
        /// How many leading bytes count; all, unless given.
        pub most_bytes: Option<NonZeroUsize> = None,
        /// How many bytes are taken for a token, where others want to know; 4 unless given. No more than a block has.
        pub bytes_per_token: NonZeroUsize = const { NonZeroUsize::new(4).expect("not zero") },
    }
}

/// Writes `PromptChain` from the text of the request's body.
///
/// Its hashes have nothing to do with any engine's: the index must be fed by prediction
/// ([`PredictRecorder`](crate::record::PredictRecorder)). Of a body in JSON the prompt counts: the first of `messages`,
/// `prompt`, `input`, `text` and `input_ids` that is a list or a text, byte for byte as it is written, so that another
/// `max_tokens` is no other prompt. A body that is not JSON, or has none of these, counts whole. Model, adapter, salt and
/// tenant keep prompts apart, and so do `system`, `instructions` and `tools`, which come before all else in a prompt.
#[derive(Debug)]
pub struct TextBlockPreparer {
    parameters: TextBlockParameters,
    chain: Write<PromptChain>,
}

impl TextBlockPreparer {
    /// Declares that it writes how the prompt becomes blocks.
    pub fn declare(declare: &mut Declare<'_>, parameters: TextBlockParameters) -> Self {
        Self { parameters, chain: declare.writes() }
    }
}

impl<const W: usize> Preparer<W> for TextBlockPreparer {
    fn prepare(&self, context: &mut PrepareContext<'_, W>) -> Result<(), PluginError> {
        let request = context.request();
        let TextBlockParameters { block_bytes: size, most_bytes, bytes_per_token } = self.parameters;
        let Parts { prompt: mut bytes, before } = parts(request.body);
        let most =
            [most_bytes.map(NonZeroUsize::get), most_prefix(request, bytes_per_token)].into_iter().flatten().min();
        bytes.end = most.map_or(bytes.end, |most| bytes.end.min(bytes.start.saturating_add(most)));
        let recipe = PromptHasher::text(
            TextHasher { seed: seed(request) ^ before, size, bytes },
            (size.get() / bytes_per_token).max(1),
        );
        Ok(context.put(self.chain, recipe)?)
    }
}

fn most_prefix(request: &Request<'_>, bytes_per_token: NonZeroUsize) -> Option<usize> {
    Some((request.most_prefix? as usize).saturating_mul(bytes_per_token.get()))
}

/// What keeps prompts apart that read the same.
fn seed(request: &Request<'_>) -> u64 {
    // An empty salt is none, as in the engines.
    let salt = request.salt.filter(|salt| !salt.is_empty());
    let fields = [Some(request.model), request.adapter, salt, request.tenant];
    // The place of a field is part of its hash: an adapter is not taken for a salt of the same name.
    fields.into_iter().enumerate().fold(0, |seed, (at, field)| {
        field.map_or(seed, |field| xxh3_64_with_seed(field.as_bytes(), seed ^ (at as u64 + 1)))
    })
}

/// Where in a body the prompt is; everything, if that cannot be told.
pub(crate) fn prompt(body: &[u8]) -> Range<usize> {
    parts(body).prompt
}

/// What of a body an engine makes its prompt of.
struct Parts {
    /// Where the prompt is; everything, if that cannot be told.
    prompt: Range<usize>,
    /// A hash of what comes before it; 0 if there is nothing.
    before: u64,
}

fn parts(body: &[u8]) -> Parts {
    let whole = Parts { prompt: 0..body.len(), before: 0 };
    let Ok(object) = Object::parse(body) else { return whole };
    let (mut prompts, mut preambles) = ([None; PROMPTS.len()], [None; PREAMBLES.len()]);
    // One walk for all names; of members of one name the last counts.
    for member in object.members() {
        if let Some(at) = PROMPTS.iter().position(|name| member.is(name)) {
            prompts[at] = Some(member.value());
        } else if let Some(at) = PREAMBLES.iter().position(|name| member.is(name)) {
            preambles[at] = Some(member.value());
        }
    }
    let is_prompt = |value: &Raw<'_>| matches!(value.kind(), Kind::Array | Kind::String);
    let Some(value) = prompts.into_iter().flatten().find(is_prompt) else { return whole };
    // Without the bracket or quote at its end, which a longer prompt does not have there.
    let text = value.as_bytes();
    let start = text.as_ptr() as usize - body.as_ptr() as usize;
    let before = preambles.into_iter().enumerate().fold(0, |seed, (at, value)| match value {
        Some(value) if value.kind() != Kind::Null => xxh3_64_with_seed(value.as_bytes(), seed ^ (at as u64 + 1)),
        _ => seed,
    });
    Parts { prompt: start..start + text.len() - 1, before }
}

/// Names of what is the prompt, the first that is there.
const PROMPTS: [&str; 5] = ["messages", "prompt", "input", "text", "input_ids"];

/// Names of what comes before it, wherever in the body it is.
const PREAMBLES: [&str; 3] = ["system", "instructions", "tools"];

/// Parameters as they are written, before they are checked together.
#[cfg(feature = "serde")]
#[derive(serde::Deserialize)]
#[serde(default)]
struct Written {
    block_bytes: NonZeroUsize,
    most_bytes: Option<NonZeroUsize>,
    bytes_per_token: NonZeroUsize,
}

#[cfg(feature = "serde")]
impl Default for Written {
    fn default() -> Self {
        let TextBlockParameters { block_bytes, most_bytes, bytes_per_token } = TextBlockParameters::default();
        Self { block_bytes, most_bytes, bytes_per_token }
    }
}

#[cfg(feature = "serde")]
impl TryFrom<Written> for TextBlockParameters {
    type Error = &'static str;

    fn try_from(raw: Written) -> Result<Self, &'static str> {
        let Written { block_bytes, most_bytes, bytes_per_token } = raw;
        if block_bytes < bytes_per_token {
            return Err("a block has fewer bytes than a token");
        }
        Ok(Self { block_bytes, most_bytes, bytes_per_token })
    }
}
