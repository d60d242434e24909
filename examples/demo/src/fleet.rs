//! A fleet of simulated pods, each with a ZeroMQ event publisher, and the gateway configuration for it.
//!
//! A fault goes to the pod and on to its publisher, whether it comes from here or over HTTP. The rule that must never break: a pod that has
//! died has closed all its sockets, those of its events included.

use std::io;
use std::time::Duration;

use routing_core::Role;

use pointsman_engine_sim::publish::{PublishConfig, PublisherHandle, ZmqPublisher};
use pointsman_engine_sim::{Fault, MODEL, PodConfig, RequestLedger, SimPod};
use pointsman_gateway::Config;
use pointsman_gateway::config::{Events, PodRole, PodSettings, ZmqEndpoints};

/// What a fleet is like.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::exhaustive_structs, reason = "figures that a caller chooses by name")]
pub struct FleetShape {
    /// Pods in all.
    pub pods: usize,
    /// The first so many prefill and the others decode; 0 if all do both.
    pub prefill: usize,
    /// How many times faster than the measured machine they are.
    pub speed: f64,
    /// Blocks that each one's memory holds.
    pub blocks: u32,
    /// How long prefilled blocks wait for the pod that decodes.
    pub lease: Duration,
}

impl Default for FleetShape {
    fn default() -> Self {
        Self { pods: 8, prefill: 0, speed: 1.0, blocks: 4096, lease: Duration::from_secs(30) }
    }
}

/// Pods that are up.
#[derive(Debug)]
pub struct Fleet {
    members: Vec<Member>,
}

#[derive(Debug)]
struct Member {
    pod: SimPod,
    config: PodConfig,
    publisher: PublisherHandle,
}

impl Fleet {
    /// Starts the pods on free loopback ports.
    ///
    /// # Errors
    ///
    /// When there are not enough ports.
    pub async fn start(shape: &FleetShape) -> io::Result<Self> {
        Self::start_recorded(shape, None).await
    }

    /// The same, with a ledger of what all pods run.
    pub(crate) async fn start_recorded(shape: &FleetShape, ledger: Option<RequestLedger>) -> io::Result<Self> {
        let mut members = Vec::with_capacity(shape.pods);
        for nth in 0..shape.pods {
            let mut config = PodConfig::new(&format!("pod-{nth}"), MODEL);
            config.role = match shape.prefill {
                0 => Role::Both,
                prefill if nth < prefill => Role::Prefill,
                _ => Role::Decode,
            };
            (config.speed, config.blocks, config.lease) = (shape.speed, shape.blocks, shape.lease);
            config.ledger = ledger.clone();
            members.push(Member::start(config).await?);
        }
        Ok(Self { members })
    }

    /// The gateway configuration for these pods.
    #[must_use]
    pub fn gateway_config(&self) -> Config {
        Config::default_for(self.members.iter().map(Member::settings).collect())
    }

    /// The pods, in order.
    pub fn pods(&self) -> impl ExactSizeIterator<Item = &SimPod> {
        self.members.iter().map(|member| &member.pod)
    }

    /// Does a fault to pod number `nth`, if there is one.
    pub fn fault(&self, nth: usize, fault: Fault) {
        if let Some(member) = self.members.get(nth) {
            member.pod.fault(fault);
        }
    }

    /// Replaces pod number `nth` by one of its name and role with an empty cache, at other addresses. The old one is gone when this
    /// returns; the gateway's configuration is another one then.
    pub(crate) async fn replace(&mut self, nth: usize) -> io::Result<()> {
        let Some(member) = self.members.get_mut(nth) else { return Ok(()) };
        // Started first: while the old one keeps its ports, the new one gets others.
        let fresh = Member::start(member.config.clone()).await?;
        std::mem::replace(member, fresh).stop().await;
        Ok(())
    }

    /// Stops them all. All tasks and sockets are gone when it returns.
    pub async fn stop(self) {
        for member in self.members {
            member.stop().await;
        }
    }
}

impl Member {
    async fn start(config: PodConfig) -> io::Result<Self> {
        let (sink, publisher) = ZmqPublisher::bind(PublishConfig::new("", config.replay_batches)).await?;
        let pod = SimPod::start(config.clone(), vec![Box::new(sink)]).await?;
        pod.on_fault(publisher.faults());
        Ok(Self { pod, config, publisher })
    }

    async fn stop(self) {
        self.pod.stop().await;
        self.publisher.stop().await;
    }

    fn settings(&self) -> PodSettings {
        let role = match self.config.role {
            Role::Prefill => PodRole::Prefill,
            Role::Decode => PodRole::Decode,
            _ => PodRole::Both,
        };
        let endpoints = self.publisher.endpoints();
        let zmq = ZmqEndpoints::new(&endpoints.events).replay(&endpoints.replay);
        let url = format!("http://{}", self.pod.address());
        PodSettings::new(self.pod.name(), &url).role(role).events(Events::Zmq(zmq))
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpStream;
    use tokio::time::{sleep, timeout};

    use super::*;

    async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
        let wait = async {
            while !holds().await {
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(Duration::from_secs(10), wait).await.unwrap_or_else(|_| panic!("{what} within 10 s"));
    }

    #[tokio::test]
    async fn roles_and_addresses_are_in_the_gateways_configuration() {
        let fleet = Fleet::start(&FleetShape { pods: 3, prefill: 1, ..FleetShape::default() }).await.unwrap();
        let config = fleet.gateway_config();
        config.check().unwrap();
        let roles: Vec<PodRole> = config.pods.iter().map(|pod| pod.role).collect();
        assert_eq!(roles, [PodRole::Prefill, PodRole::Decode, PodRole::Decode]);
        assert_eq!(config.pods[2].url, format!("http://{}", fleet.pods().nth(2).unwrap().address()));
        fleet.stop().await;
    }

    #[tokio::test]
    async fn a_replaced_pod_has_its_name_and_other_addresses() {
        let mut fleet = Fleet::start(&FleetShape { pods: 2, ..FleetShape::default() }).await.unwrap();
        let before = fleet.gateway_config().pods;
        fleet.replace(1).await.unwrap();
        let after = fleet.gateway_config().pods;
        assert_eq!((&after[0], &after[1].name), (&before[0], &before[1].name));
        assert!(after[1].url != before[1].url && after[1].events != before[1].events, "{after:?}");
        assert!(TcpStream::connect(before[1].url.replace("http://", "")).await.is_err());
        fleet.stop().await;
    }

    #[tokio::test]
    async fn a_dead_pod_has_no_open_socket_and_a_stopped_fleet_no_task() {
        let before = tokio::runtime::Handle::current().metrics().num_alive_tasks();
        let fleet = Fleet::start(&FleetShape { pods: 1, ..FleetShape::default() }).await.unwrap();
        let address = fleet.pods().next().unwrap().address().to_string();
        let Events::Zmq(zmq) = &fleet.gateway_config().pods[0].events else { panic!("events come over ZeroMQ") };
        let sockets = [address, zmq.events.replace("tcp://", ""), zmq.replay.clone().unwrap().replace("tcp://", "")];
        let mut expected = true;
        for fault in [Fault::Recover, Fault::Die, Fault::Restart] {
            fleet.fault(0, fault);
            expected = if fault == Fault::Die { false } else { expected || fault == Fault::Restart };
            for socket in &sockets {
                until("the socket follows the fault", async || TcpStream::connect(socket).await.is_ok() == expected)
                    .await;
            }
        }
        fleet.stop().await;
        let metrics = tokio::runtime::Handle::current().metrics();
        until("all tasks are gone", async || metrics.num_alive_tasks() == before).await;
    }
}
