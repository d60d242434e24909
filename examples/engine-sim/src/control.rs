//! Faults on demand: what each one does to a pod.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::config::Fault;
use crate::core::{Core, Mood};
use crate::serve::Wanted;

/// Hears of every fault: some concern events.
type Hook = Arc<dyn Fn(Fault) + Send + Sync>;

/// Where faults are done to a pod, whoever asks.
pub(super) struct Control {
    core: Arc<Core>,
    wanted: watch::Sender<Wanted>,
    hook: Mutex<Option<Hook>>,
}

impl Control {
    pub(super) fn new(core: Arc<Core>) -> Self {
        let wanted = watch::Sender::new(Wanted { up: true, back: None, restarts: 0, hash_seed: None });
        Self { core, wanted, hook: Mutex::new(None) }
    }

    /// Does a fault here, and passes it on. One that is not possible does nothing.
    pub(super) fn fault(&self, fault: Fault) {
        if !fault.is_possible() {
            return;
        }
        self.act(fault);
        let hook = self.hook.lock().clone();
        if let Some(hook) = hook {
            hook(fault);
        }
    }

    fn act(&self, fault: Fault) {
        match fault {
            Fault::Die => self.end_life(|wanted| wanted.up = false),
            Fault::DieFor(seconds) => {
                let back = Instant::now() + Duration::from_secs_f64(seconds);
                self.end_life(|wanted| (wanted.up, wanted.back) = (false, Some(back)));
            }
            Fault::Restart => self.end_life(|wanted| wanted.up = true),
            Fault::ChangeHashSeed => {
                let seed = other_seed(&self.core.hash_seed());
                self.end_life(|wanted| (wanted.up, wanted.hash_seed) = (true, Some(seed)));
            }
            Fault::Hang => self.feel(|mood| mood.hung = true),
            Fault::Slow(times) => self.feel(|mood| mood.slow = times),
            Fault::CutStreams => self.feel(|mood| mood.cuts += 1),
            Fault::Recover => self.feel(|mood| (mood.hung, mood.slow) = (false, 1.0)),
            _ => {}
        }
    }

    pub(super) fn set_hook(&self, hook: Hook) {
        *self.hook.lock() = Some(hook);
    }

    pub(super) fn wanted(&self) -> watch::Receiver<Wanted> {
        self.wanted.subscribe()
    }

    /// The cache is gone at once; the socket's task sees to the rest.
    fn end_life(&self, change: impl FnOnce(&mut Wanted)) {
        self.core.die();
        // A new process neither hangs nor remembers that it was slow.
        self.feel(|mood| (mood.hung, mood.slow) = (false, 1.0));
        self.wanted.send_modify(|wanted| {
            wanted.back = None;
            change(wanted);
            wanted.restarts += u64::from(wanted.up);
        });
    }

    fn feel(&self, change: impl FnOnce(&mut Mood)) {
        self.core.mood.send_modify(change);
        self.core.wake.notify_one();
    }
}

impl fmt::Debug for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Control").field("wanted", &self.wanted.borrow()).finish_non_exhaustive()
    }
}

fn other_seed(seed: &str) -> String {
    seed.parse::<u32>().map_or_else(|_| format!("{seed}+"), |seed| seed.wrapping_add(1).to_string())
}
