//! Metadata and attributes of a message: which endpoints may be picked, which one served, how an answer came about.

use envoy_types::pb::envoy::service::ext_proc::v3::ProcessingRequest;
use envoy_types::pb::google::protobuf::value::Kind;
use envoy_types::pb::google::protobuf::{Struct, Value};

use crate::headers::{DESTINATION, LB_NAMESPACE, SERVED, SUBSET, SUBSET_NAMESPACE};

/// The endpoints that may be picked; none if any may. An empty list allows nothing.
#[must_use]
pub(crate) fn subset(message: &ProcessingRequest) -> Option<Vec<&str>> {
    match kind(field(filter_metadata(message, SUBSET_NAMESPACE)?, SUBSET)?)? {
        Kind::ListValue(list) => Some(list.values.iter().filter_map(text).collect()),
        // As some gateways write it.
        Kind::StringValue(list) => Some(split(list).collect()),
        _ => None,
    }
}

/// The endpoint that served, as the proxy reports it: by the protocol's metadata, or by Envoy's own attribute.
#[must_use]
pub(crate) fn served(message: &ProcessingRequest) -> Option<&str> {
    let by_protocol = || text(field(filter_metadata(message, LB_NAMESPACE)?, SERVED)?);
    by_protocol().or_else(|| text(attribute(message, "upstream.address")?)).filter(|address| !address.is_empty())
}

/// How the answer came about, in Envoy's words, if it was asked to say so.
#[must_use]
pub(crate) fn code_details(message: &ProcessingRequest) -> Option<&str> {
    text(attribute(message, "response.code_details")?)
}

/// How many endpoints the proxy tried, if it was asked to say so.
#[must_use]
pub(crate) fn attempts(message: &ProcessingRequest) -> Option<f64> {
    match kind(attribute(message, "upstream.request_attempt_count")?)? {
        Kind::NumberValue(attempts) => Some(*attempts),
        Kind::StringValue(attempts) => attempts.parse().ok(),
        _ => None,
    }
}

/// Endpoints in a list as headers have them.
pub(crate) fn split(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim).filter(|endpoint| !endpoint.is_empty())
}

/// The metadata of a pick.
#[must_use]
pub(crate) fn destination(endpoints: &str) -> Struct {
    let value = |kind| Value { kind: Some(kind) };
    let inner = Struct { fields: [(DESTINATION.into(), value(Kind::StringValue(endpoints.into())))].into() };
    Struct { fields: [(LB_NAMESPACE.into(), value(Kind::StructValue(inner)))].into() }
}

fn filter_metadata<'m>(message: &'m ProcessingRequest, namespace: &str) -> Option<&'m Struct> {
    message.metadata_context.as_ref()?.filter_metadata.get(namespace)
}

/// Attributes come under the name of the filter, whatever it was called.
fn attribute<'m>(message: &'m ProcessingRequest, name: &str) -> Option<&'m Value> {
    message.attributes.values().find_map(|attributes| field(attributes, name))
}

fn field<'m>(of: &'m Struct, name: &str) -> Option<&'m Value> {
    of.fields.get(name)
}

fn kind(value: &Value) -> Option<&Kind> {
    value.kind.as_ref()
}

fn text(value: &Value) -> Option<&str> {
    match kind(value)? {
        Kind::StringValue(text) => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use envoy_types::pb::envoy::config::core::v3::Metadata;
    use envoy_types::pb::google::protobuf::ListValue;

    use super::*;

    fn with(namespace: &str, name: &str, kind: Kind) -> ProcessingRequest {
        let fields = [(name.into(), Value { kind: Some(kind) })].into();
        let filter_metadata = [(namespace.into(), Struct { fields })].into();
        let metadata_context = Some(Metadata { filter_metadata, ..Metadata::default() });
        ProcessingRequest { metadata_context, ..ProcessingRequest::default() }
    }

    #[test]
    fn a_subset_is_a_list_or_a_text_and_may_be_empty() {
        let text = |text: &str| Kind::StringValue(text.into());
        let list = |texts: &[&str]| {
            let values = texts.iter().map(|value| Value { kind: Some(text(value)) }).collect();
            Kind::ListValue(ListValue { values })
        };
        let subset_of = |kind| subset(&with(SUBSET_NAMESPACE, SUBSET, kind)).map(|list| list.join(" "));
        assert_eq!(subset_of(list(&["a:1", "b:2"])).as_deref(), Some("a:1 b:2"));
        assert_eq!(subset_of(text("a:1, b:2,")).as_deref(), Some("a:1 b:2"));
        assert_eq!(subset_of(list(&[])).as_deref(), Some(""));
        assert_eq!(subset_of(Kind::BoolValue(true)), None);
        assert_eq!(subset(&ProcessingRequest::default()), None);
    }

    #[test]
    fn what_served_is_told_by_metadata_or_by_an_attribute() {
        let told = with(LB_NAMESPACE, SERVED, Kind::StringValue("10.0.0.5:8000".into()));
        assert_eq!(served(&told), Some("10.0.0.5:8000"));
        let fields =
            [("upstream.address".into(), Value { kind: Some(Kind::StringValue("10.0.0.6:8000".into())) })].into();
        let attributes = [("envoy.filters.http.ext_proc".into(), Struct { fields })].into();
        let seen = ProcessingRequest { attributes, ..ProcessingRequest::default() };
        assert_eq!((served(&seen), code_details(&seen)), (Some("10.0.0.6:8000"), None));
        assert_eq!(served(&ProcessingRequest::default()), None);
    }

    #[test]
    fn a_pick_is_in_the_metadata_of_load_balancing() {
        let Some(Kind::StructValue(inner)) =
            destination("a:1,b:2").fields.remove(LB_NAMESPACE).and_then(|value| value.kind)
        else {
            panic!("no struct");
        };
        assert_eq!(inner.fields.get(DESTINATION).and_then(text), Some("a:1,b:2"));
    }
}
