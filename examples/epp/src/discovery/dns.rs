//! DNS discovery: the addresses of a name, such as a headless service's, with a pod for each port of each.

use std::io;
use std::time::Duration;

use pointsman::{Discovery, DnsPods, PodSpec};

/// The pods behind `host:port` or, where each server runs several data-parallel ranks, `host:port,port,…`.
///
/// A pod is called by its address and port. The name is looked up again every five seconds, unless said otherwise.
///
/// # Examples
///
/// ```
/// use pointsman_epp::discovery::Dns;
///
/// assert!(Dns::new("vllm.default.svc.cluster.local:8000,8001").is_ok());
/// assert!(Dns::new("vllm.default.svc.cluster.local").is_err());
/// ```
#[derive(Clone, Debug)]
pub struct Dns {
    pods: DnsPods,
    ports: Vec<u16>,
}

impl Dns {
    /// The pods behind a name with its ports.
    ///
    /// # Errors
    ///
    /// The name has no port, or one that is not between 1 and 65535, or one twice.
    pub fn new(name: &str) -> Result<Self, DnsNameError> {
        let wrong = |why| DnsNameError { name: name.to_owned(), why };
        let (host, ports) = name.rsplit_once(':').ok_or_else(|| wrong("has no port"))?;
        if host.is_empty() {
            return Err(wrong("has no host"));
        }
        let mut found = Vec::new();
        for port in ports.split(',') {
            let port = port.trim().parse().ok().filter(|port| *port != 0);
            let port: u16 = port.ok_or_else(|| wrong("has a port that is not between 1 and 65535"))?;
            if found.contains(&port) {
                return Err(wrong("has a port twice"));
            }
            found.push(port);
        }
        // Addresses do not depend on the port, so one look-up serves all of them.
        Ok(Self { pods: DnsPods::new(format!("{host}:{}", found[0])), ports: found })
    }

    /// The same, looked up again after another time.
    #[must_use]
    pub fn period(self, period: Duration) -> Self {
        Self { pods: self.pods.period(period), ..self }
    }
}

impl Dns {
    /// The pods at an address. Several ports are a pod's ranks, and called as llm-d calls those: by that each one's events are found.
    fn at<'d>(&'d self, host: &'d str) -> impl Iterator<Item = PodSpec> + use<'d> {
        self.ports.iter().enumerate().map(move |(rank, port)| {
            let address = format!("{host}:{port}");
            let name = match &*self.ports {
                [_] => address.clone(),
                ports => format!("{host}:{}-rank-{rank}", ports[0]),
            };
            PodSpec::new(name, address)
        })
    }
}

impl Discovery for Dns {
    type Error = io::Error;

    async fn next(&mut self) -> Result<Vec<PodSpec>, io::Error> {
        let found = self.pods.next().await?;
        let hosts = found.iter().filter_map(|pod| pod.address.rsplit_once(':')).map(|(host, _)| host);
        Ok(hosts.flat_map(|host| self.at(host)).collect())
    }
}

/// Why a name is not `host:port,…`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` {why}: write `host:port`, or `host:port,port` for several ranks")]
#[non_exhaustive]
pub struct DnsNameError {
    /// The name.
    pub name: String,
    /// What is wrong with it.
    pub why: &'static str,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn each_port_of_each_address_is_a_pod() {
        let mut dns = Dns::new("127.0.0.1:8000,8001").unwrap();
        let names: Vec<String> = dns.next().await.unwrap().into_iter().map(|pod| pod.name).collect();
        assert_eq!(names, ["127.0.0.1:8000-rank-0", "127.0.0.1:8000-rank-1"]);
        let names: Vec<String> = Dns::new("127.0.0.1:8000").unwrap().at("127.0.0.1").map(|pod| pod.name).collect();
        assert_eq!(names, ["127.0.0.1:8000"]);
        let mut dns = Dns::new("[::1]:8000,8001").unwrap();
        let addresses: Vec<String> = dns.next().await.unwrap().into_iter().map(|pod| pod.address).collect();
        assert_eq!(addresses, ["[::1]:8000", "[::1]:8001"]);
    }

    #[test]
    fn names_without_host_or_port_and_ports_that_are_none_are_refused() {
        for name in ["vllm", ":8000", "vllm:", "vllm:0", "vllm:70000", "vllm:8000,", "vllm:8000,8000"] {
            assert!(Dns::new(name).unwrap_err().to_string().contains(name), "{name}");
        }
    }
}
