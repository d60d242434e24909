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
    /// Tokens of its beginning that others had first.
    shared: u64,
    tokens: u64,
    pod: usize,
    running: u32,
    began: Instant,
    /// When it is not kept any more, once it does not run.
    until: Instant,
}

#[derive(Default)]
struct Literal {
    contexts: Vec<LiteralContext>,
    /// Blocks that two contexts had at once, as long as one has them: the program that all of them were of, and who had it last.
    shared: Vec<(u64, Option<u64>, u64)>,
    /// Programs, and what was computed and generated for each at a time.
    served: Vec<(u64, u64)>,
    next: u64,
}

impl Literal {
    fn new_context(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn find(&mut self, blocks: &[u64], now: Instant) -> (u64, u64) {
        let is_at_once = |one: &LiteralContext| now.duration_since(one.began) <= Duration::from_secs(2);
        let is_half = |one: &LiteralContext, depth: usize| 2 * depth >= one.blocks.len();
        for depth in (1..=blocks.len()).rev() {
            let block = blocks[depth - 1];
            if let Some((_, program, last)) = self.shared.iter().find(|(shared, ..)| *shared == block) {
                let last = self.contexts.iter().find(|one| one.id == *last);
                match (*program, last) {
                    (Some(program), Some(last)) if is_half(last, depth) && is_at_once(last) => {
                        return (program, self.new_context());
                    }
                    _ => break,
                }
            }
            let Some(one) = self.contexts.iter().find(|one| one.blocks.contains(&block)) else { continue };
            let (program, id) = (one.program, one.id);
            if depth > one.first {
                return if is_half(one, depth) { (program, id) } else { (program, self.new_context()) };
            }
            if depth == one.blocks.len() && one.running == 0 {
                return (program, id);
            }
            if is_half(one, depth) && is_at_once(one) {
                return (program, self.new_context());
            }
            break;
        }
        let new = self.new_context();
        (new, new)
    }

    fn begin(&mut self, (program, id): (u64, u64), blocks: &[u64], pod: usize, answer: u64, now: Instant) {
        let at = self.contexts.iter().position(|one| one.id == id);
        let new = || LiteralContext {
            id,
            program,
            blocks: Vec::new(),
            first: blocks.len(),
            shared: 0,
            tokens: 0,
            pod,
            running: 0,
            began: now,
            until: now,
        };
        let mut one = at.map_or_else(new, |at| self.contexts.remove(at));
        one.blocks.retain(|block| blocks.contains(block));
        let has = |one: &LiteralContext, block: &u64| one.blocks.contains(block);
        let contexts = &self.contexts;
        self.shared.retain(|(block, ..)| has(&one, block) || contexts.iter().any(|other| has(other, block)));
        for block in blocks.iter().filter(|block| !has(&one, block)) {
            let other = contexts.iter().find(|other| has(other, block));
            match self.shared.iter_mut().find(|(shared, ..)| shared == block) {
                Some((_, of, last)) => (*of, *last) = (of.filter(|of| *of == program), id),
                None => {
                    self.shared.extend(other.map(|other| (*block, Some(other.program).filter(|of| *of == program), id)))
                }
            }
        }
        if at.is_none() {
            let is_shared = |block: &&u64| self.shared.iter().any(|(shared, ..)| shared == *block);
            one.shared = (blocks.iter().take_while(is_shared).count() * BLOCK) as u64;
        }
        one.blocks = blocks.to_vec();
        one.tokens = ((blocks.len() * BLOCK) as u64 + answer).saturating_sub(one.shared);
        (one.pod, one.running, one.began) = (pod, one.running + 1, now);
        self.contexts.push(one);
    }

    fn service(&self, program: u64) -> u64 {
        self.served.iter().filter(|(of, _)| *of == program).map(|(_, tokens)| tokens).sum()
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
        steps in proptest::collection::vec((chain(), 0..3_usize, 0..4_u32, 0..4_usize, 0..700_u64), 1..60),
    ) {
        let mut scene = Scene::new(ProgramLimits::default());
        let (mut literal, mut running) = (Literal::default(), Vec::<(ProgramTurn, (u64, u64))>::new());
        for (blocks, pod, seconds, ending, held) in steps {
            scene.after(f64::from(seconds) * 1.5);
            let (turn, expected) = (scene.programs.find(&prompt(&blocks), scene.now), literal.find(&blocks, scene.now));
            prop_assert_eq!((turn.program, turn.context), expected, "{:?} in {:?}", blocks, literal.contexts);
            prop_assert_eq!(turn.service, literal.service(expected.0));
            let answer = scene.programs.working_set_with(&turn, scene.pods[pod], scene.now);
            let others = literal.contexts.iter().filter(|one| one.id != turn.context).cloned().collect();
            let beside = Literal { contexts: others, ..Literal::default() }.working_set(pod, scene.now);
            let answer = answer - beside - turn.tokens;
            let cache = PodCache::new(scene.pods[pod], Some(100_000)).held(held);
            scene.programs.begin(&turn, &prompt(&blocks), cache, scene.now);
            literal.served.push((expected.0, turn.tokens.saturating_sub(held)));
            literal.begin(expected, &blocks, pod, answer, scene.now);
            running.push((turn, expected));
            // Some are over, in no order.
            if ending > 0 {
                let (turn, (program, id)) = running.swap_remove(ending % running.len());
                // What is told, so that nothing is learned.
                let pause = Duration::from_millis(400 * ending as u64);
                scene.programs.end_before(&turn, Some(10), Pause::Lasts(pause), scene.now);
                let one = literal.contexts.iter_mut().find(|one| one.id == id).unwrap();
                one.running -= 1;
                literal.served.push((program, 10));
                if one.running == 0 {
                    one.tokens = (turn.tokens + 10).saturating_sub(one.shared);
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
