//! A reqwest client as a transport.

use std::future::Future;
use std::sync::Arc;

use ::reqwest::{Client, ClientBuilder, redirect};
use bytes::Bytes;
use http::{Request, Response};
use routing_core::Pod;

use super::address::direct;
use crate::executor::{Transport, TransportError, chain};
use crate::handoff::PodAddresses;

/// A reqwest client, built so that it only carries.
///
/// It follows no redirects, lest a pod send it elsewhere, goes through no proxy of the environment's, and unpacks nothing, so that a response arrives byte for byte.
#[derive(Clone, Debug)]
pub struct ReqwestTransport {
    client: Client,
    addresses: Arc<dyn PodAddresses>,
}

impl ReqwestTransport {
    /// A transport by a client that is built here, to pods at these addresses. Leave out a timeout for the whole request:
    /// it would cut long streams, and a dispatch has bounds of its own.
    ///
    /// # Errors
    ///
    /// When the client cannot be built: its TLS cannot be set up, for one.
    pub fn new(client: ClientBuilder, addresses: Arc<dyn PodAddresses>) -> Result<Self, ::reqwest::Error> {
        let client = client.redirect(redirect::Policy::none()).referer(false).no_proxy();
        let client = client.no_gzip().no_brotli().no_zstd().no_deflate().build()?;
        Ok(Self { client, addresses })
    }
}

impl Transport for ReqwestTransport {
    type Body = ::reqwest::Body;

    fn send(
        &self,
        pod: Pod,
        request: Request<Bytes>,
    ) -> impl Future<Output = Result<Response<Self::Body>, TransportError>> + Send + 'static {
        let (client, request) = (self.client.clone(), direct(&*self.addresses, pod, request));
        async move {
            let request = request?.try_into().map_err(|error| TransportError::Connect(chain(&error)))?;
            client.execute(request).await.map(Response::from).map_err(|error: ::reqwest::Error| {
                // The address is in the text already, and belongs to the operator's fleet.
                let (is_connect, error) = (error.is_connect(), error.without_url());
                if is_connect { TransportError::not_connected(&error) } else { TransportError::Reset(chain(&error)) }
            })
        }
    }
}
