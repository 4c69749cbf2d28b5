//! The bytes of components.

use agent_core::ports::tool_versions::{
    KeptComponent, MOST_COMPONENT_BYTES, MOST_ID_BYTES, MOST_SIGNATURE_BYTES, VersionsError,
};
use bytes::Bytes;
use futures::future::join_all;

use super::{Bench, component};
use crate::contract::text::NASTY;

/// Bytes that no two calls with different seeds have in common, and that no compression makes shorter.
pub(crate) fn random_bytes(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2).wrapping_add(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        // Marsaglia's xorshift.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

pub(crate) async fn a_component_is_read_as_it_was_kept(bench: &Bench) {
    const MIB: usize = 1 << 20;
    let sizes = [0, 1, MIB - 1, MIB, MIB + 1, 2 * MIB, 3 * MIB + 7];
    for (seed, size) in (0..).zip(sizes) {
        let digest = format!("sha256:{size}{NASTY}");
        let signature = (seed % 2 == 0).then(|| random_bytes(size.min(MOST_SIGNATURE_BYTES), seed));
        let kept = component(&random_bytes(size, seed), signature.as_deref());
        bench.store.keep("echo", &digest, &kept).await.unwrap();
        assert!(bench.peer.component("echo", &digest).await.unwrap().as_ref() == Some(&kept), "{size}");
    }
    assert_eq!(bench.peer.component("echo", "sha256:1").await.unwrap(), None);
    assert_eq!(bench.peer.component("echo", &"x".repeat(1 << 20)).await.unwrap(), None);
}

pub(crate) async fn a_component_of_forty_megabytes_is_read_as_it_was_kept(bench: &Bench) {
    let kept = component(&random_bytes(40_000_000, 40), Some(b"signature"));
    bench.store.keep("echo", "sha256:python", &kept).await.unwrap();
    let read = bench.peer.component("echo", "sha256:python").await.unwrap().unwrap();
    assert_eq!(read.bytes.len(), 40_000_000);
    assert!(read == kept, "other bytes or another signature");
}

pub(crate) async fn a_signature_is_of_one_name(bench: &Bench) {
    let of = |signature: &[u8]| component(b"bytes", Some(signature));
    bench.store.keep("one", "sha256:a", &of(b"of one")).await.unwrap();
    bench.store.keep("two", "sha256:a", &of(b"of two")).await.unwrap();
    bench.store.keep("three", "sha256:a", &component(b"bytes", None)).await.unwrap();
    for (name, expected) in [("one", Some(&b"of one"[..])), ("two", Some(b"of two")), ("three", None)] {
        let read = bench.peer.component(name, "sha256:a").await.unwrap();
        assert_eq!(read, Some(component(b"bytes", expected)), "{name}");
    }
    assert_eq!(bench.store.prune(std::time::Duration::ZERO).await.unwrap(), 1);
    bench.store.keep("two", "sha256:a", &component(b"bytes", None)).await.unwrap();
    let read = bench.peer.component("two", "sha256:a").await.unwrap();
    assert_eq!(read, Some(component(b"bytes", None)), "it went with its bytes");
}

pub(crate) async fn the_bytes_of_all_components_are_added_up(bench: &Bench) {
    assert_eq!(bench.store.kept_bytes().await.unwrap(), 0);
    bench.store.keep("one", "sha256:a", &component(b"123", None)).await.unwrap();
    bench.store.keep("two", "sha256:a", &component(b"123", None)).await.unwrap();
    bench.store.keep("one", "sha256:b", &component(b"4567", None)).await.unwrap();
    assert_eq!(bench.peer.kept_bytes().await.unwrap(), 7);
    bench.store.prune(std::time::Duration::ZERO).await.unwrap();
    assert_eq!(bench.peer.kept_bytes().await.unwrap(), 0);
}

pub(crate) async fn a_component_kept_again_has_the_new_signature(bench: &Bench) {
    let mut last = None;
    for signature in [None, Some(&b"one"[..]), Some(b""), None, Some(b"two"), Some(b"two")] {
        // Bytes that somebody brings without a signature, perhaps under another name, take none away.
        last = signature.or(last);
        bench.store.keep("echo", "sha256:a", &component(b"bytes", signature)).await.unwrap();
        let read = bench.peer.component("echo", "sha256:a").await.unwrap();
        assert_eq!(read, Some(component(b"bytes", last)));
    }
    bench.peer.keep("echo", "sha256:a", &component(b"other bytes", None)).await.unwrap();
    assert_eq!(
        bench.store.component("echo", "sha256:a").await.unwrap(),
        Some(component(b"bytes", Some(b"two")))
    );
}

pub(crate) async fn a_component_that_is_too_large_is_not_kept(bench: &Bench) {
    let large = |bytes, signature| KeptComponent {
        bytes: Bytes::from(vec![0; bytes]),
        signature: Some(Bytes::from(vec![0; signature])),
    };
    let longest = "d".repeat(MOST_ID_BYTES);
    for (digest, component) in [
        ("sha256:a", large(MOST_COMPONENT_BYTES + 1, 0)),
        ("sha256:a", large(0, MOST_SIGNATURE_BYTES + 1)),
        (&(longest.clone() + "d"), large(0, 0)),
    ] {
        let error = bench.store.keep("echo", digest, &component).await.unwrap_err();
        assert!(matches!(error, VersionsError::TooLarge(_)), "{error:?}");
        assert_eq!(bench.store.component("echo", digest).await.unwrap(), None);
    }
    bench.store.keep("echo", &longest, &large(0, MOST_SIGNATURE_BYTES)).await.unwrap();
}

pub(crate) async fn a_component_kept_by_two_at_once_is_kept_once(bench: &Bench) {
    let bytes = random_bytes(2_500_000, 1);
    let keeps = (0..6).map(async |keeper: u8| {
        let store = if keeper.is_multiple_of(2) { &bench.store } else { &bench.peer };
        store.keep("echo", "sha256:a", &component(&bytes, Some(&[keeper]))).await.unwrap();
    });
    join_all(keeps).await;
    let read = bench.store.component("echo", "sha256:a").await.unwrap().unwrap();
    assert!(read.bytes == bytes, "other bytes");
    assert!(read.signature.is_some_and(|signature| signature.len() == 1 && signature[0] < 6));
    assert_eq!(bench.store.prune(std::time::Duration::ZERO).await.unwrap(), 1);
    assert_eq!(bench.store.component("echo", "sha256:a").await.unwrap(), None);
}
