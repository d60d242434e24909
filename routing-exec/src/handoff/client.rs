//! What a client has no say in.

use bytes::Bytes;
use routing_core::json::{Edit, Object};

use super::prefill;

/// Removes from a client's body whatever would send a pod to a host of the client's choice: vLLM's `kv_transfer_params` and
/// SGLang's `bootstrap_*`. The same bytes, if there is nothing of the kind, or if the body is no JSON object.
///
/// Legs that take part in a handoff have these replaced anyway. This is for hosts whose clients are not trusted, to be called
/// once before anything else is done with a body.
#[must_use]
pub fn strip_handoff_fields(body: &Bytes) -> Bytes {
    let Ok(object) = Object::parse(body) else { return body.clone() };
    let is_handoff = |name: &str| prefill::PARAMETERS == name || BOOTSTRAP.contains(&name);
    let is_found = object.members().any(|member| member.name().is_some_and(|name| is_handoff(&name)));
    if !is_found && object.get_path(&prefill::NESTED).is_none() {
        return body.clone();
    }
    let edit = Edit::new(object).remove(prefill::PARAMETERS).remove_path(&prefill::NESTED);
    Bytes::from(BOOTSTRAP.iter().fold(edit, |edit, name| edit.remove(name)).finish())
}

const BOOTSTRAP: [&str; 3] = ["bootstrap_host", "bootstrap_port", "bootstrap_room"];

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
    fn other_bodies_are_the_same_bytes() {
        for body in [&br#"{"model": "m"}"#[..], b"[1]", b"no json"] {
            let body = Bytes::from_static(body);
            assert_eq!(strip_handoff_fields(&body).as_ptr(), body.as_ptr());
        }
    }
}
