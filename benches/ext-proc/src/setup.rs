//! The Envoys, and the pickers behind all but one of them.

use std::error::Error;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::time::Duration;

use pointsman_hop::Process;

/// Without a picker, with a trivial one that always answers the same pod or all in turn, with ours.
pub(crate) const SYSTEMS: [&str; 4] = ["none", "trivial", "in turn", "ours"];

/// Their places.
pub(crate) const SYSTEMS_AT: [usize; SYSTEMS.len()] = [0, 1, 2, 3];

/// The one that the others are measured against.
pub(crate) const TRIVIAL: usize = 1;

pub(crate) struct Setup {
    envoys: Vec<(Process, SocketAddr)>,
    pickers: Vec<Option<Process>>,
    metrics: SocketAddr,
    /// Where requests go that no picker sends elsewhere.
    pub(crate) pod: SocketAddr,
}

/// What our picker counted.
pub(crate) struct Counted {
    pub(crate) decisions: f64,
    /// Seconds.
    pub(crate) read: f64,
    pub(crate) decided: f64,
}

impl Setup {
    pub(crate) fn start(pods: usize, pod: SocketAddr) -> Result<Self, Box<dyn Error>> {
        let programs = std::env::current_exe()?.parent().map(PathBuf::from).unwrap_or_default();
        let folder = std::env::temp_dir().join(format!("pointsman-ext-proc-{}-{pods}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        let program = |name: &str| programs.join(name).display().to_string();
        let ports: Vec<u16> = (0..10).map(|_| free_port()).collect::<Result<_, _>>()?;
        let [trivial_port, turn_port, our_port, health_port, metrics_port] =
            [ports[4], ports[5], ports[6], ports[7], ports[8]];
        let metrics = SocketAddr::from(([127, 0, 0, 1], metrics_port));
        let endpoints: Vec<String> =
            (0..pods).map(|at| format!("127.0.{}.{}:{}", at / 200, at % 200 + 1, pod.port())).collect();
        let mut ours: Vec<String> =
            vec![program("epp"), "--listen".into(), "127.0.0.1".into(), "--secure-serving=false".into()];
        for (flag, port) in
            [("--grpc-port", our_port), ("--grpc-health-port", health_port), ("--metrics-port", metrics_port)]
        {
            ours.extend([flag.to_owned(), port.to_string()]);
        }
        // What engines tell is none of a request's price, and all of these are one server.
        ours.extend(["--refresh-metrics-interval".into(), "5s".into()]);
        ours.extend(endpoints.iter().flat_map(|endpoint| ["--endpoint".to_owned(), endpoint.clone()]));
        let trivial = vec![program("trivial-picker"), trivial_port.to_string(), pod.to_string()];
        let in_turn = [vec![program("trivial-picker"), turn_port.to_string()], endpoints].concat();
        let log = |name: &str| folder.join(name);
        let mut pickers = vec![None];
        for (command, port) in [(trivial, trivial_port), (in_turn, turn_port), (ours, our_port)] {
            let log = log(&format!("picker-{port}.log"));
            let mut process = Process::start(1, &command, &log)?;
            if !process.listens(([127, 0, 0, 1], port).into(), Duration::from_secs(20)) {
                return Err(format!("{} does not start: {}", command[0], std::fs::read_to_string(log)?).into());
            }
            pickers.push(Some(process));
        }
        let mut envoys = Vec::new();
        for (at, system) in SYSTEMS.iter().enumerate() {
            let (listen, picker) = (ports[at], [0, trivial_port, turn_port, our_port][at]);
            let config = folder.join(format!("{system}.yaml"));
            std::fs::write(&config, configuration(listen, free_port()?, (picker > 0).then_some(picker)))?;
            let command = [
                "envoy",
                "-c",
                &config.display().to_string(),
                "--concurrency",
                "1",
                "--disable-hot-restart",
                "-l",
                "error",
            ];
            let mut process = Process::start(0, &command.map(str::to_owned), &log(&format!("envoy-{system}.log")))?;
            let address = SocketAddr::from(([127, 0, 0, 1], listen));
            if !process.listens(address, Duration::from_secs(20)) {
                return Err("Envoy does not start: is `envoy` in the path?".into());
            }
            envoys.push((process, address));
        }
        // Pods are asked once before requests go to them.
        std::thread::sleep(Duration::from_secs(2));
        Ok(Self { envoys, pickers, metrics, pod })
    }

    pub(crate) fn clients(&self, system: usize) -> SocketAddr {
        self.envoys[system].1
    }

    /// Processor time of a system's picker, and of its Envoy.
    pub(crate) fn cpu(&self, system: usize) -> [Duration; 2] {
        let picker = self.pickers[system].as_ref().map_or(Duration::ZERO, Process::cpu);
        [picker, self.envoys[system].0.cpu()]
    }

    pub(crate) fn counted(&self) -> Counted {
        let page = page(self.metrics).unwrap_or_default();
        let figure = |name: &str| {
            let line = page.lines().find_map(|line| line.strip_prefix(&format!("pointsman_epp_{name} ")));
            line.and_then(|value| value.parse().ok()).unwrap_or(0.0)
        };
        Counted {
            decisions: figure("decisions_total"),
            read: figure("read_seconds_total"),
            decided: figure("decision_seconds_total"),
        }
    }
}

fn page(address: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

fn free_port() -> std::io::Result<u16> {
    TcpListener::bind("127.0.0.1:0")?.local_addr().map(|address| address.port())
}

/// The configuration that is shipped, with other ports; without a picker it lacks the filter that asks one.
fn configuration(listen: u16, admin: u16, picker: Option<u16>) -> String {
    let shipped = include_str!("../../../examples/epp/envoy/original_dst.yaml");
    let port = |text: String, from: u16, to: u16| {
        text.replace(&format!("port_value: {from}}}"), &format!("port_value: {to}}}"))
    };
    let text = port(port(port(shipped.to_owned(), 8080, listen), 9901, admin), 9002, picker.unwrap_or(1));
    if picker.is_some() {
        return text;
    }
    // Without one the client says where to go.
    let text = text.replace("              - remove: x-gateway-destination-endpoint\n", "");
    let filter = text.find("          - name: envoy.filters.http.ext_proc");
    let router = text.find("          - name: envoy.filters.http.router");
    match (filter, router) {
        (Some(from), Some(to)) => format!("{}{}", &text[..from], &text[to..]),
        _ => text,
    }
}
