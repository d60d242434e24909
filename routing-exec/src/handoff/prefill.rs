//! Prefill legs: one output token, and no stream; what both legs of vLLM's dialects have to say of transfers.

use json_edit::{Edit, Fragment, Object, Raw};

use super::api::Api;
use super::error::{DroppedHandoff, HandoffError};
use super::leg::{LegBody, LegContext};

/// Which limits a dialect sets besides the one that every request of an API has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Caps {
    /// `max_completion_tokens`.
    pub(super) completion: When,
    /// `min_tokens`. Engines refuse more than the most, so one that is there must come down.
    pub(super) least: When,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    Always,
    /// Only if the client has set it.
    IfPresent,
}

/// The client's body, changed so that one token is made and comes as a whole.
pub(super) fn one_token<'a>(api: Api, body: Object<'a>, caps: Caps) -> Result<Edit<'a>, HandoffError> {
    let edit = Edit::new(body).set("stream", false).remove("stream_options");
    let set = |edit: Edit<'a>, when: When, path: &[&'a str]| {
        if when == When::Always || body.get_path(path).is_some() { edit.set_path(path, 1) } else { edit }
    };
    Ok(match api {
        Api::Chat | Api::Completions | Api::Messages => {
            let edit = edit.set("max_tokens", 1);
            let edit = set(edit, caps.completion, &["max_completion_tokens"]);
            set(edit, caps.least, &["min_tokens"])
        }
        Api::Responses => edit.set("max_output_tokens", 1),
        Api::InferenceGenerate => {
            let edit = edit.set_path(&["sampling_params", "max_tokens"], 1);
            set(edit, caps.least, &["sampling_params", "min_tokens"])
        }
        Api::Generate => {
            let edit = edit.set_path(&["sampling_params", "max_new_tokens"], 1);
            set(edit, When::IfPresent, &["sampling_params", "min_new_tokens"])
        }
        Api::Embeddings | Api::CountTokens | Api::Other => return Err(HandoffError::Api(api)),
    })
}

/// Sets vLLM's parameters of a transfer, where the API reads them.
pub(super) fn set_transfer<'a>(edit: Edit<'a>, api: Api, parameters: Fragment<'a>) -> Edit<'a> {
    let edit = match api {
        // Declared at the top, and read from the sampling parameters.
        Api::InferenceGenerate => edit.set_path(&NESTED, parameters.clone()),
        _ => edit,
    };
    edit.set(PARAMETERS, parameters)
}

/// Removes them from wherever they could be read.
pub(super) fn unset_transfer(edit: Edit<'_>) -> Edit<'_> {
    edit.remove(PARAMETERS).remove_path(&NESTED)
}

/// The body without them, if it has any.
pub(super) fn remove_transfer(body: Object<'_>) -> Option<Vec<u8>> {
    let is_there = body.get(PARAMETERS).is_some() || body.get_path(&NESTED).is_some();
    is_there.then(|| unset_transfer(Edit::new(body)).finish())
}

/// The leg of a decode pod that is told of no transfer: it prefills by itself. What a client wrote there itself would send the pod to a host of
/// the client's choice.
pub(super) fn dropped(leg: &LegContext<'_>, why: DroppedHandoff) -> Result<LegBody, HandoffError> {
    let without = remove_transfer(leg.object()?).map(|body| Ok(LegBody::new(body)));
    Ok(LegBody { dropped: Some(why), ..without.unwrap_or_else(|| leg.untouched())? })
}

/// Whether vLLM makes several requests of one, for each prompt and each answer: a transfer is of one, so that the others' blocks would stay where
/// they are for minutes, or be those of another's prompt.
pub(super) fn is_split(api: Api, body: Object<'_>) -> bool {
    // vLLM reads numbers in quotes too.
    let is_one = |answers: Raw<'_>| answers.is_null() || answers.as_f64().is_some_and(|answers| answers <= 1.0);
    let answers = |path: &[&str]| body.get_path(path).is_some_and(|answers| !is_one(answers));
    let is_several = match api {
        Api::Chat | Api::Completions => answers(&["n"]) || answers(&["best_of"]),
        Api::Generate | Api::InferenceGenerate => answers(&["sampling_params", "n"]),
        _ => false,
    };
    is_several || prompts(api, body).is_some_and(|prompts| prompts > 1)
}

pub(super) const PARAMETERS: &str = "kv_transfer_params";
pub(super) const NESTED: [&str; 3] = ["sampling_params", "extra_args", PARAMETERS];

/// How many prompts a request has, if it has a list of them.
pub(super) fn prompts(api: Api, body: Object<'_>) -> Option<usize> {
    let lists: &[&str] = match api {
        Api::Completions => &["prompt", "prompt_embeds"],
        Api::Generate => &["text", "input_ids"],
        _ => &[],
    };
    let count = |name: &&str| {
        let mut elements = body.get(name)?.array()?;
        // A list of numbers is one prompt in tokens.
        let first = elements.next()?;
        (first.as_str().is_some() || first.array().is_some()).then(|| 1 + elements.count())
    };
    lists.iter().filter_map(count).reduce(|one, other| one + other)
}
