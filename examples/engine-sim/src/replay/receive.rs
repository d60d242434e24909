//! The router's end of the wire: offers packets to a feed and does what the verdict asks for.

use std::time::Instant;

use kv_index::{ApplyStats, Batch, BatchOutcome, Consumer, Event, PodRetired};

use crate::replay::link::Link;
use crate::replay::report::{Packet, Report};
use crate::replay::tally::Tally;

/// Offers a packet; where others are missing before it, has them sent again first.
///
/// # Errors
///
/// When the feed's pod is gone.
pub fn receive(feed: &impl Consumer, link: &Link, packet: &Packet, tally: &mut Tally) -> Result<(), PodRetired> {
    let verdict = offer(packet, tally, |batch| feed.consume(batch))?;
    let BatchOutcome::Gap { from, to, .. } = verdict else {
        note(packet, verdict, tally);
        return Ok(());
    };
    tally.counts.events.gaps += 1;
    for sequence in from..to {
        let Some(missing) = link.again(sequence) else {
            tally.counts.events.given_up += 1;
            let verdict = offer(packet, tally, |batch| feed.skip_gap(batch))?;
            note(packet, verdict, tally);
            return Ok(());
        };
        tally.counts.events.asked_again += 1;
        let verdict = offer(missing, tally, |batch| feed.consume(batch))?;
        note(missing, verdict, tally);
    }
    let verdict = offer(packet, tally, |batch| feed.consume(batch))?;
    note(packet, verdict, tally);
    Ok(())
}

fn offer(
    packet: &Packet,
    tally: &mut Tally,
    to: impl FnOnce(&Batch<'_>) -> Result<BatchOutcome, PodRetired>,
) -> Result<BatchOutcome, PodRetired> {
    let events: Vec<Event<'_>> = packet.reports.iter().map(Report::event).collect();
    let batch = Batch { incarnation: packet.incarnation, sequence: packet.sequence, events: &events };
    let start = Instant::now();
    let verdict = to(&batch);
    tally.timings.feeding += start.elapsed();
    verdict
}

fn note(packet: &Packet, verdict: BatchOutcome, tally: &mut Tally) {
    let counts = &mut tally.counts.events;
    let applied: ApplyStats = match verdict {
        BatchOutcome::Applied(applied) | BatchOutcome::GapSkipped(applied) => applied,
        BatchOutcome::Restarted(applied) => {
            counts.restarts += 1;
            applied
        }
        BatchOutcome::Duplicate => {
            counts.duplicates += 1;
            return;
        }
        BatchOutcome::Stale => {
            counts.stale += 1;
            return;
        }
        // A second gap after the first was filled, or a verdict we do not know: the packet was not applied.
        _ => return,
    };
    counts.batches += 1;
    counts.applied += applied;
    for report in &packet.reports {
        match report {
            Report::Stored { .. } => counts.stored += 1,
            Report::Removed(_) => counts.removed += 1,
            Report::Cleared => counts.cleared += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use kv_index::{BlockHash, Config, Feed, FeedConfig, Index, Matches, Parent};

    use super::*;
    use crate::replay::link::Faults;
    use pointsman_lab::SplitMix64;

    fn stored(at: u64) -> Vec<Report> {
        let parent = if at == 1 { Parent::Root } else { Parent::Block(BlockHash::new(at - 1)) };
        vec![Report::Stored { parent, blocks: vec![BlockHash::new(at)] }]
    }

    fn depth(index: &Index, blocks: u64) -> usize {
        let chain: Vec<BlockHash> = (1..=blocks).map(BlockHash::new).collect();
        let mut matches = Matches::default();
        index.search(&chain, &mut matches);
        matches.deepest().map_or(0, |group| group.depth)
    }

    #[test]
    fn lost_packets_are_asked_for_when_the_next_one_arrives() {
        let index: Index = Index::new(Config::default());
        let feed = Feed::new(&index, index.join("a").unwrap(), FeedConfig::default());
        let mut link = Link::new(Faults { lost: 2, repeated: 0 }, SplitMix64::new(3));
        let mut tally = Tally::default();
        let mut arrived = 0;
        for at in 1..=200 {
            for packet in link.send(stored(at)) {
                receive(&feed, &link, &packet, &mut tally).unwrap();
                assert_eq!(depth(&index, 200), at as usize);
                arrived = at as usize;
            }
        }
        let events = &tally.counts.events;
        assert_eq!((events.batches, events.stored), (arrived, arrived));
        assert!(events.gaps > 0 && events.asked_again >= events.gaps && events.given_up == 0);
    }

    #[test]
    fn duplicates_and_earlier_lives_change_nothing() {
        let index: Index = Index::new(Config::default());
        let feed = Feed::new(&index, index.join("a").unwrap(), FeedConfig::default());
        let mut link = Link::new(Faults { lost: 0, repeated: 1 }, SplitMix64::new(3));
        let mut tally = Tally::default();
        let mut send = |link: &mut Link, reports| {
            for packet in link.send(reports) {
                receive(&feed, link, &packet, &mut tally).unwrap();
            }
        };
        send(&mut link, stored(1));
        send(&mut link, stored(2));
        assert_eq!(depth(&index, 3), 2);
        link.restart();
        send(&mut link, vec![Report::Cleared]);
        assert_eq!(depth(&index, 3), 0);
        let events = &tally.counts.events;
        assert_eq!((events.duplicates, events.stale, events.restarts), (1, 1, 1));
    }

    #[test]
    fn a_gap_that_the_log_no_longer_covers_is_given_up() {
        let index: Index = Index::new(Config::default());
        let feed = Feed::new(&index, index.join("a").unwrap(), FeedConfig::default());
        let mut link = Link::new(Faults::default(), SplitMix64::new(3));
        let packets: Vec<Rc<Packet>> = (1..=400).flat_map(|at| link.send(stored(at))).collect();
        let mut tally = Tally::default();
        receive(&feed, &link, &packets[0], &mut tally).unwrap();
        receive(&feed, &link, &packets[399], &mut tally).unwrap();
        assert_eq!((tally.counts.events.given_up, tally.counts.events.batches), (1, 2));
        assert_eq!(depth(&index, 400), 0, "what came before is forgotten");
    }

    #[test]
    fn a_retired_pod_is_an_error() {
        let index: Index = Index::new(Config::default());
        let pod = index.join("a").unwrap();
        let feed = Feed::new(&index, pod, FeedConfig::default());
        let mut link = Link::new(Faults::default(), SplitMix64::new(3));
        index.retire(pod);
        let packets = link.send(stored(1));
        assert_eq!(receive(&feed, &link, &packets[0], &mut Tally::default()), Err(PodRetired(pod)));
    }
}
