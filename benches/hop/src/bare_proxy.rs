//! The least that a proxy of hyper is: every request goes on to one pod, bodies are passed as they come.
//!
//! `bare-proxy LISTEN POD`

use std::net::SocketAddr;
use std::process::ExitCode;

use http::uri::Authority;
use http::{Request, Uri};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpListener;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [listen, pod] = &arguments[..] else {
        eprintln!("bare-proxy LISTEN POD");
        return ExitCode::from(2);
    };
    match (listen.parse(), pod.parse()) {
        (Ok(listen), Ok(pod)) => match serve(listen, pod).await {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("bare-proxy: {error}");
                ExitCode::FAILURE
            }
        },
        _ => {
            eprintln!("bare-proxy: not two addresses");
            ExitCode::from(2)
        }
    }
}

async fn serve(listen: SocketAddr, pod: Authority) -> std::io::Result<()> {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    let client: Client<_, Incoming> = Client::builder(TokioExecutor::new()).build(connector);
    let listener = TcpListener::bind(listen).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        let _ = stream.set_nodelay(true);
        let (client, pod) = (client.clone(), pod.clone());
        let service = service_fn(move |request| forward(client.clone(), pod.clone(), request));
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    }
}

async fn forward(
    client: Client<HttpConnector, Incoming>,
    pod: Authority,
    mut request: Request<Incoming>,
) -> Result<http::Response<Incoming>, Box<dyn std::error::Error + Send + Sync>> {
    let mut parts = std::mem::take(request.uri_mut()).into_parts();
    (parts.scheme, parts.authority) = (Some(http::uri::Scheme::HTTP), Some(pod));
    *request.uri_mut() = Uri::from_parts(parts)?;
    Ok(client.request(request).await?)
}
