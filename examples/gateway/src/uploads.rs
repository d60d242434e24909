//! Uploads: bodies that are being read, under bounds and deadlines of their own; only then does a request take a place.
//!
//! The rule: a body is counted as an upload until its request is admitted, so that a drain that sees neither has seen all.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use routing_exec::adapter::TokioTimer;
use tokio::time::Instant;

use super::app_state::{Admission, AppState, ClientLimits};
use super::error_response::{self, ApiError};

/// Reads the body of a request, and admits the request.
pub(super) async fn receive(
    app: &Arc<AppState>,
    limits: &ClientLimits,
    body: Body,
) -> Result<(Bytes, Admission), ApiError> {
    let max_requests = limits.limits.max_requests;
    if *app.in_flight.borrow() >= max_requests {
        // It would be refused when it is in, and is not waited for.
        return Err(error_response::busy(max_requests));
    }
    let _counted = Uploading::new(app);
    // Only now: a drain that did not count this upload has set the flag before.
    if app.is_draining() {
        return Err(error_response::draining());
    }
    let mut upload = app.uploads.begin(limits.uploads)?;
    let timer = TokioTimer::new();
    let body = app.uploads_closed.until(pin!(upload.collect(body, limits.body, &timer))).await;
    let body = body.ok_or_else(error_response::draining)??;
    let admission = app.admit(max_requests).ok_or_else(|| error_response::busy(max_requests))?;
    Ok((body, admission))
}

/// Lets bodies that are nearly in come in, once a drain has begun; the others are refused: their clients try elsewhere, and
/// nothing of them is lost.
pub(super) async fn close(app: &AppState, deadline: Instant) {
    let mut uploading = app.uploading.subscribe();
    let soon = deadline.min(Instant::now() + LAST_UPLOADS);
    let _ = tokio::time::timeout_at(soon, uploading.wait_for(|count| *count == 0)).await;
    app.uploads_closed.give();
    // They end now, each in its own task.
    let _ = tokio::time::timeout(LAST_UPLOADS, uploading.wait_for(|count| *count == 0)).await;
}

/// A body that is being read; counted until it is dropped.
struct Uploading<'a>(&'a AppState);

impl<'a> Uploading<'a> {
    fn new(app: &'a AppState) -> Self {
        app.uploading.send_modify(|count| *count += 1);
        Self(app)
    }
}

impl Drop for Uploading<'_> {
    fn drop(&mut self) {
        self.0.uploading.send_modify(|count| *count -= 1);
    }
}

/// How long a drain waits for bodies: a client that sends slowly is not waited for.
const LAST_UPLOADS: Duration = Duration::from_secs(2);
