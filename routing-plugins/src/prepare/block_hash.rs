//! Lazy block hashing of the prompt: only as deep as the prefix search goes.

use std::num::NonZeroU32;

use kv_index::{BlockHash, BlockSize, ChainHasher, ChainSeed, ChainSource, Index, Matches};
use routing_core::{Declare, PluginError, PrepareContext, Preparer, Read, Request, Slot, Write};

use super::given_chain::GivenChain;
use super::text_chain::{TextChain, TextHasher};
use crate::plugin_state::Hashing;
use crate::tokens::PromptTokens;

/// How the prompt becomes block hashes.
#[derive(Debug)]
pub(crate) struct PromptChain;

impl Slot for PromptChain {
    type Value = PromptHasher;
    const NAME: &'static str = "prompt.chain";

    fn clear(value: &mut PromptHasher) {
        (value.by, value.most, value.block) = (None, 0, 0);
    }
}

/// A prompt that is hashed when somebody asks, and only as deep.
#[derive(Clone, Debug, Default)]
pub(crate) struct PromptHasher {
    by: Option<Hasher>,
    /// Leading tokens that count.
    most: usize,
    /// Tokens in a block.
    block: usize,
    /// The last model whose plain cache was asked for, and its hasher: most requests ask for the same.
    plain: Option<(String, ChainHasher)>,
}

#[derive(Clone, Debug)]
enum Hasher {
    Native(ChainHasher),
    Given,
    #[cfg(feature = "engine")]
    Engine(std::sync::Arc<crate::EngineHashing>),
    Text(TextHasher),
}

/// The hashes of a prompt, as far as they were asked for; memory that is used again.
#[derive(Debug, Default)]
pub(crate) struct HashBuffer {
    native: Vec<BlockHash>,
    #[cfg(feature = "engine")]
    engine: kv_index::engine::ChainBuffer,
}

impl HashBuffer {
    /// Forgets the hashes, and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.native.clear();
        #[cfg(feature = "engine")]
        self.engine.clear();
    }

    /// What was hashed so far: the prompt's first blocks, at least as many as any pod was found to hold.
    #[must_use]
    pub(crate) fn hashes(&self) -> &[BlockHash] {
        #[cfg(feature = "engine")]
        if self.native.is_empty() {
            return self.engine.hashes();
        }
        &self.native
    }
}

impl PromptHasher {
    /// Bytes of a request's body instead of tokens; blocks are taken to have so many tokens.
    pub(crate) fn text(hasher: TextHasher, block_tokens: usize) -> Self {
        Self { by: Some(Hasher::Text(hasher)), block: block_tokens, ..Self::default() }
    }

    /// Tokens in a block; of text, about so many.
    #[must_use]
    pub(crate) fn block_tokens(&self) -> usize {
        self.block
    }

    /// The native hasher of a model's plain cache, as it was made last or made anew.
    fn plain(&mut self, model: &str, size: BlockSize) -> ChainHasher {
        let (known, hasher) =
            self.plain.get_or_insert_with(|| (String::new(), ChainHasher::new(ChainSeed::new(""), size)));
        if known != model || hasher.block_size() != size {
            known.clear();
            known.push_str(model);
            *hasher = ChainHasher::new(ChainSeed::new(model), size);
        }
        *hasher
    }

    /// Finds who holds the prompt's first blocks.
    ///
    /// # Errors
    ///
    /// When the engine's rules do not cover the request.
    pub(crate) fn search<const W: usize>(
        &self,
        index: &Index<W>,
        request: &Request<'_>,
        tokens: &[u32],
        hashed: &mut HashBuffer,
        matches: &mut Matches<W>,
    ) -> Result<(), PluginError> {
        self.with(request, tokens, hashed, &mut |chain| index.search_lazy(chain, matches))
    }

    /// Every hash of the prompt, for whoever enters it into an index.
    ///
    /// # Errors
    ///
    /// As [`Self::search`].
    pub(crate) fn hashes(&self, request: &Request<'_>, tokens: &[u32]) -> Result<Vec<BlockHash>, PluginError> {
        if let Some(Hasher::Given) = self.by {
            return Ok(self.given(request).to_vec());
        }
        let mut hashes = Vec::new();
        self.with(request, tokens, &mut HashBuffer::default(), &mut |chain| {
            hashes.extend_from_slice(chain.hash_up_to(chain.len()));
        })?;
        Ok(hashes)
    }

    /// The hashes that the request brought, as far as they count.
    fn given<'r>(&self, request: &Request<'r>) -> &'r [BlockHash] {
        let given = request.hashes.unwrap_or_default();
        &given[..given.len().min(self.most / self.block.max(1))]
    }

    fn with(
        &self,
        request: &Request<'_>,
        tokens: &[u32],
        hashed: &mut HashBuffer,
        work: &mut dyn FnMut(&mut dyn ChainSource),
    ) -> Result<(), PluginError> {
        let tokens = &tokens[..tokens.len().min(self.most)];
        let Some(by) = &self.by else { return Ok(()) };
        match by {
            Hasher::Native(hasher) => work(&mut hasher.lazy(tokens, &mut hashed.native)),
            Hasher::Given => work(&mut GivenChain::new(self.given(request), &mut hashed.native)),
            #[cfg(feature = "engine")]
            Hasher::Engine(engine) => {
                let prompt = engine.prompt(request, tokens);
                work(&mut engine.hasher().lazy(&prompt, &mut hashed.engine).map_err(PluginError::failed)?);
            }
            Hasher::Text(text) => {
                work(&mut TextChain::new(text, request.body, &mut hashed.native));
            }
        }
        Ok(())
    }
}

/// What [`BlockHashPreparer`] takes.
#[derive(Clone, Copy, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize), serde(default))]
#[non_exhaustive]
pub struct BlockHashParameters {
    /// How many leading tokens count; all, unless given. A request may set fewer.
    pub most_tokens: Option<NonZeroU32>,
    /// Whether tenants' prompts are told apart, though they may be the same. Only where hashing is native: an engine hashes
    /// no tenants, so there it changes nothing, and tenants are kept apart by the salt that their requests have. Nor does it
    /// change hashes that are given.
    pub per_tenant: bool,
}

/// Writes `PromptChain`: the prompt's blocks by the hash that the index is filled with.
///
/// Hashing is lazy: a prompt that nobody holds costs the hashes of its first few blocks, whatever its length. Of a prompt,
/// only the first [`most_tokens`](BlockHashParameters::most_tokens) count, and only the first
/// [`most_prefix`](Request::most_prefix) that the request allows.
///
/// With [`Hashing::Given`] nothing is hashed here: the request brings [its hashes](Request::hashes), and who reads slots or
/// records sees no difference. Adapters, salts and tenants are in the hashes, or they are not told apart.
#[derive(Debug)]
pub struct BlockHashPreparer {
    parameters: BlockHashParameters,
    hashing: Hashing,
    chain: Write<PromptChain>,
}

impl BlockHashPreparer {
    /// Declares that it reads tokens and writes how they become blocks.
    pub fn declare(declare: &mut Declare<'_>, parameters: BlockHashParameters, hashing: Hashing) -> Self {
        // What the recipe is for must be there, though only who follows it reads the tokens.
        let _: Read<PromptTokens> = declare.reads();
        Self { parameters, hashing, chain: declare.writes() }
    }

    fn hasher(&self, request: &Request<'_>, recipe: &mut PromptHasher) -> (Hasher, usize) {
        match &self.hashing {
            Hashing::Given(size) => (Hasher::Given, size.tokens()),
            Hashing::Native(size) => (Hasher::Native(self.native(*size, request, recipe)), size.tokens()),
            #[cfg(feature = "engine")]
            Hashing::Engine(engine) => {
                (Hasher::Engine(std::sync::Arc::clone(engine)), engine.hasher().block_size().tokens())
            }
        }
    }

    fn native(&self, size: BlockSize, request: &Request<'_>, recipe: &mut PromptHasher) -> ChainHasher {
        let salt = request.salt.filter(|salt| !salt.is_empty());
        let tenant = request.tenant.filter(|_| self.parameters.per_tenant);
        if let (None, None, None) = (request.adapter, salt, tenant) {
            return recipe.plain(request.model, size);
        }
        ChainHasher::new(seed(request, tenant), size)
    }
}

/// The seed of a request's chain: its model, adapter and salt, and a tenant that is told apart.
fn seed(request: &Request<'_>, tenant: Option<&str>) -> ChainSeed {
    let mut seed = ChainSeed::new(request.model);
    if let Some(adapter) = request.adapter {
        seed = seed.adapter(adapter);
    }
    if let Some(salt) = request.salt.filter(|salt| !salt.is_empty()) {
        seed = seed.salt(salt);
    }
    if let Some(tenant) = tenant {
        seed = seed.tenant(tenant);
    }
    seed
}

impl Hashing {
    /// Every block hash of a request's prompt, as [`BlockHashPreparer`] makes them where tenants are not told apart: what a
    /// host compares with a pod's events.
    ///
    /// # Errors
    ///
    /// When the engine's rules do not cover the request.
    pub fn hashes(&self, request: &Request<'_>) -> Result<Vec<BlockHash>, PluginError> {
        let tokens = request.tokens.unwrap_or_default();
        match self {
            Self::Native(size) => Ok(ChainHasher::new(seed(request, None), *size).hash(tokens)),
            Self::Given(_) => Ok(request.hashes.unwrap_or_default().to_vec()),
            #[cfg(feature = "engine")]
            Self::Engine(engine) => engine.hasher().hash(&engine.prompt(request, tokens)).map_err(PluginError::failed),
        }
    }
}

impl<const W: usize> Preparer<W> for BlockHashPreparer {
    fn prepare(&self, context: &mut PrepareContext<'_, W>) -> Result<(), PluginError> {
        let request = context.request();
        let most = [self.parameters.most_tokens.map(NonZeroU32::get), request.most_prefix].into_iter().flatten().min();
        let most = most.map_or(usize::MAX, |most| most as usize);
        let (_, recipe) = context.write(self.chain)?;
        let (by, block) = self.hasher(request, recipe);
        (recipe.by, recipe.most, recipe.block) = (Some(by), most, block);
        Ok(())
    }
}
