//! Reports into a NATS JetStream stream that every gateway reads.
//!
//! Each message goes as JSON to `<prefix>.<pod>`, and counts as sent when the stream has it. A message sent again has the same
//! `Nats-Msg-Id`, so the stream keeps it once; should its window be over, gateways still see the number twice and
//! apply it once. The stream is bounded by age and bytes: what it dropped is a gap to whoever comes late, and that
//! gateway asks for an inventory on `<prefix>.resync.<pod>`.

use std::time::Duration;

use async_nats::jetstream::context::ContextBuilder;
use async_nats::jetstream::{self, message::PublishMessage, stream};
use async_nats::{Client, Subscriber};
use futures_util::StreamExt;

use crate::outlet::{Outlet, OutletError};
use crate::wire::{Answer, Message, Resync, Verdict, decode};

/// Where the stream is and what it is called.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NatsConfig {
    /// `nats://host:port`.
    pub url: String,
    /// The JetStream stream's name; made if it is not there.
    pub stream: String,
    /// What its subjects begin with.
    pub prefix: String,
    /// How long a new stream keeps messages.
    pub keep: Duration,
    /// How many bytes a new stream keeps.
    pub keep_bytes: i64,
}

impl NatsConfig {
    /// A stream that keeps an hour, and a gibibyte at most.
    #[must_use]
    pub fn new(url: &str, stream: &str, prefix: &str) -> Self {
        let (url, stream, prefix) = (url.to_owned(), stream.to_owned(), prefix.to_owned());
        Self { url, stream, prefix, keep: Duration::from_secs(3600), keep_bytes: 1 << 30 }
    }

    /// Where a pod's messages go.
    pub(crate) fn subject(&self, pod: &str) -> String {
        format!("{}.{}", self.prefix, token(pod))
    }

    /// Where gateways ask a pod's worker for an inventory. Not a subject of the stream: it has one part more.
    pub fn resync_subject(&self, pod: &str) -> String {
        format!("{}.resync.{}", self.prefix, token(pod))
    }

    /// Every pod's messages.
    pub fn all(&self) -> String {
        format!("{}.*", self.prefix)
    }

    /// The stream, made if it is not there.
    pub async fn open(&self, client: Client) -> Result<stream::Stream, jetstream::context::CreateStreamError> {
        let config = stream::Config {
            name: self.stream.clone(),
            subjects: vec![self.all()],
            max_age: self.keep,
            max_bytes: self.keep_bytes,
            duplicate_window: self.keep.min(Duration::from_secs(120)),
            ..stream::Config::default()
        };
        Self::context(client).get_or_create_stream(config).await
    }

    /// JetStream over a connection.
    ///
    /// What is asked while a server goes down is never answered. By default that is noticed after ten seconds; asking
    /// once too often costs nothing, since every message and every stream has a name.
    pub(crate) fn context(client: Client) -> jetstream::Context {
        ContextBuilder::new().timeout(ANSWER_WITHIN).ack_timeout(ANSWER_WITHIN).build(client)
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
pub struct NatsOutlet {
    config: NatsConfig,
    client: Client,
    context: jetstream::Context,
    resyncs: Subscriber,
    made: Made,
}

/// Whether the stream is known to be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Made {
    NotYet,
    Once,
}

impl NatsOutlet {
    /// An outlet for the pod. The server need not be there yet.
    ///
    /// # Errors
    ///
    /// When the URL or the prefix is not one.
    pub async fn connect(config: NatsConfig, pod: &str) -> Result<Self, OutletError> {
        let client = config.client().await.map_err(lost)?;
        let resyncs = client.subscribe(config.resync_subject(pod)).await.map_err(lost)?;
        let context = NatsConfig::context(client.clone());
        Ok(Self { config, client, context, resyncs, made: Made::NotYet })
    }

    async fn publish(&mut self, message: &Message) -> Result<Answer, OutletError> {
        if self.made == Made::NotYet {
            self.config.open(self.client.clone()).await.map_err(lost)?;
            self.made = Made::Once;
        }
        let json = serde_json::to_vec(message).map_err(lost)?;
        let mut publish = PublishMessage::build().payload(json.into());
        if let Some(id) = id(message) {
            publish = publish.message_id(id);
        }
        let published = self.context.send_publish(self.config.subject(message.pod()), publish).await.map_err(lost)?;
        let acknowledged = published.await.map_err(lost);
        // Perhaps the stream was deleted: the next attempt makes it anew.
        self.made = if acknowledged.is_ok() { Made::Once } else { Made::NotYet };
        acknowledged.map(|_| Answer::new(Verdict::Taken))
    }
}

impl Outlet for NatsOutlet {
    async fn send(&mut self, message: &Message) -> Result<Answer, OutletError> {
        let published = tokio::time::timeout(Duration::from_secs(10), self.publish(message)).await;
        published.unwrap_or_else(|late| Err(lost(late)))
    }

    async fn asked(&mut self) -> Resync {
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

/// A numbered message's name in the stream.
fn id(message: &Message) -> Option<String> {
    let (incarnation, sequence) = message.number();
    match message {
        Message::Digest(_) => None,
        Message::Report(report) => Some(format!("{}/{incarnation}/{sequence}", report.pod)),
        Message::Inventory(part) => Some(format!("{}/{incarnation}/{sequence}/{}", part.pod, part.part)),
    }
}

/// A pod's name as one part of a subject: what has a meaning there is spelled in hex.
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

fn lost(error: impl std::fmt::Display) -> OutletError {
    OutletError::Lost(error.to_string())
}

/// How long a server may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

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
