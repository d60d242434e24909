//! The program itself: its exit codes, and what signals do to it.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use super::fixture::{Client, EVENTS, FakePod, STREAMED, Script, WHOLE, piece, within};
use super::reload::replace;

/// A gateway in a process of its own; killed if a test forgets it.
pub(crate) struct Process {
    child: Child,
    lines: mpsc::UnboundedReceiver<String>,
    seen: Vec<String>,
}

impl Process {
    pub(crate) fn start(config: &Path) -> Self {
        Self::spawn(Command::new(env!("CARGO_BIN_EXE_gateway")).arg("--config").arg(config))
    }

    /// One that may open so many files, by what `ulimit` is told.
    pub(super) fn limited(config: &Path, ulimit: &str) -> Self {
        let run = format!("ulimit {ulimit} && exec \"$0\" --config \"$1\"");
        Self::spawn(Command::new("sh").arg("-c").arg(run).arg(env!("CARGO_BIN_EXE_gateway")).arg(config))
    }

    fn spawn(command: &mut Command) -> Self {
        command.stdin(Stdio::null()).env_remove("RUST_LOG").stdout(Stdio::inherit()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (sender, lines) = mpsc::unbounded_channel();
        let out = BufReader::new(child.stderr.take().unwrap());
        std::thread::spawn(move || out.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Self { child, lines, seen: Vec::new() }
    }

    /// The next line that has this in it.
    pub(crate) async fn line(&mut self, part: &str) -> String {
        let found = async {
            loop {
                let line = self.lines.recv().await.unwrap_or_else(|| panic!("it ended before it said `{part}`"));
                self.seen.push(line.clone());
                if line.contains(part) {
                    return line;
                }
            }
        };
        within(part, found).await
    }

    /// The lines that were looked at so far.
    pub(crate) fn seen(&self) -> &[String] {
        &self.seen
    }

    pub(crate) async fn address(&mut self) -> SocketAddr {
        let line = self.line("listening listener=\"clients\"").await;
        let address = line.split("address=").nth(1).and_then(|rest| rest.split(' ').next());
        address.unwrap_or_else(|| panic!("{line}")).parse().unwrap()
    }

    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("sh").arg("-c").arg(format!("kill -{name} {}", self.child.id())).status().unwrap();
        assert!(sent.success());
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) async fn exit_code(&mut self) -> Option<i32> {
        let since = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(since.elapsed() < Duration::from_secs(20), "it does not end");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("process-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

pub(crate) fn write(path: &Path, pods: &[&FakePod], more: &str) {
    let pods: String =
        pods.iter().map(|pod| format!("  - {{ name: {}, url: 'http://{}' }}\n", pod.name, pod.address)).collect();
    replace(path, &format!("listen: 127.0.0.1:0\nmodel: {{ name: sim }}\npods:\n{pods}{more}"));
}

#[tokio::test]
async fn a_hangup_reads_the_file_again_and_a_term_lets_streams_end() {
    let (a, b) = (FakePod::start("a", Script::Gated(EVENTS)).await, FakePod::start("b", Script::Whole(WHOLE)).await);
    let folder = folder("signals");
    let path = folder.join("gateway.yaml");
    write(&path, &[&a], "drain_grace: 3s\n");
    let mut process = Process::start(&path);
    let address = process.address().await;
    let client = Client::new(address);
    let mut body = client.begin("/v1/chat/completions", STREAMED, &[]).await.into_body();
    assert_eq!(piece(&mut body).await.unwrap().unwrap(), EVENTS[0]);

    process.signal("HUP");
    process.line("is applied").await;
    write(&path, &[&a, &b], "drain_grace: 3s\n");
    process.signal("HUP");
    process.line("is applied").await;
    assert_eq!(client.get("/state").await.json()["pods"].as_array().unwrap().len(), 2);

    process.signal("TERM");
    process.line("not ready any more").await;
    assert_eq!((client.get("/readyz").await.status, client.get("/livez").await.status), (503, 200));
    process.line("draining").await;
    // Nobody who comes now is let in, whatever connection it comes by.
    let late = Client::new(address);
    let refused = async || matches!(late.try_get("/health").await, Ok(answer) if answer.status == 503);
    within("new requests to be refused", async { while !refused().await {} }).await;
    assert_eq!(late.chat().await.json()["error"]["code"], "draining");
    assert_eq!(process.child.try_wait().unwrap(), None, "a stream is under way");
    a.let_go(2);
    let mut rest = String::new();
    while let Some(piece) = piece(&mut body).await {
        rest.push_str(&piece.unwrap());
    }
    assert_eq!(rest, EVENTS[1..].concat());
    assert_eq!(process.exit_code().await, Some(0));
    std::fs::remove_dir_all(folder).unwrap();
}

#[tokio::test]
async fn the_drain_is_as_long_as_the_file_in_force_says_and_a_second_signal_ends_it() {
    let pod = FakePod::start("a", Script::Gated(EVENTS)).await;
    let folder = folder("drain");
    let path = folder.join("gateway.yaml");
    for (drain_timeout, signals, code) in [("100ms", 1, 0), ("10m", 2, 1)] {
        write(&path, &[&pod], "drain_grace: 0s\ndrain_timeout: 30s\n");
        let mut process = Process::start(&path);
        let client = Client::new(process.address().await);
        let mut body = client.begin("/v1/chat/completions", STREAMED, &[]).await.into_body();
        piece(&mut body).await.unwrap().unwrap();
        write(&path, &[&pod], &format!("drain_grace: 0s\ndrain_timeout: {drain_timeout}\n"));
        process.signal("HUP");
        process.line("is applied").await;
        process.signal("TERM");
        process.line("draining").await;
        for _ in 1..signals {
            process.signal("INT");
        }
        assert_eq!(process.exit_code().await, Some(code), "drain_timeout: {drain_timeout}");
    }
    std::fs::remove_dir_all(folder).unwrap();
}

/// Runs the program to its end: its exit code, and what it complains of.
pub(crate) fn ends(path: &Path) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_gateway")).arg("--config").arg(path).output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_bad_file_is_an_exit_with_2_and_every_problem_is_named() {
    let folder = folder("bad");
    let path = folder.join("gateway.yaml");
    for (text, says) in [
        (
            "model: { name: '' }\nprofile: round_robbin\npods: [{ name: a, url: 'ftp://a' }]\nlimits: { max_requests: 0 }",
            &["model.name", "did you mean `round_robin`?", "pods[0].url", "limits.max_requests"][..],
        ),
        ("model: { name: sim }\nlisten_on: x", &["line 2", "listen_on"]),
        ("model: { name: sim }\nprofile: { file: /does/not/exist.yaml }", &["/does/not/exist.yaml"]),
        (
            "model: { name: sim }\nlisten: 127.0.0.1:0\nprofile: { plugins: [{ type: nothing }], profiles: [] }",
            &["nothing"],
        ),
    ] {
        std::fs::write(&path, text).unwrap();
        let (code, error) = ends(&path);
        assert_eq!(code, Some(2), "{error}");
        for part in says {
            assert!(error.contains(part), "`{part}` is not in {error}");
        }
    }
    let (code, error) = ends(&folder.join("none.yaml"));
    assert!(code == Some(2) && error.contains("none.yaml"), "{error}");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    std::fs::write(&path, format!("model: {{ name: sim }}\nlisten: {}", taken.local_addr().unwrap())).unwrap();
    let (code, error) = ends(&path);
    assert!(code == Some(1) && error.contains("cannot bind"), "the file is right, and may do elsewhere: {error}");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn flags_that_make_no_sense_exit_with_2() {
    for arguments in [&[][..], &["--no-such-flag"], &["--config"], &["--config", "x.yaml", "--profile", "round_robin"]]
    {
        let output = Command::new(env!("CARGO_BIN_EXE_gateway")).args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {output:?}");
        assert!(output.stdout.is_empty() && output.stderr.starts_with(b"error:"), "{arguments:?}: {output:?}");
    }
    let help = Command::new(env!("CARGO_BIN_EXE_gateway")).arg("--help").output().unwrap();
    assert_eq!(help.status.code(), Some(0));
}
