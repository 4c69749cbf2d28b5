//! A real registry: Debian's `docker-registry`.

use agent_core::secret::Secret;
use test_servers::{REGISTRY_LOGIN, Registry};
use tool_registry::{Credentials, Digest, Error, Publication, Pushed, Reference};

use crate::artifacts::{client, component, foreign_client, manifest_of, pull};

async fn publish(
    reference: &str,
    component: &[u8],
    signed: Option<(&str, &[u8])>,
    credentials: Option<Credentials>,
) -> Result<Pushed, Error> {
    let reference = Reference::parse_destination(reference).unwrap();
    let publication = Publication { component: component.to_vec().into(), signed };
    tool_registry::push(&client(credentials), &reference, &publication).await
}

#[tokio::test]
async fn what_is_published_is_pulled_by_its_tag_and_by_its_digest() {
    let registry = Registry::start().await;
    let destination = format!("oci://{}/tools/adder:1.0", registry.name());
    let (first, second) = (component("first"), component("second"));
    let pushed = publish(&destination, &first, Some(("adder", &[7; 64])), None).await.unwrap();
    assert_eq!(pushed.component_digest, Digest::of(&first));
    let pinned = pushed.reference_pinned.to_string();
    for reference in [&destination, &pinned] {
        let pulled = pull(reference).await.unwrap();
        assert_eq!(pulled.component, first);
        assert_eq!(pulled.signature.as_deref(), Some(&[7; 64][..]));
        assert_eq!(pulled.signed_name.as_deref(), Some("adder"));
        assert_eq!(pulled.reference_pinned, pushed.reference_pinned);
    }
    let again = publish(&destination, &first, Some(("adder", &[7; 64])), None).await.unwrap();
    assert_eq!(again, pushed, "the same component has the same digest");
    // The tag moves; the digest means what it meant.
    let moved = publish(&destination, &second, None, None).await.unwrap();
    assert_ne!(moved.manifest_digest, pushed.manifest_digest);
    assert_eq!(pull(&destination).await.unwrap().component, second);
    assert_eq!(pull(&destination).await.unwrap().signature, None);
    assert_eq!(pull(&pinned).await.unwrap().component, first);
    let untagged = format!("oci://{}/tools/untagged", registry.name());
    let untagged = publish(&untagged, &first, None, None).await.unwrap();
    assert_eq!(pull(&untagged.reference_pinned.to_string()).await.unwrap().component, first);
}

#[tokio::test]
async fn what_is_not_there_is_named() {
    let registry = Registry::start().await;
    publish(&format!("oci://{}/adder:1", registry.name()), &component("x"), None, None).await.unwrap();
    let mut texts = Vec::new();
    for rest in ["adder:2", "other:1", &format!("adder@{}", Digest::of(b"nothing"))] {
        let error = pull(&format!("oci://{}/{rest}", registry.name())).await.unwrap_err();
        texts.push(error.to_string().replace(&registry.name(), "REGISTRY"));
    }
    insta::assert_snapshot!(texts.join("\n"));
}

#[tokio::test]
async fn a_component_that_somebody_else_published_without_a_signature_is_pulled() {
    let registry = Registry::start().await;
    let good = component("good");
    // Both as `wkg oci push` writes them.
    let config = format!(
        r#"{{"created":"2026-01-01T00:00:00Z","author":null,"architecture":"wasm","os":"wasip2","layerDigests":["{}"],"component":{{"exports":[],"imports":[],"target":null}}}}"#,
        Digest::of(&good)
    );
    let digest = Digest::of(&good).to_string();
    let manifest =
        manifest_of(&digest, good.len() as u64, r#","annotations":{"org.opencontainers.image.version":"1"}"#)
            .replace(&Digest::of(b"{}").to_string(), &Digest::of(config.as_bytes()).to_string())
            .replace(r#""size":2"#, &format!(r#""size":{}"#, config.len()));
    let http = foreign_client();
    let base = format!("http://{}/v2/others/adder", registry.name());
    for blob in [good.clone(), config.into_bytes()] {
        let begun =
            http.post(format!("{base}/blobs/uploads/")).header("content-length", 0).send().await.unwrap();
        let location = begun.headers()["location"].to_str().unwrap();
        let target = format!("{location}&digest={}", Digest::of(&blob));
        assert_eq!(http.put(target).body(blob).send().await.unwrap().status(), 201);
    }
    let put = http.put(format!("{base}/manifests/1")).body(manifest);
    let put = put.header("content-type", "application/vnd.oci.image.manifest.v1+json").send().await.unwrap();
    assert_eq!(put.status(), 201, "{:?}", put.text().await);
    let pulled = pull(&format!("oci://{}/others/adder:1", registry.name())).await.unwrap();
    assert_eq!((pulled.component, pulled.signature, pulled.signed_name), (good.into(), None, None));
}

#[tokio::test]
async fn a_registry_that_wants_a_login_gets_it() {
    let registry = Registry::with_login().await;
    let destination = format!("oci://{}/adder:1", registry.name());
    let good = component("good");
    let login = |password: &str| Credentials {
        registry: registry.name(),
        user: REGISTRY_LOGIN.0.to_owned(),
        password: Secret::new(password),
    };
    let nobody = publish(&destination, &good, None, None).await;
    assert!(matches!(nobody, Err(Error::CredentialsNeeded { .. })), "{nobody:?}");
    let wrong = publish(&destination, &good, None, Some(login("wrong"))).await;
    assert!(matches!(wrong, Err(Error::CredentialsRefused { .. })), "{wrong:?}");
    publish(&destination, &good, None, Some(login(REGISTRY_LOGIN.1))).await.unwrap();
    assert!(matches!(pull(&destination).await, Err(Error::CredentialsNeeded { .. })));
}

#[tokio::test]
async fn what_is_no_component_is_not_published() {
    let registry = Registry::start().await;
    let destination = format!("oci://{}/adder:1", registry.name());
    for (bytes, problem) in [(&b"\0asm\x01\0\0\0"[..], "core module"), (b"#!/bin/sh", "")] {
        let error = publish(&destination, bytes, None, None).await.unwrap_err();
        assert!(
            matches!(&error, Error::NotAComponent { problem: found } if found.contains(problem)),
            "{error}"
        );
    }
    assert!(matches!(pull(&destination).await, Err(Error::NotFound { .. })));
}
