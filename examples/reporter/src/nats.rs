//! NATS JetStream sink: messages into a stream that every gateway reads.
//!
//! Each message is published as JSON on `<prefix>.<pod>`, and is acknowledged when the stream has stored it. A message sent
//! again has the same `Nats-Msg-Id`, so the stream stores it once; after the deduplication window gateways still see the
//! sequence number twice and apply it once. The stream is bounded by age and bytes: what it dropped is a gap to a gateway
//! that comes late, and that gateway requests an inventory on `<prefix>.resync.<pod>`.

use std::time::Duration;

use async_nats::jetstream::context::ContextBuilder;
use async_nats::jetstream::{self, message::PublishMessage, stream};
use async_nats::{Client, Subscriber};
use futures_util::StreamExt;

use crate::message_sink::{MessageSink, SinkError};
use crate::wire::{Ack, AckStatus, Message, ResyncRequest, decode};

/// Server, stream and subjects.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NatsConfig {
    /// `nats://host:port`.
    pub url: String,
    /// The JetStream stream's name; made if it is not there.
    pub stream: String,
    /// The prefix of its subjects.
    pub prefix: String,
    /// `max_age` of a new stream.
    pub max_age: Duration,
    /// `max_bytes` of a new stream.
    pub max_bytes: i64,
}

impl NatsConfig {
    /// A stream that keeps an hour, and a gibibyte at most.
    #[must_use]
    pub fn new(url: &str, stream: &str, prefix: &str) -> Self {
        let (url, stream, prefix) = (url.to_owned(), stream.to_owned(), prefix.to_owned());
        Self { url, stream, prefix, max_age: Duration::from_secs(3600), max_bytes: 1 << 30 }
    }

    /// The subject of a pod's messages.
    pub(crate) fn subject(&self, pod: &str) -> String {
        format!("{}.{}", self.prefix, token(pod))
    }

    /// The subject of resynchronization requests to a pod's worker. Not one of the stream: it has one token more.
    pub fn resync_subject(&self, pod: &str) -> String {
        format!("{}.resync.{}", self.prefix, token(pod))
    }

    /// The wildcard subject of all pods' messages.
    pub fn all(&self) -> String {
        format!("{}.*", self.prefix)
    }

    /// The stream, made if it is not there.
    pub async fn open(&self, client: Client) -> Result<stream::Stream, jetstream::context::CreateStreamError> {
        let config = stream::Config {
            name: self.stream.clone(),
            subjects: vec![self.all()],
            max_age: self.max_age,
            max_bytes: self.max_bytes,
            duplicate_window: self.max_age.min(Duration::from_secs(120)),
            ..stream::Config::default()
        };
        Self::context(client).get_or_create_stream(config).await
    }

    /// JetStream over a connection.
    ///
    /// A request sent while a server goes down is never answered. The default timeout is ten seconds; a retry too many costs
    /// nothing, since every message and every stream has a name.
    pub(crate) fn context(client: Client) -> jetstream::Context {
        ContextBuilder::new().timeout(REQUEST_TIMEOUT).ack_timeout(REQUEST_TIMEOUT).build(client)
    }

    /// A connection that is made, and made again, in the background.
    pub async fn client(&self) -> Result<Client, async_nats::ConnectError> {
        async_nats::ConnectOptions::new()
            .retry_on_initial_connect()
            .connection_timeout(Duration::from_secs(5))
            .reconnect_delay_callback(|tries| Duration::from_millis((50 << tries.min(6)) as u64))
            .connect(self.url.as_str())
            .await
    }
}

/// Publishes one pod's messages.
#[derive(Debug)]
pub struct NatsSink {
    config: NatsConfig,
    client: Client,
    context: jetstream::Context,
    resyncs: Subscriber,
    /// Whether the stream is known to exist.
    stream_exists: bool,
}

impl NatsSink {
    /// An sink for the pod. The server need not be there yet.
    ///
    /// # Errors
    ///
    /// When the URL or the prefix is not one.
    pub async fn connect(config: NatsConfig, pod: &str) -> Result<Self, SinkError> {
        let client = config.client().await.map_err(SinkError::unacknowledged)?;
        let resyncs = client.subscribe(config.resync_subject(pod)).await.map_err(SinkError::unacknowledged)?;
        let context = NatsConfig::context(client.clone());
        Ok(Self { config, client, context, resyncs, stream_exists: false })
    }

    async fn publish(&mut self, message: &Message) -> Result<Ack, SinkError> {
        if !self.stream_exists {
            self.config.open(self.client.clone()).await.map_err(SinkError::unacknowledged)?;
            self.stream_exists = true;
        }
        let json = serde_json::to_vec(message).map_err(SinkError::unacknowledged)?;
        let mut publish = PublishMessage::build().payload(json.into());
        if let Some(id) = id(message) {
            publish = publish.message_id(id);
        }
        let published = self
            .context
            .send_publish(self.config.subject(message.pod()), publish)
            .await
            .map_err(SinkError::unacknowledged)?;
        let acknowledged = published.await.map_err(SinkError::unacknowledged);
        // Perhaps the stream was deleted: the next attempt makes it anew.
        self.stream_exists = acknowledged.is_ok();
        acknowledged.map(|_| Ack::new(AckStatus::Taken))
    }
}

impl MessageSink for NatsSink {
    async fn send(&mut self, message: &Message) -> Result<Ack, SinkError> {
        let published = tokio::time::timeout(Duration::from_secs(10), self.publish(message)).await;
        published.unwrap_or_else(|late| Err(SinkError::unacknowledged(late)))
    }

    async fn resync_request(&mut self) -> ResyncRequest {
        loop {
            match self.resyncs.next().await {
                Some(message) => {
                    if let Ok(resync) = decode(&message.payload) {
                        return resync;
                    }
                }
                None => std::future::pending().await,
            }
        }
    }
}

/// The `Nats-Msg-Id` of a numbered message.
fn id(message: &Message) -> Option<String> {
    let (incarnation, sequence) = message.position();
    match message {
        Message::Digest(_) => None,
        Message::Batch(batch) => Some(format!("{}/{incarnation}/{sequence}", batch.pod)),
        Message::Inventory(part) => Some(format!("{}/{incarnation}/{sequence}/{}", part.pod, part.part)),
    }
}

/// A pod's name as one subject token: other bytes than letters, digits, `-` and `_` in hex.
fn token(pod: &str) -> String {
    let mut token = String::with_capacity(pod.len());
    for byte in pod.bytes() {
        if byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_' {
            token.push(char::from(byte));
        } else {
            token.push_str(&format!("={byte:02x}"));
        }
    }
    token
}

/// Timeout of a request to the server.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_of_a_pod_reaches_another_subject() {
        let config = NatsConfig::new("nats://localhost", "s", "kv");
        assert_eq!(config.subject("pod-0"), "kv.pod-0");
        assert_eq!(config.subject("a.b *>"), "kv.a=2eb=20=2a=3e");
        assert_eq!(config.resync_subject("a=2e"), "kv.resync.a=3d2e");
    }
}
