//! Which answers are compressed for clients that ask for it: texts that are large enough to be worth it. A
//! scrape of the metrics shrinks to a tenth.
//!
//! An answer is compressed before its first byte is sent ([`at_once`]), and a text that does not change keeps
//! what it was compressed to ([`KeptCodings`]). A compressor takes more than a megabyte, and one that works
//! while its answer is sent would stay for as long as the client takes to read that.
//!
//! Compression beside a secret can reveal the secret to somebody who chooses part of the text and sees its
//! length (BREACH). What is secret here is the caller's token, and no answer contains it.

use std::sync::{Arc, OnceLock};

use axum::body::{Body, HttpBody as _};
use bytes::Bytes;
use futures::{FutureExt as _, TryFutureExt as _, future, stream};
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::{Extensions, HeaderMap, HeaderValue, Response, StatusCode, Version};
use http_body_util::BodyExt as _;
use tower_http::compression::predicate::{And, Predicate, SizeAbove};
use tower_http::compression::{CompressionBody, CompressionLayer};

/// Smaller answers fit into one packet anyway.
const LEAST_BYTES: u16 = 1024;

/// Longest answer that is compressed at once, in bytes: some ten milliseconds of the thread that serves it. A
/// longer one is compressed while it is sent; the texts that everybody may read are shorter.
const MOST_AT_ONCE: u64 = 1 << 20;

type IsText = fn(StatusCode, Version, &HeaderMap, &Extensions) -> bool;

/// Media types that begin so are text. Prometheus prefers OpenMetrics to `text/plain`.
const TEXTS: [&[u8]; 4] = [b"application/json", b"application/openmetrics-text", b"image/svg+xml", b"text/"];

/// The layer, at the levels that are meant for answers that are made anew each time.
pub(crate) fn layer() -> CompressionLayer<And<SizeAbove, IsText>> {
    let has_text: IsText = |_, _, headers, _| is_text(headers);
    CompressionLayer::new().compress_when(SizeAbove::new(LEAST_BYTES).and(has_text))
}

fn is_text(headers: &HeaderMap) -> bool {
    let content_type = headers.get(CONTENT_TYPE).map_or(&b""[..], |value| value.as_bytes());
    // Events are sent one by one, and a compressor holds them back.
    let is_stream = content_type.starts_with(b"text/event-stream");
    !is_stream && TEXTS.iter().any(|text| content_type.starts_with(text))
}

/// Whether an answer with these headers and so many bytes is compressed for a client that asks for it.
pub(crate) fn is_compressible(headers: &HeaderMap, bytes: usize) -> bool {
    bytes >= usize::from(LEAST_BYTES) && is_text(headers)
}

/// The compressed forms of a text that does not change, made for the first client that asks for one: an
/// extension of the text's answers.
#[derive(Debug, Clone, Default)]
pub(crate) struct KeptCodings(Arc<CompressedBytes>);

#[derive(Debug, Default)]
struct CompressedBytes {
    gzip: OnceLock<Bytes>,
    brotli: OnceLock<Bytes>,
}

impl KeptCodings {
    fn of(&self, coding: &HeaderValue) -> Option<&OnceLock<Bytes>> {
        match coding.as_bytes() {
            b"gzip" => Some(&self.0.gzip),
            b"br" => Some(&self.0.brotli),
            _ => None,
        }
    }
}

/// Compresses the answer that the layer was to compress while it is sent.
pub(crate) fn at_once(answer: Response<CompressionBody<Body>>) -> Response<Body> {
    let (mut parts, body) = answer.into_parts();
    let kept = parts.extensions.remove::<KeptCodings>();
    let Some(coding) = parts.headers.get(CONTENT_ENCODING) else {
        return Response::from_parts(parts, body.into_inner());
    };
    let kept = kept.as_ref().and_then(|kept| kept.of(coding));
    if let Some(compressed) = kept.and_then(OnceLock::get) {
        return Response::from_parts(parts, compressed.clone().into());
    }
    let length = body.get_ref().size_hint().exact();
    if length.is_none_or(|length| length > MOST_AT_ONCE) {
        return Response::from_parts(parts, Body::new(body));
    }
    let mut compressing = Box::pin(body.collect().map_ok(|body| body.to_bytes()));
    let body = match compressing.as_mut().now_or_never() {
        // Another thread may have been first.
        Some(Ok(bytes)) => Body::from(match kept {
            Some(kept) => kept.get_or_init(|| bytes).clone(),
            None => bytes,
        }),
        Some(Err(error)) => Body::from_stream(stream::once(future::ready(Err::<Bytes, _>(error)))),
        // A body of known length that is not there yet.
        None => Body::from_stream(stream::once(compressing)),
    };
    Response::from_parts(parts, body)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::Request;
    use http::header::ACCEPT_ENCODING;
    use tower::{Layer as _, ServiceExt as _, service_fn};

    use super::*;

    #[tokio::test]
    async fn texts_are_compressed_and_images_and_streams_are_not() {
        for (content_type, is_compressed) in [
            ("application/json; charset=utf-8", true),
            ("application/openmetrics-text; version=1.0.0", true),
            ("image/svg+xml", true),
            ("text/css", true),
            ("image/png", false),
            ("text/event-stream", false),
        ] {
            let answer = async |_: Request<Body>| {
                let body = Body::from("a".repeat(4096));
                let answer = Response::builder().header(CONTENT_TYPE, content_type).body(body).unwrap();
                Ok::<_, Infallible>(answer)
            };
            let asked = Request::builder().header(ACCEPT_ENCODING, "gzip").body(Body::empty()).unwrap();
            let answer = layer().layer(service_fn(answer)).oneshot(asked).await.unwrap();
            assert_eq!(answer.headers().contains_key(CONTENT_ENCODING), is_compressed, "{content_type}");
        }
    }
}
