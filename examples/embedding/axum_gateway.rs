//! A gateway in forty lines: axum in front, engine pods with their cache events behind.
//!
//! `cargo run -p pointsman-embedding --example axum_gateway -- LISTEN MODEL BLOCK_SIZE tokenizer.json HOST:PORT,tcp://HOST:PORT...`

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use pointsman::prelude::*;
use pointsman::{HttpHealth, tokenizer_files};
use tokio::net::TcpListener;

/// Serves a model on a listener: each pod is an address, and where its engine publishes events.
pub(crate) async fn serve(listener: TcpListener, model: RouterBuilder, pods: &[String]) -> Result<(), Box<dyn Error>> {
    let router = model.health_checked().build()?;
    let mut following = Vec::new();
    for pod in pods {
        let (address, events) = pod.split_once(',').ok_or("a pod is HOST:PORT,tcp://HOST:PORT")?;
        let pod = router.join(PodSpec::new(address, address).event_source(events))?;
        following.push(router.follow(pod, events, None)?);
    }
    let _housekeeping = router.spawn_housekeeping();
    let _health = router.spawn_health_checks(HttpHealth::new(router.addresses()), Duration::from_secs(1));
    axum::serve(listener, axum::Router::new().fallback_service(router.hyper_service()?)).await?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [listen, model, size, tokenizer, pods @ ..] = &arguments[..] else {
        return Err("LISTEN MODEL BLOCK_SIZE TOKENIZER POD...".into());
    };
    let tokenizer = tokenizer_files(Path::new(tokenizer), None)?;
    let model = Router::builder(model).block_size(size.parse()?).tokenizer(tokenizer);
    serve(TcpListener::bind(listen).await?, model, pods).await
}
