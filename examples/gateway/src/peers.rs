//! Load sharing with other gateways of the same pods, over a NATS subject.
//!
//! Plain messages, at most once: what is lost is told again by the next summary. The rule: whatever comes on the subject is counted, and harms
//! nobody.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

#[cfg(feature = "nats")]
pub(super) use self::exchange::start;

/// Messages to and from peers.
#[derive(Debug, Default)]
pub(super) struct PeerCounts {
    sent: AtomicU64,
    failed: AtomicU64,
    received: AtomicU64,
    ignored: Mutex<BTreeMap<&'static str, u64>>,
}

impl PeerCounts {
    /// Messages sent.
    pub(super) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Messages that could not be sent: too large for the server, say.
    pub(super) fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    /// Messages received.
    pub(super) fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Those of them that changed nothing, by reason.
    pub(super) fn ignored(&self) -> BTreeMap<&'static str, u64> {
        self.ignored.lock().clone()
    }
}

#[cfg(feature = "nats")]
mod exchange {
    use std::sync::Arc;
    use std::sync::atomic::Ordering;
    use std::time::{Duration, Instant};

    use async_nats::{Client, ConnectOptions};
    use futures_util::StreamExt;
    use pointsman::PeerError;
    use routing_plugins::peers::SummaryScope;
    use tokio::sync::Notify;
    use tokio::time::{self, MissedTickBehavior};

    use super::super::app_state::AppState;
    use super::super::config::PeerSettings;

    /// Tells peers and hears them until everything stops.
    pub(in super::super) fn start(app: &Arc<AppState>, url: &str, settings: &PeerSettings) {
        let decided = Arc::new(Notify::new());
        for model in &app.models {
            let decided = Arc::clone(&decided);
            model.router.on_decision(move || decided.notify_one());
        }
        let exchange = Exchange { app: Arc::clone(app), settings: settings.clone(), decided };
        let url = url.to_owned();
        app.tasks.spawn(async move {
            loop {
                // It ends with the connection, which mends itself; so seldom, if ever.
                let _ = exchange.session(&url).await;
                time::sleep(PAUSE).await;
            }
        });
    }

    struct Exchange {
        app: Arc<AppState>,
        settings: PeerSettings,
        decided: Arc<Notify>,
    }

    impl Exchange {
        async fn session(&self, url: &str) -> Result<(), async_nats::Error> {
            let options = ConnectOptions::new().no_echo().retry_on_initial_connect();
            let options = options.connection_timeout(Duration::from_secs(5));
            let options = options.reconnect_delay_callback(|tries| Duration::from_millis((50 << tries.min(6)) as u64));
            let client = options.connect(url).await?;
            let mut inbox = client.subscribe(self.settings.subject.clone()).await?;
            let mut ticks = time::interval(self.settings.interval);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            let mut due = None;
            loop {
                tokio::select! {
                    message = inbox.next() => match message {
                        Some(message) => self.hear(&message.payload),
                        None => return Ok(()),
                    },
                    _ = ticks.tick() => self.tell(&client, SummaryScope::Whole).await,
                    () = self.decided.notified(), if due.is_none() => due = Some(time::Instant::now() + TOGETHER),
                    () = time::sleep_until(due.unwrap_or_else(time::Instant::now)), if due.is_some() => {
                        due = None;
                        self.tell(&client, SummaryScope::Changes).await;
                    }
                }
            }
        }

        async fn tell(&self, client: &Client, scope: SummaryScope) {
            for model in &self.app.models {
                let now = Instant::now();
                let told = [model.router.tell_peers(scope, now), model.router.tell_turns(now)];
                for message in told.into_iter().flatten() {
                    // One that a server does not take is told again by the next summary; a connection mends itself.
                    let sent = client.publish(self.settings.subject.clone(), message.into()).await.is_ok();
                    let count = if sent { &self.app.peers.sent } else { &self.app.peers.failed };
                    count.fetch_add(1, Ordering::Relaxed);
                }
            }
        }

        fn hear(&self, message: &[u8]) {
            self.app.peers.received.fetch_add(1, Ordering::Relaxed);
            let now = Instant::now();
            let mut heard = Err(PeerError::Model);
            for model in &self.app.models {
                heard = model.router.hear_peer(message, now);
                if heard != Err(PeerError::Model) {
                    break;
                }
            }
            if let Err(error) = heard {
                *self.app.peers.ignored.lock().entry(error.reason()).or_default() += 1;
            }
        }
    }

    /// How long decisions wait for each other, to be told in one message.
    const TOGETHER: Duration = Duration::from_millis(1);
    const PAUSE: Duration = Duration::from_secs(1);
}
