//! Hyper-util's pooled client as a transport.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::sync::Arc;

use ::hyper_util::client::legacy::Client;
use ::hyper_util::client::legacy::connect::Connect;
use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use routing_core::Pod;

use super::address::direct;
use crate::executor::{Transport, TransportError, chain};
use crate::handoff::PodAddresses;

/// Hyper-util's client, which keeps connections open. It follows no redirects.
///
/// `B` is the body that the client was built for; any that can be made of [`Bytes`] will do.
pub struct HyperTransport<C, B> {
    client: Client<C, B>,
    addresses: Arc<dyn PodAddresses>,
}

impl<C, B> HyperTransport<C, B> {
    /// A transport by a client, to pods at these addresses.
    pub fn new(client: Client<C, B>, addresses: Arc<dyn PodAddresses>) -> Self {
        Self { client, addresses }
    }
}

impl<C, B> Transport for HyperTransport<C, B>
where
    C: Connect + Clone + Send + Sync + 'static,
    B: Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + From<Bytes> + Send + Unpin + 'static,
{
    type Body = ::hyper::body::Incoming;

    fn send(
        &self,
        pod: Pod,
        request: Request<Bytes>,
    ) -> impl Future<Output = Result<Response<Self::Body>, TransportError>> + Send + 'static {
        let (client, request) = (self.client.clone(), direct(&*self.addresses, pod, request));
        async move {
            client.request(request?.map(B::from)).await.map_err(|error| match error.is_connect() {
                true => TransportError::not_connected(&error),
                false => TransportError::Reset(chain(&error)),
            })
        }
    }
}

impl<C, B> fmt::Debug for HyperTransport<C, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HyperTransport").field("addresses", &self.addresses).finish_non_exhaustive()
    }
}
