//! A pod whose answers are bytes that a test says, and that are held until it says so; and a client that is as plain.

use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::scene::PATIENCE;

/// Dropped, it stops taking connections.
pub(crate) struct RawPod {
    pub(crate) address: SocketAddr,
    /// Requests that came, whole.
    pub(crate) requests: Arc<Mutex<Vec<String>>>,
    /// So many answers may come to their end.
    pub(crate) may_end: Arc<Semaphore>,
    task: JoinHandle<()>,
}

impl RawPod {
    /// One that begins each answer so, and ends it so once it may.
    pub(crate) async fn start(begin: &'static str, end: &'static str) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (requests, may_end) = (Arc::<Mutex<Vec<String>>>::default(), Arc::new(Semaphore::new(0)));
        let (seen, allowed) = (Arc::clone(&requests), Arc::clone(&may_end));
        let task = tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (seen, allowed) = (Arc::clone(&seen), Arc::clone(&allowed));
                tokio::spawn(async move {
                    while let Some(request) = read(&mut stream, is_whole).await {
                        seen.lock().push(request);
                        let _ = stream.write_all(begin.as_bytes()).await;
                        allowed.acquire().await.unwrap().forget();
                        let _ = stream.write_all(end.as_bytes()).await;
                    }
                });
            }
        });
        Self { address, requests, may_end, task }
    }

    /// One that answers with an empty object, once it may.
    pub(crate) async fn plain() -> Self {
        Self::start("", "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}").await
    }
}

impl Drop for RawPod {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A connection on which a request was sent, byte for byte.
pub(crate) async fn send(to: SocketAddr, request: &str) -> TcpStream {
    let mut stream = TcpStream::connect(to).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

/// What comes until it is enough; none if the other end leaves first.
pub(crate) async fn read(stream: &mut TcpStream, is_enough: impl Fn(&str) -> bool) -> Option<String> {
    let mut bytes = Vec::new();
    while !is_enough(&String::from_utf8_lossy(&bytes)) {
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// The same in time.
pub(crate) async fn read_in_time(stream: &mut TcpStream, is_enough: impl Fn(&str) -> bool) -> String {
    timeout(PATIENCE, read(stream, is_enough)).await.expect("in time").expect("all of it")
}

/// Whether a message of HTTP/1.1 is all there, by its length or its last chunk and what trails that.
pub(crate) fn is_whole(text: &str) -> bool {
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let head = head.to_ascii_lowercase();
    if head.contains("transfer-encoding: chunked") {
        return body.ends_with("\r\n\r\n") && (body.starts_with("0\r\n") || body.contains("\r\n0\r\n"));
    }
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
    body.len() >= length.unwrap_or(0)
}
