//! External programs in tests (curl, chromium, nats-server): skipped where they are not installed.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Whether a program is installed: it runs with these arguments and succeeds.
///
/// # Panics
///
/// When it is not, and `POINTSMAN_REAL_PARTS=1` is set.
#[must_use]
pub fn is_installed(program: &str, arguments: &[&str]) -> bool {
    let status = Command::new(program).args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status();
    let found = status.is_ok_and(|status| status.success());
    let required = std::env::var_os("POINTSMAN_REAL_PARTS").is_some_and(|value| value == "1");
    assert!(found || !required, "POINTSMAN_REAL_PARTS=1, but `{program} {}` does not work", arguments.join(" "));
    if !found {
        println!("skipped: `{program} {}` does not work here", arguments.join(" "));
    }
    found
}

/// Runs a program, and kills it after two minutes. Its output goes through files in `folder`, so that a child that outlives it
/// cannot hold a pipe open.
///
/// # Panics
///
/// When the program cannot be run or its output cannot be read.
pub fn run(command: &mut Command, folder: &Path) -> Output {
    let (out, err) = (folder.join("stdout"), folder.join("stderr"));
    let create = |path: &Path| File::create(path).expect("a file in the test's folder");
    command.stdin(Stdio::null()).stdout(create(&out)).stderr(create(&err));
    let mut child = command.spawn().expect("the program starts");
    let started = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("a child's status") {
            break status;
        }
        if started.elapsed() > Duration::from_secs(120) {
            child.kill().expect("a child that runs");
            break child.wait().expect("a child's status");
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let read = |path| std::fs::read(path).expect("the program's output");
    Output { status, stdout: read(out), stderr: read(err) }
}

/// A new empty folder below `base`, for which tests pass `env!("CARGO_TARGET_TMPDIR")`.
///
/// # Panics
///
/// When it cannot be made.
#[must_use]
pub fn temp_folder(base: &str, name: &str) -> PathBuf {
    static MADE: AtomicUsize = AtomicUsize::new(0);
    let (process, made) = (std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
    let folder = Path::new(base).join(format!("{name}-{process}-{made}"));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder for a test");
    folder
}
