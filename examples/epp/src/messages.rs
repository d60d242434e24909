//! Messages to Envoy: a pick, bodies and trailers that pass, and answers of our own.

use envoy_types::pb::envoy::config::core::v3::header_value_option::HeaderAppendAction;
use envoy_types::pb::envoy::config::core::v3::{HeaderValue, HeaderValueOption};
use envoy_types::pb::envoy::service::ext_proc::v3::body_mutation::Mutation;
use envoy_types::pb::envoy::service::ext_proc::v3::processing_response::Response;
use envoy_types::pb::envoy::service::ext_proc::v3::{
    BodyMutation, BodyResponse, CommonResponse, HeaderMutation, HeadersResponse, ImmediateResponse, ProcessingResponse,
    StreamedBodyResponse, TrailersResponse,
};
use envoy_types::pb::envoy::r#type::v3::HttpStatus;
use pointsman::ApiError;
use pointsman::exec::handoff::Api;

use crate::headers::{DESTINATION, DROPPED_REASON};
use crate::metadata;

/// Which way a body goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Request,
    Response,
}

/// Headers that are set, in place of what a client or a pod may have said.
pub(crate) fn set(name: &str, value: impl Into<Vec<u8>>) -> HeaderValueOption {
    let header = HeaderValue { key: name.into(), raw_value: value.into(), ..HeaderValue::default() };
    let append_action = HeaderAppendAction::OverwriteIfExistsOrAdd.into();
    HeaderValueOption { header: Some(header), append_action, ..HeaderValueOption::default() }
}

/// A pick: where a request goes, in a header and in metadata alike, with what else its headers say now.
pub(crate) fn picked(
    endpoints: &str,
    mut set_headers: Vec<HeaderValueOption>,
    remove_headers: Vec<String>,
) -> CommonResponse {
    set_headers.push(set(DESTINATION, endpoints));
    CommonResponse {
        header_mutation: Some(HeaderMutation { set_headers, remove_headers }),
        // The route may depend on headers, and so does the cluster.
        clear_route_cache: true,
        ..CommonResponse::default()
    }
}

/// The answer to a request's headers.
pub(crate) fn request_headers(common: CommonResponse, endpoints: &str) -> ProcessingResponse {
    let response = Response::RequestHeaders(HeadersResponse { response: Some(common) });
    ProcessingResponse {
        response: Some(response),
        dynamic_metadata: Some(metadata::destination(endpoints)),
        ..ProcessingResponse::default()
    }
}

/// The answer to a request's whole body, of a proxy that sent it in one piece and waits with the headers.
pub(crate) fn buffered_body(mut common: CommonResponse, endpoints: &str, body: Option<Vec<u8>>) -> ProcessingResponse {
    common.body_mutation = body.map(|body| BodyMutation { mutation: Some(Mutation::Body(body)) });
    let response = Response::RequestBody(BodyResponse { response: Some(common) });
    ProcessingResponse {
        response: Some(response),
        dynamic_metadata: Some(metadata::destination(endpoints)),
        ..ProcessingResponse::default()
    }
}

/// A request's headers that pass without some, while its body is waited for.
pub(crate) fn request_headers_without(remove_headers: Vec<String>) -> ProcessingResponse {
    let header_mutation = Some(HeaderMutation { set_headers: Vec::new(), remove_headers });
    let common = CommonResponse { header_mutation, ..CommonResponse::default() };
    plain(Response::RequestHeaders(HeadersResponse { response: Some(common) }))
}

/// Headers that pass as they are.
pub(crate) fn headers_pass(direction: Direction) -> ProcessingResponse {
    let passed = HeadersResponse { response: None };
    plain(match direction {
        Direction::Request => Response::RequestHeaders(passed),
        Direction::Response => Response::ResponseHeaders(passed),
    })
}

/// An answer's headers that pass with some more.
pub(crate) fn response_headers(set_headers: Vec<HeaderValueOption>) -> ProcessingResponse {
    let header_mutation = Some(HeaderMutation { set_headers, remove_headers: Vec::new() });
    let common = CommonResponse { header_mutation, ..CommonResponse::default() };
    plain(Response::ResponseHeaders(HeadersResponse { response: Some(common) }))
}

/// A piece of a body that passes, in a mode in which Envoy waits for what to send on.
pub(crate) fn streamed(direction: Direction, body: Vec<u8>, end_of_stream: bool) -> ProcessingResponse {
    let piece = StreamedBodyResponse { body, end_of_stream, ..StreamedBodyResponse::default() };
    let mutation = BodyMutation { mutation: Some(Mutation::StreamedResponse(piece)) };
    body_response(direction, Some(CommonResponse { body_mutation: Some(mutation), ..CommonResponse::default() }))
}

/// An answer's body, or a piece of it, in place of the one that Envoy keeps. Of a whole one its length goes along.
pub(crate) fn response_body(body: Vec<u8>, is_whole: bool) -> ProcessingResponse {
    let length = is_whole.then(|| set("content-length", body.len().to_string()));
    let header_mutation = length.map(|length| HeaderMutation { set_headers: vec![length], remove_headers: Vec::new() });
    let body_mutation = Some(BodyMutation { mutation: Some(Mutation::Body(body)) });
    body_response(
        Direction::Response,
        Some(CommonResponse { header_mutation, body_mutation, ..CommonResponse::default() }),
    )
}

/// A body that passes, in a mode in which Envoy keeps it.
pub(crate) fn body_passes(direction: Direction) -> ProcessingResponse {
    body_response(direction, None)
}

fn body_response(direction: Direction, response: Option<CommonResponse>) -> ProcessingResponse {
    let body = BodyResponse { response };
    plain(match direction {
        Direction::Request => Response::RequestBody(body),
        Direction::Response => Response::ResponseBody(body),
    })
}

/// Trailers that pass.
pub(crate) fn trailers_pass(direction: Direction) -> ProcessingResponse {
    let passed = TrailersResponse { header_mutation: None };
    plain(match direction {
        Direction::Request => Response::RequestTrailers(passed),
        Direction::Response => Response::ResponseTrailers(passed),
    })
}

/// An error, in the form of the request's API.
pub(crate) fn error(error: &ApiError, api: Api) -> ProcessingResponse {
    let (parts, body) = error.response_for(api).into_parts();
    let mut set_headers: Vec<_> =
        parts.headers.iter().map(|(name, value)| set(name.as_str(), value.as_bytes())).collect();
    if matches!(error.status.as_u16(), 429 | 503) {
        set_headers.push(set(DROPPED_REASON, dropped_reason(error.code)));
    }
    let immediate = ImmediateResponse {
        status: Some(HttpStatus { code: i32::from(error.status.as_u16()) }),
        headers: Some(HeaderMutation { set_headers, remove_headers: Vec::new() }),
        body: body.into(),
        details: error.code.into(),
        ..ImmediateResponse::default()
    };
    plain(Response::ImmediateResponse(immediate))
}

/// A code in the words of llm-d's header, where it has some.
fn dropped_reason(code: &str) -> String {
    match code {
        "no_endpoints" | "no_pod_available" => "rejected-no-endpoints".to_owned(),
        "expired" => "rejected-ttl-expired".to_owned(),
        code => format!("rejected-{}", code.replace('_', "-")),
    }
}

fn plain(response: Response) -> ProcessingResponse {
    ProcessingResponse { response: Some(response), ..ProcessingResponse::default() }
}
