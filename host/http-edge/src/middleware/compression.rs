//! Which answers are compressed for clients that ask for it: texts that are large enough to be worth it. A
//! scrape of the metrics shrinks to a tenth.
//!
//! Compression beside a secret can reveal the secret to somebody who chooses part of the text and sees its
//! length (BREACH). What is secret here is the caller's token, and no answer contains it.

use http::header::CONTENT_TYPE;
use http::{Extensions, HeaderMap, StatusCode, Version};
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{And, Predicate, SizeAbove};

/// Smaller answers fit into one packet anyway.
const LEAST_BYTES: u16 = 1024;

type IsText = fn(StatusCode, Version, &HeaderMap, &Extensions) -> bool;

/// Media types that begin so are text. Prometheus prefers OpenMetrics to `text/plain`.
const TEXTS: [&[u8]; 4] = [b"application/json", b"application/openmetrics-text", b"image/svg+xml", b"text/"];

/// The layer, at the levels that are meant for answers that are made anew each time.
pub(crate) fn layer() -> CompressionLayer<And<SizeAbove, IsText>> {
    let is_text: IsText = |_, _, headers, _| {
        let content_type = headers.get(CONTENT_TYPE).map_or(&b""[..], |value| value.as_bytes());
        // Events are sent one by one, and a compressor holds them back.
        let is_stream = content_type.starts_with(b"text/event-stream");
        !is_stream && TEXTS.iter().any(|text| content_type.starts_with(text))
    };
    CompressionLayer::new().compress_when(SizeAbove::new(LEAST_BYTES).and(is_text))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use axum::body::Body;
    use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING};
    use http::{Request, Response};
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
