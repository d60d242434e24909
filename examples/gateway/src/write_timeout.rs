//! Write timeout: fails a connection whose peer stops reading.
//!
//! Backpressure reaches the pod, so a client that stops reading and stays connected would hold its request, its pod's load and
//! its stream for ever: to TCP a closed window is a healthy connection.

use std::pin::Pin;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio_io_timeout::TimeoutStream;

/// A stream whose writes time out.
pub(super) fn write_timeout<S: AsyncRead + AsyncWrite>(stream: S, timeout: Duration) -> Pin<Box<TimeoutStream<S>>> {
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(timeout));
    Box::pin(stream)
}

#[cfg(test)]
mod tests {
    use std::io;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::time::{Instant, sleep};

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(30);

    #[tokio::test(start_paused = true)]
    async fn a_slow_reader_is_waited_for() {
        let (ours, mut theirs) = tokio::io::duplex(4);
        let taken = tokio::spawn(async move {
            let mut taken = Vec::new();
            while taken.len() < 40 {
                sleep(TIMEOUT / 2).await;
                let mut some = [0; 4];
                theirs.read_exact(&mut some).await.unwrap();
                taken.extend_from_slice(&some);
            }
            taken
        });
        write_timeout(ours, TIMEOUT).write_all(&[7; 40]).await.unwrap();
        assert_eq!(taken.await.unwrap(), [7; 40]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_stalled_reader_times_out() {
        let (ours, _theirs) = tokio::io::duplex(4);
        let began = Instant::now();
        let error = write_timeout(ours, TIMEOUT).write_all(&[7; 40]).await.unwrap_err();
        assert_eq!((error.kind(), began.elapsed().as_secs()), (io::ErrorKind::TimedOut, 30));
    }
}
