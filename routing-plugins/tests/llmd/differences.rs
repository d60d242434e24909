//! Behaviours of claimed plugins that are not theirs, by name. A case of one must come out differently here, and not for
//! want of knowing it.

use kv_index::BlockSize;
use serde_json::Value;

use crate::case::Case;
use crate::prepare::block_size;
use crate::read::tokens;
use crate::score::{is_speculated_and_true, is_worth_more_speculated};

/// Where ours is another.
pub(crate) struct Difference {
    pub(crate) name: &'static str,
    pub(crate) why: &'static str,
    is: fn(&Case) -> bool,
}

pub(crate) const DIFFERENCES: &[Difference] = &[
    Difference {
        name: "partial last block",
        why: "a last block that is not full is dropped here, as engines do: nobody can hold it",
        is: |case| {
            let is_cut = |size: BlockSize| prompts(case).iter().any(|prompt| prompt % size.tokens() > 0);
            case.plugin.starts_with("approx-prefix-") && block_size(case).is_ok_and(|size| size.is_some_and(is_cut))
        },
    },
    Difference {
        name: "no block size",
        why: "an index has one block size, given by its host; there is no tuning that would find one",
        is: |case| {
            case.plugin == "approx-prefix-cache-producer"
                && case.kind == "config"
                && case.params["autoTune"] == true
                && block_size(case) == Ok(None)
        },
    },
    Difference {
        name: "least block size",
        why: "blocks are as small as the engine's: the index does not need them larger to fit in memory",
        is: |case| {
            let size = block_size(case).ok().flatten().map(BlockSize::tokens);
            let least = |found: &Value, tokens: usize| *found == tokens.max(LEAST).div_ceil(LEAST);
            let is_raised = match &*case.kind {
                "block_size" => case.expected["block_size"] == LEAST,
                "blocks" => prompts(case).iter().all(|tokens| least(&case.expected["blocks"], *tokens)),
                _ => false,
            };
            // A prompt that is one block either way tells nothing.
            let is_one = |size: usize| case.kind == "blocks" && prompts(case).iter().all(|tokens| *tokens <= size);
            is_raised && size.is_some_and(|size| size < LEAST && !is_one(size))
        },
    },
    Difference {
        name: "speculated and true",
        why: "a speculated block that turned true is true, and not both",
        is: |case| case.plugin == "matched-block-count-by-tier" && is_speculated_and_true(case),
    },
    Difference {
        name: "speculated worth more",
        why: "of a block that is speculated and true, the true copy counts, also where its tier weighs less",
        is: |case| case.plugin == "kv-longest-prefix" && is_worth_more_speculated(case),
    },
    Difference {
        name: "forgetful order",
        why: "the order of who had a cold prompt last is of all pods, and forgets none that is there",
        is: |case| {
            let size = case.params["lruSize"].as_u64().unwrap_or_default();
            let used = ["lru_history", "steps"].map(|name| case.input[name].as_array().map_or(0, Vec::len));
            case.plugin == "no-hit-lru-scorer" && size > 0 && size < used[0].max(used[1]) as u64
        },
    },
    Difference {
        name: "label or none",
        why: "a selector is all of its parts; one label's values or none of them is two profiles, or a role",
        is: |case| {
            let has_values = case.params["validValues"].as_array().is_some_and(|values| !values.is_empty());
            let label = case.params["label"].as_str().unwrap_or_default();
            let has_none = |labels: &Value| labels.get(label).is_none();
            case.plugin == "by-label"
                && case.params["allowsNoLabel"] == true
                && has_values
                && case.input["labels"].as_array().is_some_and(|pods| pods.iter().any(has_none))
        },
    },
    Difference {
        name: "cache use above 1",
        why: "a limit above 1 is taken, and reached by nobody: by the queue alone is then how pods are judged",
        is: |case| {
            case.plugin == "utilization-detector"
                && case.kind == "config"
                && case.params["kvCacheUtilThreshold"].as_f64().is_some_and(|most| most > 1.0)
        },
    },
    Difference {
        name: "age of reports",
        why: "how old a report may be is said of the load tracker, for all plugins alike",
        is: |case| {
            let age = &case.params["metricsStalenessThresholdMs"];
            case.plugin == "utilization-detector" && case.kind == "config" && age.as_f64().is_some_and(|age| age <= 0.0)
        },
    },
    Difference {
        name: "flat ceilings",
        why: "one ceiling for all priorities is a ceiling: it keeps room for what does not come this way",
        is: |case| {
            let (min, max) = (&case.params["minCeiling"], &case.params["maxCeiling"]);
            let max = if max.is_null() { &Value::from(1.0) } else { max };
            case.plugin == "priority-holdback-policy" && case.kind == "config" && min.as_f64() == max.as_f64()
        },
    },
];

/// The lengths of a case's prompts.
fn prompts(case: &Case) -> Vec<usize> {
    let given = ["tokens", "query_tokens"].map(|name| tokens(&case.input[name]).ok());
    let several = ["prompts", "query_prompts"].map(|name| case.input[name].as_array());
    let several = several.into_iter().flatten().flatten().map(|prompt| tokens(prompt).ok());
    several.chain(given).flatten().map(|tokens| tokens.len()).collect()
}

/// The smallest block that they cut prompts by.
const LEAST: usize = 64;

impl Difference {
    /// The one that a case is about.
    pub(crate) fn of(case: &Case) -> Option<&'static Self> {
        DIFFERENCES.iter().find(|difference| (difference.is)(case))
    }
}
