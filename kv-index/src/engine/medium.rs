//! Storage media of engines' events, mapped to tiers.

use crate::blocks::Tier;

/// The tier an engine means; none for a word that no listed release has.
///
/// Case does not matter: vLLM writes `CPU`, the connectors beside it `cpu`. No word at all means the GPU, as it did
/// before releases had one. What is not local is remote, whatever it is kept in.
pub(super) fn tier(medium: Option<&str>, locality: Option<&str>) -> Option<Tier> {
    let tier = match medium {
        None => Tier::Gpu,
        Some(word) => WORDS.iter().find(|(known, _)| known.eq_ignore_ascii_case(word))?.1,
    };
    let remote = locality.is_some_and(|place| place.eq_ignore_ascii_case("remote"));
    Some(if remote { Tier::Remote } else { tier })
}

/// vLLM: `GPU`, `CPU`, `STORAGE`, `FS`, `OBJ`. SGLang: `GPU`, `CPU_PINNED`, `DISK`, `EXTERNAL`.
const WORDS: [(&str, Tier); 8] = [
    ("gpu", Tier::Gpu),
    ("cpu", Tier::Host),
    ("cpu_pinned", Tier::Host),
    ("disk", Tier::Disk),
    ("fs", Tier::Disk),
    ("storage", Tier::Disk),
    ("obj", Tier::Remote),
    ("external", Tier::Remote),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_does_not_matter_and_silence_means_the_gpu() {
        assert_eq!(tier(None, None), Some(Tier::Gpu));
        for (word, expected) in [("GPU", Tier::Gpu), ("CPU", Tier::Host), ("cpu", Tier::Host), ("Disk", Tier::Disk)] {
            assert_eq!(tier(Some(word), None), Some(expected), "{word}");
        }
        assert_eq!(tier(Some("CPU_PINNED"), Some("LOCAL")), Some(Tier::Host));
        assert_eq!(tier(Some("abacus"), None), None);
    }

    #[test]
    fn what_is_not_local_is_remote() {
        assert_eq!(tier(Some("STORAGE"), Some("REMOTE")), Some(Tier::Remote));
        assert_eq!(tier(Some("STORAGE"), Some("LOCAL")), Some(Tier::Disk));
    }
}
