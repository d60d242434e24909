//! Fault injection: what each fault does to a pod.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::watch;

use super::config::Fault;
use super::engine::{Condition, Engine};
use super::listener::DesiredState;

/// Hears of every fault: some concern events.
type Hook = Arc<dyn Fn(Fault) + Send + Sync>;

/// Injects faults into one pod.
pub(super) struct FaultInjector {
    engine: Arc<Engine>,
    desired: watch::Sender<DesiredState>,
    hook: Mutex<Option<Hook>>,
}

impl FaultInjector {
    pub(super) fn new(engine: Arc<Engine>) -> Self {
        let desired = watch::Sender::new(DesiredState { up: true, back: None, restarts: 0, hash_seed: None });
        Self { engine, desired, hook: Mutex::new(None) }
    }

    /// Injects a fault here, and passes it on. One that is not possible does nothing.
    pub(super) fn inject(&self, fault: Fault) {
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
            Fault::Die => self.end_incarnation(|desired| desired.up = false),
            Fault::DieFor(seconds) => {
                let back = Instant::now() + Duration::from_secs_f64(seconds);
                self.end_incarnation(|desired| (desired.up, desired.back) = (false, Some(back)));
            }
            Fault::Restart => self.end_incarnation(|desired| desired.up = true),
            Fault::ChangeHashSeed => {
                let seed = other_seed(&self.engine.hash_seed());
                self.end_incarnation(|desired| (desired.up, desired.hash_seed) = (true, Some(seed)));
            }
            Fault::Hang => self.change_condition(|condition| condition.hung = true),
            Fault::Slow(times) => self.change_condition(|condition| condition.slowdown = times),
            Fault::CutStreams => self.change_condition(|condition| condition.cuts += 1),
            Fault::Recover => self.change_condition(|condition| *condition = condition.recovered()),
            Fault::Respond(status) => self.change_condition(|condition| condition.status = Some(status)),
            _ => {}
        }
    }

    pub(super) fn set_hook(&self, hook: Hook) {
        *self.hook.lock() = Some(hook);
    }

    pub(super) fn desired(&self) -> watch::Receiver<DesiredState> {
        self.desired.subscribe()
    }

    /// The cache is gone at once; the socket's task sees to the rest.
    fn end_incarnation(&self, change: impl FnOnce(&mut DesiredState)) {
        self.engine.die();
        // A new process neither hangs nor remembers that it was slow or failed.
        self.change_condition(|condition| *condition = condition.recovered());
        self.desired.send_modify(|desired| {
            desired.back = None;
            change(desired);
            desired.restarts += u64::from(desired.up);
        });
    }

    fn change_condition(&self, change: impl FnOnce(&mut Condition)) {
        self.engine.condition.send_modify(change);
        self.engine.wake.notify_one();
    }
}

impl fmt::Debug for FaultInjector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultInjector").field("desired", &self.desired.borrow()).finish_non_exhaustive()
    }
}

fn other_seed(seed: &str) -> String {
    seed.parse::<u32>().map_or_else(|_| format!("{seed}+"), |seed| seed.wrapping_add(1).to_string())
}
