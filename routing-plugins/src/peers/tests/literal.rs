//! A literal model of what a report and peers come to.

use std::collections::BTreeMap;

use proptest::prelude::*;
use routing_core::{Fleet, Load, PodInfo};

use super::*;

/// What happens to one pod, as one gateway sees it.
#[derive(Clone, Debug)]
enum Op {
    Begin,
    End(prop::sample::Index),
    /// The engine reports so many, half of them waiting.
    Report(u32),
    /// A peer begins so many requests, or ends one.
    PeerBegins(usize, usize),
    PeerEnds(usize),
    /// A peer tells what it has; with a number that is too low, if it is an old one.
    Tell(usize, bool),
    /// A peer is not heard of for long.
    Silence(usize),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => Just(Op::Begin),
        2 => any::<prop::sample::Index>().prop_map(Op::End),
        2 => (0..12u32).prop_map(Op::Report),
        3 => (0..3usize, 1..4usize).prop_map(|(peer, count)| Op::PeerBegins(peer, count)),
        2 => (0..3usize).prop_map(Op::PeerEnds),
        4 => (0..3usize, prop::bool::weighted(0.2)).prop_map(|(peer, old)| Op::Tell(peer, old)),
        1 => (0..3usize).prop_map(Op::Silence),
    ]
}

/// The rule, word by word: requests of a pod are one's own, those that peers told, and what a report said beyond both. The first that a
/// peer tells after a report was in it.
#[derive(Debug, Default)]
struct Model {
    own: u32,
    /// What each known peer told, and whether that was since the last report.
    told: BTreeMap<usize, (u32, bool)>,
    /// Requests and those waiting of them that are of nobody known; none without a report.
    others: Option<(u32, u32)>,
}

impl Model {
    fn known(&self) -> u32 {
        self.own + self.told.values().map(|(count, _)| count).sum::<u32>()
    }

    fn report(&mut self, load: Load) {
        let requests = (load.running + load.waiting).saturating_sub(self.known());
        self.others = Some((requests, load.waiting.saturating_sub(self.known()).min(requests)));
        self.told.values_mut().for_each(|(_, since)| *since = false);
    }

    fn tell(&mut self, peer: usize, now: u32) {
        let (before, since) = self.told.insert(peer, (now, true)).unwrap_or((0, false));
        if let Some((requests, waiting)) = self.others.as_mut().filter(|_| !since) {
            // What it tells more was in the report; and of whom it tells less, the report had others.
            *requests = requests.saturating_sub(now.saturating_sub(before)) + before.saturating_sub(now);
            let waited = waiting.saturating_sub(now.saturating_sub(before)).min(*requests);
            *waiting = (waited + before.saturating_sub(now)).min(*requests);
        }
    }

    fn forget(&mut self, peer: usize) {
        let Some((told, _)) = self.told.remove(&peer) else { return };
        if let Some((requests, waiting)) = &mut self.others {
            *requests += told;
            *waiting = (*waiting + told).min(*requests);
        }
    }
}

proptest! {
    /// Whatever is sent, reported, told, told late and not told any more, a pod's load is what the model says; and what is shown
    /// to decisions is the same.
    #[test]
    fn loads_agree_with_the_model(ops in prop::collection::vec(op(), 1..60)) {
        let (state, mut model, mut now) = (gateway(&["a"]), Model::default(), start());
        let a = pod(&state, "a");
        let fleet = Fleet::new(1, [PodInfo::new(a, "a")]);
        let mut own: Vec<LoadGuard> = Vec::new();
        let peers: [PluginState; 3] = std::array::from_fn(|_| gateway(&["a"]));
        let mut theirs: [Vec<LoadGuard>; 3] = Default::default();
        let mut last: [Option<PeerSummary>; 3] = Default::default();
        let id = |peer: usize| GatewayId::new(10 + peer as u64);
        for op in ops {
            now += SECOND / 1_000;
            match op {
                Op::Begin => own.push(state.load.begin(a, Work::of(10))),
                Op::End(at) if !own.is_empty() => drop(own.swap_remove(at.index(own.len()))),
                Op::End(_) => {}
                Op::Report(count) => {
                    let load = Load { running: count - count / 2, waiting: count / 2, ..Load::default() };
                    model.own = own.len() as u32;
                    prop_assert!(state.load.report(a, load, now));
                    model.report(load);
                }
                Op::PeerBegins(peer, count) => {
                    let begin = |_| peers[peer].load.begin(pod(&peers[peer], "a"), Work::of(10));
                    theirs[peer].extend((0..count).map(begin));
                }
                Op::PeerEnds(peer) => drop(theirs[peer].pop()),
                Op::Tell(peer, false) => {
                    let told = whole(&peers[peer], id(peer), now);
                    prop_assert_eq!(state.hear_peer(ONE, &told, now), Ok(()));
                    model.tell(peer, theirs[peer].len() as u32);
                    last[peer] = Some(told);
                }
                Op::Tell(peer, true) => if let Some(old) = last[peer].as_ref().filter(|_| model.told.contains_key(&peer)) {
                    prop_assert_eq!(state.hear_peer(ONE, old, now), Err(PeerIgnored::Old));
                },
                Op::Silence(peer) => {
                    // The others are heard of in between, and say the same.
                    let silence = now + 5 * SECOND;
                    let others: Vec<usize> = model.told.keys().copied().filter(|other| *other != peer).collect();
                    for other in others {
                        let told = whole(&peers[other], id(other), silence);
                        prop_assert_eq!(state.hear_peer(ONE, &told, silence), Ok(()));
                        model.tell(other, theirs[other].len() as u32);
                        last[other] = Some(told);
                    }
                    now = silence;
                    let known = usize::from(model.told.contains_key(&peer));
                    prop_assert_eq!(state.forget_silent_peers(now, 2 * SECOND), known);
                    model.forget(peer);
                }
            }
            model.own = own.len() as u32;
            let load = load(&state, a, now);
            let (others, waiting) = model.others.unwrap_or_default();
            prop_assert_eq!((load.requests, load.waiting_elsewhere), (model.known() + others, waiting), "{:?}", model);
            let mut figures = [crate::load::Figures::default()];
            state.load.figures_into(&fleet, &mut figures);
            prop_assert_eq!(figures[0].requests, load.requests);
            let mine = whole(&state, ONE, now).pods.first().map_or(0, |pod| pod.in_flight.requests);
            prop_assert_eq!(mine, model.own);
        }
    }
}
