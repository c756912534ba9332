//! `mode = "service"`: the tokens of services that speak for people, known by their SHA-256 alone.
//!
//! Refuses to tell by its time which token was nearly right: every digest is compared, each in constant time. The subject
//! header is read only once a token holds.

use std::sync::Arc;

use axum::http::{HeaderMap, StatusCode};
use causeway_contract::Limits;
use causeway_contract::id::check_id;
use causeway_store::model::Owner;
use sha2::{Digest as _, Sha256};
use subtle::{Choice, ConditionallySelectable as _, ConstantTimeEq as _};
use tokio::sync::watch;

use super::{Bearer, Turned};
use crate::config::{self, secret};
use crate::problem::Problem;

/// So many digests one name may have: the old one, the new one, and some in between.
const MAX_DIGESTS: usize = 8;

/// The owner of what a token does without a subject is called so, and so no subject may begin.
pub(super) const OF_A_TOKEN: &str = "token:";

/// The known tokens.
pub(super) struct Service {
    tokens: Vec<Token>,
    subject_header: String,
}

/// A known token.
struct Token {
    name: Arc<str>,
    digest: [u8; 32],
    /// Goes with the last configuration that lists it.
    listed: Arc<watch::Sender<()>>,
}

impl Service {
    /// Reads the digests.
    ///
    /// # Errors
    /// What is wrong, by the name of the token.
    pub fn open(config: &config::ServiceAuth) -> Result<Self, String> {
        let mut tokens: Vec<Token> = Vec::new();
        for (name, value) in &config.tokens {
            let failed = |what: &str| format!("auth.tokens.{name}: {what}");
            let text = secret::resolve(value).map_err(|what| failed(&what))?;
            let known: Arc<str> = Arc::from(name.as_str());
            let digests: Vec<[u8; 32]> =
                text.split_whitespace().map(digest).collect::<Option<_>>().ok_or_else(|| {
                    failed("holds something else than SHA-256 digests of 64 hexadecimal digits")
                })?;
            if digests.is_empty() || digests.len() > MAX_DIGESTS {
                return Err(failed(&format!(
                    "holds {} digests; 1 to {MAX_DIGESTS} it may be",
                    digests.len()
                )));
            }
            for digest in digests {
                if digest == <[u8; 32]>::from(Sha256::digest(b"")) {
                    return Err(failed("holds the digest of nothing; was the token empty?"));
                }
                if let Some(Token { name: other, .. }) = tokens.iter().find(|known| known.digest == digest) {
                    return Err(failed(&format!("has a token that auth.tokens.{other} has too")));
                }
                let listed = Arc::new(watch::Sender::new(()));
                tokens.push(Token { name: Arc::clone(&known), digest, listed });
            }
        }
        Ok(Self { tokens, subject_header: config.subject_header.clone() })
    }

    /// Goes on from an earlier list: streams of tokens that are on both do not end.
    pub fn adopt(&mut self, before: &Self) {
        for token in &mut self.tokens {
            let same = |old: &&Token| old.name == token.name && old.digest == token.digest;
            if let Some(old) = before.tokens.iter().find(same) {
                token.listed = Arc::clone(&old.listed);
            }
        }
    }

    /// Who presents this token, with these headers.
    pub fn check(&self, token: &str, headers: &HeaderMap) -> Result<Bearer, Turned> {
        let given: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        let mut found = u64::MAX;
        for (at, known) in (0u64..).zip(&self.tokens) {
            let same: Choice = given.ct_eq(&known.digest);
            found.conditional_assign(&at, same);
        }
        let known = usize::try_from(found).ok().and_then(|at| self.tokens.get(at));
        let Token { name, listed, .. } = known.ok_or_else(|| Turned::invalid("token_unknown"))?;
        let owner = match self.subject(headers) {
            Ok(Some(subject)) => Owner::new(subject),
            Ok(None) => Owner::new(format!("{OF_A_TOKEN}{name}")),
            Err(turned) => return Err(turned.by(name)),
        };
        let (credential, listed) = (Arc::clone(name), Some(listed.subscribe()));
        Ok(Bearer { owner, credential, groups: Vec::new(), expires_at: None, listed })
    }

    fn subject<'h>(&self, headers: &'h HeaderMap) -> Result<Option<&'h str>, Turned> {
        let mut values = headers.get_all(self.subject_header.as_str()).iter();
        let Some(first) = values.next() else { return Ok(None) };
        let subject = std::str::from_utf8(first.as_bytes()).ok().filter(|text| is_subject(text));
        match (subject, values.next()) {
            (Some(subject), None) => Ok(Some(subject)),
            _ => {
                let message = format!(
                    "{} must come once and hold one name: at most 256 bytes, no control characters, not `local`, \
                     not beginning with `{OF_A_TOKEN}`",
                    self.subject_header
                );
                let problem = Problem::new(StatusCode::BAD_REQUEST, "subject_invalid", message);
                Err(Turned::new(problem, "subject_invalid"))
            }
        }
    }
}

/// Whether this can be somebody's name: not what the owner without authentication, or a token, is called.
pub(super) fn is_subject(text: &str) -> bool {
    check_id(text, Limits::DEFAULT.id_bytes).is_ok()
        && text != Owner::local().as_str()
        && !text.starts_with(OF_A_TOKEN)
}

fn digest(hex: &str) -> Option<[u8; 32]> {
    let mut out = [0; 32];
    if hex.len() != 64 || !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    for (byte, digits) in out.iter_mut().zip(hex.as_bytes().chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io::Write as _;

    use axum::http::{HeaderName, HeaderValue};

    use super::*;
    use crate::config::EnvValue;

    fn hex(token: &str) -> String {
        Sha256::digest(token.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn service(tokens: &[(&str, String)]) -> Result<Service, String> {
        let mut files = Vec::new();
        let mut map = BTreeMap::new();
        for (name, text) in tokens {
            let mut file = tempfile::NamedTempFile::new().unwrap();
            file.write_all(text.as_bytes()).unwrap();
            map.insert((*name).to_owned(), EnvValue::File(file.path().to_owned()));
            files.push(file);
        }
        let header = config::SUBJECT_HEADER.to_owned();
        Service::open(&config::ServiceAuth { subject_header: header, tokens: map })
    }

    fn said(service: &Service, token: &str, subjects: &[&[u8]]) -> Result<(String, String), &'static str> {
        let mut headers = HeaderMap::new();
        for subject in subjects {
            let name = HeaderName::from_static(config::SUBJECT_HEADER);
            headers.append(name, HeaderValue::from_bytes(subject).unwrap());
        }
        let bearer = service.check(token, &headers).map_err(|turned| turned.reason)?;
        Ok((bearer.credential.to_string(), bearer.owner.as_str().to_owned()))
    }

    #[test]
    fn each_of_several_tokens_holds_and_says_whose_it_is() {
        let known = service(&[
            ("batch", hex("tok-batch")),
            ("web", format!("{}\n{}\n", hex("tok-old"), hex("tok-new").to_uppercase())),
        ])
        .unwrap();
        let pair = |name: &str, owner: &str| Ok((name.to_owned(), owner.to_owned()));
        assert_eq!(said(&known, "tok-batch", &[]), pair("batch", "token:batch"));
        for token in ["tok-old", "tok-new"] {
            assert_eq!(said(&known, token, &[]), pair("web", "token:web"));
            assert_eq!(said(&known, token, &[b"alice"]), pair("web", "alice"));
        }
        for token in ["tok", "tok-batch2", "", "TOK-BATCH", &hex("tok-batch")] {
            assert_eq!(said(&known, token, &[b"alice"]), Err("token_unknown"), "{token}");
        }
    }

    #[test]
    fn a_subject_is_one_name_and_nobody_elses_owner() {
        let known = service(&[("web", hex("t"))]).unwrap();
        assert_eq!(said(&known, "t", &["zoë".as_bytes()]).unwrap().1, "zoë");
        for bad in [&b""[..], b"local", b"token:web", b"token:", b"\xff", &[b'a'; 257]] {
            assert_eq!(said(&known, "t", &[bad]), Err("subject_invalid"), "{bad:?}");
        }
        assert_eq!(said(&known, "t", &[b"a", b"a"]), Err("subject_invalid"), "twice");
    }

    #[test]
    fn what_is_no_digest_is_told_at_the_start_by_the_name_of_the_token() {
        let fault = |text: &str| service(&[("web", text.to_owned())]).map(|_| ()).unwrap_err();
        for text in ["my-secret-token", &hex("a")[1..], &format!("{}g", &hex("a")[1..])] {
            let fault = fault(text);
            assert!(fault.starts_with("auth.tokens.web: holds something else"), "{fault}");
            assert!(!fault.contains(text), "{fault}");
        }
        assert!(fault("").contains("holds 0 digests"));
        assert!(fault(&hex("")).contains("was the token empty"));
        assert!(fault(&format!("{} ", hex("a")).repeat(2)).contains("auth.tokens.web has too"));
        let many: Vec<String> = (0..9).map(|at| hex(&at.to_string())).collect();
        assert!(fault(&many.join("\n")).contains("holds 9 digests"));
    }
}
