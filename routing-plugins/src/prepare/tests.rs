//! Preparers in profiles, on small fleets.

use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::Arc;
use std::time::Instant;

use kv_index::{BlockSize, ChainHasher, ChainSeed, Config, Event, EventSemantics, Index, Stored};
use routing_core::{
    DecideError, Declare, Fleet, Picker, PluginError, PodInfo, PrefixMatches, ProfileBuilder, PromptSpans, Ranking,
    Read, Request, RoutingContext, RoutingInput, RoutingPlan, Slot, Totals,
};

use super::*;
use crate::plugin_state::Hashing;
use crate::record::PredictRecorder;

#[expect(clippy::disallowed_methods, reason = "a request has some instant; which one does not matter")]
pub(crate) fn request() -> Request<'static> {
    Request::new("m", Instant::now())
}

/// Puts a slot's value where a test sees it, and picks anybody.
struct Show<S: Slot>(Read<S>, Arc<parking_lot::Mutex<Option<S::Value>>>);

impl<S: Slot<Value: Clone>> Picker for Show<S> {
    fn pick(
        &self,
        context: &RoutingContext<'_>,
        totals: &Totals<'_>,
        ranking: &mut Ranking,
    ) -> Result<(), PluginError> {
        *self.1.lock() = Some(context.read(self.0)?.clone());
        totals.rank(1, ranking);
        Ok(())
    }
}

/// What a slot has after a profile's preparers ran.
fn shown<S: Slot<Value: Clone>>(
    profile: ProfileBuilder,
    request: &Request<'_>,
    fleet: &Fleet,
) -> Result<S::Value, DecideError> {
    let shown = Arc::new(parking_lot::Mutex::new(None));
    let seen = Arc::clone(&shown);
    let workflow = profile.picker("show", |d: &mut Declare<'_>| Show::<S>(d.reads(), seen)).build().expect("it fits");
    workflow.decide(&mut workflow.workspace(), RoutingInput::new(request, fleet), &mut RoutingPlan::default())?;
    let value = shown.lock().take();
    Ok(value.expect("the picker ran"))
}

fn world() -> (Arc<Index>, Fleet) {
    let index: Arc<Index> = Arc::new(Index::new(Config::default()));
    let pods = ["a", "b"].map(|name| PodInfo::new(index.join(name).expect("room"), name));
    let fleet = Fleet::new(1, pods);
    (index, fleet)
}

fn native() -> Hashing {
    Hashing::Native(BlockSize::new(4).expect("not zero"))
}

fn hashed(parameters: BlockHashParameters, index: &Arc<Index>) -> ProfileBuilder {
    let index = Arc::clone(index);
    ProfileBuilder::new("p")
        .preparer("tokens", GivenTokensPreparer::declare)
        .preparer("hash", move |d: &mut Declare<'_>| BlockHashPreparer::declare(d, parameters, native()))
        .preparer("match", |d: &mut Declare<'_>| PrefixMatchPreparer::declare(d, index))
}

/// Enters a prompt at a pod, under a seed.
fn store(index: &Index, pod: &str, seed: ChainSeed, tokens: &[u32]) {
    let chain = ChainHasher::new(seed, BlockSize::new(4).expect("not zero")).hash(tokens);
    let pod = index.pod(pod).expect("it joined");
    index.apply(pod, EventSemantics::Copies, &Event::Stored(Stored::prompt(&chain))).expect("it is there");
}

#[test]
fn the_search_finds_who_holds_what_and_a_cap_bounds_what_counts() {
    let (index, fleet) = world();
    let tokens: Vec<u32> = (0..40).collect();
    store(&index, "a", ChainSeed::new("m"), &tokens[..32]);
    store(&index, "b", ChainSeed::new("m"), &tokens[..8]);
    let depths = |parameters, request: Request<'_>| {
        let held = shown::<PrefixMatches>(hashed(parameters, &index), &request.tokens(&tokens), &fleet)
            .expect("tokens are there");
        (held.blocks(), ["a", "b"].map(|name| held.depth(index.pod(name).expect("it joined").id())))
    };
    let all = BlockHashParameters::default();
    assert_eq!(depths(all, request()), (10, [8, 2]));
    let capped = BlockHashParameters { most_tokens: NonZeroU32::new(19), ..all };
    assert_eq!(depths(capped, request()), (4, [4, 2]));
    assert_eq!(depths(all, request().most_prefix(7)), (1, [1, 1]));
    assert_eq!(depths(capped, request().most_prefix(400)), (4, [4, 2]));
    assert_eq!(depths(all, request().most_prefix(0)), (0, [0, 0]));
}

#[test]
fn adapter_salt_and_tenant_keep_prompts_apart() {
    let (index, fleet) = world();
    let tokens: Vec<u32> = (0..8).collect();
    store(&index, "a", ChainSeed::new("m").adapter("sql").salt("s").tenant("t"), &tokens);
    let deepest = |per_tenant, request: Request<'_>| {
        let parameters = BlockHashParameters { per_tenant, ..BlockHashParameters::default() };
        let held = shown::<PrefixMatches>(hashed(parameters, &index), &request.tokens(&tokens), &fleet)
            .expect("tokens are there");
        held.deepest().map(|group| group.depth)
    };
    let full = request().adapter("sql").salt("s").tenant("t");
    assert_eq!(deepest(true, full), Some(2));
    assert_eq!(deepest(false, full), None, "tenants are told apart only where that is asked for");
    assert_eq!(deepest(true, request().adapter("sql").tenant("t")), None);
    assert_eq!(deepest(true, request().salt("s").tenant("t")), None);
}

#[test]
fn a_request_without_tokens_is_refused() {
    let (index, fleet) = world();
    let refused = shown::<PrefixMatches>(hashed(BlockHashParameters::default(), &index), &request(), &fleet);
    assert!(refused.is_err_and(|error| error.to_string().contains("tokens")));
}

#[test]
fn a_request_without_tokens_is_counted_and_routed_by_what_else_there_is_where_that_is_said() {
    let (index, fleet) = world();
    let count = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let counted = Arc::clone(&count);
    let profile = ProfileBuilder::new("p")
        .preparer("tokens", move |d: &mut Declare<'_>| GivenTokensPreparer::declare(d).or_empty(Some(counted)));
    let searched = Arc::clone(&index);
    let profile = profile
        .preparer("hash", |d: &mut Declare<'_>| BlockHashPreparer::declare(d, BlockHashParameters::default(), native()))
        .preparer("match", |d: &mut Declare<'_>| PrefixMatchPreparer::declare(d, searched));
    let held = shown::<PrefixMatches>(profile, &request(), &fleet).expect("it is routed");
    assert_eq!((held.blocks(), count.load(std::sync::atomic::Ordering::Relaxed)), (0, 1));
}

#[test]
fn without_tokens_a_profile_that_hashes_them_does_not_build() {
    let profile = <ProfileBuilder>::new("p")
        .preparer("hash", |d: &mut Declare<'_>| BlockHashPreparer::declare(d, BlockHashParameters::default(), native()))
        .picker("show", |d: &mut Declare<'_>| Show::<PromptChain>(d.reads(), Arc::default()));
    let fault = profile.build().expect_err("nobody writes the tokens").to_string();
    assert!(fault.contains("prompt.tokens"), "{fault}");
}

#[test]
fn text_is_matched_by_what_was_routed_before() {
    let (index, fleet) = world();
    let parameters = TextBlockParameters { block_bytes: NonZeroUsize::new(8).expect("not zero"), ..Default::default() };
    let profile = || {
        let (searched, predicted) = (Arc::clone(&index), Arc::clone(&index));
        ProfileBuilder::new("p")
            .preparer("text", move |d: &mut Declare<'_>| TextBlockPreparer::declare(d, parameters))
            .preparer("match", |d: &mut Declare<'_>| PrefixMatchPreparer::declare(d, searched))
            .recorder("predict", |d: &mut Declare<'_>| PredictRecorder::declare(d, predicted, Arc::default()))
    };
    let held = |body: &str, salt| {
        let request = request().body(body.as_bytes()).salt(salt);
        let held = shown::<PrefixMatches>(profile(), &request, &fleet).expect("pods are there");
        (held.deepest().map_or(0, |group| group.depth), held.blocks())
    };
    let turn = r#"{"max_tokens": 5, "messages": [{"role": "user", "content": "hello there"}]}"#;
    let next = r#"{"messages": [{"role": "user", "content": "hello there"}, {"role": "assistant"}], "n": 2}"#;
    assert_eq!(held(turn, ""), (0, 5));
    assert_eq!(held(turn, ""), (5, 5), "it was routed before");
    assert_eq!(held(next, "").0, 5, "another turn begins as the one before, whatever else is in the body");
    assert_eq!(held(turn, "s").0, 0, "a salt keeps prompts apart");
    assert_eq!(held(&turn.replace("max_tokens", "system"), "").0, 0, "instructions come first in a prompt");
    let cats = turn.replace("\"max_tokens\": 5", r#""tools": null, "system": "cats""#);
    assert_eq!(held(&cats, "").0, 0);
    assert_eq!(held(&cats.replace(r#""tools": null, "#, ""), "").0, 5, "what is null is not there");
    assert_eq!(held(&cats.replace("cats", "dogs"), "").0, 0);
    assert_eq!(held(&cats.replace("system", "instructions"), "").0, 0);
    assert_eq!(held("no json at all, but long enough", "").1, 3);

    let given = |spans: &PromptSpans| {
        let request = request().body(turn.as_bytes()).salt("").prompt(spans);
        let held = shown::<PrefixMatches>(profile(), &request, &fleet).expect("pods are there");
        (held.deepest().map_or(0, |group| group.depth), held.blocks())
    };
    assert_eq!(given(&PromptFinder::find(turn.as_bytes())), (5, 5), "whoever finds the prompt, it is the same");
    assert_eq!(given(&PromptSpans::new(0..16)), (0, 2), "what is given counts");
    assert_eq!(given(&PromptSpans::new(10..9999)), (0, 0), "a place outside the body has no blocks");
}

#[test]
fn the_first_session_key_that_is_there_counts_and_tenants_have_their_own() {
    let (_, fleet) = world();
    let session = |request: Request<'_>| {
        let profile = ProfileBuilder::new("p")
            .preparer("session", |d: &mut Declare<'_>| SessionKeyPreparer::declare(d, SessionKeyParameters::default()));
        shown::<Session>(profile, &request, &fleet).expect("pods are there")
    };
    let headers: &[(&str, &str)] = &[("x-session-id", "s-1"), ("cookie", "session=s-2")];
    let in_header = session(request().headers(&headers).body(br#"{"user": "s-3"}"#));
    assert!(in_header.is_some());
    let cookies: &[(&str, &str)] = &[("cookie", "session=s-1")];
    assert_eq!(session(request().headers(&cookies)), in_header, "it is the name that counts, not its place");
    assert_eq!(session(request().body(br#"{"user": "s-1"}"#)), in_header);
    assert_ne!(session(request().headers(&cookies).tenant("t")), in_header);
    assert_eq!(session(request()), None);
}

#[test]
fn a_hash_key_is_found_or_drawn() {
    let (_, fleet) = world();
    let key = |request: Request<'_>| {
        let profile = ProfileBuilder::new("p")
            .preparer("key", |d: &mut Declare<'_>| HashKeyPreparer::declare(d, HashKeyParameters::default()));
        shown::<HashKey>(profile, &request, &fleet).expect("pods are there")
    };
    assert_eq!(key(request().seed(1).tokens(&[1, 2])), key(request().seed(2).tokens(&[1, 2])));
    assert_ne!(key(request().tokens(&[1, 2])), key(request().tokens(&[1, 3])));
    assert_eq!(key(request().seed(7)), 7);
    let conversation: Vec<u32> = (0..300).collect();
    let keys = [32, 40, 250, 300].map(|turn| key(request().tokens(&conversation[..turn])));
    assert!(keys.iter().all(|turn| *turn == keys[0]), "turns of a conversation begin alike: {keys:?}");
    assert_ne!(key(request().tokens(&conversation[..31])), keys[0], "a short prompt is keyed by all of it");
}
