//! Processes under measurement: started on a core of their own, their time as the system counts it.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A hop that runs; killed with all it started when dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
}

impl Process {
    /// Starts a command on a core. What it prints goes to a file.
    ///
    /// # Errors
    ///
    /// When the file cannot be made, or there is no `taskset`.
    pub fn start(core: usize, command: &[String], log: &Path) -> std::io::Result<Self> {
        use std::os::unix::process::CommandExt as _;

        let file = fs::File::create(log)?;
        let mut taskset = Command::new("taskset");
        taskset.args(["-c", &core.to_string()]).args(command).process_group(0);
        let child = taskset.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file).spawn()?;
        Ok(Self { child })
    }

    /// Waits until somebody listens; false if nobody does in time.
    #[must_use]
    pub fn listens(&mut self, address: SocketAddr, within: Duration) -> bool {
        let until = Instant::now() + within;
        while Instant::now() < until {
            if TcpStream::connect(address).is_ok() {
                return true;
            }
            if self.child.try_wait().is_ok_and(|ended| ended.is_some()) {
                return false;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        false
    }

    /// Processor time so far, of it and all it started.
    #[must_use]
    pub fn cpu(&self) -> Duration {
        tree(self.child.id()).into_iter().map(of_process).sum()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // By its group: some of these start others.
        let group = format!("-{}", self.child.id());
        let _ = Command::new("kill").args(["-KILL", "--", &group]).stderr(Stdio::null()).status();
        let _ = self.child.wait();
    }
}

/// A process and those under it.
fn tree(root: u32) -> Vec<u32> {
    let mut found = vec![root];
    let mut at = 0;
    while at < found.len() {
        let id = found[at];
        let tasks = fs::read_dir(format!("/proc/{id}/task")).into_iter().flatten().flatten();
        for task in tasks {
            let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            found.extend(children.split_whitespace().filter_map(|id| id.parse::<u32>().ok()));
        }
        at += 1;
    }
    found
}

/// Processor time of all threads of a process, to the nanosecond.
fn of_process(id: u32) -> Duration {
    let tasks = fs::read_dir(format!("/proc/{id}/task")).into_iter().flatten().flatten();
    let run = |text: String| text.split(' ').next().and_then(|nanos| nanos.parse().ok()).unwrap_or(0);
    let nanos = tasks.map(|task| fs::read_to_string(task.path().join("schedstat")).map_or(0, run)).sum();
    Duration::from_nanos(nanos)
}
