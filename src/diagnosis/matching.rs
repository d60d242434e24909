//! Findings about prompts that are not found: block sizes, hashes, model names, tokens.

use kv_index::{BlockHash, BlockSize, ChainHasher, ChainSeed, Matches, Pod};
use routing_core::Request;
use routing_plugins::Hashing;

use super::{ENOUGH, FindingKind, Tell};
use crate::cache_audit::StreamProblem;
use crate::observations::SampledPrompt;
use crate::pod_registry::RegisteredPod;
use crate::router::Router;

impl<const W: usize> Router<W> {
    /// What feeds told themselves. True if there was something.
    pub(super) fn stream_problems(&self, pods: &[RegisteredPod], tell: Tell<'_>) -> bool {
        let mut is_told = false;
        for pod in pods {
            let Some(problem) = self.cache_audit().log_of(pod.pod).and_then(|log| log.last_problem()) else { continue };
            is_told = true;
            match problem {
                StreamProblem::BlockSize { engine, index } => {
                    let message = format!(
                        "its engine has blocks of {engine} tokens and the router of {index}, so none is ever found: build the \
                         router with `block_size({engine})`, or start the engine with `--block-size {index}`"
                    );
                    tell(FindingKind::BlockSize, Some(pod), message);
                }
                StreamProblem::Hashes(why) => {
                    let message = format!("its engine hashes otherwise than requests are hashed: {why}");
                    tell(FindingKind::EngineHashes, Some(pod), message);
                }
            }
        }
        is_told
    }

    /// Events come, prompts are looked up, and none is ever found.
    pub(super) fn unmatched(&self, pods: &[RegisteredPod], tell: Tell<'_>) {
        let (searched, matched) = self.observations().searched();
        let (confirmed, missed) = self.observations().all_confirmed();
        let blocks = self.index().stats().blocks;
        // Where prompts are announced by the hashes they are looked up by, they are new ones.
        let is_explained = matched > 0 || confirmed > 0;
        if searched < ENOUGH || is_explained || blocks == 0 || self.live().is_predicted {
            return;
        }
        let own = self.block_size().tokens();
        if let Some((name, size)) = self.explained_by() {
            if let Hashing::Given(_) = self.model().hashing {
                let message = format!(
                    "prompts are in the index by hashes of their tokens, as blocks of {size} of the model `{name}`: its feeds work in \
                     token mode. Requests bring other hashes, which cannot match: build the router with `tokens_given`, or feed it \
                     by the hashes that requests bring"
                );
                return tell(FindingKind::TokenModeFeed, None, message);
            }
            let kind = if name == self.name() { FindingKind::BlockSize } else { FindingKind::ModelName };
            let message = format!(
                "prompts are in the index, but as blocks of {size} tokens of the model `{name}`; the router looks for blocks of \
                 {own} of `{}`: let whoever feeds the index hash as the router does",
                self.name()
            );
            return tell(kind, None, message);
        }
        if missed < MISSED {
            // They may be new ones that pods are still to announce.
            return;
        }
        let differs =
            pods.iter().any(|pod| self.cache_audit().of(&pod.spec.name).causes.contains_key("prompt_differs"));
        let hint = if let Hashing::Given(_) = self.model().hashing {
            "requests bring hashes of the host's: feeds must bring the same ones, which those in token mode do not"
        } else if differs {
            "the engines count other prompt tokens: the tokenizer or its chat template differs"
        } else {
            "the tokenizer, the hash seed or the model that the blocks were hashed for may be another one"
        };
        let message = format!(
            "{blocks} blocks are in the index, {searched} prompts were looked up in blocks of {own}, and none was found; {hint}"
        );
        tell(if differs { FindingKind::Tokenizer } else { FindingKind::NothingMatches }, None, message);
    }

    /// The name and block size under which a prompt that was not found is in the index.
    fn explained_by(&self) -> Option<(String, usize)> {
        self.tried(&self.observations().unmatched(), |hashes| {
            let mut matches = Matches::default();
            self.index().search(hashes, &mut matches);
            matches.deepest().is_some_and(|group| group.depth > 0)
        })
    }

    /// The name and block size by whose hashes a prompt is found, other than those by which it was not.
    fn tried(&self, sample: &[u32], is_found: impl Fn(&[BlockHash]) -> bool) -> Option<(String, usize)> {
        // A host's own hashes may have been those of tokens, as the router would have made them.
        let (own, is_given) = match &self.model().hashing {
            Hashing::Native(own) => (own, false),
            Hashing::Given(own) => (own, true),
            _ => return None,
        };
        let last = self.name().rsplit('/').next().unwrap_or_default();
        let names = self.names().chain([last, ""]).map(str::to_owned);
        let sizes: Vec<u32> = (0..=9).map(|power| 1 << power).chain([own.tokens() as u32]).collect();
        for name in names {
            for size in sizes.iter().filter_map(|size| BlockSize::new(*size)) {
                let Some(first) = sample.get(..size.tokens()) else { continue };
                if (&*name, size) == (self.name(), *own) && !is_given {
                    continue;
                }
                if is_found(&ChainHasher::new(ChainSeed::new(&name), size).hash(first)) {
                    return Some((name, size.tokens()));
                }
            }
        }
        None
    }

    /// Whether a pod really holds the first block of a prompt that was sent to it, by its events; none if that cannot be told.
    pub(crate) fn announced(&self, pod: Pod, prompt: &SampledPrompt) -> Option<bool> {
        let first = match (prompt, &self.model().hashing) {
            (SampledPrompt::Hash(hash), Hashing::Given(_)) => *hash,
            (SampledPrompt::Tokens { tokens, salt, adapter }, hashing) => {
                let block = tokens.get(..self.block_size().tokens())?;
                let mut request = Request::new(self.name(), self.now()).tokens(block);
                (request.salt, request.adapter) = (salt.as_deref(), adapter.as_deref());
                *hashing.hashes(&request).ok()?.first()?
            }
            (SampledPrompt::Hash(_), _) => return None,
        };
        self.holds(pod, &[first])
    }

    /// Whether a pod really holds the first of these blocks; none if it left.
    fn holds(&self, pod: Pod, chain: &[BlockHash]) -> Option<bool> {
        self.index().locate(pod, chain, &mut Vec::new()).ok().map(|blocks| blocks > 0)
    }

    /// Pods whose events never match while others' do: a single engine with another block size, model or tokenizer.
    pub(super) fn odd_pods(&self, pods: &[RegisteredPod], tell: Tell<'_>) {
        if self.live().is_predicted || !self.observations().is_cache_aware() {
            return;
        }
        let seen: Vec<_> = pods.iter().map(|pod| self.observations().confirmed(pod.pod)).collect();
        if !seen.iter().any(|seen| seen.prompts > 0 && seen.missed == 0) {
            return;
        }
        for (pod, seen) in pods.iter().zip(&seen).filter(|(_, seen)| seen.missed >= MISSED) {
            let stats = self.index().pod_stats(pod.pod).unwrap_or_default();
            let announced = stats.blocks.saturating_sub(stats.speculated);
            let is_told = self.cache_audit().log_of(pod.pod).is_some_and(|log| log.last_problem().is_some());
            // One that fails computes nothing, and what is suspended is known to be out of date.
            let is_sound = pod.breaker.failing_since.is_none() && self.index().alive().contains(pod.pod.id());
            if announced == 0 || is_told || !is_sound {
                continue;
            }
            let found = match &seen.last_missed {
                Some(SampledPrompt::Tokens { tokens, salt: None, adapter: None }) => {
                    self.tried(tokens, |hashes| self.holds(pod.pod, hashes) == Some(true))
                }
                _ => None,
            };
            let why = match found {
                Some((name, size)) => format!(
                    "they are there as blocks of {size} tokens of the model `{name}`, and the router looks for blocks of {} of \
                     `{}`: let it be fed as the others are",
                    self.block_size().tokens(),
                    self.name()
                ),
                None => "its tokenizer, chat template, block size, hash seed or model is not the others'".to_owned(),
            };
            let message = format!(
                "{announced} blocks of it are in the index, but none of the last {} sampled prompts that went to it, while other \
                 pods announce theirs; {why}",
                seen.missed
            );
            tell(FindingKind::OddPod, Some(pod), message);
        }
    }

    /// Requests that bring what the router does not go by.
    pub(super) fn hashes_and_tokens(&self, tell: Tell<'_>) {
        let (decided, without) = self.observations().without_tokens();
        if decided < ENOUGH || self.live().is_predicted || !self.observations().is_cache_aware() {
            return;
        }
        let (only_tokens, only_hashes) = self.observations().one_of_two();
        let is_given = matches!(self.model().hashing, Hashing::Given(_));
        if without * 2 > decided {
            let message = format!(
                "{without} of {decided} prompts had no tokens, and the profile `{}` goes by them: give the router a tokenizer, or \
                 each request its tokens, or take the profile `approximate_prefix`",
                self.profile()
            );
            tell(FindingKind::NoTokens, None, message);
        } else if is_given && only_tokens * 2 > decided {
            let message = format!(
                "{only_tokens} of {decided} requests brought tokens and no hashes, and the router was built with `hashes_given`, so \
                 nothing is looked up for them: give each request its hashes, or build the router with `tokens_given`"
            );
            tell(FindingKind::HashesMissing, None, message);
        } else if !is_given && only_hashes * 2 > decided {
            let message = format!(
                "{only_hashes} of {decided} requests brought hashes and no tokens, and the router makes its own hashes, of tokens, as \
                 its feeds do, so nothing is looked up for them: give each request its tokens, or build the router with \
                 `hashes_given` and feed it by the same hashes"
            );
            tell(FindingKind::HashesIgnored, None, message);
        }
    }

    /// What engines count otherwise than was expected.
    pub(super) fn reported_tokens(&self, pods: &[RegisteredPod], tell: Tell<'_>) {
        for pod in pods {
            let accuracy = self.cache_audit().of(&pod.spec.name);
            let reported = accuracy.exact + accuracy.over + accuracy.under;
            let cause = |name: &str| accuracy.causes.get(name).copied().unwrap_or_default();
            if reported >= ENOUGH && cause("prompt_differs") * 2 > reported {
                let message = format!(
                    "its engine counted other prompt tokens than the tokenizer made in {} of {reported} answers: the tokenizer or \
                     its chat template is not the engine's",
                    cause("prompt_differs")
                );
                tell(FindingKind::Tokenizer, Some(pod), message);
            } else if reported >= ENOUGH
                && accuracy.over_tokens * 5 > accuracy.expected_tokens
                && cause("unexplained") > 0
            {
                let message = format!(
                    "of {} prompt tokens that it was expected to have cached, {} were not there, and no event of its says why: \
                     events are lost, or of another engine",
                    accuracy.expected_tokens, accuracy.over_tokens
                );
                tell(FindingKind::UnconfirmedCache, Some(pod), message);
            }
        }
    }
}

/// Sampled prompts in a row that a pod must have failed to announce.
const MISSED: u64 = 8;
