//! Any bytes as the headers of a request, to a gateway that asks for a token: nothing breaks, and nobody is let in but
//! who presents the one token as it is.

use std::sync::OnceLock;

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use causeway_server::auth::{Auth, system_clock};
use causeway_server::config::{Config, Overrides};

/// The one token that holds.
pub const GOOD: &str = "a-good.token~1";
/// Its SHA-256.
const DIGEST: &str = "e239c25802fc67cf5d991487a2855d32815668c2dba25a7e0ff2ba5dfe150b5c";
/// A key set without a key that anybody has.
const KEYS: &str =
    r#"{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"k","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;

/// The headers: lines, each a value of `authorization`, or of the subject header where it begins with `@`.
pub fn token(data: &[u8]) {
    let mut headers = HeaderMap::new();
    let mut tokens = Vec::new();
    let mut subjects = 0;
    for line in data.split(|byte| *byte == b'\n') {
        let (name, line) = match line.strip_prefix(b"@") {
            Some(line) => ("x-causeway-subject", line),
            None => ("authorization", line),
        };
        let Ok(value) = HeaderValue::from_bytes(line) else { continue };
        if name == "authorization" {
            tokens.push(line.to_vec());
        } else {
            subjects += 1;
        }
        headers.append(HeaderName::from_static(name), value);
    }
    let (runtime, service, jwt) = world();
    let good = match tokens.as_slice() {
        [one] => std::str::from_utf8(one).ok().and_then(|text| text.split_once(' ')).is_some_and(
            |(scheme, token)| scheme.eq_ignore_ascii_case("bearer") && token.trim_matches(' ') == GOOD,
        ),
        _ => false,
    };
    match runtime.block_on(service.caller(&headers)) {
        Ok(caller) => {
            assert!(good, "let in: {headers:?}");
            assert_ne!(caller.owner().as_str(), "local");
            assert_eq!(caller.owner().as_str() == "token:web", subjects == 0);
        }
        Err(_) => assert!(!good || subjects > 0, "kept out: {headers:?}"),
    }
    assert!(runtime.block_on(jwt.caller(&headers)).is_err(), "nobody has the key: {headers:?}");
}

fn world() -> &'static (tokio::runtime::Runtime, Auth, Auth) {
    static WORLD: OnceLock<(tokio::runtime::Runtime, Auth, Auth)> = OnceLock::new();
    WORLD.get_or_init(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let dir = tempfile::tempdir().expect("a folder");
        let (digest, keys) = (dir.path().join("digest"), dir.path().join("keys"));
        std::fs::write(&digest, DIGEST).expect("a file");
        std::fs::write(&keys, KEYS).expect("a file");
        let open = |text: String| {
            let config = Config::load(&text, [], &Overrides::default()).expect("settings");
            runtime.block_on(Auth::open(&config.auth, system_clock())).expect("a check")
        };
        let service = open(format!("[auth]\nmode = \"service\"\ntokens.web = {{ file = {digest:?} }}\n"));
        let jwt = open(format!(
            "[auth]\nmode = \"jwt\"\n[auth.jwt]\nissuer = \"i\"\naudience = [\"a\"]\nalgorithms = [\"EdDSA\"]\njwks_file = {keys:?}\n"
        ));
        (runtime, service, jwt)
    })
}
