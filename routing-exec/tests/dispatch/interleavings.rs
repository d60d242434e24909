//! Every order in which the events of two legs, and one of the client's or the clock's, can come in.

use crate::world::*;
use routing_core::{FailurePolicy, RoutingPlan};
use routing_exec::{DispatchError, DispatchOutcome, Input};

/// What a leg's pod does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Head(u16),
    /// The head of a stream.
    Stream,
    Chunk,
    End,
    Fails,
}

/// What happens besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Besides {
    Nothing,
    Gone,
    Cancel,
    Deadline,
    /// Time passes: enough for a stream to be idle, for a decode to be late, for a prefill to be late.
    Seconds(u64),
}

use Event::{Chunk, End, Fails, Head, Stream};

const PREFILL: [&[Event]; 10] = [
    &[],
    &[Head(200), Chunk, End],
    &[Head(200), End],
    &[Head(200), Chunk, Fails],
    &[Fails],
    &[End],
    &[Head(500), Chunk, End],
    &[Head(503)],
    &[Head(400), Chunk, End],
    &[Head(400), Chunk, Fails],
];

const DECODE: [&[Event]; 11] = [
    &[],
    &[Stream, Chunk, Chunk, End],
    &[Stream, Chunk, Fails],
    &[Stream, Fails],
    &[Stream, End],
    &[Fails],
    &[Chunk, End],
    &[Head(200), Chunk, End],
    &[Head(200), Chunk, Fails],
    &[Head(500), Chunk, End],
    &[Head(404), Fails],
];

/// Calls `run` with every merge of three lanes, as the lanes whose next event it is.
fn merges(left: [usize; 3], order: &mut Vec<usize>, visit: &mut impl FnMut(&[usize])) {
    if left == [0; 3] {
        return visit(order);
    }
    for lane in (0..3).filter(|lane| left[*lane] > 0) {
        let mut left = left;
        left[lane] -= 1;
        order.push(lane);
        merges(left, order, visit);
        order.pop();
    }
}

/// What was played, in words only where it failed: to write them down takes longer than to play it.
#[derive(Debug)]
#[expect(dead_code, reason = "read by `Debug`")]
struct Story<'a> {
    dialect: Dialect,
    events: &'a [(usize, Option<Event>)],
    besides: Besides,
}

/// Runs every merge of every pair of scripts; how many there were.
fn explore(
    plan: &RoutingPlan,
    dialect: Dialect,
    besides: &[Besides],
    check: impl Fn(&World, &[(usize, Option<Event>)], Besides, &Story<'_>),
) -> usize {
    let mut count = 0;
    for (prefill, decode) in PREFILL.iter().flat_map(|prefill| DECODE.iter().map(move |decode| (prefill, decode))) {
        for &besides in besides {
            let lanes = [prefill.len(), decode.len(), usize::from(besides != Besides::Nothing)];
            merges(lanes, &mut Vec::new(), &mut |order| {
                let mut next = [prefill.iter(), decode.iter()];
                let events =
                    order.iter().map(|lane| (*lane, next.get_mut(*lane).and_then(|lane| lane.next().copied())));
                let events: Vec<_> = events.collect();
                let story = Story { dialect, events: &events, besides };
                let mut world = Setup::new(dialect, plan.clone()).deadline(1_000).start();
                for (lane, event) in &events {
                    match event {
                        Some(event) => play(&mut world, *lane, *event),
                        None => happen(&mut world, besides),
                    }
                }
                check(&world, &events, besides, &story);
                world.pass(seconds(1_000));
                assert!(world.report.is_some(), "it ends by its deadline: {story:?}");
                count += 1;
            });
        }
    }
    count
}

/// An event of the newest attempt at a step, over or not.
fn play(world: &mut World, step: usize, event: Event) {
    if !world.replans.is_empty() {
        world.replanned(None);
    }
    let Some(at) = world.sent.iter().rposition(|sent| sent.step == step) else { return };
    match event {
        Head(status) => world.head(at, status),
        Stream => world.stream(at),
        Chunk => world.chunk(at, "data: a\n\n"),
        End => world.end(at),
        Fails => world.fails(at, cut()),
    };
}

fn happen(world: &mut World, besides: Besides) {
    match besides {
        Besides::Nothing => {}
        Besides::Gone => world.handle(Input::ClientDisconnected),
        Besides::Cancel => world.handle(Input::Cancel),
        Besides::Deadline => drop(world.pass(seconds(1_000)).told()),
        Besides::Seconds(time) => drop(world.pass(seconds(time)).told()),
    }
}

/// How a dispatch of two legs at once, with one pod each, must end; none if it must not have.
#[derive(Debug, Default)]
struct Model {
    /// Of each leg: its status, whether anything came of it, and whether it is over.
    status: [Option<u16>; 2],
    received: [bool; 2],
    over: [bool; 2],
    stream: bool,
    begun: bool,
    /// The leg whose answer is the client's.
    answers: usize,
    end: Option<Class>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Completed(u16),
    /// The client was told of an error as its answer.
    Failed,
    /// The client's answer broke off.
    Broken,
    Gone,
    Cancelled,
}

impl Model {
    fn new() -> Self {
        Self { answers: 1, ..Self::default() }
    }

    fn event(&mut self, leg: usize, event: Event) {
        if self.end.is_some() || self.over[leg] {
            return;
        }
        match event {
            Head(_) | Stream if self.status[leg].is_some() => {}
            Stream => (self.status[leg], self.stream) = (Some(200), true),
            Head(status) => {
                self.status[leg] = Some(status);
                match status {
                    200 => {}
                    // Of prefill's refusals the client reads those that are its own fault; of decode's, all.
                    _ if leg == 0 && (status >= 500 || self.begun) => self.fails(leg),
                    _ => (self.answers, self.over[1 - leg]) = (leg, true),
                }
            }
            Chunk if self.status[leg].is_none() => self.fails(leg),
            Chunk => {
                self.received[leg] = true;
                self.begun |= self.answers == leg;
            }
            End if self.status[leg].is_none() => self.fails(leg),
            End if leg == 1 && self.stream && !self.received[1] => self.fails(leg),
            End if self.answers == leg => self.end = self.status[leg].map(Class::Completed),
            End => self.over[leg] = true,
            Fails => self.fails(leg),
        }
    }

    fn fails(&mut self, leg: usize) {
        self.over[leg] = true;
        if !self.begun {
            self.end = Some(Class::Failed);
        } else if self.answers == leg {
            self.end = Some(Class::Broken);
        }
    }

    fn happens(&mut self, besides: Besides) {
        let told = if self.begun { Class::Broken } else { Class::Failed };
        self.end = self.end.or(match besides {
            Besides::Gone => Some(Class::Gone),
            Besides::Cancel => Some(Class::Cancelled),
            Besides::Deadline => Some(told),
            _ => None,
        });
    }
}

fn class(world: &World) -> Option<Class> {
    Some(match world.report.as_ref()?.outcome {
        DispatchOutcome::Completed(status) => Class::Completed(status),
        DispatchOutcome::ClientDisconnected => Class::Gone,
        DispatchOutcome::Cancelled => Class::Cancelled,
        _ if world.head.is_some() => Class::Broken,
        _ => Class::Failed,
    })
}

#[test]
fn two_legs_at_once_end_as_they_must_in_every_order() {
    let besides = [Besides::Nothing, Besides::Gone, Besides::Cancel, Besides::Deadline];
    let count = explore(&two(&[0], &[2]), CONCURRENT, &besides, |world, events, besides, story| {
        let mut model = Model::new();
        for (lane, event) in events {
            match event {
                Some(event) => model.event(*lane, *event),
                None => model.happens(besides),
            }
        }
        assert_eq!(class(world), model.end, "{story:?}");
    });
    assert!(count > 5_000, "{count}");
}

#[test]
fn whatever_the_order_and_the_policy_the_rules_hold_where_prefill_is_reused() {
    whatever_the_order_and_the_policy_the_rules_hold(REUSABLE);
}

#[test]
fn whatever_the_order_and_the_policy_the_rules_hold_where_prefill_is_used_up() {
    whatever_the_order_and_the_policy_the_rules_hold(ONE_USE);
}

#[test]
fn whatever_the_order_and_the_policy_the_rules_hold_where_legs_run_at_once() {
    whatever_the_order_and_the_policy_the_rules_hold(CONCURRENT);
}

fn whatever_the_order_and_the_policy_the_rules_hold(dialect: Dialect) {
    let besides = [Besides::Nothing, Besides::Gone, Besides::Seconds(3), Besides::Seconds(5), Besides::Seconds(10)];
    for policy in POLICIES {
        let steps = [step("prefill", &[0, 1]).on_failure(policy), step("decode", &[2, 0]).on_failure(policy)];
        explore(&plan(steps), dialect, &besides, |world, _, _, story| {
            let charged = world.charged();
            assert!(charged.len() <= 3, "{story:?}");
            if let Some(DispatchOutcome::Failed(DispatchError::StepFailed { .. })) =
                world.report.as_ref().map(|it| &it.outcome)
            {
                assert!(policy != FailurePolicy::Fail || world.sent.len() <= 2, "{story:?}");
            }
        });
    }
}
