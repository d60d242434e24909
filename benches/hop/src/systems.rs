//! Who stands between client and pod, and how each is configured: as its authors would for streams, on one core.

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, fs, io};

use crate::process::Process;

/// A hop that is measured.
#[derive(Debug)]
pub(crate) struct System {
    pub(crate) name: &'static str,
    pub(crate) address: SocketAddr,
    /// None for the pod itself.
    pub(crate) process: Option<Process>,
}

/// How one is started: its name, and its command for an address, a pod and a folder of its own.
type Start = (&'static str, fn(&Places, SocketAddr, SocketAddr, &Path) -> io::Result<Option<Vec<String>>>);

const SYSTEMS: [Start; 7] = [
    ("ours", ours),
    ("ours unread", ours_unread),
    ("bare hyper", bare),
    ("nginx", nginx),
    ("haproxy", haproxy),
    ("SMG", smg),
    ("vllm-router", vllm_router),
];

/// Where programs are.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// The folder of this build's programs.
    pub programs: PathBuf,
    /// A folder with other programs, before those of `PATH`.
    pub peers: Option<PathBuf>,
}

impl Places {
    /// A program, if it is here.
    fn find(&self, name: &str) -> Option<String> {
        let path = env::var_os("PATH").unwrap_or_default();
        let places = self.peers.clone().into_iter().chain(env::split_paths(&path)).chain([PathBuf::from("/usr/sbin")]);
        let found = places.map(|folder| folder.join(name)).find(|file| file.is_file());
        found.map(|file| file.to_string_lossy().into_owned())
    }

    /// A program of this build, if it is built.
    fn own(&self, name: &str) -> Option<String> {
        let file = self.programs.join(name);
        file.is_file().then(|| file.to_string_lossy().into_owned())
    }
}

/// Starts all that are here, each on the core; those that are not are told.
pub(crate) fn start(
    places: &Places,
    only: &[String],
    core: usize,
    pod: SocketAddr,
    folder: &Path,
    tell: &mut dyn FnMut(&str),
) -> io::Result<Vec<System>> {
    let mut systems = vec![System { name: "no hop", address: pod, process: None }];
    let wanted = |name: &str| only.is_empty() || only.iter().any(|only| only == name);
    for (name, command) in SYSTEMS.into_iter().filter(|(name, _)| wanted(name)) {
        let (folder, address) = (folder.join(name.replace([' ', ','], "-")), free_address()?);
        fs::create_dir_all(&folder)?;
        let Some(command) = command(places, address, pod, &folder)? else {
            tell(&format!("{name} is not here"));
            continue;
        };
        let log = folder.join("log");
        let mut process = Process::start(core, &command, &log)?;
        if !process.listens(address, Duration::from_secs(60)) {
            let log = fs::read_to_string(&log).unwrap_or_default();
            let last: Vec<&str> = log.lines().rev().take(5).collect();
            tell(&format!("{name} does not start: {}", last.into_iter().rev().collect::<Vec<_>>().join(" | ")));
            continue;
        }
        systems.push(System { name, address, process: Some(process) });
    }
    Ok(systems)
}

fn free_address() -> io::Result<SocketAddr> {
    TcpListener::bind("127.0.0.1:0")?.local_addr()
}

/// A file of a folder with a text, as an argument.
fn file(folder: &Path, name: &str, text: &str) -> io::Result<String> {
    let path = folder.join(name);
    fs::write(&path, text)?;
    Ok(path.to_string_lossy().into_owned())
}

fn words(program: Option<String>, arguments: &[&str]) -> Option<Vec<String>> {
    program.map(|program| std::iter::once(program).chain(arguments.iter().map(|&word| word.to_owned())).collect())
}

fn ours(places: &Places, own: SocketAddr, pod: SocketAddr, folder: &Path) -> io::Result<Option<Vec<String>>> {
    gateway(places, own, pod, folder, ["words", "first_token"])
}

/// Without templates and tokens, which neither of the other gateways makes: what is left is the hop.
fn ours_unread(places: &Places, own: SocketAddr, pod: SocketAddr, folder: &Path) -> io::Result<Option<Vec<String>>> {
    gateway(places, own, pod, folder, ["none", "least_load"])
}

fn gateway(
    places: &Places,
    own: SocketAddr,
    pod: SocketAddr,
    folder: &Path,
    [tokenizer, profile]: [&str; 2],
) -> io::Result<Option<Vec<String>>> {
    let text = format!(
        "listen: {own}\nmodel: {{ name: m, block_size: 16, tokenizer: {tokenizer} }}\nprofile: {profile}\npods:\n  - {{ name: pod, url: \"http://{pod}\" }}\n"
    );
    let config = file(folder, "gateway.yaml", &text)?;
    Ok(words(places.own("gateway"), &["--config", &config]))
}

fn bare(places: &Places, own: SocketAddr, pod: SocketAddr, _: &Path) -> io::Result<Option<Vec<String>>> {
    Ok(words(places.own("bare-proxy"), &[&own.to_string(), &pod.to_string()]))
}

fn nginx(places: &Places, own: SocketAddr, pod: SocketAddr, folder: &Path) -> io::Result<Option<Vec<String>>> {
    let at = folder.display();
    let text = format!(
        "daemon off;\nworker_processes 1;\npid {at}/pid;\nerror_log {at}/error.log;\nevents {{ worker_connections 1024; }}\nhttp {{\n\
         access_log off;\nclient_body_temp_path {at}/body;\nproxy_temp_path {at}/proxy;\nfastcgi_temp_path {at}/f;\nuwsgi_temp_path {at}/u;\nscgi_temp_path {at}/s;\n\
         client_body_buffer_size 64k;\nclient_max_body_size 64m;\nkeepalive_requests 1000000;\n\
         upstream pod {{ server {pod}; keepalive 128; keepalive_requests 1000000; }}\n\
         server {{ listen {own};\nlocation / {{ proxy_pass http://pod; proxy_http_version 1.1; proxy_set_header Connection \"\"; proxy_buffering off; }} }}\n}}\n"
    );
    let config = file(folder, "nginx.conf", &text)?;
    Ok(words(places.find("nginx"), &["-c", &config]))
}

fn haproxy(places: &Places, own: SocketAddr, pod: SocketAddr, folder: &Path) -> io::Result<Option<Vec<String>>> {
    let text = format!(
        "global\n  nbthread 1\n  maxconn 2000\ndefaults\n  mode http\n  timeout connect 5s\n  timeout client 600s\n  timeout server 600s\n  option http-no-delay\n  http-reuse always\n\
         frontend f\n  bind {own}\n  default_backend b\nbackend b\n  server pod {pod}\n"
    );
    let config = file(folder, "haproxy.cfg", &text)?;
    Ok(words(places.find("haproxy"), &["-db", "-f", &config]))
}

fn smg(places: &Places, own: SocketAddr, pod: SocketAddr, _: &Path) -> io::Result<Option<Vec<String>>> {
    let (port, metrics, pod) = (own.port().to_string(), free_address()?.port().to_string(), format!("http://{pod}"));
    let arguments =
        ["launch", "--host", "127.0.0.1", "--port", &port, "--worker-urls", &pod, "--policy", "cache_aware"];
    Ok(words(places.find("smg"), &[&arguments[..], &["--prometheus-port", &metrics, "--log-level", "warn"]].concat()))
}

fn vllm_router(places: &Places, own: SocketAddr, pod: SocketAddr, _: &Path) -> io::Result<Option<Vec<String>>> {
    let (port, metrics, pod) = (own.port().to_string(), free_address()?.port().to_string(), format!("http://{pod}"));
    let arguments = ["--host", "127.0.0.1", "--port", &port, "--worker-urls", &pod, "--policy", "cache_aware"];
    let quiet = ["--prometheus-port", &metrics, "--log-level", "warning"];
    Ok(words(places.find("vllm-router"), &[&arguments[..], &quiet].concat()))
}
