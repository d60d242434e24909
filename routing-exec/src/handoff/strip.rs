//! Sanitizing: removes the fields of handoffs from a client's body.

use bytes::Bytes;
use json_edit::{Edit, Object};

use super::prefill;

/// Removes from a client's body whatever would send a pod to a host, or to a rank, of the client's choice: vLLM's
/// `kv_transfer_params` and `ec_transfer_params`, also in `sampling_params.extra_args` and in `vllm_xargs`, SGLang's
/// `bootstrap_*`, and both engines' data-parallel ranks. The same bytes, if there is nothing of the kind, or if the body is
/// no JSON object.
///
/// An engine may read what is no JSON object here: `NaN`, a byte-order mark, UTF-16, what is nested too deep. A
/// [`ClientRequest`](crate::ClientRequest) with such a body is refused.
///
/// Legs that take part in a handoff have these replaced anyway. This is for hosts whose clients are not trusted, to be called
/// once before anything else is done with a body.
#[must_use]
pub fn strip_handoff_fields(body: &Bytes) -> Bytes {
    let Ok(object) = Object::parse(body) else { return body.clone() };
    let is_concerned = |name: &str| FIELDS.contains(&name) || NESTED.iter().any(|path| path[0] == name);
    // Most bodies have none of these names, and are looked through once.
    if !object.members().any(|member| member.name().is_some_and(|name| is_concerned(&name))) {
        return body.clone();
    }
    let is_found = FIELDS.iter().any(|name| object.get(name).is_some());
    if !is_found && NESTED.iter().all(|path| object.get_path(path).is_none()) {
        return body.clone();
    }
    let edit = FIELDS.iter().fold(Edit::new(object), |edit, name| edit.remove(name));
    Bytes::from(NESTED.iter().fold(edit, |edit, path| edit.remove_path(path)).finish())
}

const ENCODER: &str = "ec_transfer_params";

const FIELDS: [&str; 8] = [
    prefill::PARAMETERS,
    ENCODER,
    "bootstrap_host",
    "bootstrap_port",
    "bootstrap_room",
    "routed_dp_rank",
    "disagg_prefill_dp_rank",
    "data_parallel_rank",
];

const NESTED: [&[&str]; 4] = [
    &prefill::NESTED,
    &["sampling_params", "extra_args", ENCODER],
    &["vllm_xargs", prefill::PARAMETERS],
    &["vllm_xargs", ENCODER],
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_names_no_hosts() {
        let body = Bytes::from_static(
            br#"{"kv_transfer_params":{"remote_host":"evil"}, "n": 1.0, "bootstrap_host":"evil", "bootstrap_room":1,
                "sampling_params":{"extra_args":{"kv_transfer_params":{}}}}"#,
        );
        let stripped = strip_handoff_fields(&body);
        assert_eq!(
            String::from_utf8_lossy(&stripped),
            "{ \"n\": 1.0,\n                \"sampling_params\":{\"extra_args\":{}}}"
        );
    }

    #[test]
    fn a_client_names_none_in_the_sampling_parameters_either() {
        let body = Bytes::from_static(br#"{"sampling_params":{"extra_args":{"kv_transfer_params":{},"x":1}}}"#);
        assert_eq!(strip_handoff_fields(&body), &br#"{"sampling_params":{"extra_args":{"x":1}}}"#[..]);
    }

    #[test]
    fn a_client_names_no_hosts_for_media_and_no_ranks() {
        for (body, expected) in [
            (r#"{"ec_transfer_params":{"h":1},"n":1}"#, r#"{"n":1}"#),
            (
                r#"{"sampling_params":{"extra_args":{"ec_transfer_params":1}}}"#,
                r#"{"sampling_params":{"extra_args":{}}}"#,
            ),
            (r#"{"vllm_xargs":{"kv_transfer_params":1,"x":2}}"#, r#"{"vllm_xargs":{"x":2}}"#),
            (r#"{"vllm_xargs":{"ec_transfer_params":1}}"#, r#"{"vllm_xargs":{}}"#),
            (r#"{"routed_dp_rank":1,"disagg_prefill_dp_rank":2,"data_parallel_rank":3}"#, "{}"),
            (r#"{"data\u005fparallel_rank":3}"#, "{}"),
        ] {
            assert_eq!(strip_handoff_fields(&Bytes::from_static(body.as_bytes())), expected, "{body}");
        }
    }

    #[test]
    fn other_bodies_are_the_same_bytes() {
        let sampling = br#"{"sampling_params":{"n":1},"vllm_xargs":{}}"#;
        for body in [&br#"{"model": "m"}"#[..], b"[1]", b"no json", sampling] {
            let body = Bytes::from_static(body);
            assert_eq!(strip_handoff_fields(&body).as_ptr(), body.as_ptr());
        }
    }
}
