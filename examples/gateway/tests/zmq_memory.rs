//! Memory bounds against a hostile publisher: whatever it announces or sends, the subscriber holds little, counts the error, and
//! calls again more and more slowly.
#![expect(clippy::unwrap_used, reason = "what helps a test may stop it")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use kv_index::engine::{EngineFeedConfig, FollowerConfig};
use kv_index::{BlockSize, ChainSeed, Config, Index};
use pointsman::zmq::{Subscriber, SubscriberConfig, SubscriberStatus, ZmqError};
use pointsman_test_support::alloc::{CountingAllocator, peak_bytes};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::time::{sleep, timeout};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator::new();

const LONG: Duration = Duration::from_secs(20);

/// A publisher up to its first message, and a subscriber that keeps calling it.
struct Hostile {
    listener: TcpListener,
    status: SubscriberStatus,
}

impl Hostile {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let index: Arc<Index> = Arc::new(Index::new(Config::default()));
        let pod = index.join("pod-0").unwrap();
        let feed = EngineFeedConfig::tokens(ChainSeed::new("m"), BlockSize::new(16).unwrap());
        let endpoint = format!("tcp://{}", listener.local_addr().unwrap()).parse().unwrap();
        let mut config = SubscriberConfig::new(endpoint, FollowerConfig::new(feed));
        (config.follower.retry_initial, config.follower.retry_max) =
            (Duration::from_millis(10), Duration::from_millis(100));
        let subscriber = Subscriber::new(index, pod, config).unwrap();
        let status = subscriber.status();
        tokio::spawn(subscriber.run());
        Self { listener, status }
    }

    /// Accepts the next call, and shakes hands.
    async fn accept(&self) -> TcpStream {
        let (mut stream, _) = timeout(LONG, self.listener.accept()).await.expect("it calls again").unwrap();
        let mut greeting = [0; 64];
        (greeting[0], greeting[9], greeting[10]) = (0xff, 0x7f, 3);
        greeting[12..16].copy_from_slice(b"NULL");
        stream.write_all(&greeting).await.unwrap();
        stream.write_all(b"\x04\x19\x05READY\x0bSocket-Type\0\0\0\x03PUB").await.unwrap();
        // Its greeting, its READY and its subscription.
        stream.read_exact(&mut [0; 64 + 27 + 3]).await.unwrap();
        stream
    }

    async fn until_errors(&self, errors: u64) {
        let counted = async {
            while self.status.get().errors < errors {
                sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(LONG, counted).await.unwrap_or_else(|_| panic!("{errors} errors never: {:?}", self.status));
    }
}

/// The most that was allocated on this thread, which subscriber and publisher share.
fn peak(work: impl AsyncFnOnce(Hostile)) -> usize {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    peak_bytes(|| runtime.block_on(async { work(Hostile::start().await).await })).0
}

fn long_frame(announced: u64) -> Vec<u8> {
    [&[2][..], &announced.to_be_bytes()].concat()
}

/// An index and a runtime take something, too.
const LITTLE: usize = 4 << 20;

#[test]
fn a_frame_of_exabytes_is_refused_by_its_header_and_calls_back_off() {
    let peak = peak(async |hostile| {
        let begun = Instant::now();
        for errors in 1..=7 {
            let mut stream = hostile.accept().await;
            stream.write_all(&long_frame(1 << 62)).await.unwrap();
            hostile.until_errors(errors).await;
        }
        // 10, 20, 40, 80 and 100 twice.
        assert!(begun.elapsed() >= Duration::from_millis(350), "{:?}", begun.elapsed());
        let refused = ZmqError::MessageTooLarge { announced: 1 << 62, most: 64 << 20 };
        assert_eq!(hostile.status.last_error(), Some(refused));
        assert_eq!(hostile.status.get().batches, 0);
    });
    assert!(peak < LITTLE, "{peak} bytes");
}

#[test]
fn a_gibibyte_is_refused_before_it_is_sent() {
    let peak = peak(async |hostile| {
        let mut stream = hostile.accept().await;
        stream.write_all(&long_frame(1 << 30)).await.unwrap();
        // It goes on as long as it is let.
        let sent = async {
            let mut sent = 0;
            while stream.write_all(&[7; 1 << 10]).await.is_ok() {
                sent += 1 << 10;
                sleep(Duration::from_millis(1)).await;
            }
            sent
        };
        let sent: usize = timeout(LONG, sent).await.expect("it is hung up on");
        assert!(sent < 1 << 20, "{sent} bytes were taken");
        hostile.until_errors(1).await;
        hostile.accept().await;
    });
    assert!(peak < LITTLE, "{peak} bytes");
}

#[test]
fn memory_grows_with_what_arrives_and_not_with_what_is_announced() {
    let peak = peak(async |hostile| {
        let mut stream = hostile.accept().await;
        // Within the bound, so it is taken.
        stream.write_all(&long_frame(60 << 20)).await.unwrap();
        for _ in 0..64 {
            stream.write_all(&[7; 16 << 10]).await.unwrap();
            sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(hostile.status.get().errors, 0);
        assert_eq!(hostile.status.get().connections, 1);
    });
    assert!((1 << 20..LITTLE + (2 << 20)).contains(&peak), "{peak} bytes for a MiB of 60");
}

#[test]
fn a_message_of_a_million_frames_is_refused_at_the_seventeenth() {
    let peak = peak(async |hostile| {
        let mut stream = hostile.accept().await;
        // It may be hung up on before all is sent.
        for _ in 0..1_000 {
            if stream.write_all(&[1, 0].repeat(1_000)).await.is_err() {
                break;
            }
        }
        hostile.until_errors(1).await;
        assert_eq!(hostile.status.last_error(), Some(ZmqError::TooManyFrames { most: 16 }));
        hostile.accept().await;
    });
    assert!(peak < LITTLE, "{peak} bytes");
}
