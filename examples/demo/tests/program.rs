//! The program a newcomer runs, as a process: what it prints to try works as printed, its exit status tells how it went,
//! and a chaos run can fail.
#![expect(clippy::unwrap_used, reason = "what helps a test may stop it")]

use pointsman_test_support::programs;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

const DEMO: &str = env!("CARGO_BIN_EXE_demo");

#[test]
fn every_line_to_try_works_as_printed_and_a_signal_ends_it_well() {
    if !programs::is_installed("curl", &["--version"]) {
        return;
    }
    let mut served = Served::start(&["--pods", "3", "--speed", "20", "--idle"]);
    let lines: Vec<String> = served.printed.iter().filter(|line| line.starts_with("  curl ")).cloned().collect();
    assert!(lines.len() >= 8, "{:?}", served.printed);
    let expected = ["choices", "[DONE]", "x-pointsman-trace", "# TYPE ", "", "", "", ""];
    for (line, expected) in lines.iter().zip(expected) {
        let output = sh(line);
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains(expected), "{line}: {output:?}");
        assert!(!text.contains("\"error\""), "{line}: {text}");
    }
    assert_eq!(served.end().code(), Some(0));
}

#[test]
fn a_served_page_is_alive_unless_told_otherwise() {
    let mut served = Served::start(&["--pods", "2", "--speed", "20"]);
    let url = served.printed.iter().find_map(|line| line.strip_prefix("The page: ")).unwrap().to_owned();
    let deadline = Instant::now() + Duration::from_secs(60);
    let answered = || {
        let state = sh(&format!("curl --max-time 30 {url}state")).stdout;
        let state: serde_json::Value = serde_json::from_slice(&state).unwrap_or_default();
        state["totals"]["completed"].as_u64().unwrap_or(0)
    };
    while programs::is_installed("curl", &["--version"]) && answered() < 3 {
        assert!(Instant::now() < deadline, "nobody asks anything");
        std::thread::sleep(Duration::from_millis(100));
    }
    // Conversations are under way: they end, or are refused, and so does the process.
    assert_eq!(served.end().code(), Some(0));
}

#[test]
fn flags_that_make_no_sense_exit_with_2() {
    let wrong: [&[&str]; 11] = [
        &["--no-such-flag"],
        &["--profile", "fastest"],
        &["--pods", "1"],
        &["--pods", "many"],
        &["--speed", "0"],
        &["--speed", "NaN"],
        &["--seconds", "30"],
        &["--idle"],
        &["--sabotage", "lost-pod"],
        &["--listen", "127.0.0.1:0"],
        &["--serve", "--chaos"],
    ];
    for arguments in wrong {
        let output = demo_program(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {output:?}");
        assert!(output.stdout.is_empty() && output.stderr.starts_with(b"error:"), "{arguments:?}: {output:?}");
    }
    assert_eq!(demo_program(&["--help"]).status.code(), Some(0));
}

#[test]
fn a_short_chaos_heals() {
    let output = demo_program(&["--chaos", "--seconds", "8", "--seed", "3", "--pods", "4"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{text}");
    for line in ["seed 3", "partition events", "every request ended exactly once", "Everything healed."] {
        assert!(text.contains(line), "no `{line}` in {text}");
    }
}

/// What each of these breaks, and the check that has to find it. Where nothing is tried again, a profile that learns who fails hides some
/// of it: that goes by round robin.
#[test]
fn whatever_is_broken_on_purpose_fails_a_chaos_run() {
    for (sabotage, profile, pods, seconds, found) in [
        ("leaked-slot", "total_latency", "4", "5", "nothing is counted as in flight"),
        ("stray-run", "total_latency", "4", "5", "1 ran without being asked for"),
        ("lost-pod", "total_latency", "16", "12", "pods heal in time"),
        ("no-retries", "round_robin", "4", "12", "requests are answered while a pod can"),
    ] {
        let run = ["--chaos", "--seed", "2", "--seconds", seconds, "--pods", pods, "--profile", profile];
        let output = demo_program(&[&run[..], &["--sabotage", sabotage]].concat());
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(1), "{sabotage}: {text}");
        let line = text.lines().find(|line| line.starts_with("seed 2: ")).unwrap_or_default();
        assert!(line.contains(found), "{sabotage}: {text}");
        assert!(!text.contains("Everything healed."), "{sabotage}: {text}");
    }
}

#[test]
fn a_phantom_in_the_index_fails_a_chaos_run() {
    let output = demo_program(&["--chaos", "--seconds", "5", "--pods", "2", "--sabotage", "phantom-block"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("VIOLATED") && text.contains(" 1 phantoms"), "{text}");
    assert!(text.contains("--chaos --seed 1 --seconds 5 --pods 2 --profile total_latency"), "{text}");
}

/// A gateway that serves, and what it printed before it did.
struct Served {
    child: Child,
    printed: Vec<String>,
    /// Kept open: the rest of what it prints has to go somewhere.
    _rest: BufReader<ChildStdout>,
}

impl Served {
    fn start(arguments: &[&str]) -> Self {
        let mut command = Command::new(DEMO);
        command.args(["--serve", "--listen", "127.0.0.1:0"]).args(arguments);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut rest = BufReader::new(child.stdout.take().unwrap());
        let lines = rest.by_ref().lines().map(Result::unwrap);
        let printed: Vec<String> = lines.take_while(|line| !line.starts_with("Ctrl-C")).collect();
        Self { child, printed, _rest: rest }
    }

    /// Ends it as a supervisor would.
    fn end(&mut self) -> std::process::ExitStatus {
        assert!(sh(&format!("kill -TERM {}", self.child.id())).status.success());
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < deadline, "it does not end");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn sh(line: &str) -> Output {
    // What a machine says of proxies is not for loopback.
    Command::new("sh").args(["-c", line]).env("NO_PROXY", "127.0.0.1").env("no_proxy", "127.0.0.1").output().unwrap()
}

fn demo_program(arguments: &[&str]) -> Output {
    let folder = programs::temp_folder(
        env!("CARGO_TARGET_TMPDIR"),
        &format!("demo{}", arguments.concat()).replace(['/', '.', ':'], "-"),
    );
    let output = programs::run(Command::new(DEMO).args(arguments), &folder);
    std::fs::remove_dir_all(folder).unwrap();
    output
}
