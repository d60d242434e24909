//! A `nats-server` of a test's own, with JetStream, gone with the test.
//!
//! Where there is none, a test says so and passes, unless `POINTSMAN_REAL_PARTS=1` is set, where it fails.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use pointsman_reporter::nats::NatsConfig;

pub(crate) struct Server {
    child: Option<Child>,
    port: u16,
    folder: PathBuf,
}

impl Server {
    /// None where there is no server to start and none is demanded.
    pub(crate) fn start() -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let name = format!("pointsman-nats-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let mut server = Self { child: None, port, folder: std::env::temp_dir().join(name) };
        if server.run() {
            return Some(server);
        }
        let demanded = std::env::var_os("POINTSMAN_REAL_PARTS").is_some_and(|value| value == "1");
        assert!(!demanded, "POINTSMAN_REAL_PARTS=1, and there is no nats-server");
        println!("skipped: there is no nats-server");
        None
    }

    /// Starts it, again on the same port and folder; false if there is none.
    pub(crate) fn run(&mut self) -> bool {
        let mut command = Command::new("nats-server");
        command.args(["-js", "-a", "127.0.0.1", "-p", &self.port.to_string(), "-sd"]).arg(&self.folder);
        self.child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok();
        self.child.is_some()
    }

    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    pub(crate) fn config(&self) -> NatsConfig {
        NatsConfig::new(&format!("nats://127.0.0.1:{}", self.port), "KV", "kv")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
