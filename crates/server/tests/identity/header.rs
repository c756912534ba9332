//! Whatever the headers hold that say who calls.

use std::io::Write as _;
use std::sync::OnceLock;

use axum::http::{HeaderMap, HeaderValue, header};
use causeway_server::auth::Auth;
use causeway_server::config::{Config, Overrides};
use proptest::prelude::*;

use crate::support::{ISSUER, START, Signer, Time, key_set};

#[path = "../../../../fuzz/bodies/token.rs"]
mod body;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn whatever_the_header_holds_nobody_gets_in_and_nothing_breaks(
        lines in prop::collection::vec(line(), 0..4),
    ) {
        body::token(&lines.join(&b'\n'));
    }

    #[test]
    fn a_token_that_differs_in_anything_is_another(at in any::<prop::sample::Index>(), how in 0..4u8, with in any::<u8>()) {
        let (runtime, auth, good) = world();
        let mut bytes = good.as_bytes().to_vec();
        let at = at.index(bytes.len());
        match how {
            0 => bytes[at] = with,
            1 => bytes.insert(at, with),
            2 => drop(bytes.remove(at)),
            _ => bytes.truncate(at),
        }
        let same = bytes == good.as_bytes();
        let mut value = b"Bearer ".to_vec();
        value.extend(&bytes);
        if let Ok(value) = HeaderValue::from_bytes(&value) {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, value);
            let spaced = bytes.trim_ascii() == good.as_bytes();
            prop_assert_eq!(runtime.block_on(auth.caller(&headers)).is_ok(), same || spaced);
        }
    }
}

fn line() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..40),
        Just(format!("Bearer {}", body::GOOD).into_bytes()),
        "[Bb]earer {1,3}[a-zA-Z0-9._~+/=-]{0,60}".prop_map(String::into_bytes),
        "@[ -~]{0,20}".prop_map(String::into_bytes),
        "Bearer [A-Za-z0-9_-]{1,30}\\.[A-Za-z0-9_-]{0,30}\\.[A-Za-z0-9_-]{0,30}".prop_map(String::into_bytes),
    ]
}

fn world() -> &'static (tokio::runtime::Runtime, Auth, String) {
    static WORLD: OnceLock<(tokio::runtime::Runtime, Auth, String)> = OnceLock::new();
    WORLD.get_or_init(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let signer = Signer::es256("a");
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(key_set(&[&signer]).as_bytes()).unwrap();
        let text = format!(
            "[auth]\nmode = \"jwt\"\n[auth.jwt]\nissuer = \"{ISSUER}\"\naudience = [\"causeway\"]\n\
             algorithms = [\"ES256\"]\njwks_file = {:?}\n",
            file.path()
        );
        let config = Config::load(&text, [], &Overrides::default()).unwrap();
        let auth = runtime.block_on(Auth::open(&config.auth, Time::new().clock())).unwrap();
        (runtime, auth, signer.token_at("alice", START / 1000))
    })
}
