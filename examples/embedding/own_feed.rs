//! Custom event transport: numbered event batches, gap detection, replay, and anti-entropy by digest and inventory.
//!
//! The transport here is a vector. Any transport hands batches to a `Feed` and acts on what it returns.
//! `cargo run -p pointsman-embedding --example own_feed`

use std::error::Error;

use kv_index::{
    Batch, BatchOutcome, BlockHash, Config, Consumer, Digest, Event, Feed, FeedConfig, Index, InventoryBlock, Matches,
    Parent, Stored, Tier,
};

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let index: Index = Index::new(Config::default());
    let pod = index.join("pod-a")?;
    let feed = Feed::new(&index, pod, FeedConfig::default());
    let blocks: Vec<BlockHash> = (1..=6).map(BlockHash::new).collect();

    // What the engine sends: six blocks of a prompt, in three batches.
    let sent = [
        [Event::Stored(Stored::prompt(&blocks[..2]))],
        [Event::Stored(Stored::new(Parent::Block(blocks[1]), &blocks[2..4]))],
        [Event::Stored(Stored::new(Parent::Block(blocks[3]), &blocks[4..]))],
    ];
    let batch = |sequence: usize| Batch { incarnation: 1, sequence: sequence as u64, events: &sent[sequence] };
    let held = || {
        let mut matches = Matches::default();
        index.search(&blocks, &mut matches);
        matches.depth(pod.id())
    };

    // A transport that repeats itself does no harm.
    expect("the first batch is applied", matches!(feed.consume(&batch(0))?, BatchOutcome::Applied(_)))?;
    expect("the same once more changes nothing", feed.consume(&batch(0))? == BatchOutcome::Duplicate)?;

    // A gap names the lost batches: request a replay from the engine, then consume what came too early once more.
    expect("batch 1 is missing", feed.consume(&batch(2))? == BatchOutcome::Gap { from: 1, to: 2, restarted: false })?;
    for sequence in [1, 2] {
        expect("it comes late, in its place", matches!(feed.consume(&batch(sequence))?, BatchOutcome::Applied(_)))?;
    }
    expect("six blocks are held", held() == 6)?;

    // Where the engine no longer has it, give up: what the pod held is forgotten rather than half true.
    let next = Batch { incarnation: 1, sequence: 9, events: &sent[0] };
    expect("batches 3 to 8 are missing", matches!(feed.consume(&next)?, BatchOutcome::Gap { from: 3, to: 9, .. }))?;
    expect("they are given up", matches!(feed.skip_gap(&next)?, BatchOutcome::GapSkipped(_)))?;
    expect("only the new batch counts", held() == 2)?;

    // Engine and index each keep a digest: sixteen bytes tell whether they differ. Only then the inventory travels.
    let engine = &blocks[..5];
    let digest = Digest::of(engine.iter().map(|block| (*block, Tier::Gpu)));
    expect("the digests differ", index.digest(pod)? != digest)?;
    let parents = std::iter::once(Parent::Root).chain(engine.iter().copied().map(Parent::Block));
    let inventory: Vec<_> =
        engine.iter().zip(parents).map(|(hash, parent)| InventoryBlock::new(*hash, parent)).collect();
    let applied = index.reconcile(pod, &inventory)?;
    expect("now they agree", index.digest(pod)? == digest)?;
    expect("and searches see all five", held() == 5)?;
    println!("\nreconciling: {applied:?}");
    Ok(())
}

/// Prints an expectation that holds, or fails with it.
fn expect(what: &str, holds: bool) -> Result<(), Box<dyn Error>> {
    println!("{} {what}", if holds { "yes:" } else { "NO: " });
    if holds { Ok(()) } else { Err(what.into()) }
}
