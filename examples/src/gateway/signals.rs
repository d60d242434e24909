//! What an operating system tells a gateway: stop, or read the configuration again.

use std::io;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Waits for SIGTERM or SIGINT. Until then each SIGHUP notifies `reload`.
///
/// # Errors
///
/// When the signals cannot be listened for.
#[cfg(unix)]
pub async fn stop(reload: &Notify, stop: &CancellationToken) -> io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};

    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    loop {
        tokio::select! {
            _ = terminate.recv() => return Ok(()),
            _ = interrupt.recv() => return Ok(()),
            _ = hang_up.recv() => reload.notify_one(),
            () = stop.cancelled() => return Ok(()),
        }
    }
}

/// Waits for Ctrl-C; there are no other signals here.
///
/// # Errors
///
/// When it cannot be listened for.
#[cfg(not(unix))]
pub async fn stop(_reload: &Notify, stop: &CancellationToken) -> io::Result<()> {
    tokio::select! {
        pressed = tokio::signal::ctrl_c() => pressed,
        () = stop.cancelled() => Ok(()),
    }
}
