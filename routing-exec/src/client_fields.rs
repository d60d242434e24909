//! Restricted fields: what a client's body may not say to an engine, because it is the router's to say, or would make the
//! router's knowledge untrue.

use bytes::Bytes;
use json_edit::{Edit, Object};

use crate::read_body::ReadBody;

/// A field that is removed from clients' bodies, unless an operator allows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RestrictedField {
    /// Its path in the body, from the outermost object.
    pub path: &'static [&'static str],
    /// The engine that reads it.
    pub engine: &'static str,
    /// What it would let a client do.
    pub effect: Effect,
}

/// What a restricted field would let a client do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Effect {
    /// Send the pod to a host of the client's choice for KV blocks or media.
    NamesHosts,
    /// Choose the data-parallel rank, and so the cache.
    NamesRanks,
    /// Make the engine announce blocks that it holds already, without ever taking that back: the index has more then.
    RepeatsEvents,
    /// Make the engine compute what it has cached, and keep it twice.
    BypassesCache,
}

impl RestrictedField {
    /// Its path as one name, with dots: as operators write it.
    #[must_use]
    pub fn name(&self) -> String {
        self.path.join(".")
    }
}

/// What clients may say to engines: everything but the [restricted fields](Self::RESTRICTED) that were not allowed.
///
/// # Examples
///
/// ```
/// use bytes::Bytes;
/// use routing_exec::ClientFields;
///
/// let body = Bytes::from_static(br#"{"vllm_xargs": {"kv_cache_report_mode": "full", "x": 1}}"#);
/// assert_eq!(ClientFields::default().strip(&body), r#"{"vllm_xargs": { "x": 1}}"#);
/// let allowing = ClientFields::default().allow("vllm_xargs.kv_cache_report_mode")?;
/// assert_eq!(allowing.strip(&body), body);
/// assert!(ClientFields::default().allow("temperature").is_err());
/// # Ok::<(), routing_exec::UnrestrictedField>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientFields {
    allowed: Vec<&'static [&'static str]>,
}

impl ClientFields {
    /// Every restricted field.
    pub const RESTRICTED: &[RestrictedField] = &[
        field(&["kv_transfer_params"], "vllm", Effect::NamesHosts),
        field(&["sampling_params", "extra_args", "kv_transfer_params"], "vllm", Effect::NamesHosts),
        field(&["vllm_xargs", "kv_transfer_params"], "vllm", Effect::NamesHosts),
        field(&["ec_transfer_params"], "vllm", Effect::NamesHosts),
        field(&["sampling_params", "extra_args", "ec_transfer_params"], "vllm", Effect::NamesHosts),
        field(&["vllm_xargs", "ec_transfer_params"], "vllm", Effect::NamesHosts),
        field(&["data_parallel_rank"], "vllm", Effect::NamesRanks),
        field(&["vllm_xargs", "kv_cache_report_mode"], "vllm", Effect::RepeatsEvents),
        field(&["sampling_params", "extra_args", "kv_cache_report_mode"], "vllm", Effect::RepeatsEvents),
        field(&["sampling_params", "skip_reading_prefix_cache"], "vllm", Effect::BypassesCache),
        field(&["bootstrap_host"], "sglang", Effect::NamesHosts),
        field(&["bootstrap_port"], "sglang", Effect::NamesHosts),
        field(&["bootstrap_room"], "sglang", Effect::NamesHosts),
        field(&["routed_dp_rank"], "sglang", Effect::NamesRanks),
        field(&["disagg_prefill_dp_rank"], "sglang", Effect::NamesRanks),
        field(&["disaggregated_params"], "trtllm", Effect::NamesHosts),
    ];

    /// The same where clients may set a field, by its name: for clients that an operator trusts with it.
    ///
    /// # Errors
    ///
    /// When no restricted field has the name.
    pub fn allow(mut self, name: &str) -> Result<Self, UnrestrictedField> {
        let restricted = Self::RESTRICTED.iter().find(|field| field.name() == name);
        self.allowed.push(restricted.ok_or_else(|| UnrestrictedField(name.into()))?.path);
        Ok(self)
    }

    /// A body without restricted fields. The same bytes, if there is nothing of the kind, or if the body is no JSON object.
    ///
    /// An engine may read what is no JSON object here: `NaN`, a byte-order mark, UTF-16, what is nested too deep. A
    /// [`ClientRequest`](crate::ClientRequest) with such a body is refused.
    #[must_use]
    pub fn strip(&self, body: &Bytes) -> Bytes {
        ReadBody::read(body, |_| {}).map_or_else(|_| body.clone(), |read| self.strip_read(&read))
    }

    /// The same of a body that was read.
    pub(crate) fn strip_read(&self, read: &ReadBody) -> Bytes {
        // Nearly all bodies have nothing of the kind, and are not looked through again.
        let object = read.may_be_restricted().then(|| Object::parse(read.body()).ok()).flatten();
        let Some(object) = object else { return read.body().clone() };
        let restricted = Self::RESTRICTED.iter().map(|field| field.path).filter(|path| !self.allowed.contains(path));
        let mut removed = restricted.filter(|path| object.get_path(path).is_some()).peekable();
        if removed.peek().is_none() {
            return read.body().clone();
        }
        Bytes::from(removed.fold(Edit::new(object), |edit, path| edit.remove_path(path)).finish())
    }
}

const fn field(path: &'static [&'static str], engine: &'static str, effect: Effect) -> RestrictedField {
    RestrictedField { path, engine, effect }
}

/// A field that was to be allowed is not restricted. The operator can act.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a restricted field; those are {names}", names = names())]
#[non_exhaustive]
pub struct UnrestrictedField(pub Box<str>);

fn names() -> String {
    let names: Vec<_> = ClientFields::RESTRICTED.iter().map(RestrictedField::name).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strip(body: &'static str) -> String {
        String::from_utf8_lossy(&ClientFields::default().strip(&Bytes::from_static(body.as_bytes()))).into_owned()
    }

    /// A body with one field set, and something beside it at each level.
    fn body_with(path: &[&str]) -> String {
        path.iter().rev().fold("7".to_owned(), |value, name| format!(r#"{{"x":1,"{name}":{value}}}"#))
    }

    #[test]
    fn every_restricted_field_is_removed_and_stays_where_it_is_allowed() {
        for field in ClientFields::RESTRICTED {
            let body = Bytes::from(body_with(field.path));
            let stripped = ClientFields::default().strip(&body);
            let object = Object::parse(&stripped).expect("still an object");
            assert!(object.get_path(field.path).is_none(), "{}", field.name());
            assert_eq!(object.get("x").and_then(|x| x.as_u64()), Some(1), "{}", field.name());
            let allowing = ClientFields::default().allow(&field.name()).expect("restricted");
            assert_eq!(allowing.strip(&body), body, "{}", field.name());
        }
    }

    #[test]
    fn a_client_names_no_hosts() {
        let body = r#"{"kv_transfer_params":{"remote_host":"evil"}, "n": 1.0, "bootstrap_host":"evil", "bootstrap_room":1,
                "sampling_params":{"extra_args":{"kv_transfer_params":{}}}}"#;
        assert_eq!(strip(body), "{ \"n\": 1.0,\n                \"sampling_params\":{\"extra_args\":{}}}");
        assert_eq!(strip(r#"{"data\u005fparallel_rank":3}"#), "{}");
        assert_eq!(strip(r#"{"vllm_xargs":{"kv_cache_report_mode":"full"},"n":1}"#), r#"{"vllm_xargs":{},"n":1}"#);
    }

    #[test]
    fn other_bodies_are_the_same_bytes() {
        let sampling = br#"{"sampling_params":{"n":1},"vllm_xargs":{}}"#;
        for body in [&br#"{"model": "m"}"#[..], b"[1]", b"no json", sampling] {
            let body = Bytes::from_static(body);
            assert_eq!(ClientFields::default().strip(&body).as_ptr(), body.as_ptr());
        }
    }

    #[test]
    fn what_is_not_restricted_cannot_be_allowed() {
        let error = ClientFields::default().allow("temperature").expect_err("not restricted");
        assert!(
            error.to_string().starts_with("`temperature` is not a restricted field; those are kv_transfer_params, ")
        );
    }
}
