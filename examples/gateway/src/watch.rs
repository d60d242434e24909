//! Follows a configuration's file, and that of its profile if it has one of its own: a change is taken, a mistake is said and
//! counted, and what runs goes on.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::Gateway;
use super::config::{self, Config};

/// Looks at a file once a second, and at once when `now` is notified (on SIGHUP), until it is stopped.
///
/// A file counts as changed when its time or its length did, and its content did; when `now` is notified, everything is read
/// and taken again. What is wrong with it goes to `log`, one text for each change.
pub async fn follow(
    gateway: &Gateway,
    path: impl Into<PathBuf>,
    now: &Notify,
    stop: &CancellationToken,
    mut log: impl FnMut(&str),
) {
    let path = path.into();
    // Nothing was seen yet: what changed since the gateway read the file is taken too.
    let mut seen = Seen { stamps: [None, None], text: None, profile: Seen::of(&path, gateway).await.profile };
    loop {
        let forced = tokio::select! {
            () = stop.cancelled() => return,
            () = now.notified() => true,
            () = tokio::time::sleep(EVERY) => false,
        };
        if !forced && Seen::stamps(&path, gateway).await == seen.stamps {
            continue;
        }
        let current = Seen::of(&path, gateway).await;
        let (changed, another_profile) = (current.text != seen.text, current.profile != seen.profile);
        seen = current;
        if !changed && !another_profile && !forced {
            continue;
        }
        let loaded = load(gateway, seen.text.as_deref(), &path, forced || another_profile);
        if seen.profile.as_ref().map(|(path, _)| path) != profile_path(gateway).as_ref() {
            // Another file is the profile's now, and it was just read.
            seen.profile = Seen::of(&path, gateway).await.profile;
        }
        match loaded {
            Ok(Loaded::Same) => {}
            Ok(Loaded::New) => log(&format!("`{}` is in force", path.display())),
            Err(error) => log(&format!("`{}` is not taken, and the old configuration stays: {error}", path.display())),
        }
    }
}

/// Whether a file said anything new.
enum Loaded {
    Same,
    New,
}

fn load(gateway: &Gateway, text: Option<&str>, path: &Path, again: bool) -> Result<Loaded, String> {
    let loaded = match text {
        Some(text) => Config::parse(text).map_err(|error| error.to_string()),
        None => Err(format!("cannot read `{}`", path.display())),
    };
    // A configuration that cannot be read is a bad one too, and is counted as those are that are refused.
    let loaded = loaded.inspect_err(|_| gateway.count_bad_reload());
    let config = loaded?;
    if !again && config == gateway.config() {
        return Ok(Loaded::Same);
    }
    gateway.reload(config).map_err(|error| error.to_string())?;
    Ok(Loaded::New)
}

/// The files as they were last seen.
struct Seen {
    /// Of the configuration and of its profile.
    stamps: [Option<Stamp>; 2],
    text: Option<String>,
    profile: Profile,
}

type Stamp = (SystemTime, u64);
/// The file of the profile in force, if it is in one, and what is in it.
type Profile = Option<(PathBuf, Option<String>)>;

impl Seen {
    async fn of(path: &Path, gateway: &Gateway) -> Self {
        // The stamps first: a change in between is seen the next time.
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

const EVERY: Duration = Duration::from_secs(1);
