//! Streaming overhead: cost of a forwarded chunk.
//!
//! A stream of 64-byte chunks from memory is read to its end: as it is, copied into a buffer, and through a run of the
//! driver that has begun. With pauses, every chunk is asked for twice, as from a network.

use std::hint::black_box;
use std::time::Instant;

use crate::options::Options;
use crate::results::{ResultTable, Value};
use pointsman_benches::forward::{CHUNKS, Events, begun, copy, read};
use pointsman_benches::measure::interleaved;

pub(super) fn run(options: &Options, tell: &mut dyn FnMut(&str)) -> Vec<ResultTable> {
    let columns = ["chunks", "bare", "copied", "through a run", "a run adds", "÷ copied"];
    let mut table = ResultTable::new("execution", "Forwarding a chunk of 64 bytes (ns)", columns);
    for pauses in [false, true] {
        let name = if pauses { "after a pause" } else { "at once" };
        tell(&format!("execution: {name}"));
        let events = Events::new(pauses);
        if !events.pass_uncopied() {
            table.findings.push(format!("WRONG: {name}: a chunk was lost or copied"));
        }
        let [bare, copied, driven] = measure(&events, options.rounds);
        let mut row = vec![Value::from(name), bare.into(), copied.into(), driven.into()];
        row.extend([driven.median - bare.median, driven.median / copied.median].map(Value::from));
        table.rows.push(row);
    }
    vec![table]
}

fn measure(events: &Events, rounds: usize) -> [pointsman_benches::measure::Spread; 3] {
    let mut buffer = Vec::with_capacity(64);
    let mut lap = |lane: usize| {
        let mut ns = 0;
        for _ in 0..STREAMS {
            // What is not timed: to copy the stream's handle, and to begin the run.
            let (bare, start, chunks);
            if lane == 2 {
                let body = begun(events);
                start = Instant::now();
                chunks = read(body, |chunk| _ = black_box(chunk));
            } else {
                bare = events.clone();
                start = Instant::now();
                chunks = if lane == 0 { read(bare, |chunk| _ = black_box(chunk)) } else { copy(bare, &mut buffer) };
            }
            ns += start.elapsed().as_nanos();
            assert_eq!(chunks, CHUNKS, "all of it comes");
        }
        ns as f64 / (STREAMS * CHUNKS) as f64
    };
    let spreads = interleaved(rounds, 3, &mut lap);
    [spreads[0], spreads[1], spreads[2]]
}

/// Streams a lap.
const STREAMS: usize = 20;
