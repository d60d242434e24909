//! File watcher: reloads when the configuration file, or the profile's own, changes; a failed reload is logged and counted.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::Gateway;
use super::config::{self, Config};

/// Polls the file once a second, and reloads at once when `now` is notified (on SIGHUP), until it is stopped.
///
/// A file has changed when its modification time or length did, and its content did; when `now` is notified, everything is
/// read and applied again. Results go to `log`, one line for each change.
pub async fn watch(
    gateway: &Gateway,
    path: impl Into<PathBuf>,
    now: &Notify,
    stop: &CancellationToken,
    mut log: impl FnMut(&str),
) {
    let path = path.into();
    // Nothing was read yet: what changed since the gateway started is applied too.
    let mut files = Files { stamps: [None, None], text: None, profile: Files::of(&path, gateway).await.profile };
    loop {
        let forced = tokio::select! {
            () = stop.cancelled() => return,
            () = now.notified() => true,
            () = tokio::time::sleep(POLL_INTERVAL) => false,
        };
        if !forced && Files::stamps(&path, gateway).await == files.stamps {
            continue;
        }
        let current = Files::of(&path, gateway).await;
        let (changed, another_profile) = (current.text != files.text, current.profile != files.profile);
        files = current;
        if !changed && !another_profile && !forced {
            continue;
        }
        let loaded = load(gateway, files.text.as_deref(), &path, forced || another_profile);
        if files.profile.as_ref().map(|(path, _)| path) != profile_path(gateway).as_ref() {
            // Another file is the profile's now, and it was just read.
            files.profile = Files::of(&path, gateway).await.profile;
        }
        match loaded {
            Ok(Loaded::Same) => {}
            Ok(Loaded::New) => log(&format!("`{}` is applied", path.display())),
            Err(error) => {
                log(&format!("`{}` is not applied, and the old configuration stays: {error}", path.display()))
            }
        }
    }
}

/// Whether a file had changes.
enum Loaded {
    Same,
    New,
}

fn load(gateway: &Gateway, text: Option<&str>, path: &Path, again: bool) -> Result<Loaded, String> {
    let loaded = match text {
        Some(text) => Config::parse(text).map_err(|error| error.to_string()),
        None => Err(format!("cannot read `{}`", path.display())),
    };
    // A configuration that cannot be parsed counts as a failed reload too.
    let loaded = loaded.inspect_err(|_| gateway.count_reload_failure());
    let config = loaded?;
    if !again && config == gateway.config() {
        return Ok(Loaded::Same);
    }
    gateway.reload(config).map_err(|error| error.to_string())?;
    Ok(Loaded::New)
}

/// The files as they were last files.
struct Files {
    /// Of the configuration and of its profile.
    stamps: [Option<Stamp>; 2],
    text: Option<String>,
    profile: Profile,
}

type Stamp = (SystemTime, u64);
/// The file of the profile in force, if it is in one, and what is in it.
type Profile = Option<(PathBuf, Option<String>)>;

impl Files {
    async fn of(path: &Path, gateway: &Gateway) -> Self {
        // The stamps first: a change in between is files the next time.
        let stamps = Self::stamps(path, gateway).await;
        let text = tokio::fs::read_to_string(path).await.ok();
        let profile = match profile_path(gateway) {
            Some(path) => {
                let text = tokio::fs::read_to_string(&path).await.ok();
                Some((path, text))
            }
            None => None,
        };
        Self { stamps, text, profile }
    }

    async fn stamps(path: &Path, gateway: &Gateway) -> [Option<Stamp>; 2] {
        let profile = match profile_path(gateway) {
            Some(path) => stamp(&path).await,
            None => None,
        };
        [stamp(path).await, profile]
    }
}

fn profile_path(gateway: &Gateway) -> Option<PathBuf> {
    match gateway.config().profile {
        config::Profile::File(profile) => Some(profile.file),
        _ => None,
    }
}

async fn stamp(path: &Path) -> Option<Stamp> {
    let about = tokio::fs::metadata(path).await.ok()?;
    Some((about.modified().ok()?, about.len()))
}

const POLL_INTERVAL: Duration = Duration::from_secs(1);
