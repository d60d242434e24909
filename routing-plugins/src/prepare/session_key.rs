//! Session key of a request.

use routing_core::{Declare, PluginError, PrepareContext, Preparer, Slot, TryRead, Write};

use super::key::KeySource;
use crate::parameters::parameters;
use crate::tokens::PromptTokens;

/// The session that a request belongs to, as a hash of its name that is the same in every gateway; none if it has none.
#[derive(Debug)]
pub struct Session;

impl Slot for Session {
    type Value = Option<u64>;
    const NAME: &'static str = "session.key";
}

parameters! {
    /// What [`SessionKeyPreparer`] takes.
    #[derive(Clone, Debug)]
    pub struct SessionKeyParameters {
        /// Where to look, in this order; unless given, the header `x-session-id`, the cookie `session`, and the body's
        /// `session_id` and `user`.
        #[cfg_attr(feature = "serde", serde(deserialize_with = "super::key::read_sources"))]
        pub from: Vec<KeySource> = vec![
            KeySource::Header("x-session-id".to_owned()),
            KeySource::Cookie("session".to_owned()),
            KeySource::Body("session_id".to_owned()),
            KeySource::Body("user".to_owned()),
        ],
    }
}

/// Writes [`Session`]: the first key that is found; none if there is none.
///
/// A session is known by a hash of 64 bits: of a million sessions at once, two share one with a chance of 1 in 37 million,
/// and are then merely routed alike. Tenants' sessions are kept apart.
#[derive(Debug)]
pub struct SessionKeyPreparer {
    from: Vec<KeySource>,
    tokens: TryRead<PromptTokens>,
    session: Write<Session>,
}

impl SessionKeyPreparer {
    /// Declares that it writes the session.
    pub fn declare(declare: &mut Declare<'_>, parameters: SessionKeyParameters) -> Self {
        Self { from: parameters.from, tokens: declare.tries(), session: declare.writes() }
    }
}

impl<const W: usize> Preparer<W> for SessionKeyPreparer {
    fn prepare(&self, context: &mut PrepareContext<'_, W>) -> Result<(), PluginError> {
        let request = context.request();
        let (reads, session) = context.write(self.session)?;
        let tokens = reads.try_read(self.tokens)?.map(|tokens| tokens.of(request));
        let key = self.from.iter().find_map(|source| source.find(request, tokens));
        let tenant = request.tenant.unwrap_or_default();
        *session = key.map(|key| xxhash_rust::xxh3::xxh3_64_with_seed(tenant.as_bytes(), key));
        Ok(())
    }
}
