//! Tokens that an issuer signed: which hold, which do not, and where the keys come from. The clock is the test's.

use std::io::Write as _;
use std::sync::Arc;

use axum::http::HeaderMap;
use causeway_engine::config::Pace;
use causeway_server::auth::Auth;
use causeway_server::config::{self, Config, Overrides};
use causeway_store::MemoryStore;
use ring::signature::ECDSA_P384_SHA384_FIXED_SIGNING;
use serde_json::{Value, json};

use crate::authority::Authority;
use crate::support::{
    Answer, Gateway, ISSUER, PATIENCE, Published, START, Signer, Time, agent, base64url, claims, key_set, ok,
    status,
};

/// A gateway that trusts the issuer, its clock and its keys.
struct World {
    gateway: Gateway,
    time: Time,
    _data: tempfile::TempDir,
}

fn settings(keys: &str, more: &str) -> config::Auth {
    let text = format!(
        "[auth]\nmode = \"jwt\"\n[auth.jwt]\nissuer = \"{ISSUER}\"\naudience = [\"causeway\", \"other\"]\n{keys}\n{more}\n"
    );
    Config::load(&text, [], &Overrides::default()).unwrap_or_else(|findings| panic!("{findings:?}")).auth
}

impl World {
    async fn of(auth: &config::Auth) -> Self {
        let time = Time::new();
        let data = tempfile::tempdir().unwrap();
        let auth = Auth::open(auth, time.clock()).await.unwrap();
        let agents = vec![agent("tour", "text_plain", Pace::Fast)];
        let gateway = Gateway::open(auth, Arc::new(MemoryStore::new()), agents, data.path()).await;
        Self { gateway, time, _data: data }
    }

    /// Keys from a file, each algorithm of the signers allowed.
    async fn with(signers: &[&Signer]) -> Self {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(key_set(signers).as_bytes()).unwrap();
        Self::of(&settings(&format!("jwks_file = {:?}", file.path()), &algorithms(signers))).await
    }

    async fn at(published: &Published, signers: &[&Signer], more: &str) -> Self {
        let keys = format!("jwks_url = \"{}\"", published.url);
        Self::of(&settings(&keys, &format!("{}\n{more}", algorithms(signers)))).await
    }

    /// What the gateway says to a token: the status, and why to the log.
    async fn says(&self, token: &str) -> (u16, String) {
        let answer = self.gateway.get("/api/v1/runs", token).await;
        let told = self.gateway.witness.told();
        let reason = told.first().and_then(|line| line.split(' ').nth(3)).unwrap_or("-").to_owned();
        if answer.status == 401 {
            let code = answer.code();
            assert_eq!(code, if reason == "jwt_expired" { "token_expired" } else { "token_invalid" });
            assert_eq!(answer.headers["www-authenticate"], "Bearer error=\"invalid_token\"");
        }
        (answer.status, reason)
    }

    async fn refuses(&self, token: &str, reason: &str) {
        assert_eq!(self.says(token).await, (401, reason.to_owned()));
    }

    async fn takes(&self, token: &str) {
        assert_eq!(self.says(token).await, (200, "-".to_owned()));
    }
}

fn algorithms(signers: &[&Signer]) -> String {
    let names: Vec<&str> = signers.iter().map(|signer| signer.algorithm).collect();
    format!("algorithms = {names:?}")
}

/// The same claims, one of them changed or gone.
fn with(name: &str, value: Value) -> Value {
    let mut changed = claims("alice");
    match value {
        Value::Null => drop(changed.as_object_mut().unwrap().remove(name)),
        value => changed[name] = value,
    }
    changed
}

#[tokio::test]
async fn a_token_of_every_configured_algorithm_holds() {
    let second = include_str!("../../../../tests/data/keys/rsa-2.txt");
    let signers = [
        Signer::rs256("a"),
        Signer::rsa("b", "RS512", second),
        Signer::rsa("c", "PS384", second),
        Signer::es256("d"),
        Signer::ecdsa("e", "ES384", &ECDSA_P384_SHA384_FIXED_SIGNING),
        Signer::eddsa("f"),
    ];
    let all: Vec<&Signer> = signers.iter().collect();
    let world = World::with(&all).await;
    for signer in &signers {
        world.takes(&signer.token_at("alice", START / 1000)).await;
        // One key for one algorithm: the same key under another name is none.
        let mut header = signer.header();
        header["alg"] = if signer.algorithm == "RS256" { "RS512" } else { "RS256" }.into();
        let (status, _) = world.says(&signer.sign(&header, &claims("alice"))).await;
        assert_eq!(status, 401, "{}", signer.algorithm);
    }
}

#[tokio::test]
async fn claims_that_are_not_for_this_gateway_do_not_hold() {
    let signer = Signer::es256("a");
    let world = World::with(&[&signer]).await;
    let sign = |claims: &Value| signer.sign(&signer.header(), claims);
    for claims in [
        with("aud", json!(["x", "other"])),
        with("groups", json!(7)),
        with("nbf", json!(START / 1000)),
        with("exp", json!(START as f64 / 1000.0 + 0.5)),
        with("exp", json!(u64::MAX)),
    ] {
        world.takes(&sign(&claims)).await;
    }
    for (claims, reason) in [
        (with("iss", json!("https://id.example/")), "jwt_issuer"),
        (with("iss", json!(["https://id.example", "x"])), "jwt_issuer"),
        (with("iss", Value::Null), "jwt_claim_missing"),
        (with("aud", json!("else")), "jwt_audience"),
        (with("aud", json!([])), "jwt_audience"),
        (with("aud", Value::Null), "jwt_claim_missing"),
        (with("exp", Value::Null), "jwt_claim_missing"),
        (with("exp", json!("tomorrow")), "jwt_claim_missing"),
        (with("exp", json!(-1)), "jwt_claim_missing"),
        (with("exp", json!(0)), "jwt_expired"),
        (with("nbf", json!("now")), "jwt_malformed"),
        (with("sub", Value::Null), "jwt_claim_missing"),
        (with("sub", json!("")), "jwt_subject"),
        (with("sub", json!(7)), "jwt_claim_missing"),
        (with("sub", json!("local")), "jwt_subject"),
        (with("sub", json!("token:web")), "jwt_subject"),
        (with("sub", json!("a\nb")), "jwt_subject"),
    ] {
        assert_eq!(world.says(&sign(&claims)).await, (401, reason.to_owned()), "{claims}");
    }
}

#[tokio::test]
async fn a_token_ends_with_the_leeway_and_not_later() {
    let signer = Signer::eddsa("a");
    let world = World::with(&[&signer]).await;
    let now = START / 1000;
    let sign = |claims: &Value| signer.sign(&signer.header(), claims);
    let (ends, begins) = (sign(&with("exp", json!(now + 100))), sign(&with("nbf", json!(now + 100))));
    world.takes(&ends).await;
    world.refuses(&begins, "jwt_not_yet_valid").await;
    world.time.pass(69);
    world.refuses(&begins, "jwt_not_yet_valid").await;
    world.time.pass(1); // 30 s before: the leeway
    world.takes(&begins).await;
    world.time.pass(59);
    world.takes(&ends).await;
    world.time.pass(1); // 30 s after
    world.refuses(&ends, "jwt_expired").await;
}

#[tokio::test]
async fn a_token_cannot_say_how_it_is_verified() {
    let (rsa, stranger) = (Signer::rs256("a"), Signer::es256("a"));
    let world = World::with(&[&rsa]).await;
    let payload = base64url(claims("alice").to_string().as_bytes());
    let unsigned = |header: Value| format!("{}.{payload}.", base64url(header.to_string().as_bytes()));
    for alg in ["none", "None", "NONE", ""] {
        world.refuses(&unsigned(json!({"alg": alg, "kid": "a"})), "jwt_malformed").await;
    }
    world.refuses(&unsigned(json!({"alg": "RS256", "kid": "a"})), "jwt_signature").await;
    // The public key, which everybody has, as the secret of an HMAC.
    let message =
        format!("{}.{payload}", base64url(json!({"alg": "HS256", "kid": "a"}).to_string().as_bytes()));
    for secret in [rsa.public(), rsa.jwk()["n"].as_str().unwrap().as_bytes().to_vec()] {
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &secret);
        let signature = base64url(ring::hmac::sign(&key, message.as_bytes()).as_ref());
        world.refuses(&format!("{message}.{signature}"), "jwt_algorithm").await;
    }
    // Somebody else's key under the known name, carried along or pointed to.
    for header in [
        json!({"alg": "ES256", "kid": "a"}),
        json!({"alg": "ES256", "kid": "a", "jwk": stranger.jwk()}),
        json!({"alg": "ES256", "kid": "a", "jku": "https://evil.example/jwks.json"}),
    ] {
        world.refuses(&stranger.sign(&header, &claims("alice")), "jwt_algorithm").await;
    }
    let other = Signer::rsa("a", "RS256", include_str!("../../../../tests/data/keys/rsa-2.txt"));
    let header = json!({"alg": "RS256", "kid": "a", "jwk": other.jwk(), "x5u": "https://evil.example"});
    world.refuses(&other.sign(&header, &claims("alice")), "jwt_signature").await;
    // Extensions that must be understood, and are not.
    for header in [
        json!({"alg": "RS256", "kid": "a", "crit": ["exp"], "exp": 1}),
        json!({"alg": "RS256", "kid": "a", "crit": ["b64"], "b64": false}),
        json!({"alg": "RS256", "kid": "a", "crit": []}),
    ] {
        world.refuses(&rsa.sign(&header, &claims("alice")), "jwt_malformed").await;
    }
}

#[tokio::test]
async fn a_token_that_was_touched_does_not_hold() {
    let signer = Signer::es256("a");
    let world = World::with(&[&signer]).await;
    let good = signer.token_at("alice", START / 1000);
    let parts: Vec<&str> = good.split('.').collect();
    let mallory = base64url(claims("mallory").to_string().as_bytes());
    for touched in [
        format!("{}.{mallory}.{}", parts[0], parts[2]),
        format!(
            "{}.{}.{}",
            parts[0],
            parts[1],
            signer.token_at("bob", START / 1000).split('.').nth(2).unwrap()
        ),
        format!("{}.{}", parts[0], parts[1]),
        format!("{}.{}.", parts[0], parts[1]),
        format!("{good}.{}", parts[2]),
        format!("{}.{}.{}", parts[0], parts[1], &parts[2][..parts[2].len() - 4]),
        format!("{good}AAAA"),
        "a.b.c".to_owned(),
        "...".to_owned(),
    ] {
        let (status, reason) = world.says(&touched).await;
        assert_eq!(status, 401, "{touched}");
        assert!(["jwt_signature", "jwt_malformed"].contains(&reason.as_str()), "{reason}");
    }
    // Every bit of the signature counts.
    let mut bytes = parts[2].as_bytes().to_vec();
    bytes[10] = if bytes[10] == b'A' { b'B' } else { b'A' };
    let flipped = format!("{}.{}.{}", parts[0], parts[1], String::from_utf8(bytes).unwrap());
    world.refuses(&flipped, "jwt_signature").await;
    world.takes(&good).await;
}

#[tokio::test]
async fn a_new_key_is_asked_for_once_in_half_a_minute() {
    let (old, new, stranger) = (Signer::es256("old"), Signer::es256("new"), Signer::es256("stranger"));
    let published = Published::new(&key_set(&[&old])).await;
    let world = World::at(&published, &[&old], "").await;
    assert_eq!(published.asked(), 1, "at the start");
    world.takes(&old.token_at("alice", START / 1000)).await;
    // Rotation: the new key is published before it signs.
    published.say(ok(&key_set(&[&old, &new])));
    world.refuses(&new.token_at("alice", START / 1000), "jwt_key_unknown").await;
    assert_eq!(published.asked(), 1, "too soon after the start");
    world.time.pass(30);
    world.takes(&new.token_at("alice", START / 1000)).await;
    assert_eq!(published.asked(), 2);
    for _ in 0..20 {
        world.refuses(&stranger.token_at("mallory", START / 1000), "jwt_key_unknown").await;
    }
    assert_eq!(published.asked(), 2, "made-up kids do not make it ask");
    world.time.pass(30);
    let token = stranger.token_at("mallory", START / 1000);
    let at_once: Vec<Answer> =
        futures::future::join_all((0..20).map(|_| world.gateway.get("/api/v1/runs", &token))).await;
    assert!(at_once.iter().all(|answer| answer.status == 401));
    assert_eq!(published.asked(), 3, "twenty at once ask once");
    assert_eq!(world.gateway.witness.told().len(), 20);
    // The old one is withdrawn: gone with the next look, which an age of ten minutes brings.
    published.say(ok(&key_set(&[&new])));
    world.time.pass(600);
    world.takes(&new.token_at("alice", START / 1000)).await;
    let looked = async {
        while published.asked() < 4 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, looked).await.unwrap();
    let withdrawn = old.token_at("alice", START / 1000);
    let gone = async {
        while world.says(&withdrawn).await.0 == 200 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, gone).await.unwrap();
    world.takes(&new.token_at("alice", START / 1000)).await;
}

#[tokio::test]
async fn the_last_good_keys_outlast_an_outage_but_not_for_ever() {
    let signer = Signer::es256("a");
    let published = Published::new(&key_set(&[&signer])).await;
    let world = World::at(&published, &[&signer], "keep = \"2h\"").await;
    let lasting = signer.sign(&signer.header(), &with("exp", json!(START / 1000 + 90_000)));
    for outage in [
        status("503 Service Unavailable"),
        status("302 Found\r\nlocation: http://127.0.0.1:1/"),
        ok("{\"keys\":[]}"),
        ok("<html>"),
        ok(&format!("{{\"keys\":[],\"x\":\"{}\"}}", "y".repeat(1 << 20))),
        "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{".to_owned(),
        "nonsense".to_owned(),
    ] {
        published.say(outage);
        world.time.pass(1000);
        let before = published.asked();
        world.takes(&lasting).await;
        let asked = async {
            while published.asked() == before {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, asked).await.unwrap();
    }
    assert_eq!(world.gateway.ask("GET", "/readyz", &[], "").await.status, 200);
    world.time.pass(200); // 7,200 s since they were had
    assert_eq!(world.says(&lasting).await, (503, "keys_unavailable".to_owned()));
    let ready = world.gateway.ask("GET", "/readyz", &[], "").await;
    assert_eq!((ready.status, &ready.json()["failed"][0]["code"]), (503, &json!("keys_unavailable")));
    published.say(ok(&key_set(&[&signer])));
    world.time.pass(30);
    world.takes(&lasting).await;
    assert_eq!(world.gateway.ask("GET", "/readyz", &[], "").await.status, 200);
}

#[tokio::test]
async fn keys_come_over_tls_from_a_server_that_its_authority_vouches_for() {
    let signer = Signer::es256("a");
    let ours = Authority::new();
    let published = Published::over(&key_set(&[&signer]), Some(ours.server("localhost", false))).await;
    let keys = |ca: &Authority| format!("jwks_url = \"{}\"\nca_file = {:?}", published.url, ca.file.path());
    let world = World::of(&settings(&keys(&ours), "algorithms = [\"ES256\"]")).await;
    world.takes(&signer.token_at("alice", START / 1000)).await;
    let world = World::of(&settings(&keys(&Authority::new()), "algorithms = [\"ES256\"]")).await;
    let said = world.says(&signer.token_at("alice", START / 1000)).await;
    assert_eq!(said, (503, "keys_unavailable".to_owned()), "another authority's certificate");
}

#[tokio::test]
async fn a_gateway_starts_without_its_issuer_and_lets_nobody_in_until_it_is_there() {
    let signer = Signer::es256("a");
    let published = Published::new("").await;
    published.say(status("500 Internal Server Error"));
    let world = World::at(&published, &[&signer], "").await;
    assert_eq!(
        world.says(&signer.token_at("alice", START / 1000)).await,
        (503, "keys_unavailable".to_owned())
    );
    published.say(ok(&key_set(&[&signer])));
    world.time.pass(30);
    world.takes(&signer.token_at("alice", START / 1000)).await;
}

#[tokio::test]
async fn a_reload_while_the_issuer_is_away_keeps_its_keys_and_takes_no_other_issuer() {
    let signer = Signer::es256("a");
    let published = Published::new(&key_set(&[&signer])).await;
    let told = |leeway: &str| {
        settings(
            &format!("jwks_url = \"{}\"\nleeway = \"{leeway}\"", published.url),
            "algorithms = [\"ES256\"]",
        )
    };
    let auth = Auth::open(&told("0s"), Time::new().clock()).await.unwrap();
    let token = format!("Bearer {}", signer.token_at("alice", START / 1000));
    let holds = async || {
        let mut headers = HeaderMap::new();
        headers.insert("authorization", token.parse().unwrap());
        auth.caller(&headers).await.is_ok()
    };
    published.say(status("500 Internal Server Error"));
    auth.reload(&told("0s")).await.unwrap();
    assert!(holds().await, "with the keys that it had");
    assert!(auth.reload(&told("1s")).await.unwrap_err().starts_with("auth.jwt: the keys cannot be had"));
    assert!(holds().await && auth.is_ready());
    published.say(ok(&key_set(&[&Signer::es256("b")])));
    auth.reload(&told("1s")).await.unwrap();
    assert!(!holds().await, "the key is not published any more");
}

#[tokio::test]
async fn a_file_of_keys_that_cannot_be_used_is_told_at_the_start() {
    let signer = Signer::es256("a");
    let symmetric =
        json!({"keys": [{"kty": "oct", "k": "c2VjcmV0", "kid": "a", "alg": "ES256"}]}).to_string();
    let mut encrypts = signer.jwk();
    encrypts["use"] = "enc".into();
    let mut other = signer.jwk();
    other["alg"] = "RS256".into();
    for (text, what) in [
        ("", "is no JSON"),
        ("{}", "is no key set"),
        ("{\"keys\":[]}", "holds no key for the configured algorithms"),
        (&symmetric, "holds no key for"),
        (&json!({"keys": [encrypts]}).to_string(), "holds no key for"),
        (&json!({"keys": [other]}).to_string(), "holds no key for"),
        (&json!({"keys": vec![signer.jwk(); 129]}).to_string(), "holds more than 128 keys"),
        (&"x".repeat((1 << 20) + 1), "has more than 1048576 bytes"),
    ] {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        let auth = settings(&format!("jwks_file = {:?}", file.path()), "algorithms = [\"ES256\"]");
        let fault = Auth::open(&auth, Time::new().clock()).await.map(|_| ()).unwrap_err();
        assert!(fault.starts_with("auth.jwt.jwks_file: ") && fault.contains(what), "{fault}");
    }
}

#[tokio::test]
async fn without_a_kid_only_the_one_fitting_key_is_meant() {
    let (a, b, rsa) = (Signer::es256("a"), Signer::es256("b"), Signer::rs256("r"));
    let nameless = json!({"alg": "ES256"});
    let world = World::with(&[&a, &rsa]).await;
    world.takes(&a.sign(&nameless, &claims("alice"))).await;
    world.refuses(&b.sign(&nameless, &claims("alice")), "jwt_signature").await;
    let world = World::with(&[&a, &b]).await;
    world.refuses(&a.sign(&nameless, &claims("alice")), "jwt_key_unknown").await;
}
