//! Any tower service as a transport.

use std::error::Error;
use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::marker::PhantomData;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use routing_core::Pod;
use tower_service::Service;

use super::address::direct;
use crate::executor::{Transport, TransportError, chain, is_local};
use crate::handoff::PodAddresses;

/// A tower service that carries requests: cloned for each, and called once that clone is ready.
///
/// `B` is the body that the service takes; any that can be made of [`Bytes`] will do. A service that is not ready has sent
/// nothing, and neither has one whose error was caused by a refused connection, or by want of file descriptors, ports or memory;
/// every other error is a broken one.
pub struct TowerTransport<S, B> {
    service: S,
    addresses: Arc<dyn PodAddresses>,
    /// Nothing of a body is kept, so whether one can be shared does not matter.
    body: PhantomData<fn(B)>,
}

impl<S, B> TowerTransport<S, B> {
    /// A transport by a service, to pods at these addresses.
    pub fn new(service: S, addresses: Arc<dyn PodAddresses>) -> Self {
        Self { service, addresses, body: PhantomData }
    }
}

impl<S, B, A> Transport for TowerTransport<S, B>
where
    S: Service<Request<B>, Response = Response<A>> + Clone + Send + Sync + 'static,
    S::Error: Into<Box<dyn Error + Send + Sync>>,
    S::Future: Send,
    A: Body<Data = Bytes, Error: fmt::Display> + Send + 'static,
    B: From<Bytes> + Send + 'static,
{
    type Body = A;

    fn send(
        &self,
        pod: Pod,
        request: Request<Bytes>,
    ) -> impl Future<Output = Result<Response<A>, TransportError>> + Send + 'static {
        let (mut service, request) = (self.service.clone(), direct(&*self.addresses, pod, request));
        async move {
            let request = request?.map(B::from);
            let ready = poll_fn(|cx| service.poll_ready(cx)).await;
            ready.map_err(|error| TransportError::not_connected(&*error.into()))?;
            service.call(request).await.map_err(|error| classify(&*error.into()))
        }
    }
}

/// Whether a pod can have seen the request.
fn classify(error: &(dyn Error + 'static)) -> TransportError {
    if is_local(error) {
        return TransportError::Local(chain(error));
    }
    let mut cause = Some(error);
    while let Some(error) = cause {
        if error.downcast_ref::<io::Error>().is_some_and(|error| NEVER_SENT.contains(&error.kind())) {
            return TransportError::Connect(chain(error));
        }
        cause = error.source();
    }
    TransportError::Reset(chain(error))
}

/// What only happens while a connection is made. A reset may come later too.
const NEVER_SENT: [io::ErrorKind; 3] =
    [io::ErrorKind::ConnectionRefused, io::ErrorKind::HostUnreachable, io::ErrorKind::NetworkUnreachable];

impl<S, B> fmt::Debug for TowerTransport<S, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TowerTransport").field("addresses", &self.addresses).finish_non_exhaustive()
    }
}
