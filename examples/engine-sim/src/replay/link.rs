//! The wire between an engine and the router: it loses packets, repeats packets, and can be asked again.
//!
//! The engine numbers its packets and keeps the last ones. A packet that was lost shows as a gap when the next one
//! arrives; then the receiver asks for it. A repeated packet arrives again after its successor.

use std::collections::VecDeque;
use std::rc::Rc;

use crate::replay::report::{Packet, Report};
use pointsman_lab::SplitMix64;

/// One packet in so many, on average, meets each fate. Zero for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Does not arrive.
    pub lost: usize,
    /// Arrives once more, later.
    pub repeated: usize,
}

/// The engine's end of the wire.
#[derive(Debug)]
pub struct Link {
    faults: Faults,
    rng: SplitMix64,
    incarnation: u64,
    next: u64,
    /// The last packets of this life, oldest first.
    log: VecDeque<Rc<Packet>>,
    /// Arrives once more with the next packet.
    echo: Option<Rc<Packet>>,
}

impl Link {
    /// The wire of an engine in its first life.
    #[must_use]
    pub fn new(faults: Faults, rng: SplitMix64) -> Self {
        Self { faults, rng, incarnation: 1, next: 0, log: VecDeque::new(), echo: None }
    }

    /// Sends reports under the next number; the packets that arrive.
    #[must_use]
    pub fn send(&mut self, reports: Vec<Report>) -> Vec<Rc<Packet>> {
        let packet = Rc::new(Packet { incarnation: self.incarnation, sequence: self.next, reports });
        self.next += 1;
        self.log.push_back(Rc::clone(&packet));
        if self.log.len() > LOG {
            self.log.pop_front();
        }
        let echo = self.echo.take();
        let lost = self.faults.lost > 0 && self.rng.one_in(self.faults.lost);
        if !lost && self.faults.repeated > 0 && self.rng.one_in(self.faults.repeated) {
            self.echo = Some(Rc::clone(&packet));
        }
        (!lost).then_some(packet).into_iter().chain(echo).collect()
    }

    /// The engine starts anew: numbers begin at 0 and its log is empty. Its last packet is still under way, and
    /// arrives after the first of the new life.
    pub fn restart(&mut self) {
        self.echo = self.log.pop_back();
        self.incarnation += 1;
        self.next = 0;
        self.log.clear();
    }

    /// A packet of this life, if the log goes back that far.
    #[must_use]
    pub fn again(&self, sequence: u64) -> Option<&Rc<Packet>> {
        let first = self.log.front()?.sequence;
        self.log.get(usize::try_from(sequence.checked_sub(first)?).ok()?)
    }

    /// The last packet sent, if this life has sent any.
    #[must_use]
    pub fn last(&self) -> Option<&Rc<Packet>> {
        self.log.back()
    }
}

/// Packets an engine keeps.
const LOG: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(packets: &[Rc<Packet>]) -> Vec<(u64, u64)> {
        packets.iter().map(|packet| (packet.incarnation, packet.sequence)).collect()
    }

    #[test]
    fn a_lost_packet_can_be_had_again() {
        let mut link = Link::new(Faults { lost: 1, repeated: 0 }, SplitMix64::new(1));
        assert_eq!(link.send(vec![Report::Cleared]), []);
        assert_eq!(link.again(0).unwrap().reports, [Report::Cleared]);
        assert_eq!((link.again(1), link.last()), (None, link.again(0)));
    }

    #[test]
    fn a_repeated_packet_comes_after_its_successor_even_into_the_next_life() {
        let mut link = Link::new(Faults { lost: 0, repeated: 1 }, SplitMix64::new(1));
        assert_eq!(numbers(&link.send(Vec::new())), [(1, 0)]);
        assert_eq!(numbers(&link.send(Vec::new())), [(1, 1), (1, 0)]);
        link.restart();
        assert_eq!(link.last(), None);
        assert_eq!(numbers(&link.send(Vec::new())), [(2, 0), (1, 1)]);
    }

    #[test]
    fn the_log_is_bounded() {
        let mut link = Link::new(Faults::default(), SplitMix64::new(1));
        for sequence in 0..300 {
            assert_eq!(numbers(&link.send(Vec::new())), [(1, sequence)]);
        }
        assert_eq!(link.again(43), None);
        assert_eq!(link.again(44).unwrap().sequence, 44);
        assert_eq!(link.again(300), None);
    }
}
