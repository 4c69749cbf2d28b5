//! A registry that means harm or fails: other bytes, no end, no answer, somewhere else.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::net::TcpListener;
use tool_registry::{Digest, Error, Publication, Pushed, RedirectProblem, Reference};

use crate::artifacts::{MOST_BYTES, client, component, manifest, manifest_of, pull};
use crate::fake::{Fake, Reply, head};

/// Serves that manifest, and `blob` as whatever is asked for beside it.
async fn serving(manifest: String, blob: Reply) -> Fake {
    let answer = move |request: &crate::fake::Request| {
        if request.is_for("/manifests/") { Reply::ok(&manifest) } else { blob.clone() }
    };
    Fake::start(answer).await
}

/// What is said of a pull from there.
async fn said(fake: &Fake) -> String {
    fake.anonymous(&pull(&fake.reference()).await.unwrap_err())
}

#[tokio::test]
async fn a_component_of_other_bytes_is_not_handed_out() {
    let (good, bad) = (component("good"), component("evil"));
    let fake = serving(manifest(&good), Reply::ok(bad)).await;
    insta::assert_snapshot!(said(&fake).await);
}

#[tokio::test]
async fn a_manifest_of_other_bytes_is_not_read() {
    let good = component("good");
    let fake = serving(manifest(&good), Reply::ok(&good)).await;
    let pinned = format!("oci://{}/adder@{}", fake.name(), Digest::of(b"another manifest"));
    let error = pull(&pinned).await.unwrap_err();
    insta::assert_snapshot!(fake.anonymous(&error));
    assert_eq!(fake.requests().len(), 1, "nothing that it names was asked for");
}

#[tokio::test]
async fn a_manifest_that_is_not_what_its_header_says_is_not_read() {
    let promised = Digest::of(b"another manifest").to_string();
    let fake = Fake::start(move |_| {
        Reply::new(200, &[("docker-content-digest", &promised)], manifest(&component("good")))
    })
    .await;
    assert!(matches!(pull(&fake.reference()).await, Err(Error::WrongDigest { .. })));
}

#[tokio::test]
async fn a_tag_that_moves_meanwhile_changes_nothing() {
    let (first, second) = (component("first"), component("second"));
    let manifests = [manifest(&first), manifest(&second)];
    let expected = Digest::of(manifests[0].as_bytes());
    let (asked, blobs) = (AtomicUsize::new(0), [first.clone(), second]);
    let fake = Fake::start(move |request| {
        if request.is_for("/manifests/") {
            return Reply::ok(&manifests[asked.fetch_add(1, Ordering::Relaxed).min(1)]);
        }
        let found = blobs.iter().find(|blob| request.is_for(&Digest::of(blob).to_string()));
        found.map_or(Reply::not_found(), Reply::ok)
    })
    .await;
    let pulled = pull(&fake.reference()).await.unwrap();
    assert_eq!((pulled.component, pulled.manifest_digest), (first.into(), expected));
    assert_eq!(pulled.reference_pinned.to_string(), format!("oci://{}/adder@{expected}", fake.name()));
    let for_manifests = fake.requests().iter().filter(|request| request.is_for("/manifests/")).count();
    assert_eq!(for_manifests, 1);
}

#[tokio::test(start_paused = true)]
async fn a_registry_that_falls_silent_is_given_up() {
    let good = component("good");
    let begun = [head(200, &[], &format!("content-length: {}\r\n", good.len())), good[..4].to_vec()].concat();
    let fake = serving(manifest(&good), Reply::Stalled(begun)).await;
    insta::assert_snapshot!(said(&fake).await);
    let silent = Fake::start(|_| Reply::Stalled(Vec::new())).await;
    assert!(matches!(pull(&silent.reference()).await, Err(Error::Stalled { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_registry_that_drips_is_given_up() {
    let large = manifest_of(&Digest::of(b"large").to_string(), MOST_BYTES, "");
    let begun = head(200, &[], &format!("content-length: {MOST_BYTES}\r\n"));
    let fake = serving(large, Reply::Dripping(begun, Duration::from_secs(20))).await;
    insta::assert_snapshot!(said(&fake).await);
}

#[tokio::test]
async fn a_registry_that_is_down_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let name = listener.local_addr().unwrap().to_string();
    drop(listener);
    let error = pull(&format!("oci://{name}/adder:1")).await.unwrap_err();
    insta::assert_snapshot!(error.to_string().replace(&name, "REGISTRY"));
}

#[tokio::test]
async fn what_a_registry_has_against_a_request_is_said() {
    let denied = r#"{"errors":[{"code":"DENIED","message":"not\u001b[31m yours","detail":{}}]}"#;
    let mut texts = Vec::new();
    for reply in [
        Reply::not_found(),
        Reply::new(403, &[], denied),
        Reply::new(429, &[("retry-after", "60")], ""),
        Reply::new(503, &[], "<html>"),
        Reply::new(302, &[], ""),
        Reply::new(400, &[], "x".repeat(100_000)),
    ] {
        let fake = Fake::start(move |_| reply.clone()).await;
        texts.push(said(&fake).await);
    }
    insta::assert_snapshot!(texts.join("\n"));
}

#[tokio::test]
async fn more_than_was_promised_is_never_read() {
    let good = component("good");
    let size = good.len() as u64;
    let endless = || Reply::Endless(head(200, &[], ""));
    let huge = head(200, &[], "content-length: 1099511627776\r\n");
    let gzip = Reply::new(200, &[("content-encoding", "gzip")], b"\x1f\x8b");
    let digest = Digest::of(&good).to_string();
    let mut texts = Vec::new();
    for (manifest, blob) in [
        (manifest(&good), endless()),
        (manifest(&good), Reply::Stalled(huge.clone())),
        (manifest(&good), gzip),
        (manifest_of(&digest, size + 1, ""), Reply::ok(&good)),
        (manifest_of(&digest, MOST_BYTES + 1, ""), Reply::ok(&good)),
        (manifest_of(&digest, u64::MAX, ""), endless()),
    ] {
        texts.push(said(&serving(manifest, blob).await).await);
    }
    for reply in [endless(), Reply::Stalled(huge)] {
        texts.push(said(&Fake::start(move |_| reply.clone()).await).await);
    }
    insta::assert_snapshot!(texts.join("\n"));
}

#[tokio::test]
async fn redirects_are_followed_to_nowhere_that_is_unsafe() {
    let elsewhere = Fake::start(|_| Reply::ok("")).await;
    let good = component("good");
    let mut texts = Vec::new();
    for target in [
        format!("http://{}/blob?token=abc", elsewhere.name()),
        "http://169.254.169.254/latest/meta-data".to_owned(),
        "https://user:secret@blobs.example.org/blob".to_owned(),
        "file:///etc/passwd".to_owned(),
        "http://[".to_owned(),
    ] {
        let redirect = Reply::new(307, &[("location", &target)], "");
        texts.push(said(&serving(manifest(&good), redirect).await).await);
    }
    let round = serving(manifest(&good), Reply::new(307, &[("location", "?again")], "")).await;
    texts.push(said(&round).await);
    assert_eq!(round.requests().len(), 7, "the manifest, the component, and five redirects");
    insta::assert_snapshot!(elsewhere.anonymous(&texts.join("\n")).replace("REGISTRY", "HOST"));
    assert_eq!(elsewhere.requests().len(), 0);
    assert!(texts.iter().all(|text| !text.contains("abc") && !text.contains("secret")));
}

#[tokio::test]
async fn a_redirect_within_a_registry_on_loopback_is_followed() {
    let good = component("good");
    let (manifest, blob) = (manifest(&good), good.clone());
    let fake = Fake::start(move |request| {
        if request.is_for("/manifests/") {
            Reply::ok(&manifest)
        } else if request.is_for("/stored") {
            Reply::ok(&blob)
        } else {
            Reply::new(307, &[("location", "/stored")], "")
        }
    })
    .await;
    assert_eq!(pull(&fake.reference()).await.unwrap().component, good);
}

#[tokio::test]
async fn what_is_no_component_is_refused_before_it_is_fetched() {
    let (one, two) = (Digest::of(b"1"), Digest::of(b"2"));
    let index = format!(
        r#"{{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[{{"digest":"{one}","size":1,"platform":{{"os":"linux","architecture":"amd64"}}}},{{"digest":"{two}","size":1,"platform":{{"os":"wasip2","architecture":"wasm"}}}}]}}"#
    );
    let layers =
        manifest(&component("good")).replace("}]", r#"},{"mediaType":"text/plain","digest":"x","size":1}]"#);
    let foreign = manifest(&component("good"))
        .replace("application/wasm", "application/vnd.oci.image.layer.v1.tar+gzip");
    let mut texts = Vec::new();
    for manifest in [index, layers, foreign] {
        let fake = serving(manifest, Reply::ok("")).await;
        texts.push(said(&fake).await);
        assert_eq!(fake.requests().len(), 1);
    }
    insta::assert_snapshot!(texts.join("\n"));
}

async fn push(fake: &Fake, signed: Option<(&str, &[u8])>) -> Result<Pushed, Error> {
    let reference = Reference::parse_destination(&fake.reference()).unwrap();
    let publication = Publication { component: component("x").into(), signed };
    tool_registry::push(&client(None), &reference, &publication).await
}

#[tokio::test]
async fn an_upload_is_not_sent_to_wherever_the_registry_says() {
    let elsewhere = Fake::start(|_| Reply::new(201, &[], "")).await;
    let target = format!("http://{}/upload", elsewhere.name());
    for (begun, expected) in [
        (Reply::new(307, &[("location", &target)], ""), RedirectProblem::OfPush),
        (Reply::new(202, &[], ""), RedirectProblem::NoAddress),
    ] {
        let answer = move |request: &crate::fake::Request| {
            if request.line().starts_with("POST") { begun.clone() } else { Reply::not_found() }
        };
        let fake = Fake::start(answer).await;
        let error = push(&fake, None).await.unwrap_err();
        let Error::Redirect { why, .. } = error else { panic!("{error}") };
        assert_eq!(why, expected);
    }
    assert_eq!(elsewhere.requests().len(), 0);
}

#[tokio::test]
async fn a_signature_that_is_none_is_not_published() {
    let fake = Fake::start(|_| Reply::not_found()).await;
    for signature in [&b""[..], &[7; 63], &[7; 65]] {
        let error = push(&fake, Some(("adder", signature))).await.unwrap_err();
        assert!(matches!(&error, Error::Signature { found, .. } if *found == signature.len()), "{error}");
    }
    assert_eq!(fake.requests().len(), 0);
}
