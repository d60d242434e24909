//! Pod discovery: where the list of pods comes from, and the task that follows it.

use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::pin;
use std::time::Duration;

use routing_core::Role;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::pod_spec::PodSpec;
use crate::router::{Router, RouterError, RouterUpdate};

/// Tells which pods there are.
///
/// A list replaces the one before it: pods that are in both keep what is known of them. A source that fails for a moment should
/// say so by an error, not by an empty list.
pub trait Discovery: Send + 'static {
    /// Why there is no list.
    type Error: fmt::Display + Send;

    /// The next list. The first at once; later ones when something changed, or after a while.
    fn next(&mut self) -> impl Future<Output = Result<Vec<PodSpec>, Self::Error>> + Send;
}

/// A list that does not change.
#[derive(Clone, Debug)]
pub struct StaticPods(Option<Vec<PodSpec>>);

impl StaticPods {
    /// These pods.
    pub fn new(pods: impl IntoIterator<Item = PodSpec>) -> Self {
        Self(Some(pods.into_iter().collect()))
    }
}

impl Discovery for StaticPods {
    type Error = Infallible;

    async fn next(&mut self) -> Result<Vec<PodSpec>, Infallible> {
        match self.0.take() {
            Some(pods) => Ok(pods),
            None => std::future::pending().await,
        }
    }
}

/// A file with a pod a line: `name address`, then `role=prefill|decode|both`, `draining` and labels as `key=value`. What follows a
/// `#` is a comment. It is read again every second, and tells when it changed.
#[derive(Clone, Debug)]
pub struct FilePods {
    path: PathBuf,
    last: Option<String>,
}

impl FilePods {
    /// The pods of a file.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), last: None }
    }
}

impl Discovery for FilePods {
    type Error = FileError;

    async fn next(&mut self) -> Result<Vec<PodSpec>, FileError> {
        loop {
            let path = self.path.clone();
            let read = tokio::task::spawn_blocking(move || std::fs::read_to_string(path)).await;
            let text = read.map_err(io::Error::other).and_then(|text| text).map_err(|error| FileError {
                line: 0,
                why: format!("cannot read `{}`: {error}", self.path.display()),
            })?;
            if self.last.as_ref() == Some(&text) {
                sleep(PERIOD).await;
                continue;
            }
            let pods = parse(&text);
            self.last = Some(text);
            return pods;
        }
    }
}

/// What is wrong with a file of pods.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {why}")]
#[non_exhaustive]
pub struct FileError {
    /// Counted from 1; 0 for the whole file.
    pub line: usize,
    /// What.
    pub why: String,
}

fn parse(text: &str) -> Result<Vec<PodSpec>, FileError> {
    let mut pods = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
        let Some(name) = words.next() else { continue };
        let wrong = |why: String| FileError { line: at + 1, why };
        let address = words.next().ok_or_else(|| wrong(format!("pod `{name}` has no address")))?;
        let mut pod = PodSpec::new(name, address);
        for word in words {
            pod = match word.split_once('=') {
                Some(("role", role)) => pod.role(match role {
                    "prefill" => Role::Prefill,
                    "decode" => Role::Decode,
                    "both" => Role::Both,
                    _ => return Err(wrong(format!("`{role}` is no role: write prefill, decode or both"))),
                }),
                Some((key, value)) => pod.label(key, value),
                None if word == "draining" => pod.draining(),
                None => return Err(wrong(format!("`{word}` is neither `draining` nor key=value"))),
            };
        }
        pods.push(pod);
    }
    Ok(pods)
}

/// The addresses of a name, as a headless Kubernetes service has them: a pod for each, called by its address. Looked up again
/// every five seconds, unless said otherwise.
#[derive(Clone, Debug)]
pub struct DnsPods {
    name: String,
    period: Duration,
    last: Option<Vec<SocketAddr>>,
}

impl DnsPods {
    /// The pods behind `host:port`.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), period: Duration::from_secs(5), last: None }
    }

    /// The same, looked up again after another time.
    #[must_use]
    pub fn period(self, period: Duration) -> Self {
        Self { period, ..self }
    }
}

impl Discovery for DnsPods {
    type Error = io::Error;

    async fn next(&mut self) -> Result<Vec<PodSpec>, io::Error> {
        loop {
            let mut found: Vec<SocketAddr> = tokio::net::lookup_host(&*self.name).await?.collect();
            found.sort_unstable();
            found.dedup();
            if self.last.as_ref() == Some(&found) {
                sleep(self.period).await;
                continue;
            }
            let pods = found.iter().map(|address| PodSpec::new(address.to_string(), address.to_string())).collect();
            self.last = Some(found);
            return Ok(pods);
        }
    }
}

/// The task that follows a discovery. Dropping it ends the task, and the pods stay.
#[derive(Debug)]
#[must_use = "the task ends when this is dropped"]
pub struct Discovering(JoinHandle<()>);

impl Drop for Discovering {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl<const W: usize> Router<W> {
    /// Spawns a task that takes over every list of pods, on the current tokio runtime. `told` hears what is wrong with a list,
    /// whether it could not be had or could not be used; the pods stay as they are then, and a second later it is tried again. Of a list that has
    /// more new pods than there is room for, as many are taken as there is: pods that are on it no more make room for the others.
    pub fn spawn_discovery(
        &self,
        mut discovery: impl Discovery,
        mut told: impl FnMut(&dyn fmt::Display) + Send + 'static,
    ) -> Discovering {
        let router = self.clone();
        Discovering(tokio::spawn(async move {
            // The newest list, if it could not be used yet.
            let mut refused: Option<Vec<PodSpec>> = None;
            loop {
                let mut next = pin!(discovery.next());
                let next = loop {
                    let Some(pods) = &refused else { break next.as_mut().await };
                    match timeout(PERIOD, next.as_mut()).await {
                        Ok(next) => break next,
                        Err(_) if router.take_over(pods).is_ok() => refused = None,
                        Err(_) => {}
                    }
                };
                match next {
                    Ok(pods) => {
                        refused = None;
                        if let Err(error) = router.take_over(&pods) {
                            told(&error);
                            refused = Some(pods);
                        }
                    }
                    Err(error) => {
                        told(&error);
                        sleep(PERIOD).await;
                        // A source that fails at once leaves no time to try it again elsewhere.
                        refused = refused.filter(|pods| router.take_over(pods).is_err());
                    }
                }
            }
        }))
    }

    /// Takes a list over, or as much of it as there is room for.
    fn take_over(&self, pods: &[PodSpec]) -> Result<(), RouterError> {
        let applied = self.apply(RouterUpdate::new().pods(pods.to_vec())).map(drop);
        if applied.is_err() {
            let fitting = self.fitting(pods);
            if !fitting.is_empty() && fitting != pods {
                self.apply(RouterUpdate::new().pods(fitting))?;
            }
        }
        applied
    }
}

const PERIOD: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_a_pod_a_line_and_errors_have_lines() {
        let text = "# pods\na 10.0.0.5:8000\n\nb http://10.0.0.6:8000 role=decode zone=x draining # old\n";
        let pods = parse(text).unwrap();
        let b = PodSpec::new("b", "http://10.0.0.6:8000").role(Role::Decode).label("zone", "x").draining();
        assert_eq!(pods, [PodSpec::new("a", "10.0.0.5:8000"), b]);
        for (text, line) in [("a", 1), ("a x\nb y role=boss", 2), ("a x quick", 1)] {
            assert_eq!(parse(text).unwrap_err().line, line, "{text}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_router_follows_its_file_and_keeps_its_pods_where_that_is_wrong() {
        let path = std::env::temp_dir().join(format!("pointsman-pods-{}", std::process::id()));
        let (router, path_of) = (Router::builder("m").build().unwrap(), path.clone());
        let write = move |text: &str| std::fs::write(&path_of, text).unwrap();
        let until = |wanted: &'static [&'static str]| {
            let router = router.clone();
            async move {
                let names = || router.pods().into_iter().map(|pod| pod.spec.name).collect::<Vec<_>>();
                while names() != wanted {
                    sleep(Duration::from_millis(100)).await;
                }
            }
        };
        let faults = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let counted = std::sync::Arc::clone(&faults);
        write("a x:1\nb x:2\n");
        let task = router.spawn_discovery(FilePods::new(&path), move |_| {
            counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        });
        until(&["a", "b"]).await;
        let kept = router.pod("b");
        write("b x:2\nb x:3\n");
        while faults.load(std::sync::atomic::Ordering::Relaxed) == 0 {
            sleep(Duration::from_millis(100)).await;
        }
        assert_eq!(router.pods().len(), 2, "two of one name are refused, and nothing changed");
        write("b x:2\nc x:3\n");
        until(&["b", "c"]).await;
        assert_eq!(router.pod("b"), kept);
        drop(task);
        std::fs::remove_file(path).unwrap();
    }

    struct Coming(tokio::sync::mpsc::UnboundedReceiver<Vec<PodSpec>>);

    impl Discovery for Coming {
        type Error = Infallible;

        async fn next(&mut self) -> Result<Vec<PodSpec>, Infallible> {
            match self.0.recv().await {
                Some(list) => Ok(list),
                None => std::future::pending().await,
            }
        }
    }

    /// Four ids: pods that leave keep theirs until they are swept.
    #[tokio::test(start_paused = true)]
    async fn a_list_that_there_is_no_room_for_yet_is_taken_over_once_there_is() {
        let config = kv_index::Config::default().max_pods(4);
        let router = Router::builder("m").index_config(config).build().unwrap();
        let _housekeeping = router.spawn_housekeeping();
        let list =
            |names: &[&str]| names.iter().map(|name| PodSpec::new(*name, format!("{name}:1"))).collect::<Vec<_>>();
        let (lists, coming) = tokio::sync::mpsc::unbounded_channel();
        let _task = router.spawn_discovery(Coming(coming), |_| {});
        let names = || router.pods().into_iter().map(|pod| pod.spec.name).collect::<Vec<_>>();
        for wanted in [&["a", "b", "c"][..], &["d", "e", "f"], &["f", "g", "h", "i"], &["a"]] {
            lists.send(list(wanted)).unwrap();
            tokio::time::timeout(Duration::from_secs(60), async {
                while names() != wanted {
                    assert!(!names().is_empty() || *wanted == ["a", "b", "c"], "somebody serves all the while");
                    sleep(Duration::from_millis(100)).await;
                }
            })
            .await
            .unwrap_or_else(|_| panic!("{wanted:?}, and there are {:?}", names()));
        }
    }

    /// Two lists, and then errors that come at once.
    struct Failing(std::vec::IntoIter<Vec<PodSpec>>);

    impl Discovery for Failing {
        type Error = io::Error;

        async fn next(&mut self) -> Result<Vec<PodSpec>, io::Error> {
            self.0.next().ok_or_else(|| io::Error::other("gone"))
        }
    }

    /// Nobody is known who finds room: half of those that are there serve until others do, and a source that fails keeps no list from being taken over.
    #[tokio::test(start_paused = true)]
    async fn a_fleet_that_is_replaced_where_there_is_no_room_serves_all_the_while() {
        let config = kv_index::Config::default().max_pods(4);
        let router = Router::builder("m").index_config(config).build().unwrap();
        let _housekeeping = router.spawn_housekeeping();
        let list = |names: [&str; 4]| names.map(|name| PodSpec::new(name, format!("{name}:1"))).to_vec();
        let lists = vec![list(["a", "b", "c", "d"]), list(["e", "f", "g", "h"])];
        let _task = router.spawn_discovery(Failing(lists.into_iter()), |_| {});
        let names = || router.pods().into_iter().map(|pod| pod.spec.name).collect::<Vec<_>>();
        let mut least = 4;
        tokio::time::timeout(Duration::from_secs(60), async {
            while names() != ["e", "f", "g", "h"] {
                least = if names().is_empty() { least } else { least.min(names().len()) };
                sleep(Duration::from_millis(100)).await;
            }
        })
        .await
        .unwrap_or_else(|_| panic!("there are {:?}", names()));
        assert_eq!(least, 2);
    }

    #[tokio::test]
    async fn a_name_is_its_addresses_and_a_static_list_comes_once() {
        let mut dns = DnsPods::new("127.0.0.1:8000");
        assert_eq!(dns.next().await.unwrap(), [PodSpec::new("127.0.0.1:8000", "127.0.0.1:8000")]);
        let mut fixed = StaticPods::new([PodSpec::new("a", "x:1")]);
        assert_eq!(fixed.next().await.unwrap().len(), 1);
        let again = tokio::time::timeout(Duration::from_millis(10), fixed.next()).await;
        assert!(again.is_err(), "nothing changes");
    }
}
