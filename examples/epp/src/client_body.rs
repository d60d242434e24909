//! A client's body on its way to pods: the model that it names, the name that takes its place, and restricted fields, which go.
//!
//! What is no JSON object stays as it is: whoever reads it says so.

use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use json_edit::{Edit, Object};
use pointsman::ApiError;
use pointsman::exec::ClientFields;

use crate::headers::{MODEL_REWRITE, first};
use crate::picker::{Picker, aside};

/// A body as it goes on.
#[derive(Debug)]
pub(crate) struct ClientBody {
    pub(crate) body: Bytes,
    /// The model as the client called it; nothing where the body is not read, or names none.
    pub(crate) model: Arc<str>,
    /// As it is called in the body.
    pub(crate) target: Arc<str>,
}

impl ClientBody {
    /// A body that goes on as it came.
    fn unread(body: Bytes) -> Self {
        Self { body, model: "".into(), target: "".into() }
    }
}

impl Picker {
    /// What a client's body becomes.
    ///
    /// # Errors
    ///
    /// 500 if that comes to no end.
    pub(crate) async fn client_body(self: &Arc<Self>, parts: &Parts, given: &Bytes) -> Result<ClientBody, ApiError> {
        if !self.reads_whole(parts, given) {
            return Ok(ClientBody::unread(given.clone()));
        }
        let by_header = first(&parts.headers, &MODEL_REWRITE).map(Arc::from);
        let (picker, given) = (Arc::clone(self), given.clone());
        aside(given.len(), move || picker.edited(given, by_header)).await
    }

    fn edited(&self, given: Bytes, by_header: Option<Arc<str>>) -> ClientBody {
        let Some(ReadBody { model, is_restricted }) = ReadBody::of(&given) else { return ClientBody::unread(given) };
        let target = self.target(&model, by_header).unwrap_or_else(|| Arc::clone(&model));
        let stripped = if is_restricted { self.options().client_fields.strip(&given) } else { given };
        let body = if target == model { stripped } else { with_model(&stripped, &target) };
        ClientBody { body, model, target }
    }

    /// The name that takes a model's place: by a rule, or else by a header. As with llm-d, the rule goes by what the client said.
    /// A body that names no model is given none: that is for whoever reads it to say.
    fn target(&self, model: &Arc<str>, by_header: Option<Arc<str>>) -> Option<Arc<str>> {
        if model.is_empty() {
            return None;
        }
        let Some((resource, target)) = self.rewrite_rules().load().target(model, self.draw()) else { return by_header };
        self.metrics().scheduling.rewritten([resource, Arc::clone(model), Arc::clone(&target)]);
        Some(target)
    }
}

/// What is read of a body, in one pass.
struct ReadBody {
    model: Arc<str>,
    /// Whether there may be a restricted field in it.
    is_restricted: bool,
}

impl ReadBody {
    fn of(body: &[u8]) -> Option<Self> {
        let (mut model, mut is_restricted) = (None, false);
        Object::parse_each(body, |member| {
            if member.is("model") {
                model = Some(member.value());
            }
            is_restricted |= outermost().any(|name| member.is(name));
        })
        .ok()?;
        let model = model.and_then(|model| model.as_str()).map_or_else(|| "".into(), |name| name.into());
        Some(Self { model, is_restricted })
    }
}

/// The members that restricted fields are, or are in.
fn outermost() -> impl Iterator<Item = &'static str> {
    ClientFields::RESTRICTED.iter().filter_map(|field| field.path.first().copied())
}

/// An object for another model.
fn with_model(body: &Bytes, name: &str) -> Bytes {
    Object::parse(body).map_or_else(|_| body.clone(), |object| Edit::new(object).set("model", name).finish().into())
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use futures_util::FutureExt;
    use pointsman::Router;
    use tokio::runtime::Builder;
    use tokio::task::spawn_blocking;

    use super::*;
    use crate::picker::PickerOptions;

    /// The one thread for long work is taken, so that a long body cannot be done before it is waited for.
    #[test]
    fn a_long_body_keeps_no_other_request_waiting() {
        let picker =
            Arc::new(Picker::new(Router::builder("m").any_adapter().build().unwrap(), PickerOptions::default()));
        let (parts, ()) = http::Request::post("/v1/completions").body(()).unwrap().into_parts();
        let body = |length: usize| {
            Bytes::from(format!(r#"{{"model":"m","prompt":"{}","bootstrap_port":1}}"#, "x".repeat(length)))
        };
        let (short, long) = (body(100), body(1 << 20));
        let runtime = Builder::new_current_thread().max_blocking_threads(1).build().unwrap();
        runtime.block_on(async {
            let (release, released) = mpsc::channel::<()>();
            let taken = spawn_blocking(move || released.recv());
            assert!(picker.client_body(&parts, &short).now_or_never().is_some());
            let mut reading = Box::pin(picker.client_body(&parts, &long));
            assert!(reading.as_mut().now_or_never().is_none());
            drop(release);
            taken.await.unwrap().unwrap_err();
            let read = reading.await.unwrap();
            assert_eq!(read.body.len(), long.len() - r#","bootstrap_port":1"#.len());
        });
    }
}
