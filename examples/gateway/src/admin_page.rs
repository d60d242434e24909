//! Admin page at `/`: pods, requests in flight, decisions and charts, drawn from `GET /state` once a second.
//!
//! Plain HTML, CSS and JavaScript embedded in the binary. Names and ids enter the page as text, never as markup; and should
//! that fail, the content security policy of every file lets nothing run that is not served here.

use axum::Router;
use axum::response::IntoResponse;
use axum::routing::get;
use http::HeaderName;
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS};

/// The page and its files. It reads `/state` beside it.
pub fn routes() -> Router {
    FILES.iter().fold(Router::new(), |router, &(path, kind, text)| router.route(path, get(move || serve(kind, text))))
}

async fn serve(kind: &'static str, text: &'static str) -> impl IntoResponse {
    let headers: [(HeaderName, &str); 5] = [
        (CONTENT_TYPE, kind),
        // A newer binary is a newer page.
        (CACHE_CONTROL, "no-cache"),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
    ];
    (headers, text)
}

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'self'";

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const JS: &str = "text/javascript; charset=utf-8";

const FILES: [(&str, &str, &str); 9] = [
    ("/", HTML, include_str!("admin_page/index.html")),
    ("/page/icon.svg", "image/svg+xml", include_str!("admin_page/icon.svg")),
    ("/page/style.css", CSS, include_str!("admin_page/style.css")),
    ("/page/page.js", JS, include_str!("admin_page/page.js")),
    ("/page/dom.js", JS, include_str!("admin_page/dom.js")),
    ("/page/charts.js", JS, include_str!("admin_page/charts.js")),
    ("/page/fleet.js", JS, include_str!("admin_page/fleet.js")),
    ("/page/pods.js", JS, include_str!("admin_page/pods.js")),
    ("/page/decisions.js", JS, include_str!("admin_page/decisions.js")),
];

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use http::Request;
    use tower::Service;

    use super::*;

    #[tokio::test]
    async fn every_file_comes_with_its_type_and_the_policy() {
        for (path, kind, _) in FILES {
            let answer = routes().call(Request::get(path).body(Body::empty()).unwrap()).await.unwrap();
            let header = |name: HeaderName| answer.headers().get(name).unwrap().to_str().unwrap();
            assert_eq!(answer.status(), 200, "{path}");
            assert_eq!((header(CONTENT_TYPE), header(CACHE_CONTROL)), (kind, "no-cache"), "{path}");
            let policy = header(CONTENT_SECURITY_POLICY);
            assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{path}: {policy}");
        }
    }

    #[test]
    fn nothing_is_loaded_from_elsewhere_and_nothing_enters_as_markup() {
        for (path, _, text) in FILES {
            let namespaces = text.replace("http://www.w3.org/2000/svg", "");
            for word in
                ["http://", "https://", "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("]
            {
                assert!(!namespaces.contains(word), "{path} has `{word}`");
            }
        }
    }

    #[test]
    fn every_file_that_is_named_is_served() {
        let served = |name: &str| FILES.iter().any(|(path, ..)| path.strip_prefix('/') == Some(name));
        let named = |text: &'static str, quote: &'static str| {
            text.split(quote).skip(1).filter_map(|rest| rest.split('"').next())
        };
        for attribute in ["href=\"page/", "src=\"page/"] {
            assert!(named(FILES[0].2, attribute).all(|name| served(&format!("page/{name}"))), "{attribute}");
        }
        for (path, _, text) in FILES {
            assert!(named(text, "from \"./").all(|name| served(&format!("page/{name}"))), "{path}");
        }
    }
}
