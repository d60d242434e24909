//! One routing decision: engines report cached blocks, a profile decides, a trace explains.
//!
//! `cargo run -p pointsman-embedding --example route_one`

use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

use kv_index::{Batch, BlockSize, ChainHasher, ChainSeed, Config, Consumer, Event, Feed, FeedConfig, Index, Stored};
use routing_core::{Fleet, Load, PodInfo, Request, RoutingInput, RoutingPlan, Trace};
use routing_plugins::{Hashing, PluginState, profiles};

const MODEL: &str = "llama-8b";

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    // The index knows three pods, and prompts are hashed in blocks of 16 tokens.
    let size = BlockSize::new(16).ok_or("a block has tokens")?;
    let index: Arc<Index> = Arc::new(Index::new(Config::default()));
    let (a, b, c) = (index.join("pod-a")?, index.join("pod-b")?, index.join("pod-c")?);

    // Engines report what they cached of a prompt: `b` most of it, `c` all of it, `a` has never seen it.
    let prompt: Vec<u32> = (0..1024).collect();
    let blocks = ChainHasher::new(ChainSeed::new(MODEL), size).hash(&prompt);
    for (pod, held) in [(b, &blocks[..48]), (c, &blocks[..])] {
        let events = [Event::Stored(Stored::prompt(held))];
        Feed::new(&index, pod, FeedConfig::default()).consume(&Batch {
            incarnation: 1,
            sequence: 0,
            events: &events,
        })?;
    }

    // A profile is built once. What does not fit together is said here, not while requests wait.
    let state = PluginState::new(Arc::clone(&index), Hashing::Native(size));
    let workflow = profiles::cache_aware(&state).build()?;

    // `c` holds the most, but has a lot to do: its engine says so.
    let busy = Load { running: 24, waiting: 6, kv_used: 0.9, ..Load::default() };
    let fleet =
        Fleet::new(1, [PodInfo::new(a, "pod-a"), PodInfo::new(b, "pod-b"), PodInfo::new(c, "pod-c").load(busy)]);

    // One decision. Workspace and plan are kept for the next one: a warm decision allocates nothing.
    let request = Request::new(MODEL, Instant::now()).tokens(&prompt);
    let (mut workspace, mut plan, mut trace) = (workflow.workspace(), RoutingPlan::default(), Trace::default());
    workflow.decide(&mut workspace, RoutingInput::new(&request, &fleet).traced(&mut trace), &mut plan)?;

    print!("{}", trace.table(&fleet));
    let ranked: Vec<_> = plan.steps()[0].candidates.iter().map(|candidate| candidate.pod).collect();
    let names: Vec<_> = ranked.iter().filter_map(|pod| fleet.pod(pod.id())).map(|info| &*info.name).collect();
    println!("\nask {}, and the next one if that fails", names.join(", then "));
    if ranked.first() != Some(&b) {
        return Err("pod-b holds most of what an idle pod holds, and should have been first".into());
    }
    Ok(())
}
