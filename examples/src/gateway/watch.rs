//! Follows a configuration's file: a change is taken, a mistake is said and counted, and what runs goes on.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::Gateway;
use super::config::Config;

/// Looks at a file once a second, and at once when `now` is notified (on SIGHUP), until it is stopped.
///
/// A file counts as changed when its time or its length did, and its content did. What is wrong with it goes to `log`, one
/// text for each change.
pub async fn follow(
    gateway: &Gateway,
    path: impl Into<PathBuf>,
    now: &Notify,
    stop: &CancellationToken,
    mut log: impl FnMut(&str),
) {
    let path = path.into();
    // Nothing was seen yet: what changed since the gateway read the file is taken too.
    let mut seen = Seen { stamp: None, text: None };
    loop {
        let forced = tokio::select! {
            () = stop.cancelled() => return,
            () = now.notified() => true,
            () = tokio::time::sleep(EVERY) => false,
        };
        if !forced && Seen::stamp(&path).await == seen.stamp {
            continue;
        }
        let current = Seen::of(&path).await;
        let changed = current.text != seen.text;
        seen = current;
        if !changed && !forced {
            continue;
        }
        match load(gateway, seen.text.as_deref(), &path) {
            Ok(Loaded::Same) if !forced => {}
            Ok(_) => log(&format!("`{}` is in force", path.display())),
            Err(error) => log(&format!("`{}` is not taken, and the old configuration stays: {error}", path.display())),
        }
    }
}

/// Whether a file said anything new.
enum Loaded {
    Same,
    New,
}

fn load(gateway: &Gateway, text: Option<&str>, path: &Path) -> Result<Loaded, String> {
    let loaded = match text {
        Some(text) => Config::parse(text).map_err(|error| error.to_string()),
        None => Err(format!("cannot read `{}`", path.display())),
    };
    // A configuration that cannot be read is a bad one too, and is counted as those are that are refused.
    let loaded = loaded.inspect_err(|_| gateway.count_bad_reload());
    let config = loaded?;
    if config == gateway.config() {
        return Ok(Loaded::Same);
    }
    gateway.reload(config).map_err(|error| error.to_string())?;
    Ok(Loaded::New)
}

/// A file as it was last seen.
struct Seen {
    stamp: Option<(SystemTime, u64)>,
    text: Option<String>,
}

impl Seen {
    async fn of(path: &Path) -> Self {
        // The stamp first: a change in between is seen the next time.
        let stamp = Self::stamp(path).await;
        Self { stamp, text: tokio::fs::read_to_string(path).await.ok() }
    }

    async fn stamp(path: &Path) -> Option<(SystemTime, u64)> {
        let about = tokio::fs::metadata(path).await.ok()?;
        Some((about.modified().ok()?, about.len()))
    }
}

const EVERY: Duration = Duration::from_secs(1);
