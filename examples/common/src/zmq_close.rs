//! Graceful close of ZeroMQ sockets: no task and no connection is left.
//!
//! The `zeromq` crate gives each connection tasks of its own. They end some time after their socket is dropped, and a
//! connection whose handshake was under way lives on with nobody to read it. The rule that must never break: after
//! [`close`] none of a socket's tasks and none of its connections are left. One thing it cannot end is a peer that connects
//! and then says nothing; for that it waits only so long, and a task ends what comes of it later.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep, timeout};
use zeromq::Socket;

/// Closes a socket, and waits until its tasks are gone.
pub async fn close(socket: impl Socket + 'static) {
    let (backend, began) = (socket.backend(), Instant::now());
    let closed = tokio::spawn(async move {
        // An address that cannot be left any more has been left. The crate waits for its own tasks by blocking the thread, so
        // that must not be one that runs them.
        let runtime = Handle::current();
        let _ = spawn_blocking(move || runtime.block_on(socket.close())).await;
        // Every task of the socket holds on to its backend, so the last holder knows that they are gone. Connections that
        // were made meanwhile are shut down too.
        while Arc::strong_count(&backend) > 1 {
            // A peer that stays silent is looked at less often after a while.
            let pause = Duration::from_millis(if began.elapsed() > LONGEST { 100 } else { 1 });
            let shared = Arc::clone(&backend);
            let _ = spawn_blocking(move || shared.shutdown()).await;
            sleep(pause).await;
        }
    });
    // On a busy machine a handshake may outlast that and become a connection, which the task still shuts down.
    let _ = timeout(LONGEST, closed).await;
}

/// How long a silent peer can hold up the end.
const LONGEST: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;
    use zeromq::{PubSocket, RouterSocket, SubSocket};

    use super::*;

    #[tokio::test]
    async fn nothing_is_left_of_a_closed_pair() {
        let mut publisher = PubSocket::new();
        let endpoint = publisher.bind("tcp://127.0.0.1:0").await.unwrap().to_string();
        let mut subscriber = SubSocket::new();
        subscriber.subscribe("").await.unwrap();
        subscriber.connect(&endpoint).await.unwrap();
        assert!(Handle::current().metrics().num_alive_tasks() > 0, "the crate has tasks of its own");
        close(publisher).await;
        close(subscriber).await;
        assert_eq!(Handle::current().metrics().num_alive_tasks(), 0);
        assert!(TcpStream::connect(endpoint.trim_start_matches("tcp://")).await.is_err());
    }
    /// The crate's task that writes to a client of a ROUTER socket does not see that the client is gone.
    #[tokio::test]
    async fn nothing_is_left_of_a_handshake_that_outlasts_the_wait() {
        let mut router = RouterSocket::new();
        let endpoint = router.bind("tcp://127.0.0.1:0").await.unwrap().to_string();
        let mut client = TcpStream::connect(endpoint.trim_start_matches("tcp://")).await.unwrap();
        // The handshake has to have begun before the socket closes.
        let mut greeting = [0; 64];
        client.read_exact(&mut greeting[..1]).await.unwrap();
        close(router).await;
        assert!(Handle::current().metrics().num_alive_tasks() > 0, "a silent peer cannot be ended");

        greeting[..10].copy_from_slice(b"\xff\0\0\0\0\0\0\0\0\x7f");
        greeting[10] = 3;
        greeting[12..16].copy_from_slice(b"NULL");
        client.write_all(&greeting).await.unwrap();
        client.write_all(b"\x04\x1c\x05READY\x0bSocket-Type\0\0\0\x06DEALER").await.unwrap();
        client.flush().await.unwrap();
        let gone = async {
            while Handle::current().metrics().num_alive_tasks() > 0 {
                sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(Duration::from_secs(20), gone).await.expect("the connection is shut down");
    }
}
