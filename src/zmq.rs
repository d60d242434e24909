//! ZeroMQ subscriber: follows an engine's KV-cache events over ZMTP, within bounds of memory.
//!
//! A [`Subscriber`] connects to the PUB socket of vLLM or SGLang and to its ROUTER socket for replays, and keeps a pod of the
//! index in step: gaps are replayed, restarts noticed, broken connections made anew
//! ([`Follower`](kv_index::engine::Follower) says by which rules). A [`Listener`] is for engines that connect to one address themselves.
//!
//! ZMTP 3.0 and 3.1 are written here, as much as SUB and DEALER sockets with the NULL mechanism need, since the `zeromq` crate
//! allocates by the length that a peer announces. Here a message has [`Limits`]: what announces more is refused by its header, counted as
//! an error, and the connection is made anew after a pause that grows. No libzmq is needed.
//!
//! Security: nothing is encrypted or authenticated. Whoever speaks at an engine's address can say what that pod holds, and nothing of
//! others. Subscribe over a trusted network.
//!
//! # Examples
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use pointsman::index::engine::{EngineFeedConfig, FollowerConfig};
//! use pointsman::index::{BlockSize, ChainSeed, Config, Index};
//! use pointsman::zmq::{Subscriber, SubscriberConfig};
//!
//! # async fn follow() -> Result<(), Box<dyn std::error::Error>> {
//! let index: Arc<Index> = Arc::new(Index::new(Config::default()));
//! let pod = index.join("pod-a")?;
//! let feed = EngineFeedConfig::tokens(ChainSeed::new("llama-8b"), BlockSize::new(16).unwrap());
//!
//! let mut config = SubscriberConfig::new("tcp://10.0.0.7:5557".parse()?, FollowerConfig::new(feed));
//! config.replay = Some("tcp://10.0.0.7:5558".parse()?);
//! config.topic = "kv-events".into();
//!
//! let subscriber = Subscriber::new(Arc::clone(&index), pod, config)?;
//! let status = subscriber.status();
//! let task = tokio::spawn(subscriber.run());
//! println!("{:?}", status.get());
//! // To stop it: nothing is left behind.
//! task.abort();
//! # Ok(())
//! # }
//! ```

mod codec;
mod connection;
mod endpoint;
mod error;
mod follow;
mod handshake;
mod limits;
mod link;
mod listener;
mod subscriber;

pub use connection::ConnectionConfig;
pub use endpoint::{Endpoint, EndpointError, EndpointProblem};
pub use error::ZmqError;
pub use follow::{FollowError, Following};
pub use handshake::SocketType;
pub use limits::Limits;
pub use listener::{Listener, PeerEvent, PeerId};
pub use subscriber::{Subscriber, SubscriberConfig, SubscriberStatus};
