//! Cases restated from llm-d's own unit tests, for the plugins that claim the same behaviour.
//!
//! Every case is either claimed by a module here or named in [`NOT_CLAIMED`] with the reason. More files of the same form
//! are run when `POINTSMAN_VECTORS` names a folder with one.

mod case;
mod filter;
mod pick;
mod prepare;
mod score;

use case::{Case, Verdict};

const CASES: &str = include_str!("../fixtures/llmd_plugin_cases.json");

/// Plugins of theirs that none of ours stands for, or kinds of their cases, and why.
const NOT_CLAIMED: &[(&str, &str)] = &[
    ("approx-prefix-blocks", "a last block that is not full is dropped here, as engines do"),
    ("approx-prefix-cache-producer:blocks", "a last block that is not full is dropped here, as engines do"),
    ("burst-prefix", "bursts are kept together by speculation, one decision at a time"),
    ("data-graph", "what fits together is proven by routing-core, by its own tests"),
    ("endpoint-notification", "pods come and go by the host's snapshots of its fleet"),
    ("header-based-testing-filter", "a filter by a header is for tests of theirs; a host brings its own"),
    ("header-label-affinity", "labels are compared with a selector, not with a header"),
    ("latency-slo-admitter", "admission is the host's; `filter::saturation` tells it how full the fleet is"),
    ("matched-block-count-by-tier-05", "a speculated block that turned real is real, and not both"),
    ("mm-embeddings", "what encoders cache is not indexed"),
    ("multicluster-kv-cache-utilization-scorer", "a cluster's mean is a figure of the host's, for `MetricScorer`"),
    ("multicluster-prefix-cache-scorer", "an index is of the pods of one gateway"),
    ("multicluster-session-affinity", "a session's pod is in the host's table, not in a token of the client's"),
    ("p2p-source-producer", "engines find their own sources"),
    ("pd-", "the wire is routing-exec's, and so are its cases"),
    ("predicted-latency", "latencies come from the host's predictor; ours is by throughput alone"),
    ("probabilistic-admitter", "admission is the host's; `filter::saturation` tells it how full the fleet is"),
    ("session-affinity", "a session's pod is in the host's table, not in a token of the client's"),
    ("session-id-producer", "the places of a session's name are parameters here, with other defaults"),
    ("slo-headroom-tier-filter", "a scorer prefers headroom; nobody is filtered out for lack of it"),
    ("soft-reflective-ceiling-policy", "ceilings are by priority alone"),
];

/// `plugin` by how it begins, `plugin:kind`, or one case by its id.
fn is_excused(case: &Case, excused: &str) -> bool {
    match excused.split_once(':') {
        Some((plugin, kind)) => case.plugin == plugin && case.kind == kind,
        None => case.id.starts_with(excused),
    }
}

#[test]
fn every_case_of_a_claimed_plugin_passes() {
    let mut texts = vec![CASES.to_owned()];
    texts.extend(case::further("llmd_plugin_cases.json"));
    let mut wrong = Vec::new();
    for text in &texts {
        let cases = case::read(text);
        assert!(!cases.is_empty(), "a file without cases proves nothing");
        for case in &cases {
            let verdicts = [filter::check(case), pick::check(case), prepare::check(case), score::check(case)];
            let claimed = verdicts.iter().filter(|verdict| !matches!(verdict, Verdict::NotMine)).count();
            let excused = NOT_CLAIMED.iter().any(|(excused, _)| is_excused(case, excused));
            match (claimed, excused) {
                (1, false) | (0, true) => {}
                _ => wrong.push(format!("{}: claimed {claimed} times, excused: {excused}", case.id)),
            }
            for verdict in verdicts {
                if let Verdict::Failed(why) = verdict {
                    wrong.push(format!("{}: {why}", case.id));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} cases:\n{}", wrong.len(), wrong.join("\n"));
}
