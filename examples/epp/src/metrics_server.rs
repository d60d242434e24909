//! The server of the page of metrics: for whoever reaches it, or for whoever bears a token, whose file is followed.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::ArcSwap;
use axum::Router as Routes;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::{HeaderMap, StatusCode};
use pointsman_example_common::bearer_token::Token;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::followed;
use crate::picker::Picker;

/// The page, and who may read it.
pub(crate) struct MetricsServer {
    picker: Arc<Picker>,
    access: Option<Arc<Access>>,
}

/// The token that lets requests in, and the file that it is of.
struct Access {
    file: PathBuf,
    token: ArcSwap<Token>,
}

impl MetricsServer {
    /// The page of a picker, for those that bear the token of a file, if there is one.
    ///
    /// # Errors
    ///
    /// When the file cannot be read, or has no token.
    pub(crate) fn new(picker: Arc<Picker>, token_file: Option<PathBuf>) -> Result<Self, TokenError> {
        let access = token_file.map(|file| {
            let token = ArcSwap::from_pointee(read(&file)?);
            Ok(Arc::new(Access { file, token }))
        });
        Ok(Self { picker, access: access.transpose()? })
    }

    /// Serves until it is stopped.
    pub(crate) async fn serve(self, listener: TcpListener, stop: CancellationToken) {
        let Self { picker, access } = self;
        if let Some(access) = access.clone() {
            tokio::spawn(stop.clone().run_until_cancelled_owned(access.follow()));
        }
        let page = move |headers: HeaderMap| {
            let is_let_in = access.as_ref().is_none_or(|access| access.token.load().is_borne_by(&headers));
            let answer = if is_let_in { page(&picker) } else { refusal() };
            async move { answer }
        };
        let routes = Routes::new().route("/metrics", get(page));
        let served: io::Result<()> = axum::serve(listener, routes).with_graceful_shutdown(stop.cancelled_owned()).await;
        if let Err(error) = served {
            tracing::error!(%error, "the page of metrics ended");
        }
    }
}

impl Access {
    /// Follows the file. While there is no token in it the last one is good.
    async fn follow(self: Arc<Self>) {
        let (known, file) = (Token::clone(&self.token.load()), self.file.clone());
        followed::follow(
            known,
            followed::PERIOD,
            move || read(&file),
            |token| match token {
                Ok(token) => {
                    self.token.store(Arc::new(token.clone()));
                    tracing::info!("the token of the page of metrics is a new one");
                }
                Err(error) => tracing::warn!(error, "the token of the page of metrics stays as it was"),
            },
        )
        .await;
    }
}

fn page(picker: &Picker) -> Response {
    ([("content-type", "text/plain; version=0.0.4; charset=utf-8")], picker.metrics_page()).into_response()
}

fn refusal() -> Response {
    (StatusCode::UNAUTHORIZED, [("www-authenticate", "Bearer")], "a bearer token is needed\n").into_response()
}

fn read(file: &PathBuf) -> Result<Token, TokenError> {
    let text = std::fs::read_to_string(file).map_err(|source| TokenError::File { path: file.clone(), source })?;
    Token::of_file(&text).ok_or_else(|| TokenError::Empty { path: file.clone() })
}

/// Why there is no token.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TokenError {
    #[error("`{}`: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("`{}`: its first line is empty", path.display())]
    Empty { path: PathBuf },
}
