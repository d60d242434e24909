//! No dialect: what stands for an engine's hashing rules where no engine's feature is on. It has no values.

use std::convert::Infallible;

use crate::engine::block_digest::BlockDigest;
use crate::engine::engine_kind::EngineKind;
use crate::engine::event::EngineStored;
use crate::engine::hash_error::HashError;
use crate::engine::prompt::{Prompt, TokenId};
use crate::engine::recompute::Recomputed;
use crate::engine::rules::{ChainState, Rules, Setting, Stretch};
use crate::engine::version::Version;

impl Rules for Infallible {
    const ENGINE: EngineKind = EngineKind::Vllm;

    fn version(&self) -> Option<Version> {
        match *self {}
    }

    fn alternatives(&self, _: Setting) -> Vec<Self> {
        match *self {}
    }

    fn recompute(&self, _: &EngineStored<'_>, _: Option<&ChainState>) -> Recomputed {
        match *self {}
    }

    fn check<T: TokenId>(&self, _: &Prompt<'_, T>, _: usize, _: usize) -> Result<(), HashError> {
        match *self {}
    }

    fn root<T>(&self, _: &Prompt<'_, T>) -> BlockDigest {
        match *self {}
    }

    fn root_bytes<T>(&self, _: &Prompt<'_, T>, _: &mut Vec<u8>) {
        match *self {}
    }

    fn digest_length(&self) -> usize {
        match *self {}
    }

    fn extend<T: TokenId>(
        &self,
        _: &Stretch<'_, T>,
        _: &mut ChainState,
        _: &mut Vec<u8>,
        _: impl FnMut(&[u8], &BlockDigest),
    ) {
        match *self {}
    }

    fn announced(&self, _: &BlockDigest, _: Option<&[u8; 32]>) -> u64 {
        match *self {}
    }
}
