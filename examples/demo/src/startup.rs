//! Startup of simulated pods and a gateway in front of them.

use std::io;
use std::time::Duration;

use pointsman_engine_sim::RequestLedger;
use pointsman_gateway::config::Profile;
use pointsman_gateway::{Config, Gateway, StartError};

use crate::fleet::{Fleet, FleetShape};
use crate::load_generator::Client;

/// Why pods or gateway cannot start: the machine lacks something, or the profile is unknown.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartupError {
    #[error("the pods cannot start")]
    Fleet(#[source] io::Error),
    #[error("the gateway cannot start")]
    Gateway(#[source] StartError),
}

/// Starts pods in the roles that a stock profile wants, a gateway with this profile whose configuration `configure` completes, and
/// a client of it.
pub(crate) async fn start(
    profile: &str,
    shape: FleetShape,
    configure: impl FnOnce(&mut Config),
) -> Result<(Fleet, Gateway, Client), StartupError> {
    start_recorded(profile, shape, None, configure).await
}

/// The same, with a ledger of what pods run.
pub(crate) async fn start_recorded(
    profile: &str,
    shape: FleetShape,
    ledger: Option<RequestLedger>,
    configure: impl FnOnce(&mut Config),
) -> Result<(Fleet, Gateway, Client), StartupError> {
    let shape = FleetShape { prefill: prefill_pods(profile, shape.pods), ..shape };
    let fleet = Fleet::start_recorded(&shape, ledger).await.map_err(StartupError::Fleet)?;
    let mut config = fleet.gateway_config();
    config.profile = Profile::stock(profile);
    configure(&mut config);
    let gateway = Gateway::start(config).await.map_err(StartupError::Gateway)?;
    let client = Client::new(&format!("http://{}", gateway.address()), CLIENT_TIMEOUT);
    Ok((fleet, gateway, client))
}

/// Prefill-only pods of a fleet under a profile; 0 if all pods do both. Half of them: with fewer, first tokens wait for a prefill
/// pod; with more, decode steps get longer.
pub(crate) fn prefill_pods(profile: &str, pods: usize) -> usize {
    if profile.starts_with("prefill_decode") { (pods / 2).max(1) } else { 0 }
}

/// Longer than the gateway's own timeout: it has to be the first to give up.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_pods_prefill_where_the_profile_tells_them_apart() {
        let split = |profile: &str| [2, 8, 16].map(|pods| prefill_pods(profile, pods));
        assert_eq!(split("cache_aware"), [0, 0, 0]);
        assert_eq!(split("prefill_decode"), [1, 4, 8]);
        assert_eq!(split("prefill_decode_conditional"), [1, 4, 8]);
    }
}
