//! Cases restated from llm-d's own unit tests, for the plugins that claim the same behaviour.
//!
//! Every case is either claimed by a module here or named in [`NOT_CLAIMED`] with the reason. More files of the same form
//! are run when `POINTSMAN_VECTORS` names a folder with one.

mod case;
mod filter;
mod pick;
mod prepare;
mod score;

use case::Verdict;

const CASES: &str = include_str!("../fixtures/llmd_plugin_cases.json");

/// Plugins of theirs that none of ours stands for, and why.
const NOT_CLAIMED: &[(&str, &str)] = &[];

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
            let excused = NOT_CLAIMED.iter().any(|(plugin, _)| case.id.starts_with(plugin));
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
