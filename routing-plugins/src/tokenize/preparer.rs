//! Tokenize preparer: token ids by the model's tokenizer.
//!
//! Tokens that the request brings along are taken as they are.

use std::collections::HashMap;
use std::error::Error;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use routing_core::{Declare, PluginError, PrepareContext, Preparer, Request, Write};

use super::PromptError;
use crate::tokens::PromptTokens;

/// Writes [`PromptTokens`]: the request's own, or made of its body by its model.
#[derive(Debug)]
pub struct TokenizePreparer {
    tokenizers: Arc<dyn Tokenizers>,
    tokens: Write<PromptTokens>,
    tokenize_failures: Option<Arc<AtomicU64>>,
}

impl TokenizePreparer {
    /// Declares what this preparer writes. A request that no tokens can be made of is refused.
    pub fn declare(d: &mut Declare<'_>, tokenizers: Arc<dyn Tokenizers>) -> Self {
        Self { tokenizers, tokens: d.writes(), tokenize_failures: None }
    }

    /// The same, but requests that no tokens can be made of are counted here, if somewhere, and routed as ones with an
    /// empty prompt.
    #[must_use]
    pub fn or_empty(self, tokenize_failures: Option<Arc<AtomicU64>>) -> Self {
        Self { tokenize_failures, ..self }
    }

    fn make(&self, request: &Request<'_>, out: &mut Vec<u32>) -> Result<(), PromptError> {
        let unknown = || PromptError::UnknownModel(request.model.into());
        self.tokenizers.tokenizer(request.model).ok_or_else(unknown)?.tokenize(request.body, out)
    }
}

impl<const W: usize> Preparer<W> for TokenizePreparer {
    fn prepare(&self, context: &mut PrepareContext<'_, W>) -> Result<(), PluginError> {
        let request = context.request();
        let (_, list) = context.write(self.tokens)?;
        if request.tokens.is_some() {
            list.set_given();
            return Ok(());
        }
        let Err(error) = self.make(request, list.make()) else { return Ok(()) };
        let Some(tokenize_failures) = &self.tokenize_failures else { return Err(PluginError::failed(Chain(&error))) };
        // Relaxed: a count that publishes nothing.
        tokenize_failures.fetch_add(1, Ordering::Relaxed);
        // Some were made before it failed, perhaps.
        list.make();
        Ok(())
    }
}

/// The tokenizers of the models that a gateway serves.
pub trait Tokenizers: Send + Sync + std::fmt::Debug {
    /// The tokenizer of a model, by the name that requests use.
    fn tokenizer(&self, model: &str) -> Option<Arc<dyn PromptTokenizer>>;
}

/// Models by name; adapters and aliases need entries of their own.
impl<S: BuildHasher + Send + Sync> Tokenizers for HashMap<Box<str>, Arc<dyn PromptTokenizer>, S> {
    fn tokenizer(&self, model: &str) -> Option<Arc<dyn PromptTokenizer>> {
        self.get(model).cloned()
    }
}

/// Makes the prompt's tokens of a request's body, for one model.
pub trait PromptTokenizer: Send + Sync + std::fmt::Debug {
    /// Appends the tokens of the prompt.
    ///
    /// # Errors
    ///
    /// When the body has no prompt, or one that this model has no tokens for. The body is a client's: anything may be
    /// in it, and nothing in it makes this panic.
    fn tokenize(&self, body: &[u8], out: &mut Vec<u32>) -> Result<(), PromptError>;
}

/// An error with all its causes, for a plugin's failure is one text.
struct Chain<'e>(&'e dyn Error);

impl std::fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)?;
        let mut cause = self.0.source();
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;
    use routing_core::{
        Fleet, Picker, PodInfo, ProfileBuilder, Ranking, Read, Request, RoutingContext, RoutingInput, RoutingPlan,
        Totals,
    };

    use super::*;

    /// Makes a token and then finds that it cannot go on, unless the body is `ok`.
    #[derive(Debug)]
    struct Fickle;

    impl PromptTokenizer for Fickle {
        fn tokenize(&self, body: &[u8], out: &mut Vec<u32>) -> Result<(), PromptError> {
            out.push(7);
            if body == b"ok" { Ok(()) } else { Err(PromptError::NoPrompt) }
        }
    }

    /// Puts the tokens where a test sees them.
    struct Show(Read<PromptTokens>, Arc<Mutex<Vec<u32>>>);

    impl Picker for Show {
        fn pick(
            &self,
            context: &RoutingContext<'_>,
            totals: &Totals<'_>,
            ranking: &mut Ranking,
        ) -> Result<(), PluginError> {
            *self.1.lock() = context.read(self.0)?.of(context.request()).to_vec();
            totals.rank(1, ranking);
            Ok(())
        }
    }

    /// The tokens of a request, and how many were routed without.
    fn tokens(model: &str, body: &[u8], or_empty: bool) -> Option<(Vec<u32>, u64)> {
        let known: HashMap<Box<str>, Arc<dyn PromptTokenizer>> =
            HashMap::from([("m".into(), Arc::new(Fickle) as Arc<dyn PromptTokenizer>)]);
        let (count, shown) = (Arc::new(AtomicU64::new(0)), Arc::new(Mutex::new(Vec::new())));
        let (counted, seen) = (or_empty.then(|| Arc::clone(&count)), Arc::clone(&shown));
        let profile = ProfileBuilder::new("p")
            .preparer("tokens", |d: &mut Declare<'_>| TokenizePreparer::declare(d, Arc::new(known)).or_empty(counted))
            .picker("show", |d: &mut Declare<'_>| Show(d.reads(), seen));
        let workflow = profile.build().expect("it fits");
        let index: kv_index::Index = kv_index::Index::new(kv_index::Config::default());
        let fleet = Fleet::new(1, [PodInfo::new(index.join("a").expect("room"), "a")]);
        let request = Request::new(model, crate::prepare::tests::request().now).body(body);
        workflow
            .decide(&mut workflow.workspace(), RoutingInput::new(&request, &fleet), &mut RoutingPlan::default())
            .ok()?;
        let made = shown.lock().clone();
        Some((made, count.load(Ordering::Relaxed)))
    }

    #[test]
    fn what_cannot_be_tokenized_is_refused_or_counted_and_empty() {
        assert_eq!(tokens("m", b"ok", true), Some((vec![7], 0)));
        assert_eq!(tokens("m", b"not", true), Some((vec![], 1)), "what was made until then is of no meaning");
        assert_eq!(tokens("n", b"ok", true), Some((vec![], 1)), "nobody knows the model");
        assert_eq!((tokens("m", b"not", false), tokens("n", b"ok", false)), (None, None));
    }
}
