//! Rules with thresholds: who is left after them.

use proptest::prelude::*;

use routing_plugins::load::Work;

use super::scene::{BLOCK, BLOCKS, Pod, Scene, Sent, TOKENS, pods};

/// Pods, by number.
type Set = Vec<usize>;

fn least(pods: &[Pod], among: &[usize]) -> Set {
    let requests = |at: &usize| pods[*at].requests();
    let least = among.iter().map(requests).fold(f64::MAX, f64::min);
    among.iter().copied().filter(|at| requests(at) == least).collect()
}

/// Of these, those with the longest match if that is more than a share of the prompt.
fn longest(pods: &[Pod], among: &[usize], share: f64) -> Option<Set> {
    let most = among.iter().map(|at| pods[*at].held).max()?;
    let enough = most > 0 && (most * BLOCK) as f64 / TOKENS as f64 > share;
    enough.then(|| among.iter().copied().filter(|at| pods[*at].held == most).collect())
}

fn goes_to(policy: &str, pods: &[Pod], expected: &[usize]) -> Result<(), TestCaseError> {
    let mut scene = Scene::new(policy, pods);
    for seed in 0..3 {
        let chosen = scene.decide(seed);
        prop_assert!(expected.contains(&chosen), "{policy}: {chosen}, not of {expected:?}");
    }
    Ok(())
}

/// Those with four fifths of the prompt's blocks, unless all of them would begin over 18 s later than another; all if there are none.
fn sticky(pods: &[Pod]) -> Set {
    let (holders, others): (Set, Set) = (0..pods.len()).partition(|at| 5 * pods[*at].held >= 4 * BLOCKS);
    let soonest = |among: &Set| among.iter().map(|at| pods[*at].queued() / 15_928.0).fold(f64::MAX, f64::min);
    let is_late = !others.is_empty() && soonest(&holders) - soonest(&others) > 18.0;
    if holders.is_empty() || is_late { (0..pods.len()).collect() } else { holders }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn llm_d_s_filter_keeps_whoever_holds_most_of_the_prompt(pods in pods()) {
        goes_to("llm_d_affinity", &pods, &sticky(&pods))?;
        goes_to("llm_d_latency", &pods, &sticky(&pods))?;
    }

    #[test]
    fn aibrix_goes_by_cache_unless_loads_are_eight_apart(pods in pods()) {
        let all: Set = (0..pods.len()).collect();
        let requests = || pods.iter().map(Pod::requests);
        let (fewest, most) = (requests().fold(f64::MAX, f64::min), requests().fold(0.0, f64::max));
        let among = if most - fewest > 8.0 { least(&pods, &all) } else { all };
        let among = longest(&pods, &among, 0.0).unwrap_or(among);
        goes_to("aibrix_prefix", &pods, &least(&pods, &among))?;
    }

    #[test]
    fn the_longest_prefix_wins_and_then_the_fewest_requests(pods in pods()) {
        let all: Set = (0..pods.len()).collect();
        let among = longest(&pods, &all, 0.0).unwrap_or(all);
        goes_to("longest_prefix", &pods, &least(&pods, &among))?;
    }

    #[test]
    fn smg_goes_by_cache_unless_loads_are_far_apart(pods in pods()) {
        let all: Set = (0..pods.len()).collect();
        let requests = || pods.iter().map(Pod::requests);
        let (fewest, most) = (requests().fold(f64::MAX, f64::min), requests().fold(0.0, f64::max));
        let apart = most - fewest > 64.0 && most > 1.5 * fewest;
        let among = if apart { least(&pods, &all) } else { all };
        let among = longest(&pods, &among, 0.3).unwrap_or(among);
        goes_to("smg_cache_aware", &pods, &least(&pods, &among))?;
    }
}

#[test]
fn one_block_is_a_prefix() {
    let pods = [Pod { held: 1, waiting: 90, ..Pod::default() }, Pod::default()];
    assert_eq!(Scene::new("longest_prefix", &pods).decide(1), 0);
}

#[test]
fn smg_s_gate_opens_and_closes() {
    let pod = |held, waiting| Pod { held, waiting, ..Pod::default() };
    for (waiting, expected) in [(64, 0), (65, 1)] {
        let pods = [pod(20, waiting), pod(0, 0), pod(7, 10)];
        assert_eq!(Scene::new("smg_cache_aware", &pods).decide(1), expected, "{waiting}");
    }
    // Half as much again as the least loaded: 300 of 200 is not more, 301 is.
    for (waiting, expected) in [(300, 0), (301, 1)] {
        assert_eq!(Scene::new("smg_cache_aware", &[pod(20, waiting), pod(0, 200)]).decide(1), expected, "{waiting}");
    }
    // 6 of 20 blocks are a little less than 0.3 of the prompt, 7 are more.
    for (held, expected) in [(6, 1), (7, 0)] {
        assert_eq!(Scene::new("smg_cache_aware", &[pod(held, 5), pod(0, 0)]).decide(1), expected, "{held}");
    }
}

#[test]
fn who_decodes_much_is_late_where_decoding_is_in_the_estimate() {
    let answers = vec![Sent { work: Work::of(200_000).held(200_000).output(500), decoding: true }; 40];
    // One block more is 20 ms of computing, and reading 8 million tokens beside each step far more.
    let pods = [Pod { held: 11, sent: answers, ..Pod::default() }, Pod { held: 10, ..Pod::default() }];
    for (policy, expected) in [("mooncake_ttft", 0), ("mooncake_decode", 1), ("llm_d_latency", 1)] {
        assert_eq!(Scene::new(policy, &pods).decide(1), expected, "{policy}");
    }
    let waits = [Pod { held: 11, waiting: 5, ..Pod::default() }, Pod { held: 10, ..Pod::default() }];
    assert_eq!(Scene::new("llm_d_affinity", &waits).decide(1), 1, "five that wait are more than a block");
}
