//! Decode first under random inputs.

use pointsman_test_support::SplitMix64;

use super::*;

/// Whatever happens, what must always hold holds (`world::rules`), and time ends every dispatch.
#[test]
fn whatever_happens_to_a_dispatch_that_decodes_first_the_rules_hold() {
    let mut rng = SplitMix64::new(1);
    let mut below = |bound: u64| rng.next_u64() % bound;
    for _ in 0..20_000 {
        let policies = [POLICIES[below(4) as usize], POLICIES[below(4) as usize]];
        let steps =
            [step("prefill", &[0, 1]).on_failure(policies[0]), step("decode", &[2, 3, 0]).on_failure(policies[1])];
        let mut probe = probe([STREAMED, WHOLE][below(2) as usize], plan(steps));
        probe.config.max_buffered_bytes = [64, 4096][below(2) as usize];
        let mut world = probe.start();
        for _ in 0..30 {
            if world.report.is_some() {
                break;
            }
            let at = below(world.sent.len() as u64) as usize;
            match below(16) {
                0..=2 => drop(world.stream(at)),
                3..=4 => drop(world.head(at, [200, 200, 500, 429, 400, 204][below(6) as usize])),
                5 => drop(world.chunk(at, ROLE)),
                6..=7 => drop(world.chunk(at, MISS)),
                8 => drop(world.chunk(at, TEXT)),
                9 => drop(world.chunk(at, MISS_WHOLE)),
                10..=11 => drop(world.end(at)),
                12 => drop(world.fails(at, [connect(), cut(), Failure::BreakerOpen][below(3) as usize].clone())),
                13 => drop(world.pass(seconds(below(6)))),
                14 => world.replanned(Some(two(&[1, 4], &[3, 5]))),
                _ => drop(world.chunk(at, "data: {\"cho")),
            }
        }
        // What time brings may be another wait for a plan.
        for _ in 0..3 {
            world.replanned(None);
            world.pass(seconds(3600));
        }
        assert!(world.report.is_some(), "it does not end: {:?}", world.story);
    }
}
