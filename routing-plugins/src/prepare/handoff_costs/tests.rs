//! The table as its docs have it, pod by pod, and the fast one held against it.

use std::sync::Mutex;

use proptest::prelude::*;
use routing_core::{Read, Scorer, Scores};

use super::*;
use crate::load::PodLoad;
use crate::score::TotalLatencyScorer;
use crate::score::testing::{BLOCK, Scene, any_load};

/// Keeps the table that it reads.
struct Seen(Read<HandoffCosts>, Arc<Mutex<HandoffCostTable>>);

impl Scorer for Seen {
    fn score(&self, context: &RoutingContext<'_>, _: &mut Scores<'_>) -> Result<(), PluginError> {
        self.1.lock().unwrap().clone_from(context.read(self.0).unwrap());
        Ok(())
    }
}

fn table(scene: &Scene, parameters: HandoffCostParameters, state: &PluginState) -> HandoffCostTable {
    let (seen, state) = (Arc::new(Mutex::new(HandoffCostTable::default())), state.clone());
    let kept = Arc::clone(&seen);
    let profile = scene
        .profile()
        .preparer("costs", move |d: &mut Declare<'_>| HandoffCostPreparer::declare(d, parameters, &state))
        .scorer("seen", 1.0, move |d: &mut Declare<'_>| Seen(d.reads(), kept));
    scene.scores_of(&scene.request(), profile);
    std::mem::take(&mut *seen.lock().unwrap())
}

fn costs(scene: &Scene, parameters: HandoffCostParameters) -> Vec<HandoffCost> {
    let table = table(scene, parameters, &scene.state());
    scene.infos.iter().map(|info| table.of(info.pod.id())).collect()
}

fn amount(number: f64) -> Amount {
    Amount::new(number).unwrap()
}

/// What a transfer takes between two pods, by their `host` labels.
fn moved(network: &Network, hosts: [Option<&str>; 2], lacking: f64) -> f64 {
    let near = network.near.iter().any(|level| level.label == "host") && hosts[0].is_some() && hosts[0] == hosts[1];
    let per_token = if near { network.near[0].per_token } else { network.per_token };
    network.fixed.get() + lacking * per_token.get()
}

fn label(info: &PodInfo) -> Option<&str> {
    info.labels.iter().find(|(key, _)| **key == *"host").map(|(_, value)| &**value)
}

fn near_hosts() -> HandoffCostParameters {
    let network = Network::default().fixed(amount(0.5)).per_token(amount(0.25));
    let level = NetworkLevel::new("host", amount(0.01));
    HandoffCostParameters { network: network.near(vec![level]), ..HandoffCostParameters::default() }
}

proptest! {
    /// Of every pod: both parts together are the price of the whole, and elsewhere is the cheapest other one that may compute.
    #[test]
    fn the_table_is_as_its_docs_say(
        loads in prop::collection::vec(any_load(), 1..70),
        held in prop::collection::vec(0..12usize, 70),
        roles in prop::collection::vec(0..3usize, 70),
        hosts in prop::collection::vec(0..4usize, 70),
        unwell in prop::collection::vec(0..6u8, 70),
        answering in any::<prop::sample::Index>(),
    ) {
        let names = [None, Some("a"), Some("b"), Some("c")];
        let scene = Scene::new(loads.len())
            .prompt(12 * BLOCK + 5, &held[..loads.len()])
            .loads(|at| loads[at])
            .infos(|at, info| {
                let mut info = info.role([Role::Both, Role::Prefill, Role::Decode][roles[at]]);
                (info.healthy, info.draining) = (unwell[at] != 1, unwell[at] == 2);
                names[hosts[at]].map_or(info.clone(), |host| info.label("host", host))
            });
        let state = scene.state();
        let open: PodSet = (0..loads.len()).filter(|&at| unwell[at] == 3).map(|at| scene.pod(at).id()).collect();
        (0..loads.len()).filter(|&at| unwell[at] == 3).for_each(|at| state.open_breakers.open(scene.pod(at).id()));
        let parameters = near_hosts();
        let network = parameters.network.clone();
        let price = parameters.price;
        let written = table(&scene, parameters, &state);
        let table: Vec<_> = scene.infos.iter().map(|info| written.of(info.pod.id())).collect();
        let fleet: Fleet = Fleet::new(1, scene.infos.clone());
        let takers = fleet.serving(Role::Prefill) - fleet.draining() - open;
        let well = if (takers & fleet.healthy()).is_empty() { takers & fleet.fallback() } else { takers & fleet.healthy() };
        // A first prompt is all that is known of how much is asked for again.
        let deepest = held[..loads.len()].iter().max().map_or(0.0, |blocks| (blocks * BLOCK) as f64);
        let reused = (3.0 * deepest / (12 * BLOCK + 5) as f64).min(1.0);
        for (at, cost) in table.iter().enumerate() {
            let lacking = (12 * BLOCK + 5 - held[at] * BLOCK) as f64;
            prop_assert_eq!(cost.lacking, lacking);
            let others = (0..loads.len()).filter(|&other| other != at && well.contains(scene.pod(other).id()));
            let best = others.min_by(|a, b| table[*a].prefill.total_cmp(&table[*b].prefill));
            let work = price.cost_model.prefill_seconds(lacking, held[at] as f64 * BLOCK as f64) - price.cost_model.fixed.get();
            // Nothing is learned: the fleet is as the model.
            let pushed_out = reused * price.eviction.get() / 2.0 * work.max(0.0);
            prop_assert!((cost.pushed_out - pushed_out).abs() <= 1e-6 * pushed_out, "{at}: {cost:?}, {pushed_out}");
            let pushed_out = cost.pushed_out;
            let elsewhere = best.map_or(f64::INFINITY, |other| {
                let hosts = [at, other].map(|at| label(&scene.infos[at]));
                table[other].prefill + pushed_out + moved(&network, hosts, lacking)
            });
            let near = (cost.elsewhere - elsewhere).abs() <= 1e-9 * elsewhere.abs();
            prop_assert!(cost.elsewhere == elsewhere || near, "{at}: {cost:?}, {elsewhere}");
        }
        // For one that answers, each prefill with the way from there.
        let answering = answering.index(loads.len());
        let mut prefills = vec![f64::NAN; loads.len()];
        written.each_prefill(&fleet, scene.pod(answering).id(), fleet.pods(), |pod, cost| prefills[pod.index()] = cost);
        for (at, cost) in prefills.into_iter().enumerate() {
            let hosts = [at, answering].map(|at| label(&scene.infos[at]));
            let way = table[answering].pushed_out + moved(&network, hosts, table[answering].lacking);
            let expected = table[at].prefill + if at == answering { 0.0 } else { way };
            prop_assert!(cost == expected || (cost - expected).abs() <= 1e-9 * expected.abs(), "{at}: {cost}, {expected}");
        }
        // Nobody computed anything yet, so that there is nothing to part by. Pods in the order of both parts together are in the order of the price.
        let scores = scene.scores(move |d| TotalLatencyScorer::declare(d, price, &state));
        for (a, b) in (0..loads.len()).flat_map(|a| (0..loads.len()).map(move |b| (a, b))) {
            let whole = [a, b].map(|at| table[at].prefill + table[at].answer);
            let is_sure = whole[0] * (1.0 + 1e-9) < whole[1];
            prop_assert!(!is_sure || scores[a] >= scores[b], "{a} {b}: {whole:?}, {scores:?}");
        }
    }
}

/// Many requests decode on a pod, and a chunk of a prompt would be in each of their way.
fn busy(requests: u32) -> PodLoad {
    let in_flight =
        crate::load::InFlight { requests, prompt_tokens: u64::from(requests) * 4_000, ..Default::default() };
    PodLoad { in_flight, requests, tokens: u64::from(requests) * 4_000, running: requests, ..PodLoad::default() }
}

#[test]
fn a_prompt_goes_elsewhere_where_many_decode_and_stays_where_few_do() {
    let scene = |requests| Scene::new(2).prompt(1_000 * BLOCK, &[]).loads(move |at| busy([requests, 0][at]));
    let parameters = HandoffCostParameters::default;
    let of = |requests| costs(&scene(requests), parameters());
    assert!(of(100)[0].is_apart() && !of(100)[1].is_apart(), "{:?}", of(100));
    assert!(!of(0)[0].is_apart(), "a transfer for nothing: {:?}", of(0));
    // What is held decides more than who decodes.
    let held = Scene::new(2).prompt(1_000 * BLOCK, &[1_000]).loads(|at| busy([100, 0][at]));
    assert!(!costs(&held, parameters())[0].is_apart());
    // A slow network keeps what it would take longer to move than to compute.
    let slow = HandoffCostParameters { network: Network::default().per_token(amount(1.0)), ..parameters() };
    assert!(!costs(&scene(100), slow)[0].is_apart());
}

#[test]
fn where_nobody_else_computes_nothing_is_apart() {
    let alone = Scene::new(2).prompt(1_000 * BLOCK, &[]).loads(|at| busy([100, 0][at]));
    let alone = alone.infos(|_, info| info.role(Role::Decode));
    let table = costs(&alone, HandoffCostParameters::default());
    assert!(table.iter().all(|cost| cost.elsewhere.is_infinite() && !cost.is_apart() && cost.serve().is_finite()));
}

#[test]
fn the_table_is_written_anew_each_time() {
    let scene = Scene::new(3).prompt(100 * BLOCK, &[50]);
    let (state, parameters) = (scene.state(), HandoffCostParameters::default());
    let [first, second] = [0, 1].map(|_| table(&scene, parameters.clone(), &state).of(scene.pod(0).id()));
    assert_eq!(first, second);
    assert_eq!(HandoffCostTable::default().of(scene.pod(0).id()), HandoffCost::default());
}
