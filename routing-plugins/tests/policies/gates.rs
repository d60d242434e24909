//! Rules with thresholds: who is left after them.

use proptest::prelude::*;

use super::scene::{BLOCK, Pod, Scene, TOKENS, pods};

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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

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
