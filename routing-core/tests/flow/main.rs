//! Flow control against its literal model, and what it promises to those who wait.
#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test")]

mod dispatch;
mod fairness;
mod model;
mod new_work;
mod programs;
mod retry_after;

use std::time::{Duration, Instant};

use proptest::prelude::*;
use routing_core::flow::{
    BandConfig, FlowConfig, FlowOrder, FlowQueue, FlowRequest, QueueLimits, ServiceLevels, Ticket,
};
use routing_core::{CacheHint, ProgramTurn};

use self::model::Model;
use self::programs::{FullFleet, turn};

#[derive(Clone, Debug)]
enum Op {
    Push {
        band: usize,
        key: usize,
        tokens: u64,
        bytes: u64,
        prompt_tokens: u64,
        deadline: Option<u64>,
        displaces: bool,
        /// A turn of a program, and whether that is known when it comes.
        program: Option<(ProgramTurn, bool)>,
    },
    /// All that wait are decided about, and no pod has room. The number says how much the pod holds of each.
    Decide(u64),
    /// One of those that wait, by its place in order; the first, mostly.
    Take(usize),
    Remove(usize),
    /// A key was served more or less than it was charged.
    Served {
        at: usize,
        tokens: u64,
    },
    Advance(u64),
}

fn op() -> impl Strategy<Value = Op> {
    let push = (
        0..3_usize,
        0..4_usize,
        1..200_u64,
        0..50_u64,
        0..200_u64,
        prop::option::of(0..3_000_u64),
        prop::bool::weighted(0.8),
        prop::option::of((turn(), any::<bool>())),
    );
    prop_oneof![
        8 => push.prop_map(|(band, key, tokens, bytes, prompt_tokens, deadline, displaces, program)|
            Op::Push { band, key, tokens, bytes, prompt_tokens, deadline, displaces, program }),
        6 => (0..4_usize).prop_map(|at| Op::Take(at.saturating_sub(2))),
        1 => (0..8_usize).prop_map(Op::Remove),
        1 => (0..8_usize, 0..400_u64).prop_map(|(at, tokens)| Op::Served { at, tokens }),
        2 => (0..800_u64).prop_map(Op::Advance),
        3 => (0..100_u64).prop_map(Op::Decide),
    ]
}

fn config() -> impl Strategy<Value = FlowConfig> {
    let levels = |aging| ServiceLevels::default().first_level(100).aging(Duration::from_millis(aging));
    let order = move || {
        let others = vec![FlowOrder::Arrival, FlowOrder::Deadline, FlowOrder::ShortestFirst];
        prop_oneof![
            prop::sample::select(others),
            (1..400_u64).prop_map(move |aging| FlowOrder::AttainedService(levels(aging)))
        ]
    };
    let limits = || {
        (1..12_usize, 150..1_500_u64, 60..400_u64)
            .prop_map(|(requests, tokens, bytes)| QueueLimits::default().requests(requests).tokens(tokens).bytes(bytes))
    };
    let band = || (0..5_u32, order(), 500..4_000_u64, limits());
    (band(), band(), band(), limits(), 1..4_u32).prop_map(|(a, b, c, limits, weight)| {
        let of = |name: &'static str, priority, (share, order, millis, limits): (u32, _, _, _)| {
            let band = BandConfig::new(name).priority(priority).min_share(share as f32 * 0.08);
            band.order(order).time_to_live(Duration::from_millis(millis)).limits(limits)
        };
        let config = FlowConfig::default().band(of("low", -5, a)).band(of("high", 7, b)).band(of("middle", 0, c));
        config.limits(limits).weight("key-1", f64::from(weight))
    })
}

proptest! {
    /// Whatever comes, leaves and expires, the queue has the model's order, sheds whom it sheds, and loses nobody.
    #[test]
    fn the_queue_agrees_with_the_model(config in config(), ops in prop::collection::vec(op(), 1..200)) {
        let (mut queue, mut model) = (FlowQueue::new(config.clone()).unwrap(), Model::new(config.clone()));
        let (mut now, mut charges, mut pushes) = (Instant::now(), Vec::new(), 0_u64);
        let (full, mut programs) = (FullFleet::new(config.clone()), Vec::new());
        for op in ops {
            match op {
                Op::Push { band, key, tokens, bytes, prompt_tokens, deadline, displaces, program } => {
                    let mut request = FlowRequest::new(band, format!("key-{key}"), tokens).bytes(bytes).prompt_tokens(prompt_tokens);
                    request.displaces = displaces;
                    request.program = program.filter(|(_, is_known)| *is_known).map(|(turn, _)| turn);
                    programs.push(program.map(|(turn, _)| turn));
                    request.deadline = deadline.map(|millis| now + Duration::from_millis(millis));
                    let pushed = queue.push(request.clone(), pushes, now);
                    pushes += 1;
                    let (displaced, refused) = model.push(request, now);
                    let shed: Vec<_> = pushed.displaced.iter().map(|shed| (shed.item, shed.reason)).collect();
                    prop_assert_eq!(shed, displaced);
                    prop_assert_eq!(pushed.ticket.as_ref().err().map(|shed| shed.reason), refused);
                }
                Op::Decide(held) => {
                    let held = |number: u64| ((number + held) % 8, 7);
                    full.decide(&mut queue, now, |number, step| {
                        step.program = programs[*number as usize];
                        let (held, blocks) = held(*number);
                        step.cache = Some(CacheHint::new(held as usize, blocks as usize));
                    });
                    let waiting: Vec<u64> = model.waiting.iter().map(|entry| entry.ticket).collect();
                    for number in waiting {
                        model.known(number, programs[number as usize]);
                        model.held(number, held(number));
                    }
                }
                Op::Take(at) => {
                    let first = queue.in_order().nth(at).map(|waiting| (waiting.ticket, *waiting.item, waiting.band));
                    let Some((ticket, number, band)) = first else { continue };
                    let key = model.waiting.iter().find(|entry| entry.ticket == number).unwrap().request.key.clone();
                    let taken = queue.take(ticket, now).unwrap();
                    prop_assert_eq!(taken.item, number);
                    prop_assert!(queue.take(ticket, now).is_none(), "once");
                    model.take(number);
                    charges.push((taken.charge, band, key));
                }
                Op::Remove(at) => {
                    let Some((ticket, number)) = queue.in_order().nth(at).map(|waiting| (waiting.ticket, *waiting.item))
                    else { continue };
                    prop_assert_eq!(queue.remove(ticket), Some(number));
                    prop_assert_eq!(queue.remove(ticket), None);
                    model.leave(number);
                }
                Op::Served { at, tokens } => {
                    if let Some((charge, band, key)) = charges.get(at) {
                        queue.served(charge, tokens);
                        model.served(*band, key, charge.tokens(), tokens);
                    }
                }
                Op::Advance(millis) => {
                    now += Duration::from_millis(millis);
                    let expired: Vec<u64> = std::iter::from_fn(|| queue.expire(now)).map(|shed| shed.item).collect();
                    prop_assert_eq!(expired, model.expire(now));
                }
            }
            let order: Vec<u64> = queue.in_order().map(|waiting| *waiting.item).collect();
            prop_assert_eq!(&order, &model.order());
            prop_assert_eq!(queue.len(), order.len());
            let all: usize = (0..3).map(|band| queue.waiting(band).0).sum();
            prop_assert_eq!(all, order.len());
            prop_assert!(order.len() <= config.limits.requests);
        }
    }

    /// Nobody is lost when settings change: each that waited still waits, or is told why not.
    #[test]
    fn a_reload_loses_nobody(before in config(), after in config(), keys in prop::collection::vec((0..3_usize, 0..4_usize, 1..150_u64), 1..12)) {
        let (mut queue, now) = (FlowQueue::new(before).unwrap(), Instant::now());
        for (at, (band, key, tokens)) in keys.iter().enumerate() {
            queue.push(FlowRequest::new(*band, format!("key-{key}"), *tokens), at, now);
        }
        let waited: Vec<(Ticket, usize)> = queue.in_order().map(|waiting| (waiting.ticket, *waiting.item)).collect();
        let shed = queue.reconfigure(after, now).unwrap();
        for (ticket, item) in waited {
            let still = queue.in_order().any(|waiting| waiting.ticket == ticket && *waiting.item == item);
            let told = shed.iter().any(|shed| shed.item == item);
            prop_assert!(still != told, "either");
        }
    }
}

#[test]
fn a_priority_falls_into_the_band_below_it() {
    let band = |name: &'static str, priority| BandConfig::new(name).priority(priority);
    let config = FlowConfig::default().band(band("batch", -10)).band(band("urgent", 100)).band(band("normal", 0));
    let queue = FlowQueue::<()>::new(config).unwrap();
    assert_eq!([-50, -10, -1, 0, 99, 100, 1_000].map(|priority| queue.band_of(priority)), [0, 0, 0, 2, 2, 1, 1]);
    assert_eq!(FlowQueue::<()>::new(FlowConfig::default()).unwrap().band_of(7), 0);
}
