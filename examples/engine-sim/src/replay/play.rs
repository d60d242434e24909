//! The run itself: turns begin, are routed and answered, and the index follows the engines.
//!
//! Time is modelled: a tick is one step of every engine. The rule that must never break: routing knows what is
//! cached from the index alone, never from an engine.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use kv_index::{BlockHash, ChainHasher, Config, Index, JoinError, Matches};

use crate::replay::check::{Census, check};
use crate::replay::conversation::Lengths;
use crate::replay::fleet::{Fleet, PodKind};
use crate::replay::link::Faults;
use crate::replay::mishaps::{Mishap, Mishaps};
use crate::replay::options::Options;
use crate::replay::outcome::{End, Outcome, ReplayError};
use crate::replay::route::{Choice, Reason, choose};
use crate::replay::sample::Sample;
use crate::replay::tally::{Counts, Tally};
use crate::replay::traffic::{Shape, Traffic, namespace};
use pointsman_lab::SplitMix64;

/// Runs to the end; `watch` is shown the counts now and then.
///
/// # Errors
///
/// When the index refuses a pod or does not know one it should: a bug in it or in the model.
pub fn replay(options: &Options, mut watch: impl FnMut(&Counts)) -> Result<Outcome, ReplayError> {
    let start = Instant::now();
    let index = Index::new(Config::default());
    let mut run = Replay::new(&index, options, start)?;
    let mut end = End::Complete;
    while run.tick()? == Progress::Going {
        watch(&run.tally.counts);
        if end == End::Complete && options.budget().is_some_and(|budget| start.elapsed() > budget) {
            run.traffic.stop();
            end = End::OutOfTime;
        }
    }
    run.settle()?;
    run.tally.timings.close(start.elapsed());
    let verdict = check(&index, &run.fleet, &run.sample, &run.hasher)?;
    let census = Census::of(&run.fleet);
    Ok(Outcome { tally: run.tally, census, stats: index.stats(), verdict, end })
}

struct Replay<'i> {
    index: &'i Index,
    hasher: ChainHasher,
    traffic: Traffic,
    fleet: Fleet<'i>,
    mishaps: Mishaps,
    sample: Sample,
    tally: Tally,
    /// Clients whose requests were lost and must be routed again.
    again: VecDeque<usize>,
    in_flight: usize,
    arrivals: usize,
    /// The modelled time.
    now: Instant,
    matches: Matches,
    scan: Matches,
    hashes: Vec<BlockHash>,
}

#[derive(PartialEq, Eq)]
enum Progress {
    Going,
    Done,
}

impl<'i> Replay<'i> {
    fn new(index: &'i Index, options: &Options, now: Instant) -> Result<Self, JoinError> {
        let mut rng = SplitMix64::new(options.seed);
        let hasher = ChainHasher::new(namespace(), options.size());
        let pods = options.pods as usize;
        let shape = Shape {
            conversations: options.conversations as usize,
            turns: options.turns as usize,
            open: OPEN_PER_POD * pods,
            systems: options.prompts as usize,
            lengths: Lengths::default(),
        };
        let kind = PodKind { size: options.size(), capacity: options.capacity as u32, faults: FAULTS };
        let mut fleet = Fleet::new(index, kind, rng.fork());
        for _ in 0..pods {
            fleet.join()?;
        }
        Ok(Self {
            index,
            hasher,
            traffic: Traffic::new(shape, hasher, rng.fork()),
            fleet,
            mishaps: Mishaps::spread(options.conversations * options.turns, options.restarts, options.retirements),
            sample: Sample::new(options.samples as usize, rng.fork()),
            tally: Tally::default(),
            again: VecDeque::new(),
            in_flight: 0,
            arrivals: pods.div_ceil(PODS_PER_ARRIVAL),
            now,
            matches: Matches::default(),
            scan: Matches::default(),
            hashes: Vec::new(),
        })
    }

    /// New requests, one step of every engine, and some housekeeping.
    fn tick(&mut self) -> Result<Progress, ReplayError> {
        self.now += TICK;
        while let Some(mishap) = self.mishaps.due(self.tally.counts.turns as u64) {
            self.befall(mishap)?;
        }
        for _ in 0..self.arrivals {
            let Some(client) = self.next_client() else {
                break;
            };
            self.route(client)?;
        }
        if self.in_flight == 0 {
            return Ok(Progress::Done);
        }
        for client in self.fleet.step(&mut self.tally)? {
            self.in_flight -= 1;
            self.traffic.end_turn(client);
        }
        self.tally.counts.expired += self.index.expire(self.now, usize::MAX).dropped;
        self.tally.counts.swept += self.index.sweep(SWEEP_PER_TICK).freed;
        Ok(Progress::Going)
    }

    fn befall(&mut self, mishap: Mishap) -> Result<(), ReplayError> {
        let lost = match mishap {
            Mishap::Restart => self.fleet.restart_one(&mut self.tally)?,
            Mishap::Replacement => {
                let lost = self.fleet.retire_one(&mut self.tally);
                self.fleet.join()?;
                lost
            }
        };
        self.in_flight -= lost.len();
        self.tally.counts.rerouted += lost.len();
        self.again.extend(lost);
        Ok(())
    }

    fn next_client(&mut self) -> Option<usize> {
        if let Some(client) = self.again.pop_front() {
            return Some(client);
        }
        let client = self.traffic.next_turn()?;
        self.tally.counts.turns += 1;
        self.sample.offer(self.traffic.prompt(client));
        Some(client)
    }

    /// Searches, chooses, tells the index what to expect, and hands the request over.
    fn route(&mut self, client: usize) -> Result<(), ReplayError> {
        let prompt = self.traffic.prompt(client);
        let start = Instant::now();
        let mut chain = self.hasher.lazy(prompt, &mut self.hashes);
        self.index.search_lazy(&mut chain, &mut self.matches);
        self.tally.timings.searched(start.elapsed());

        let counts = &mut self.tally.counts;
        if counts.requests.is_multiple_of(SPOT_CHECK) {
            self.index.scan(chain.hash_up_to(usize::MAX), &mut self.scan);
            counts.spot_checks += 1;
            counts.spot_mismatches += usize::from(self.scan.groups() != self.matches.groups());
        }
        counts.requests += 1;
        counts.tokens += prompt.len();
        counts.probes += self.matches.lookups();

        let choice = choose(&self.matches, self.index.alive(), |pod| self.fleet.load(pod));
        let Choice { pod, depth, reason } = choice.expect("a fleet has at least one pod");
        counts.diverted += usize::from(reason == Reason::Load);
        if depth < chain.len() {
            let pod = self.fleet.member(pod).expect("the index reports members only").pod();
            let deadline = self.now + SPECULATION;
            counts.speculated += self.index.speculate(pod, chain.hash_up_to(usize::MAX), deadline)?.stored;
        }
        self.fleet.submit(pod, self.traffic.job(client));
        self.in_flight += 1;
        Ok(())
    }

    /// Lets speculation run out, fetches what was lost last, and finishes every sweep.
    fn settle(&mut self) -> Result<(), ReplayError> {
        let later = self.now + 2 * SPECULATION;
        self.tally.counts.expired += self.index.expire(later, usize::MAX).dropped;
        self.fleet.heal(&mut self.tally)?;
        loop {
            let swept = self.index.sweep(SWEEP_PER_TICK);
            self.tally.counts.swept += swept.freed;
            if swept.pending == 0 {
                return Ok(());
            }
        }
    }
}

/// Modelled time between two steps of an engine.
const TICK: Duration = Duration::from_millis(200);

/// How long a routed prompt is expected to show up in its pod's cache.
const SPECULATION: Duration = Duration::from_secs(2);

/// One packet in so many is lost or repeated.
const FAULTS: Faults = Faults { lost: 200, repeated: 100 };

/// Conversations that are open at once, for each pod.
const OPEN_PER_POD: usize = 32;

/// A tick brings one request for this many pods: answers take about eleven ticks, so a pod has five or six.
const PODS_PER_ARRIVAL: usize = 2;

/// Every so many requests, the search is compared with a scan.
const SPOT_CHECK: usize = 32;

/// Blocks of retired pods swept in a tick: less than a pod has, so that a sweep takes several.
const SWEEP_PER_TICK: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::options::Command;

    fn run(line: &str) -> Outcome {
        let Ok(Command::Run(options)) = Options::parse(line.split_whitespace().map(str::to_owned)) else {
            panic!("the flags are right");
        };
        replay(&options, |_| {}).unwrap()
    }

    #[test]
    fn index_and_engines_agree_through_every_mishap_and_one_seed_gives_one_run() {
        let line = "--pods 5 --conversations 120 --turns 4 --capacity 500 --samples 60 --prompts 3 --seed 9";
        let (first, second) = (run(line), run(line));
        assert!(first.holds(), "{first:?}");
        assert_eq!(first.tally.counts, second.tally.counts);
        assert_eq!((first.census, first.verdict.clone()), (second.census, second.verdict));
        assert_ne!(first.tally.counts, run(&line.replace("--seed 9", "--seed 10")).tally.counts);

        let counts = &first.tally.counts;
        assert_eq!((counts.turns, first.end), (480, End::Complete));
        assert_eq!(counts.requests, counts.turns + counts.rerouted);
        assert_eq!((counts.restarts, counts.retired, counts.swept), (4, 2, 2));
        assert!(counts.blocks_hit > 0 && counts.events.removed > 0 && counts.speculated > 0);
        assert!(counts.events.gaps > 0 && counts.events.duplicates > 0);
        assert_eq!((counts.events.given_up, counts.events.applied.not_held, counts.events.applied.refused), (0, 0, 0));
    }
}
