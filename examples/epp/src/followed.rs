//! Followed files: read at an interval, and told of when what is in them is another.
//!
//! They are polled: Kubernetes changes a secret by swapping a symbolic link to its folder, which whoever watches the file itself misses.

use std::fmt::Display;
use std::time::Duration;

/// Reads again and again, and tells what came where it is other than the last time: what is read, or why nothing is. `known` was told
/// before. It ends never: drop it.
pub(crate) async fn follow<T, E>(
    known: T,
    period: Duration,
    read: impl Fn() -> Result<T, E> + Clone + Send + 'static,
    mut told: impl FnMut(Result<&T, &str>),
) where
    T: PartialEq + Send + 'static,
    E: Display + 'static,
{
    let mut last = Ok(known);
    loop {
        tokio::time::sleep(period).await;
        let read = read.clone();
        let now = tokio::task::spawn_blocking(move || read().map_err(|error| error.to_string())).await;
        // It panicked, or the program ends: nothing is known of the file.
        let Ok(now) = now else { continue };
        if now != last {
            told(now.as_ref().map_err(String::as_str));
            last = now;
        }
    }
}

/// How often files are read: what an operator changes is in force before they look.
pub(crate) const PERIOD: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::Arc;

    use parking_lot::Mutex;

    use super::*;

    #[tokio::test]
    async fn what_is_new_is_told_once_and_so_is_what_is_wrong() {
        let script = VecDeque::from([Ok(1), Ok(2), Ok(2), Err("away"), Err("away"), Ok(2), Ok(3)]);
        let script = Arc::new(Mutex::new(script));
        let (all_told, reads) = (Arc::new(Mutex::new(Vec::new())), Arc::clone(&script));
        let read = move || reads.lock().pop_front().unwrap_or(Ok(3));
        let telling = Arc::clone(&all_told);
        let often = Duration::from_millis(1);
        let following = follow(1, often, read, move |told| telling.lock().push(told.copied().map_err(str::to_owned)));
        let waits = async {
            while !script.lock().is_empty() {
                tokio::time::sleep(often).await;
            }
            tokio::time::sleep(often * 10).await;
        };
        tokio::select! {
            () = following => {}
            () = waits => {}
        }
        assert_eq!(*all_told.lock(), [Ok(2), Err("away".to_owned()), Ok(2), Ok(3)]);
    }
}
