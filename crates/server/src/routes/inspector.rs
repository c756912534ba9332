//! The inspector: a page, its script and its style sheet, held in the binary. Everything it shows it asks of the same
//! routes as any other client, with the caller's own identity.
//!
//! Refuses to run anything that did not come with the binary: the policy allows no inline script or style, no other
//! origin, no frame around it.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use bytes::Bytes;
use sha2::{Digest as _, Sha256};

use crate::problem::Problem;

/// Path and bytes of every file of `assets/`.
const FILES: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/assets.rs"));

/// What a page of the inspector may do.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
                      require-trusted-types-for 'script'; trusted-types 'none'";

/// A file as it is answered.
struct Asset {
    bytes: &'static [u8],
    content_type: &'static str,
    etag: String,
    cache: &'static str,
}

static ASSETS: LazyLock<BTreeMap<&'static str, Asset>> = LazyLock::new(|| {
    let asset = |&(path, bytes): &(&'static str, &'static [u8])| {
        // Built files are named after their content; the page that names them is asked for again every time.
        let (path, cache) = match path {
            "/index.html" => ("/", "no-cache"),
            path if path.starts_with("/assets/") => (path, "public, max-age=31536000, immutable"),
            path => (path, "no-cache"),
        };
        let digest = Sha256::digest(bytes);
        let hex: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        (path, Asset { bytes, content_type: content_type(path), etag: format!("\"{hex}\""), cache })
    };
    FILES.iter().map(asset).collect()
});

fn content_type(path: &str) -> &'static str {
    match path.rsplit_once('.').map(|(_, ending)| ending) {
        None | Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("json") => "application/json",
        Some("txt") => "text/plain; charset=utf-8",
        Some(_) => "application/octet-stream",
    }
}

/// `GET /` and `GET /assets/{*path}`
pub async fn file(request: Request) -> Result<Response<Body>, Problem> {
    let Some(asset) = ASSETS.get(request.uri().path()) else {
        return Err(Problem::new(StatusCode::NOT_FOUND, "route_not_found", "Not Found"));
    };
    let known = is_known(request.headers(), &asset.etag);
    let body = if known { Body::empty() } else { Body::from(Bytes::from_static(asset.bytes)) };
    let mut response = Response::new(body);
    if known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_TYPE, asset.content_type),
        (header::CACHE_CONTROL, asset.cache),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (header::X_FRAME_OPTIONS, "DENY"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if let Ok(etag) = HeaderValue::from_str(&asset.etag) {
        headers.insert(header::ETAG, etag);
    }
    Ok(response)
}

/// Whether the client has these bytes already.
fn is_known(headers: &HeaderMap, etag: &str) -> bool {
    headers
        .get_all(header::IF_NONE_MATCH)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|list| list.split(','))
        .map(|one| one.trim().trim_start_matches("W/"))
        .any(|one| one == etag || one == "*")
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    async fn get(path: &str, known: Option<&str>) -> Result<Response<Body>, Problem> {
        let mut request = Request::builder().uri(path);
        if let Some(known) = known {
            request = request.header(header::IF_NONE_MATCH, known);
        }
        file(request.body(Body::empty()).unwrap()).await
    }

    /// The files that the page names.
    fn named_in(page: &str) -> Vec<String> {
        page.split('"').filter(|word| word.starts_with("/assets/")).map(str::to_owned).collect()
    }

    #[tokio::test]
    async fn the_page_and_all_it_names_are_in_the_binary_with_their_types() {
        let page = get("/", None).await.unwrap();
        assert_eq!(page.headers()[header::CONTENT_TYPE], "text/html; charset=utf-8");
        assert_eq!(page.headers()[header::CACHE_CONTROL], "no-cache");
        let page = page.into_body().collect().await.unwrap().to_bytes();
        let names = named_in(std::str::from_utf8(&page).unwrap());
        let types: Vec<&str> = names.iter().map(|name| content_type(name)).collect();
        assert_eq!(types, ["text/javascript; charset=utf-8", "text/css; charset=utf-8"], "{names:?}");
        for name in names {
            let answer = get(&name, None).await.unwrap();
            assert_eq!(answer.headers()[header::CONTENT_TYPE], content_type(&name));
            assert_eq!(answer.headers()[header::CACHE_CONTROL], "public, max-age=31536000, immutable");
        }
    }

    #[tokio::test]
    async fn the_page_has_no_inline_script_or_style_and_forbids_them() {
        let page = FILES.iter().find(|(path, _)| *path == "/index.html").unwrap().1;
        let page = std::str::from_utf8(page).unwrap();
        for forbidden in ["<style", " style=", " onload=", "javascript:", "http://", "https://"] {
            assert!(!page.contains(forbidden), "{forbidden}");
        }
        for script in page.split("<script").skip(1) {
            assert!(script.split('>').next().unwrap().contains("src=\"/assets/"), "{script}");
        }
        let policy = get("/", None).await.unwrap().headers()[header::CONTENT_SECURITY_POLICY].clone();
        let policy = policy.to_str().unwrap();
        assert!(policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self';"), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
    }

    #[tokio::test]
    async fn who_has_a_file_already_is_not_sent_it_again() {
        let first = get("/", None).await.unwrap();
        let etag = first.headers()[header::ETAG].to_str().unwrap().to_owned();
        for known in [etag.clone(), format!("W/{etag}"), format!("\"other\", {etag}"), "*".to_owned()] {
            let again = get("/", Some(&known)).await.unwrap();
            assert_eq!(
                (again.status(), again.headers()[header::ETAG].to_str().unwrap()),
                (StatusCode::NOT_MODIFIED, &*etag)
            );
            assert!(again.into_body().collect().await.unwrap().to_bytes().is_empty());
        }
        assert_eq!(get("/", Some("\"other\"")).await.unwrap().status(), StatusCode::OK);
    }

    #[tokio::test]
    async fn nothing_else_is_a_file() {
        for path in ["/assets/", "/assets/..", "/assets/../index.html", "/index.html", "/assets/x.js"] {
            assert_eq!(get(path, None).await.unwrap_err().code, "route_not_found", "{path}");
        }
    }
}
