//! `[auth]`: who may call, and which agents are for whom.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use causeway_engine::http::config::Url;

use super::EnvValue;

/// The header that names the subject, unless the configuration names another.
pub const SUBJECT_HEADER: &str = "x-causeway-subject";

/// `[auth]`.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Auth {
    /// Whose word counts.
    pub mode: AuthMode,
    /// Whether `/metrics` needs no token.
    pub open_metrics: bool,
    /// `unlisted_agents = "closed"`: an agent without a list is for nobody.
    pub closed: bool,
    /// `[auth.agents.NAME]`: whom an agent is for.
    pub agents: BTreeMap<String, AllowedCallers>,
}

/// Whose word counts.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum AuthMode {
    /// Anybody who reaches the loopback address.
    #[default]
    None,
    /// Services with tokens, which speak for people.
    Service(ServiceAuth),
    /// An identity provider that signs tokens.
    Jwt(Box<JwtAuth>),
}

impl AuthMode {
    /// The spelling of the configuration.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Service(_) => "service",
            Self::Jwt(_) => "jwt",
        }
    }
}

/// `mode = "service"`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ServiceAuth {
    /// The header that names the person a service speaks for.
    pub subject_header: String,
    /// The SHA-256 digests of tokens, by the name of the service; never plain text.
    pub tokens: BTreeMap<String, EnvValue>,
}

/// `mode = "jwt"`: `[auth.jwt]`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct JwtAuth {
    /// What `iss` must be.
    pub issuer: String,
    /// What `aud` must hold one of.
    pub audience: Vec<String>,
    /// Where the public keys are.
    pub keys: KeySource,
    /// What may sign.
    pub algorithms: Vec<Algorithm>,
    /// How far clocks may differ; at most a minute.
    pub leeway: Duration,
    /// The claim that names the groups.
    pub groups_claim: String,
    /// The age at which keys are asked for again.
    pub refresh: Duration,
    /// How long keys are good after they were last had.
    pub keep: Duration,
    /// How long asking for them may take.
    pub timeout: Duration,
}

/// Where a key set is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum KeySource {
    /// `jwks_file`.
    File(PathBuf),
    /// `jwks_url`, with the authorities of `ca_file` instead of the system's.
    Url {
        /// The address.
        url: Url,
        /// Certificate authorities in PEM.
        ca_file: Option<PathBuf>,
    },
}

/// What signs a token: public keys only, so that nobody who checks tokens can make some.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[allow(missing_docs, reason = "the names of RFC 7518 and RFC 8037")]
pub enum Algorithm {
    Rs256,
    Rs384,
    Rs512,
    Ps256,
    Ps384,
    Ps512,
    Es256,
    Es384,
    EdDsa,
}

impl Algorithm {
    /// All of them.
    pub const ALL: &[Self] = &[
        Self::Rs256,
        Self::Rs384,
        Self::Rs512,
        Self::Ps256,
        Self::Ps384,
        Self::Ps512,
        Self::Es256,
        Self::Es384,
        Self::EdDsa,
    ];

    /// The spelling of the registry, and of the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rs256 => "RS256",
            Self::Rs384 => "RS384",
            Self::Rs512 => "RS512",
            Self::Ps256 => "PS256",
            Self::Ps384 => "PS384",
            Self::Ps512 => "PS512",
            Self::Es256 => "ES256",
            Self::Es384 => "ES384",
            Self::EdDsa => "EdDSA",
        }
    }

    /// The algorithm with that spelling.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|algorithm| algorithm.as_str() == text)
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// `[auth.agents.NAME]`: an agent is for whoever one of these lists names.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct AllowedCallers {
    /// Subjects.
    pub subjects: Vec<String>,
    /// Members of groups that a JWT names.
    pub groups: Vec<String>,
    /// Whatever a service's token, by its name, speaks for.
    pub tokens: Vec<String>,
}
