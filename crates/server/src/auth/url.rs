//! Credentials in an address: refused before anything else looks at the request.
//!
//! Addresses end up in the logs of proxies, in histories and in `referer`; a token there is a token lost. What was sent
//! is repeated nowhere.

use axum::http::{StatusCode, Uri};

use crate::problem::Problem;

/// Names of query parameters that carry a secret, without `-` and `_`, in small letters.
const NAMES: &[&str] = &[
    "accesstoken",
    "apikey",
    "apitoken",
    "auth",
    "authorization",
    "authtoken",
    "bearer",
    "clientsecret",
    "credential",
    "credentials",
    "idtoken",
    "jwt",
    "passwd",
    "password",
    "pwd",
    "refreshtoken",
    "secret",
    "sessiontoken",
    "token",
    "xapikey",
];

/// Checks the address of a request.
///
/// # Errors
/// 400 where it holds a credential.
pub fn check(uri: &Uri) -> Result<(), Problem> {
    let user = uri.authority().is_some_and(|authority| authority.as_str().contains('@'));
    // A path that begins with an address has its user info there.
    if user || uri.query().is_some_and(|query| query.split(['&', ';']).any(is_credential)) {
        return Err(Problem::new(
            StatusCode::BAD_REQUEST,
            "credentials_in_url",
            "the address holds a credential; send it as `authorization: Bearer`, and replace it: it may be in logs by now",
        ));
    }
    Ok(())
}

fn is_credential(pair: &str) -> bool {
    let name = pair.split('=').next().unwrap_or("");
    let name: String = decoded(name)
        .into_iter()
        .filter(|byte| !matches!(byte, b'-' | b'_' | b' ' | b'.' | b'[' | b']' | 0))
        .map(|byte| char::from(byte.to_ascii_lowercase()))
        .collect();
    NAMES.contains(&name.as_str())
}

/// Percent-decoded; what is no escape stays as it is.
fn decoded(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let escape = bytes.get(at + 1..at + 3).filter(|_| *byte == b'%');
        let value = escape
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match value {
            Some(value) => {
                out.push(value);
                at += 3;
            }
            None => {
                out.push(if *byte == b'+' { b' ' } else { *byte });
                at += 1;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(uri: &str) -> bool {
        check(&uri.parse().unwrap()).is_err()
    }

    #[test]
    fn a_credential_in_the_address_is_refused_however_it_is_spelled() {
        for uri in [
            "/api/v1/runs?access_token=canary",
            "/api/v1/runs?limit=1&token=canary",
            "/x?TOKEN=canary",
            "/x?api_key=canary",
            "/x?api-key=canary",
            "/x?apiKey=canary",
            "/x?Authorization=Bearer%20canary",
            "/x?password=canary",
            "/x?%70assword=canary",
            "/x?a=1;token=canary",
            "/x?token",
            "/x?token=",
            "/x?+token=canary",
            "/x?token[]=canary",
            "/healthz?jwt=canary",
            "http://user:canary@localhost/x",
            "http://canary@localhost/x",
        ] {
            assert!(refused(uri), "{uri}");
            let said = format!("{:?}", check(&uri.parse().unwrap()));
            assert!(!said.contains("canary"), "{said}");
        }
    }

    #[test]
    fn what_a_route_takes_is_no_credential() {
        for uri in [
            "/api/v1/runs?limit=1&cursor=a&status=running&agent_id=token&conversation_id=password",
            "/x?protocol=agui&after=3&client_run_id=r&agui_version=1.0&sdk=5&wait=1",
            "/token/password?",
            "/x?max_tokens=3",
            "/x?%zz=1&%",
        ] {
            assert!(!refused(uri), "{uri}");
        }
    }
}
