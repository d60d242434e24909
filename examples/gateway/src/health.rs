//! Active health checks: `GET /health` and `/metrics` of each pod, all at once, at the configured interval.

use std::sync::Arc;

use futures_util::future::join_all;
use pointsman::HttpHealth;

use super::app_state::AppState;

/// Checks every pod all the time; a new one at once.
pub(super) async fn run(app: Arc<AppState>) {
    loop {
        let interval = app.config.lock().health_check.interval;
        tokio::select! {
            () = app.pods_changed.notified() => {}
            () = tokio::time::sleep(interval) => {}
        }
        check_all(&app).await;
    }
}

/// Checks every pod once.
pub(super) async fn check_all(app: &AppState) {
    let timeout = app.config.lock().health_check.timeout;
    let checks = app.models.iter().map(|model| async {
        let check = HttpHealth::with_client(app.client.clone(), model.router.addresses()).timeout(timeout);
        model.router.check_health(&Arc::new(check)).await;
    });
    join_all(checks).await;
}
