//! Endpoints: `tcp://host:port`, and `ipc://path` on Unix.

use std::fmt;
use std::str::FromStr;

/// Where a ZeroMQ socket is bound.
///
/// # Examples
///
/// ```
/// use pointsman::zmq::Endpoint;
///
/// let endpoint: Endpoint = "tcp://10.0.0.7:5557".parse()?;
/// assert_eq!(endpoint.to_string(), "tcp://10.0.0.7:5557");
/// let error = "tcp://*:5557".parse::<Endpoint>().unwrap_err();
/// assert_eq!(error.to_string(), "`tcp://*:5557` names every address of its own machine; write tcp://host:port");
/// # Ok::<(), pointsman::zmq::EndpointError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint(Address);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Address {
    /// The host without brackets.
    Tcp { host: Box<str>, port: u16 },
    /// A path in the file system.
    Ipc(Box<str>),
}

impl Endpoint {
    pub(super) fn address(&self) -> &Address {
        &self.0
    }
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        let wrong = |problem| EndpointError { endpoint: text.into(), problem };
        if let Some(path) = text.strip_prefix("ipc://") {
            // A leading @ is an abstract name, which file systems do not know.
            let is_path = cfg!(unix) && !path.is_empty() && !path.starts_with('@');
            return if is_path { Ok(Self(Address::Ipc(path.into()))) } else { Err(wrong(EndpointProblem::Path)) };
        }
        let rest = text.strip_prefix("tcp://").ok_or_else(|| wrong(EndpointProblem::Scheme))?;
        let (host, port) = rest.rsplit_once(':').ok_or_else(|| wrong(EndpointProblem::Port))?;
        let port = port.parse::<u16>().ok().filter(|port| *port > 0).ok_or_else(|| wrong(EndpointProblem::Port))?;
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        match host {
            "" => Err(wrong(EndpointProblem::Host)),
            "*" => Err(wrong(EndpointProblem::Wildcard)),
            _ => Ok(Self(Address::Tcp { host: host.into(), port })),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Address::Tcp { host, port } if host.contains(':') => write!(f, "tcp://[{host}]:{port}"),
            Address::Tcp { host, port } => write!(f, "tcp://{host}:{port}"),
            Address::Ipc(path) => write!(f, "ipc://{path}"),
        }
    }
}

/// Why a text is no endpoint. The operator corrects it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{endpoint}` {problem}; write tcp://host:port")]
#[non_exhaustive]
pub struct EndpointError {
    /// The text.
    pub endpoint: Box<str>,
    /// What is wrong with it.
    pub problem: EndpointProblem,
}

/// What is wrong with an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EndpointProblem {
    /// Neither `tcp` nor `ipc`.
    #[error("does not begin with tcp:// or ipc://")]
    Scheme,
    /// No host.
    #[error("has no host")]
    Host,
    /// An address to bind to, not to connect to.
    #[error("names every address of its own machine")]
    Wildcard,
    /// No port between 1 and 65535.
    #[error("has no port")]
    Port,
    /// No path, an abstract name, or a system without Unix sockets.
    #[error("has no path that can be connected to here")]
    Path,
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "what helps a test may stop it")]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_read_and_written() {
        for text in ["tcp://127.0.0.1:1", "tcp://[::1]:65535", "tcp://engine-0.pods.svc:5557"] {
            assert_eq!(text.parse::<Endpoint>().unwrap().to_string(), text);
        }
        assert_eq!("ipc:///events".parse::<Endpoint>().is_ok(), cfg!(unix));
    }

    #[test]
    fn what_is_none_is_refused_with_its_problem() {
        for (text, problem) in [
            ("", EndpointProblem::Scheme),
            ("http://a:1", EndpointProblem::Scheme),
            ("inproc://a", EndpointProblem::Scheme),
            ("tcp://a", EndpointProblem::Port),
            ("tcp://a:", EndpointProblem::Port),
            ("tcp://a:0", EndpointProblem::Port),
            ("tcp://a:65536", EndpointProblem::Port),
            ("tcp://:5557", EndpointProblem::Host),
            ("tcp://*:5557", EndpointProblem::Wildcard),
            ("ipc://", EndpointProblem::Path),
            ("ipc://@abstract", EndpointProblem::Path),
        ] {
            assert_eq!(text.parse::<Endpoint>().unwrap_err().problem, problem, "{text}");
        }
    }
}
