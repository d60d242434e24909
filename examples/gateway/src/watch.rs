//! File watcher: reloads when the configuration file, or the profile's own, changes; a failed reload is logged and counted.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::Gateway;
use super::config::{self, Config};

/// Polls the file once a second, and reloads at once when `now` is notified (on SIGHUP), until it is stopped.
///
/// A file has changed when its modification time or length did, and its content did; when `now` is notified, everything is
/// read and applied again. What came of it is logged, a line a change.
pub async fn watch(gateway: &Gateway, path: impl Into<PathBuf>, now: &Notify, stop: &CancellationToken) {
    let path = path.into();
    // Nothing was read yet: what changed since the gateway started is applied too.
    let mut files = Files { stamps: Vec::new(), text: None, profiles: Files::of(&path, gateway).await.profiles };
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
        let (changed, another_profile) = (current.text != files.text, current.profiles != files.profiles);
        files = current;
        if !changed && !another_profile && !forced {
            continue;
        }
        let loaded = load(gateway, files.text.as_deref(), &path, forced || another_profile);
        if !files.profiles.iter().map(|(path, _)| path).eq(&profile_paths(gateway)) {
            // Other files are the profiles' now, and they were just read.
            files.profiles = Files::of(&path, gateway).await.profiles;
        }
        match loaded {
            Ok(Loaded::Same) => {}
            Ok(Loaded::New) => info!(path = %path.display(), "the configuration is applied"),
            Err(error) => {
                // Its problems are a line each, and a log's lines are one each.
                let error = error.trim().replace('\n', "; ");
                warn!(path = %path.display(), error, "the configuration is refused, and the old one stays");
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

/// The files as they were last read.
struct Files {
    /// Of the configuration and of its profiles.
    stamps: Vec<Option<Stamp>>,
    text: Option<String>,
    profiles: Vec<Profile>,
}

type Stamp = (SystemTime, u64);
/// The file of a profile in force, and what is in it.
type Profile = (PathBuf, Option<String>);

impl Files {
    async fn of(path: &Path, gateway: &Gateway) -> Self {
        // The stamps first: a change in between is seen the next time.
        let stamps = Self::stamps(path, gateway).await;
        let text = tokio::fs::read_to_string(path).await.ok();
        let mut profiles = Vec::new();
        for path in profile_paths(gateway) {
            let text = tokio::fs::read_to_string(&path).await.ok();
            profiles.push((path, text));
        }
        Self { stamps, text, profiles }
    }

    async fn stamps(path: &Path, gateway: &Gateway) -> Vec<Option<Stamp>> {
        let mut stamps = vec![stamp(path).await];
        for path in profile_paths(gateway) {
            stamps.push(stamp(&path).await);
        }
        stamps
    }
}

/// The files of the models' profiles.
fn profile_paths(gateway: &Gateway) -> Vec<PathBuf> {
    let config = gateway.config();
    let path = |served: &config::Served<'_>| match served.profile {
        config::Profile::File(profile) => Some(profile.file.clone()),
        _ => None,
    };
    config.served().iter().filter_map(path).collect()
}

async fn stamp(path: &Path) -> Option<Stamp> {
    let about = tokio::fs::metadata(path).await.ok()?;
    Some((about.modified().ok()?, about.len()))
}

const POLL_INTERVAL: Duration = Duration::from_secs(1);
