//! Programs that some tests need and a machine may lack: a test without its program says so and passes, unless
//! `POINTSMAN_REAL_PARTS=1` is set, where it fails.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Whether a program can be started with these arguments and ends well.
pub(crate) fn present(program: &str, arguments: &[&str]) -> bool {
    let found = Command::new(program).args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status();
    let found = found.is_ok_and(|status| status.success());
    let wanted = std::env::var_os("POINTSMAN_REAL_PARTS").is_some_and(|value| value == "1");
    assert!(found || !wanted, "POINTSMAN_REAL_PARTS=1, but `{program} {}` does not work", arguments.join(" "));
    if !found {
        println!("skipped: `{program} {}` does not work here", arguments.join(" "));
    }
    found
}

/// Runs a program to its end, or ends it after two minutes. What it writes goes through files in `folder`, so that a
/// child that outlives it cannot hold a pipe open.
pub(crate) fn run(command: &mut Command, folder: &Path) -> Output {
    let (out, err) = (folder.join("stdout"), folder.join("stderr"));
    command.stdin(Stdio::null()).stdout(File::create(&out).unwrap()).stderr(File::create(&err).unwrap());
    let mut child = command.spawn().unwrap();
    let started = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if started.elapsed() > Duration::from_secs(120) {
            child.kill().unwrap();
            break child.wait().unwrap();
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    Output { status, stdout: std::fs::read(out).unwrap(), stderr: std::fs::read(err).unwrap() }
}

/// An empty folder below the tests' own that nobody else has; `name` tells whose it is.
pub(crate) fn folder(name: &str) -> std::path::PathBuf {
    static MADE: AtomicUsize = AtomicUsize::new(0);
    let (process, made) = (std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{process}-{made}"));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}
