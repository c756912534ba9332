//! Who may call from where: the `Host` allowlist, the `Origin` check and the content type of state-changing requests.
//!
//! Refuses cross-origin permissions altogether: no CORS header is ever sent. With auth `none` these checks are what
//! keeps a web page in the user's browser from driving the gateway.

use std::net::IpAddr;

use axum::http::{HeaderMap, Method, StatusCode, Uri, header};

use crate::problem::Problem;

/// The methods of the routes that change something.
pub const CHANGING: [Method; 2] = [Method::POST, Method::DELETE];

/// Checks the size of a head: what was read at once may be larger than the reader's bound.
///
/// # Errors
/// 431 above `max` bytes.
pub fn check_size(method: &Method, uri: &Uri, headers: &HeaderMap, max: u64) -> Result<(), Problem> {
    /// Blanks, version and line ends of the first line; colon, blank and line end of each other.
    const LINE: usize = 12;
    const HEADER: usize = 4;
    let target = uri.path().len() + uri.query().map_or(0, |query| query.len() + 1);
    let fields: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len() + HEADER).sum();
    let bytes = method.as_str().len() + target + LINE + fields;
    if u64::try_from(bytes).is_ok_and(|bytes| bytes <= max) {
        return Ok(());
    }
    Err(Problem::new(
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
        "head_too_large",
        format!("the head of the request is larger than {max} bytes (server.max_head)"),
    ))
}

/// The configured names, ready to compare.
#[derive(Clone, Debug, Default)]
pub struct Guard {
    hosts: Vec<String>,
    origins: Vec<String>,
}

impl Guard {
    /// A guard that allows `hosts` and `origins` besides the loopback names.
    pub fn new(hosts: &[String], origins: &[String]) -> Self {
        let lower = |names: &[String]| names.iter().map(|name| name.to_ascii_lowercase()).collect();
        Self { hosts: lower(hosts), origins: lower(origins) }
    }

    /// Checks one request before anything of it is read.
    ///
    /// # Errors
    /// 400 without a readable `Host`, 403 for a foreign host or origin, 415 for another content type.
    pub fn check(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Result<(), Problem> {
        let host = single(headers, header::HOST).ok_or_else(|| {
            Problem::new(StatusCode::BAD_REQUEST, "host_missing", "the request needs exactly one Host header")
        })?;
        let target = uri.authority().map(axum::http::uri::Authority::as_str);
        if !self.allows_host(host) || target.is_some_and(|target| !self.allows_host(target)) {
            return Err(Problem::new(
                StatusCode::FORBIDDEN,
                "host_not_allowed",
                "this Host is not served here; add it to server.hosts if it should be",
            )
            .action("contact_admin"));
        }
        if headers.contains_key(header::ORIGIN)
            && !single(headers, header::ORIGIN).is_some_and(|origin| self.allows_origin(origin, host))
        {
            return Err(Problem::new(
                StatusCode::FORBIDDEN,
                "origin_not_allowed",
                "this Origin may not call; add it to server.origins if it should",
            )
            .action("contact_admin"));
        }
        // What no route takes is for the router to refuse; a test holds that there are no others.
        let changes = CHANGING.contains(method);
        let wanted = if uri.path() == "/api/v1/check" { "application/x-ndjson" } else { "application/json" };
        if changes && !is_of_type(headers, wanted) {
            return Err(Problem::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "content_type",
                format!("send the body as content-type: {wanted}"),
            ));
        }
        Ok(())
    }

    fn allows_host(&self, host: &str) -> bool {
        let host = host.to_ascii_lowercase();
        let name = host_name(&host);
        is_loopback(name) || self.hosts.iter().any(|allowed| *allowed == host || allowed == name)
    }

    fn allows_origin(&self, origin: &str, host: &str) -> bool {
        let origin = origin.to_ascii_lowercase();
        let Some(authority) = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"))
        else {
            return false; // `null` and every other scheme
        };
        authority == host.to_ascii_lowercase()
            || is_loopback(host_name(authority))
            || self.origins.contains(&origin)
    }
}

fn single(headers: &HeaderMap, name: header::HeaderName) -> Option<&str> {
    let mut values = headers.get_all(name).iter();
    let first = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(first)
}

fn is_of_type(headers: &HeaderMap, wanted: &str) -> bool {
    let Some(value) = single(headers, header::CONTENT_TYPE) else { return false };
    let essence = value.split(';').next().unwrap_or("").trim();
    essence.eq_ignore_ascii_case(wanted)
}

/// A host without its port, a trailing dot or the brackets of IPv6.
fn host_name(authority: &str) -> &str {
    if let Some(rest) = authority.strip_prefix('[') {
        return match rest.split_once(']') {
            Some((name, port)) if is_port(port) => name,
            _ => "",
        };
    }
    let name = match authority.split_once(':') {
        Some((name, _)) if is_port(authority.get(name.len()..).unwrap_or("")) => name,
        Some(_) => "",
        None => authority,
    };
    name.strip_suffix('.').unwrap_or(name)
}

fn is_port(text: &str) -> bool {
    text.is_empty() || text.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok())
}

fn is_loopback(name: &str) -> bool {
    name == "localhost" || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(method: &Method, headers: &[(&str, &str)]) -> Result<(), &'static str> {
        let guard = Guard::new(
            &["Agents.Example".to_owned(), "other.example:8443".to_owned()],
            &["https://app.example".to_owned()],
        );
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(header::HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap());
        }
        guard.check(method, &Uri::from_static("/api/v1/runs"), &map).map_err(|problem| problem.code)
    }

    #[test]
    fn only_loopback_names_and_the_configured_ones_are_hosts() {
        for host in [
            "localhost",
            "LOCALHOST:8787",
            "localhost.",
            "127.0.0.1:1",
            "127.8.8.8",
            "[::1]:8787",
            "[::1]",
            "agents.example",
            "AGENTS.example:444",
            "other.example:8443",
        ] {
            assert_eq!(check(&Method::GET, &[("host", host)]), Ok(()), "{host}");
        }
        for host in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "10.0.0.1",
            "other.example",
            "[::1]evil",
            "localhost:80:80",
            "localhost:x",
            "",
            "0.0.0.0",
            "[::]",
            "a@localhost",
        ] {
            assert_eq!(check(&Method::GET, &[("host", host)]), Err("host_not_allowed"), "{host}");
        }
        assert_eq!(check(&Method::GET, &[]), Err("host_missing"));
        assert_eq!(check(&Method::GET, &[("host", "localhost"), ("host", "localhost")]), Err("host_missing"));
    }

    #[test]
    fn only_the_own_origin_loopback_and_the_configured_ones_may_call() {
        let json = ("content-type", "application/json; charset=utf-8");
        for (host, origin) in [
            ("localhost:8787", "http://localhost:8787"),
            ("localhost:8787", "http://127.0.0.1:3000"),
            ("agents.example", "https://agents.example"),
            ("localhost", "https://APP.example"),
        ] {
            assert_eq!(check(&Method::POST, &[("host", host), ("origin", origin), json]), Ok(()), "{origin}");
        }
        for origin in [
            "null",
            "https://evil.example",
            "https://app.example.evil",
            "http://app.example",
            "file://",
            "http://localhost.evil",
            "http://localhost@evil",
        ] {
            let headers = [("host", "localhost"), ("origin", origin), json];
            assert_eq!(check(&Method::POST, &headers), Err("origin_not_allowed"), "{origin}");
        }
    }

    #[test]
    fn a_state_changing_request_is_json() {
        let host = ("host", "localhost");
        for kind in ["text/plain", "application/jsonx", "application/x-www-form-urlencoded", ""] {
            assert_eq!(check(&Method::POST, &[host, ("content-type", kind)]), Err("content_type"), "{kind}");
        }
        assert_eq!(check(&Method::POST, &[host]), Err("content_type"));
        assert_eq!(check(&Method::DELETE, &[host]), Err("content_type"));
        assert_eq!(check(&Method::GET, &[host]), Ok(()));
        assert_eq!(check(&Method::PUT, &[host]), Ok(()), "it is for the router to refuse");
    }
}
