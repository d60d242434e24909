//! Small fleets of every kind, for tests of systems and of fleets themselves.

use pointsman_lab::SplitMix64;

use super::{Cell, Content, Fleet, UNSEEN};

/// A fleet of each cell, with prompts besides that are held in part and not at all.
pub fn samples(seed: u64) -> impl Iterator<Item = (Cell, Fleet)> {
    CELLS.into_iter().map(move |cell| {
        let (mut fleet, mut rng) = (Fleet::build(cell, seed), SplitMix64::new(!seed));
        fleet.add_partial(5, cell.blocks / 2, &mut rng);
        fleet.add_cold(5, cell.blocks + UNSEEN, &mut rng);
        (cell, fleet)
    })
}

const CELLS: [Cell; 4] = [
    Cell::new(8, 16, Content::Spread { depths: 4 }, 200),
    Cell::new(8, 16, Content::Spread { depths: 16 }, 200),
    Cell::new(64, 40, Content::Spread { depths: 16 }, 500),
    Cell::new(64, 32, Content::Private, 500),
];
