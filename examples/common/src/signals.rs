//! Unix signals of a server: SIGTERM and SIGINT stop, SIGHUP reloads.

use std::io;

use tokio::sync::Notify;

/// The signals of this process, heard from when this is made: from then on they do not end the process, and none is lost between
/// two waits.
#[derive(Debug)]
pub struct Signals {
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    hang_up: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    /// Listens. Only within a runtime.
    ///
    /// # Errors
    ///
    /// When the signals cannot be listened for.
    pub fn listen() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};

        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for SIGTERM or SIGINT. Until then each SIGHUP notifies `reload`.
    ///
    /// # Errors
    ///
    /// None here; where there are no such signals, listening may fail only now.
    pub async fn stop(&mut self, reload: &Notify) -> io::Result<()> {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return Ok(()),
                _ = self.interrupt.recv() => return Ok(()),
                _ = self.hang_up.recv() => reload.notify_one(),
            }
        }
    }
}

#[cfg(not(unix))]
impl Signals {
    /// Listens.
    ///
    /// # Errors
    ///
    /// None here.
    pub fn listen() -> io::Result<Self> {
        Ok(Self {})
    }

    /// Waits for Ctrl-C; there are no other signals here.
    ///
    /// # Errors
    ///
    /// When it cannot be listened for.
    pub async fn stop(&mut self, _reload: &Notify) -> io::Result<()> {
        tokio::signal::ctrl_c().await
    }
}
