//! The table against its literal model: lists that are gone through.

use proptest::prelude::*;

use super::*;

/// A context, as dull as can be.
#[derive(Clone, Debug)]
struct LiteralContext {
    id: u64,
    program: u64,
    blocks: Vec<u64>,
    first: usize,
    tokens: u64,
    pod: usize,
    running: u32,
    used: Instant,
    /// When it is not kept any more, once it does not run.
    until: Instant,
}

#[derive(Default)]
struct Literal {
    contexts: Vec<LiteralContext>,
    /// Blocks that two contexts had at once, as long as one has them.
    shared: Vec<u64>,
    next: u64,
}

impl Literal {
    fn find(&mut self, blocks: &[u64], now: Instant) -> (u64, u64) {
        for depth in (1..=blocks.len()).rev() {
            let block = blocks[depth - 1];
            if self.shared.contains(&block) {
                break;
            }
            let Some(one) = self.contexts.iter().find(|one| one.blocks.contains(&block)) else { continue };
            let is_answered = depth > one.first;
            let is_at_once = one.running > 0 || now.duration_since(one.used) <= Duration::from_secs(2);
            if 2 * depth >= one.blocks.len() {
                if is_answered || depth == one.blocks.len() || is_at_once {
                    return (one.program, one.id);
                }
            } else if is_answered {
                self.next += 1;
                return (one.program, self.next);
            }
            break;
        }
        self.next += 1;
        (self.next, self.next)
    }

    fn begin(&mut self, (program, id): (u64, u64), blocks: &[u64], pod: usize, answer: u64, now: Instant) {
        let at = self.contexts.iter().position(|one| one.id == id);
        let mut one = at.map_or_else(
            || LiteralContext {
                id,
                program,
                blocks: Vec::new(),
                first: blocks.len(),
                tokens: 0,
                pod,
                running: 0,
                used: now,
                until: now,
            },
            |at| self.contexts.remove(at),
        );
        for block in blocks {
            if !one.blocks.contains(block) && self.contexts.iter().any(|other| other.blocks.contains(block)) {
                self.shared.push(*block);
            }
        }
        one.blocks = blocks.to_vec();
        one.tokens = (blocks.len() * BLOCK) as u64 + answer;
        (one.pod, one.running, one.used) = (pod, one.running + 1, now);
        self.contexts.push(one);
        let contexts = &self.contexts;
        self.shared.retain(|block| contexts.iter().any(|one| one.blocks.contains(block)));
    }

    fn working_set(&self, pod: usize, now: Instant) -> u64 {
        let counts = |one: &&LiteralContext| one.pod == pod && (one.running > 0 || now < one.until);
        self.contexts.iter().filter(counts).map(|one| one.tokens).sum()
    }
}

/// Chains of a small tree: each block is one of three that may follow the one before it.
fn chain() -> impl Strategy<Value = Vec<u64>> {
    proptest::collection::vec(0..3_u64, 1..9).prop_map(|turns| {
        turns
            .iter()
            .scan(1, |node, turn| {
                *node = *node * 3 + turn;
                Some(*node)
            })
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn the_table_agrees_with_the_model(
        steps in proptest::collection::vec((chain(), 0..3_usize, 0..4_u32, 0..4_usize), 1..60),
    ) {
        let mut scene = Scene::new(ProgramLimits::default());
        let (mut literal, mut running) = (Literal::default(), Vec::<(ProgramTurn, (u64, u64))>::new());
        for (blocks, pod, seconds, ending) in steps {
            scene.after(f64::from(seconds) * 1.5);
            let (turn, expected) = (scene.programs.find(&prompt(&blocks), scene.now), literal.find(&blocks, scene.now));
            prop_assert_eq!((turn.program, turn.context), expected, "{:?} in {:?}", blocks, literal.contexts);
            let answer = scene.programs.working_set_with(&turn, scene.pods[pod], scene.now);
            let others = literal.contexts.iter().filter(|one| one.id != turn.context).cloned().collect();
            let beside = Literal { contexts: others, ..Literal::default() }.working_set(pod, scene.now);
            let answer = answer - beside - turn.tokens;
            scene.programs.begin(&turn, &prompt(&blocks), scene.pods[pod], Some(100_000), scene.now);
            literal.begin(expected, &blocks, pod, answer, scene.now);
            running.push((turn, expected));
            // Some are over, in no order.
            if ending > 0 {
                let (turn, (_, id)) = running.swap_remove(ending % running.len());
                // What is told, so that nothing is learned.
                let pause = Duration::from_millis(400 * ending as u64);
                scene.programs.end_before(&turn, turn.tokens + 10, Pause::Lasts(pause), scene.now);
                let one = literal.contexts.iter_mut().find(|one| one.id == id).unwrap();
                one.running -= 1;
                one.tokens = turn.tokens + 10;
                one.used = scene.now;
                if one.running == 0 {
                    one.until = scene.now + pause + Duration::from_secs(1);
                }
            }
            for pod in 0..3 {
                prop_assert_eq!(scene.working_set(pod), literal.working_set(pod, scene.now), "pod {}", pod);
            }
        }
        let stats = scene.programs.stats();
        prop_assert_eq!(stats.contexts, literal.contexts.len());
        prop_assert_eq!(stats.running, literal.contexts.iter().filter(|one| one.running > 0).count());
    }
}
