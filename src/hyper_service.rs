//! The stock stack: hyper-util's pooled client towards pods, tokio's timer, the service in front.

use bytes::Bytes;
use http_body_util::Full;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer as PoolTimer};
use routing_exec::TransportExecutor;
use routing_exec::adapter::{HyperTransport, TokioTimer};

use crate::router::{Router, RouterError};
use crate::service::RouterService;

/// The executor over hyper-util's client.
pub type HyperExecutor<const W: usize> = TransportExecutor<HyperTransport<HttpConnector, Full<Bytes>>, TokioTimer, W>;

impl<const W: usize> Router<W> {
    /// An executor over hyper-util's pooled client, plain HTTP towards pods.
    ///
    /// # Errors
    ///
    /// When a pod is at `https://`: TLS takes a client of your own, by [`Self::executor`]. From then on such pods are refused where
    /// they join, too.
    pub fn hyper_executor(&self) -> Result<HyperExecutor<W>, RouterError> {
        self.require_plain_http()?;
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(PoolTimer::new())
            .pool_idle_timeout(POOL_IDLE_TIMEOUT)
            .build(connector);
        Ok(self.executor(HyperTransport::new(client, self.addresses()), TokioTimer::new()))
    }

    /// A gateway as a service, over [`Self::hyper_executor`].
    ///
    /// # Errors
    ///
    /// As there.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn serve() -> Result<(), Box<dyn std::error::Error>> {
    /// use pointsman::{PodSpec, Router};
    ///
    /// let router = Router::builder("llama-8b").pod(PodSpec::new("a", "10.0.0.5:8000")).build()?;
    /// let _housekeeping = router.spawn_housekeeping();
    /// let service = router.hyper_service()?;
    /// // axum::serve(listener, axum::Router::new().fallback_service(service)).await?;
    /// # drop(service);
    /// # Ok(())
    /// # }
    /// ```
    pub fn hyper_service(&self) -> Result<RouterService<HyperExecutor<W>, TokioTimer, W>, RouterError> {
        Ok(RouterService::of(self.clone(), self.hyper_executor()?, TokioTimer::new()))
    }
}

const CONNECT_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(2);
/// Shorter than servers keep idle connections, so that none is closed just when it is used.
const POOL_IDLE_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(4);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PodSpec;

    #[tokio::test]
    async fn pods_that_want_tls_are_refused_where_the_stock_client_is_used_and_nowhere_else() {
        let tls = PodSpec::new("t", "https://t");
        let router = Router::builder("m").pod(tls.clone()).build().unwrap();
        for error in [router.hyper_executor().map(drop), router.hyper_service().map(drop)].map(Result::unwrap_err) {
            assert!(error.to_string().contains("pod `t`") && error.to_string().contains("plain HTTP"), "{error}");
        }
        router.join(PodSpec::new("u", "https://u")).unwrap();
        let router = Router::builder("m").pod(PodSpec::new("a", "http://a")).build().unwrap();
        let _executor = router.hyper_executor().unwrap();
        let error = router.join(tls).unwrap_err();
        assert!(error.to_string().contains("`https://t`"), "{error}");
        assert_eq!(router.pods().len(), 1);
        router.join(PodSpec::new("b", "b:80")).unwrap();
    }
}
