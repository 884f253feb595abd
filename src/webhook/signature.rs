//! Whether a delivery comes from GitHub: HMAC-SHA256 over the raw bytes, compared in constant time.

use hmac::{Hmac, KeyInit, Mac};
use secrecy::{ExposeSecret, SecretString};
use sha2::Sha256;

/// Why a delivery is not believed. Told to nobody but our own counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    /// There is no signature, or no secret to check it with.
    #[error("the delivery is not signed")]
    Missing,
    /// It is not `sha256=` and 64 hexadecimal digits.
    #[error("the signature is malformed")]
    Malformed,
    /// It was made with another secret, or for another body.
    #[error("the signature does not match")]
    Mismatch,
}

/// A signature as it stands in the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signature([u8; 32]);

impl Signature {
    /// Reads the value of `X-Hub-Signature-256`.
    ///
    /// # Errors
    /// [`SignatureError::Missing`] and [`SignatureError::Malformed`].
    pub fn parse(header: Option<&str>) -> Result<Self, SignatureError> {
        let header = header.ok_or(SignatureError::Missing)?;
        let digits = header.strip_prefix("sha256=").ok_or(SignatureError::Malformed)?;
        let mut bytes = [0; 32];
        hex::decode_to_slice(digits, &mut bytes).map_err(|_| SignatureError::Malformed)?;
        Ok(Self(bytes))
    }

    /// Checks it against a body. Every secret is tried whatever the others said, so that the time tells nothing about
    /// which one matched. An empty secret matches nothing: anybody could sign with it.
    ///
    /// # Errors
    /// [`SignatureError::Mismatch`].
    pub fn verify(&self, secrets: &[SecretString], body: &[u8]) -> Result<(), SignatureError> {
        let mut matched = false;
        for secret in secrets.iter().map(ExposeSecret::expose_secret).filter(|secret| !secret.is_empty()) {
            let mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes());
            matched |= mac.is_ok_and(|mac| mac.chain_update(body).verify_slice(&self.0).is_ok());
        }
        if matched { Ok(()) } else { Err(SignatureError::Mismatch) }
    }
}

/// Checks a header against a body with each of the secrets: the present one, and the one before the last rotation.
///
/// # Errors
/// See [`SignatureError`].
pub fn verify(secrets: &[SecretString], header: Option<&str>, body: &[u8]) -> Result<(), SignatureError> {
    Signature::parse(header)?.verify(secrets, body)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    // The example of GitHub's documentation, "Validating webhook deliveries".
    const SECRET: &str = "It's a Secret to Everybody";
    const BODY: &[u8] = b"Hello, World!";
    const SIGNATURE: &str = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";

    fn secrets(texts: &[&str]) -> Vec<SecretString> {
        texts.iter().map(|text| SecretString::from(*text)).collect()
    }

    #[test]
    fn the_documented_example_is_believed() {
        assert_eq!(verify(&secrets(&[SECRET]), Some(SIGNATURE), BODY), Ok(()));
        let upper = format!("sha256={}", SIGNATURE[7..].to_uppercase());
        assert_eq!(verify(&secrets(&[SECRET]), Some(&upper), BODY), Ok(()));
    }

    #[test]
    fn two_secrets_are_good_while_one_replaces_the_other() {
        assert_eq!(verify(&secrets(&["new", SECRET]), Some(SIGNATURE), BODY), Ok(()));
        assert_eq!(verify(&secrets(&[SECRET, "old"]), Some(SIGNATURE), BODY), Ok(()));
        assert_eq!(verify(&secrets(&["new", "old"]), Some(SIGNATURE), BODY), Err(SignatureError::Mismatch));
        assert_eq!(verify(&[], Some(SIGNATURE), BODY), Err(SignatureError::Mismatch));
    }

    #[test]
    fn an_empty_secret_signs_nothing() {
        let signed = Hmac::<Sha256>::new_from_slice(b"").unwrap().chain_update(BODY).finalize().into_bytes();
        let header = format!("sha256={}", hex::encode(signed));
        assert_eq!(verify(&secrets(&[""]), Some(&header), BODY), Err(SignatureError::Mismatch));
    }

    #[test]
    fn malformed_headers_are_told_apart() {
        let secrets = secrets(&[SECRET]);
        assert_eq!(verify(&secrets, None, BODY), Err(SignatureError::Missing));
        let digits = &SIGNATURE[7..];
        for header in [
            "",
            "sha256=",
            digits,
            &format!("sha1={digits}"),
            &format!("SHA256={digits}"),
            &format!("sha256= {digits}"),
            &format!("sha256={digits}00"),
            &format!("sha256={}", &digits[1..]),
            &format!("sha256={}g", &digits[1..]),
            &format!("sha256={}ü", &digits[2..]),
            &format!("sha256={digits},sha256={digits}"),
        ] {
            assert_eq!(verify(&secrets, Some(header), BODY), Err(SignatureError::Malformed), "{header}");
        }
    }

    proptest! {
        #[test]
        fn no_flipped_bit_is_believed(
            secret in "[ -~]{1,80}",
            body in prop::collection::vec(any::<u8>(), 1..300),
            at in any::<prop::sample::Index>(),
            bit in 0_u8..8,
        ) {
            let mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap().chain_update(&body);
            let signature: [u8; 32] = mac.finalize().into_bytes().into();
            let header = |bytes: &[u8]| format!("sha256={}", hex::encode(bytes));
            let secrets = secrets(&[&secret]);
            prop_assert_eq!(verify(&secrets, Some(&header(&signature)), &body), Ok(()));

            let mut other = body.clone();
            other[at.index(body.len())] ^= 1 << bit;
            prop_assert_eq!(verify(&secrets, Some(&header(&signature)), &other), Err(SignatureError::Mismatch));
            let mut other = signature;
            other[at.index(32)] ^= 1 << bit;
            prop_assert_eq!(verify(&secrets, Some(&header(&other)), &body), Err(SignatureError::Mismatch));
        }

        #[test]
        fn no_header_panics(header in ".{0,100}", body in prop::collection::vec(any::<u8>(), 0..50)) {
            prop_assert!(verify(&secrets(&[SECRET]), Some(&header), &body).is_err());
        }
    }
}
