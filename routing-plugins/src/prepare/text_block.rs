//! Text blocks: the prompt's bytes hashed in blocks, for gateways without a tokenizer.

use std::num::NonZeroUsize;

use routing_core::{Declare, PluginError, PrepareContext, Preparer, PromptSpans, Request, Write};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::parameters::parameters;
use crate::prepare::prompt_finder::spans;
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
/// ([`PredictRecorder`](crate::record::PredictRecorder)). Of a body in JSON the prompt counts, where
/// [`PromptFinder`](crate::prepare::PromptFinder) finds it, so that another `max_tokens` is no other prompt. A body that is
/// not JSON, or has none, counts whole. Model, adapter, salt and tenant keep prompts apart, and so does what comes before
/// all else in a prompt.
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
        let spans = spans(request);
        let before = before(request, &spans);
        let mut bytes = spans.text;
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

/// A hash of what comes before the prompt; 0 if there is nothing.
fn before(request: &Request<'_>, spans: &PromptSpans) -> u64 {
    spans.before.iter().enumerate().fold(0, |seed, (at, span)| {
        let text = span.as_ref().and_then(|span| request.body.get(span.clone()));
        text.map_or(seed, |text| xxh3_64_with_seed(text, seed ^ (at as u64 + 1)))
    })
}

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
