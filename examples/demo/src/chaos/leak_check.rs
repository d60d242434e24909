//! Leak check: live tasks and open sockets of this process, before and after.

use tokio::runtime::Handle;

/// Tasks of the runtime, and sockets of the process where that can be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ResourceCounts {
    /// Tasks that have not ended.
    pub(crate) tasks: usize,
    /// Sockets that are open; none where that is unknown.
    pub(crate) sockets: Option<usize>,
}

impl ResourceCounts {
    /// What there is now. To be called within a runtime.
    pub(crate) fn now() -> Self {
        Self { tasks: Handle::current().metrics().num_alive_tasks(), sockets: sockets() }
    }

    /// Whether nothing is left that was not there before.
    pub(crate) fn is_within(self, before: Self) -> bool {
        self.tasks <= before.tasks && self.sockets <= before.sockets
    }
}

/// Counted where there is `/proc`.
fn sockets() -> Option<usize> {
    let entries = std::fs::read_dir("/proc/self/fd").ok()?;
    let is_socket = |entry: std::io::Result<std::fs::DirEntry>| {
        let target = std::fs::read_link(entry.ok()?.path()).ok()?;
        target.to_str()?.starts_with("socket:").then_some(())
    };
    Some(entries.filter_map(is_socket).count())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::sync::oneshot;

    use super::*;
    use crate::chaos::invariants::poll_until;

    async fn release(before: ResourceCounts, most: Duration) -> ResourceCounts {
        poll_until(most, ResourceCounts::now, |now| now.is_within(before)).await
    }

    #[tokio::test]
    async fn a_task_that_is_left_is_seen_and_waited_for() {
        let before = ResourceCounts::now();
        let (end, ended) = oneshot::channel::<()>();
        let task = tokio::spawn(ended);
        let during = release(before, Duration::from_millis(30)).await;
        assert_eq!(during.tasks, before.tasks + 1);
        assert!(!ResourceCounts { sockets: before.sockets, ..during }.is_within(before));
        end.send(()).unwrap();
        task.await.unwrap().unwrap();
        assert_eq!(release(before, Duration::from_secs(10)).await.tasks, before.tasks);
    }

    #[test]
    fn a_socket_more_is_a_socket_left() {
        // Sockets of other tests come and go in this process, so they are not counted here.
        let before = ResourceCounts { tasks: 0, sockets: Some(3) };
        assert!(!ResourceCounts { tasks: 0, sockets: Some(4) }.is_within(before));
        assert!(ResourceCounts { tasks: 0, sockets: Some(2) }.is_within(before));
        if cfg!(target_os = "linux") {
            let _socket = std::net::UdpSocket::bind(("127.0.0.1", 0)).unwrap();
            assert!(sockets().unwrap() >= 1);
        }
    }
}
