//! Dialects that differ in one setting: what an engine may speak instead.

use super::{Dialect, Spoken};
#[cfg(feature = "sglang")]
use crate::engine::sglang::{SglangFormat, SglangHashing};
#[cfg(feature = "trtllm")]
use crate::engine::trtllm::{TrtllmForm, TrtllmHashing};
#[cfg(any(feature = "vllm", feature = "sglang"))]
use crate::engine::version::Version;
#[cfg(feature = "vllm")]
use crate::engine::vllm::{VllmAlgorithm, VllmHashing};

impl Dialect {
    /// The same engine of other releases.
    pub(in crate::engine) fn of_other_releases(&self) -> Vec<Self> {
        match &self.0 {
            #[cfg(feature = "vllm")]
            Spoken::Vllm(rules) => {
                let others =
                    VLLM_RELEASES.into_iter().map(|version| VllmHashing { version, ..rules.hashing().clone() });
                others.filter_map(|hashing| Self::vllm(hashing).ok()).filter(|other| other != self).collect()
            }
            #[cfg(feature = "sglang")]
            Spoken::Sglang(rules) => {
                let hashing = *rules.hashing();
                let others = SGLANG_RELEASES.into_iter().flat_map(|version| {
                    [SglangFormat::Default, SglangFormat::Dynamo].map(|format| SglangHashing {
                        version,
                        format,
                        ..hashing
                    })
                });
                others.filter_map(|hashing| Self::sglang(hashing).ok()).filter(|other| other != self).collect()
            }
            #[cfg(feature = "trtllm")]
            Spoken::Trtllm(_) => Vec::new(),
        }
    }

    /// The same release with other algorithms, or another choice of what is hashed.
    pub(in crate::engine) fn of_other_algorithms(&self) -> Vec<Self> {
        match &self.0 {
            #[cfg(feature = "vllm")]
            Spoken::Vllm(rules) => {
                let seeds = std::iter::once(rules.hashing().seed.clone()).chain(usual_seeds());
                let hashings = seeds.flat_map(|seed| {
                    VllmAlgorithm::ALL.map(|algorithm| VllmHashing {
                        algorithm,
                        seed: seed.clone(),
                        ..rules.hashing().clone()
                    })
                });
                let others = hashings.filter(|hashing| hashing.algorithm != rules.hashing().algorithm);
                others.filter_map(|hashing| Self::vllm(hashing).ok()).collect()
            }
            #[cfg(feature = "sglang")]
            Spoken::Sglang(rules) => {
                let hashing = *rules.hashing();
                Self::sglang(SglangHashing { eagle: !hashing.eagle, ..hashing }).into_iter().collect()
            }
            #[cfg(feature = "trtllm")]
            Spoken::Trtllm(rules) => {
                let forms = [TrtllmForm::V1BlockKey, TrtllmForm::V2Sha256].into_iter();
                let others = forms.map(|form| TrtllmHashing { form, ..*rules.hashing() });
                others.filter_map(|hashing| Self::trtllm(hashing).ok()).filter(|other| other != self).collect()
            }
        }
    }

    /// The same with the seeds that are often set, and with none.
    pub(in crate::engine) fn of_other_seeds(&self) -> Vec<Self> {
        match &self.0 {
            #[cfg(feature = "vllm")]
            Spoken::Vllm(rules) => {
                let others = usual_seeds().map(|seed| VllmHashing { seed, ..rules.hashing().clone() });
                others.filter_map(|hashing| Self::vllm(hashing).ok()).filter(|other| other != self).collect()
            }
            #[cfg(feature = "sglang")]
            Spoken::Sglang(_) => Vec::new(),
            #[cfg(feature = "trtllm")]
            Spoken::Trtllm(_) => Vec::new(),
        }
    }
}

/// A release of each way of hashing: keys without tags, and with.
#[cfg(feature = "vllm")]
const VLLM_RELEASES: [Version; 2] = [Version::new(0, 30, 0), Version::new(0, 32, 0)];

/// A release of each way of hashing: before adapters had hashes of their own, and after.
#[cfg(feature = "sglang")]
const SGLANG_RELEASES: [Version; 2] = [Version::new(0, 5, 18), Version::new(0, 5, 23)];

/// None, and what guides tell operators to set.
#[cfg(feature = "vllm")]
fn usual_seeds() -> impl Iterator<Item = Option<Box<str>>> {
    [None, Some("0"), Some("1"), Some("42"), Some("random"), Some("")].into_iter().map(|seed| seed.map(Box::from))
}
