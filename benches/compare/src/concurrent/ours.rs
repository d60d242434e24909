//! Ours: `Index::search` and `Index::apply`, which any number of threads may call.

use std::fmt;
use std::sync::Arc;

use kv_index::{Config, Event, EventSemantics, Index, Matches, Parent, Pod, Removed, Stored};

use super::{Change, ChangeKind, ConcurrentSystem, Script, Span};

/// The index and its pods.
pub struct ConcurrentOurs {
    /// The index.
    pub index: Index,
    pods: Vec<Pod>,
}

impl fmt::Debug for ConcurrentOurs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ConcurrentOurs({} pods)", self.pods.len())
    }
}

impl ConcurrentSystem for ConcurrentOurs {
    const NAME: &'static str = crate::systems::NAMES[0];
    type Text = Arc<Script>;
    type Event = ();
    type Writer = ();
    type Scratch = Matches;

    fn new(pods: usize, _writers: usize) -> Self {
        let index: Index = Index::new(Config::default());
        let pods = (0..pods).map(|i| index.join(&format!("pod-{i}")).expect("room for every pod")).collect();
        Self { index, pods }
    }

    fn writer(&self) {}

    fn text(script: &Arc<Script>) -> Arc<Script> {
        Arc::clone(script)
    }

    fn event(_: &Arc<Script>, _: &Change) {}

    fn apply(&self, (): &mut (), text: &Arc<Script>, change: &Change, (): &mut ()) -> bool {
        let event = match change.what {
            ChangeKind::Stored { parent, blocks } => {
                let parent = parent.map_or(Parent::Root, Parent::Block);
                Event::Stored(Stored::new(parent, &text.prompts[blocks.range()]))
            }
            ChangeKind::Removed(blocks) => Event::Removed(Removed::new(&text.removed[blocks.range()])),
        };
        self.index
            .apply(self.pods[change.pod as usize], EventSemantics::Membership, &event)
            .is_ok_and(|applied| applied.refused == 0)
    }

    fn touch(text: &Arc<Script>, prompt: Span) -> u64 {
        text.prompts[prompt.range()].iter().map(|hash| hash.get() >> 32).sum()
    }

    fn search(&self, text: &Arc<Script>, prompt: Span, matches: &mut Matches) -> u64 {
        self.index.search(&text.prompts[prompt.range()], matches);
        matches.groups().iter().map(|group| group.depth as u64 ^ group.pods.words()[0]).sum()
    }

    fn depths(&self, text: &Arc<Script>, prompt: Span, depths: &mut [u32]) {
        let mut matches = Matches::default();
        self.index.search(&text.prompts[prompt.range()], &mut matches);
        depths.fill(0);
        for group in matches.groups() {
            for pod in group.pods {
                depths[pod.index()] = group.depth as u32;
            }
        }
    }
}
