//! What the command line shows to a gateway that asks who calls: a token by reference, and whom it speaks for.
//!
//! Refuses a token on the command line, where every process of the machine can read it, and to send one unencrypted to
//! another machine.

use std::net::IpAddr;
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use secrecy::{ExposeSecret as _, SecretString};

/// The variable that is looked at when none is named.
const DEFAULT_VARIABLE: &str = "CAUSEWAY_TOKEN";
/// The header that names the subject, unless a gateway was told another.
const SUBJECT: &str = "x-causeway-subject";

/// Options of commands that ask a gateway.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The variable that holds the gateway's token [default: CAUSEWAY_TOKEN, where it is set]
    #[arg(long, value_name = "VARIABLE", global = true, conflicts_with = "token_file")]
    token_env: Option<String>,
    /// The file that holds the gateway's token
    #[arg(long, value_name = "FILE", global = true)]
    token_file: Option<PathBuf>,
    /// Whom the token of a service speaks for
    #[arg(long, value_name = "NAME", global = true)]
    subject: Option<String>,
}

/// What is sent along.
pub struct Credential {
    bearer: Option<SecretString>,
    subject: Option<String>,
}

impl Args {
    /// What to send along to `url`.
    ///
    /// # Errors
    /// The token is not where it should be, is none, or would go in the clear to another machine.
    pub fn credential(&self, url: &str) -> anyhow::Result<Credential> {
        let token = match (&self.token_file, &self.token_env) {
            (Some(file), _) => Some(
                std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?,
            ),
            (None, Some(variable)) => {
                let told = std::env::var(variable);
                Some(
                    told.map_err(|_| anyhow::anyhow!("the variable {variable} is not set, or not in UTF-8"))?,
                )
            }
            (None, None) => std::env::var(DEFAULT_VARIABLE).ok(),
        };
        let token = token.map(SecretString::from);
        let bearer = token.map(|token| bearer(&token)).transpose()?;
        if bearer.is_some() && !is_loopback(url) {
            bail!(
                "the token would go unencrypted to another machine; reach the gateway through a loopback address, e.g. \
                 with `ssh -L`"
            );
        }
        Ok(Credential { bearer, subject: self.subject.clone() })
    }
}

impl Credential {
    /// The headers of a request.
    pub fn headers(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let bearer = self.bearer.as_ref().map(|bearer| ("authorization", bearer.expose_secret()));
        bearer.into_iter().chain(self.subject.as_deref().map(|subject| (SUBJECT, subject)))
    }
}

fn bearer(token: &SecretString) -> anyhow::Result<SecretString> {
    let text = token.expose_secret().trim_end_matches(['\r', '\n']);
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        bail!("the token is empty, or holds what no token may hold");
    }
    Ok(format!("Bearer {text}").into())
}

fn is_loopback(url: &str) -> bool {
    let authority = url.trim_start_matches("http://").split('/').next().unwrap_or("");
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or(""),
        None => authority.split(':').next().unwrap_or(""),
    };
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn shown(text: &str, url: &str) -> Result<Vec<(&'static str, String)>, String> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        let subject = Some("alice".to_owned());
        let args = Args { token_env: None, token_file: Some(file.path().to_owned()), subject };
        let credential = args.credential(url).map_err(|error| error.to_string())?;
        Ok(credential.headers().map(|(name, value)| (name, value.to_owned())).collect())
    }

    #[test]
    fn a_token_comes_from_a_file_and_stays_on_this_machine() {
        let headers =
            [("authorization", "Bearer tok".to_owned()), ("x-causeway-subject", "alice".to_owned())];
        for url in ["http://127.0.0.1:1", "http://localhost:8787/x", "http://[::1]:1", "http://LOCALHOST"] {
            assert_eq!(shown("tok\n", url).unwrap(), headers, "{url}");
        }
        for url in ["http://10.0.0.1:1", "http://localhost.evil.example", "http://127.0.0.1@evil.example"] {
            assert!(shown("canary", url).unwrap_err().contains("unencrypted"), "{url}");
        }
        for text in ["", "\n", "can ary", "can\u{1b}ary"] {
            let error = shown(text, "http://localhost").unwrap_err();
            assert!(error.contains("the token is empty") && !error.contains("ary"), "{error}");
        }
    }
}
