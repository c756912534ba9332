//! The `authorization` header: one, of the scheme `Bearer`, with a token in the characters that tokens have (RFC 6750).
//!
//! Refuses to guess: two headers, another scheme or an odd character is no token.

use axum::http::{HeaderMap, header};

use super::Turned;

/// The longest token.
const MAX_TOKEN: usize = 16 << 10;

/// The token of a request.
///
/// # Errors
/// 401.
pub(super) fn token(headers: &HeaderMap) -> Result<&str, Turned> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let first = values.next().ok_or_else(Turned::missing)?;
    if values.next().is_some() {
        return Err(Turned::invalid("authorization_twice"));
    }
    let text = first.to_str().map_err(|_| Turned::invalid("authorization_malformed"))?;
    let (scheme, token) = text.split_once(' ').ok_or_else(|| Turned::invalid("authorization_malformed"))?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(Turned::invalid("authorization_scheme"));
    }
    let token = token.trim_matches(' ');
    let body = token.trim_end_matches('=');
    let odd = |byte: u8| !(byte.is_ascii_alphanumeric() || b"-._~+/".contains(&byte));
    if body.is_empty() || token.len() > MAX_TOKEN || body.bytes().any(odd) {
        return Err(Turned::invalid("authorization_malformed"));
    }
    Ok(token)
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn read(values: &[&str]) -> Result<String, &'static str> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::AUTHORIZATION, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        token(&headers).map(str::to_owned).map_err(|turned| turned.reason)
    }

    #[test]
    fn a_token_is_read_from_one_header_of_the_scheme_bearer() {
        for value in ["Bearer abc.d-e_f~+/==", "bearer abc.d-e_f~+/==", "BEARER  abc.d-e_f~+/== "] {
            assert_eq!(read(&[value]), Ok("abc.d-e_f~+/==".to_owned()), "{value}");
        }
        for (values, reason) in [
            (&[][..], "token_missing"),
            (&["Bearer a", "Bearer a"], "authorization_twice"),
            (&["Basic dTpw"], "authorization_scheme"),
            (&["Bearer"], "authorization_malformed"),
            (&["Bearer "], "authorization_malformed"),
            (&["Bearer =="], "authorization_malformed"),
            (&["Bearer a b"], "authorization_malformed"),
            (&["Bearer a=b"], "authorization_malformed"),
            (&["Bearer a,Bearer b"], "authorization_malformed"),
            (&["Bearer \u{e9}"], "authorization_malformed"),
            (&["abc"], "authorization_malformed"),
            (&[""], "authorization_malformed"),
        ] {
            assert_eq!(read(values), Err(reason), "{values:?}");
        }
        assert!(read(&[&format!("Bearer {}", "a".repeat(MAX_TOKEN))]).is_ok());
        assert!(read(&[&format!("Bearer {}", "a".repeat(MAX_TOKEN + 1))]).is_err());
    }
}
