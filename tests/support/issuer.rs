//! An issuer of tokens for tests, with real keys: all made in the test but those of RSA (`tests/data/keys`).
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use ring::rand::SystemRandom;
use ring::signature::{self, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RsaKeyPair};
use serde_json::{Value, json};

pub fn base64url(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut out = String::new();
    for group in bytes.chunks(3) {
        let value =
            group.iter().fold(0u32, |value, byte| value << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
        for at in 0..=group.len() {
            out.push(char::from(DIGITS[(value >> (18 - 6 * at)) as usize & 63]));
        }
    }
    out
}

fn unbase64(text: &str) -> Vec<u8> {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut out, mut value, mut bits) = (Vec::new(), 0u32, 0);
    for byte in text.bytes().filter(|byte| !byte.is_ascii_whitespace() && *byte != b'=') {
        value = value << 6 | DIGITS.iter().position(|digit| *digit == byte).unwrap() as u32;
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            out.push((value >> bits) as u8);
        }
    }
    out
}

/// What signs.
pub enum Key {
    Rsa(RsaKeyPair, &'static dyn signature::RsaEncoding),
    Ecdsa(EcdsaKeyPair),
    Ed(Ed25519KeyPair),
}

/// A key of the issuer.
pub struct Signer {
    pub kid: &'static str,
    pub algorithm: &'static str,
    key: Key,
}

impl Signer {
    pub fn rsa(kid: &'static str, algorithm: &'static str, text: &str) -> Self {
        let encoding: &'static dyn signature::RsaEncoding = match algorithm {
            "RS256" => &signature::RSA_PKCS1_SHA256,
            "RS512" => &signature::RSA_PKCS1_SHA512,
            "PS384" => &signature::RSA_PSS_SHA384,
            other => panic!("no {other} here"),
        };
        Self { kid, algorithm, key: Key::Rsa(RsaKeyPair::from_pkcs8(&unbase64(text)).unwrap(), encoding) }
    }

    pub fn rs256(kid: &'static str) -> Self {
        Self::rsa(kid, "RS256", include_str!("../data/keys/rsa-1.txt"))
    }

    pub fn es256(kid: &'static str) -> Self {
        Self::ecdsa(kid, "ES256", &signature::ECDSA_P256_SHA256_FIXED_SIGNING)
    }

    pub fn ecdsa(
        kid: &'static str,
        algorithm: &'static str,
        signing: &'static signature::EcdsaSigningAlgorithm,
    ) -> Self {
        let random = SystemRandom::new();
        let text = EcdsaKeyPair::generate_pkcs8(signing, &random).unwrap();
        let key = EcdsaKeyPair::from_pkcs8(signing, text.as_ref(), &random).unwrap();
        Self { kid, algorithm, key: Key::Ecdsa(key) }
    }

    pub fn eddsa(kid: &'static str) -> Self {
        let text = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        Self { kid, algorithm: "EdDSA", key: Key::Ed(Ed25519KeyPair::from_pkcs8(text.as_ref()).unwrap()) }
    }

    pub fn public(&self) -> Vec<u8> {
        match &self.key {
            Key::Rsa(key, _) => key.public().as_ref().to_vec(),
            Key::Ecdsa(key) => key.public_key().as_ref().to_vec(),
            Key::Ed(key) => key.public_key().as_ref().to_vec(),
        }
    }

    pub fn jwk(&self) -> Value {
        let public = self.public();
        let mut jwk = match &self.key {
            Key::Rsa(key, _) => {
                let parts: ring::rsa::PublicKeyComponents<Vec<u8>> = key.public().into();
                json!({"kty": "RSA", "n": base64url(&parts.n), "e": base64url(&parts.e)})
            }
            Key::Ecdsa(_) => {
                let (x, y) = public[1..].split_at(public.len() / 2);
                let curve = if x.len() == 32 { "P-256" } else { "P-384" };
                json!({"kty": "EC", "crv": curve, "x": base64url(x), "y": base64url(y)})
            }
            Key::Ed(_) => json!({"kty": "OKP", "crv": "Ed25519", "x": base64url(&public)}),
        };
        jwk["kid"] = self.kid.into();
        jwk["use"] = "sig".into();
        jwk
    }

    /// A token with this header and these claims, whatever they say.
    pub fn sign(&self, header: &Value, claims: &Value) -> String {
        let message = format!(
            "{}.{}",
            base64url(header.to_string().as_bytes()),
            base64url(claims.to_string().as_bytes())
        );
        let random = SystemRandom::new();
        let signature = match &self.key {
            Key::Rsa(key, encoding) => {
                let mut signature = vec![0; key.public().modulus_len()];
                key.sign(*encoding, &random, message.as_bytes(), &mut signature).unwrap();
                signature
            }
            Key::Ecdsa(key) => key.sign(&random, message.as_bytes()).unwrap().as_ref().to_vec(),
            Key::Ed(key) => key.sign(message.as_bytes()).as_ref().to_vec(),
        };
        format!("{message}.{}", base64url(&signature))
    }

    pub fn header(&self) -> Value {
        json!({"alg": self.algorithm, "typ": "JWT", "kid": self.kid})
    }

    /// A good token, good for an hour from `now` (Unix seconds).
    pub fn token_at(&self, subject: &str, now: i64) -> String {
        self.sign(&self.header(), &claims_at(subject, now))
    }
}

/// The claims of such a token.
pub fn claims_at(subject: &str, now: i64) -> Value {
    json!({"iss": ISSUER, "aud": "causeway", "sub": subject, "iat": now, "exp": now + 3600})
}

pub const ISSUER: &str = "https://id.example";

pub fn key_set(signers: &[&Signer]) -> String {
    json!({"keys": signers.iter().map(|signer| signer.jwk()).collect::<Vec<_>>()}).to_string()
}
