//! What a policy will make of a component and its signature, for whoever installs them. What a signature is
//! of is said in `tool-policy/src/signature.rs`.

use tool_policy::signature::{self, Signed, VerifiedSigner};
use tool_policy::{Identity, Lookup, sha256};

use super::policy_store::{PolicyError, PolicyFile, PolicyStore};

/// What a policy knows a component by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// By the key that signed it, as policies name it.
    Signer(String),
    Digest,
    /// The policy says nothing of this name.
    Unmentioned,
}

/// Why a component would not serve under a policy. Each message says what to do.
#[derive(Debug, thiserror::Error)]
pub enum NotTrusted {
    /// There is no such policy, or it is none.
    #[error("{0}")]
    Policy(String),
    /// The component has a signature, of none of the keys that the policy names for it, or of something else.
    #[error("{0}")]
    Signature(String),
    /// The policy names it, under other digests or signers.
    #[error(
        "the policy has lines for other builds of `{name}` only, and this one has no signature: have it published with \
         `agent-tool publish --key`, or add `digest = \"{digest}\"` to its lines"
    )]
    OtherBuild {
        /// The component's name.
        name: String,
        /// Digest of the component.
        digest: String,
    },
}

/// What the policy in that file makes of a component of that name, as loading it will find. Blocks.
pub fn standing(
    file: &PolicyFile,
    name: &str,
    component: &[u8],
    signature: Option<&[u8]>,
) -> Result<Standing, NotTrusted> {
    let as_refusal = |error: PolicyError| NotTrusted::Policy(error.to_string());
    let (Some(path), absence) = file.location().map_err(as_refusal)? else {
        return Ok(Standing::Unmentioned);
    };
    let store = PolicyStore::open(path, absence).map_err(as_refusal)?;
    let policy = store.current();
    let mut trusted = policy.signers(name).peekable();
    let verified = match signature {
        Some(signature) if trusted.peek().is_some() => {
            signature::verify(&Signed { name, component, manifest: &[] }, signature, trusted).map(Some)
        }
        _ => Ok(None),
    };
    let digest = sha256(component);
    let look_up =
        |signer: Option<&VerifiedSigner>| policy.look_up(Identity { name, digest: &digest, signer });
    match (look_up(verified.as_ref().ok().and_then(Option::as_ref)), verified) {
        (Lookup::Entry(_), Ok(Some(signer))) => Ok(Standing::Signer(signer.key().to_string())),
        // A signature is of no use beside an entry for the digest, and does no harm: loading takes no notice.
        (Lookup::Entry(_), Ok(None) | Err(_)) => Ok(Standing::Digest),
        (_, Err(error)) => Err(NotTrusted::Signature(error.to_string())),
        (Lookup::OtherBuilds, Ok(_)) => Err(NotTrusted::OtherBuild { name: name.to_owned(), digest }),
        (Lookup::Nothing, Ok(_)) => Ok(Standing::Unmentioned),
    }
}

#[cfg(test)]
mod tests {
    use tool_policy::signature::SigningKey;

    use super::*;

    fn signed(key: &SigningKey, name: &str, component: &[u8]) -> Vec<u8> {
        key.sign(&Signed { name, component, manifest: &[] })
    }

    #[test]
    fn a_signature_counts_if_a_key_made_it_that_the_policy_names_for_that_component_and_name() {
        let folder = tempfile::tempdir().unwrap();
        let (own, other) = (SigningKey::generate().unwrap().0, SigningKey::generate().unwrap().0);
        let path = folder.path().join("policy.toml");
        let policy = format!("[[component]]\nname = \"adder\"\nsigner = \"{}\"\n", own.public());
        std::fs::write(&path, &policy).unwrap();
        let file = PolicyFile::At(path.clone());
        let look = |name: &str, component: &[u8], signature: Option<Vec<u8>>| {
            standing(&file, name, component, signature.as_deref()).map_err(|error| error.to_string())
        };
        let found = look("adder", b"one", Some(signed(&own, "adder", b"one")));
        assert_eq!(found, Ok(Standing::Signer(own.public().to_string())));
        let of_manifest = own.sign(&Signed { name: "adder", component: b"one", manifest: b"{}" });
        for signature in [
            signed(&other, "adder", b"one"),
            signed(&own, "adder", b"two"),
            signed(&own, "other", b"one"),
            of_manifest,
        ] {
            let refused = look("adder", b"one", Some(signature)).unwrap_err();
            assert!(refused.contains("made by none of the keys"), "{refused}");
        }
        let by_digest = format!("[[component]]\nname = \"adder\"\ndigest = \"{}\"\n", sha256(b"two"));
        std::fs::write(&path, policy + &by_digest).unwrap();
        let by_others = Some(signed(&other, "adder", b"two"));
        assert_eq!(look("adder", b"two", by_others), Ok(Standing::Digest), "as loading takes it");
        assert!(look("adder", b"one", Some(vec![0; 63])).unwrap_err().contains("63 bytes"));
        let unsigned = look("adder", b"one", None).unwrap_err();
        assert!(unsigned.contains("publish --key") && unsigned.contains("sha256:"), "{unsigned}");
        let unknown = look("other", b"one", Some(signed(&other, "other", b"one")));
        assert_eq!(unknown, Ok(Standing::Unmentioned));
        let nowhere = standing(&PolicyFile::At(folder.path().join("none")), "adder", b"one", None);
        assert!(matches!(nowhere, Err(NotTrusted::Policy(_))), "{nowhere:?}");
        let beside = PolicyFile::Beside(folder.path().join("tools"));
        assert_eq!(standing(&beside, "adder", b"one", None).unwrap(), Standing::Unmentioned);
    }
}
