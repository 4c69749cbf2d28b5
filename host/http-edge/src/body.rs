//! Reads request bodies: how many bytes, and for how long. What they mean is not known here.
//!
//! The limits stand here and not in a layer, because Variant B looks at a body only after it knows the
//! caller (decisions, "Order of checks"): someone without a token gets 401 for a large body, not 413. What is
//! not read is waited for in `layers/unread_body.rs`.

use std::time::Duration;

use axum::BoxError;
use axum::body::{Body, HttpBody};
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};

use crate::edge::Settings;

/// Why there is no body. Each variant's error table says what the client is told.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BodyError {
    #[error("the body is larger than {limit} bytes")]
    TooLarge { limit: usize },
    #[error("the body did not arrive within {} ms", .limit.as_millis())]
    TooSlow { limit: Duration },
    #[error("the body broke off")]
    Broken(#[source] BoxError),
}

/// The whole body. Nothing is copied when it arrives in one piece, as small ones do.
pub(crate) async fn read_body(body: Body, settings: &Settings) -> Result<Bytes, BodyError> {
    let limit = settings.max_body_bytes;
    // This is the declared `Content-Length`. A client that waits for `100 Continue` is spared the upload.
    if body.size_hint().lower() > limit as u64 {
        return Err(BodyError::TooLarge { limit });
    }
    let time_limit = settings.body_time_limit;
    match tokio::time::timeout(time_limit, Limited::new(body, limit).collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(BodyError::TooLarge { limit }),
        Ok(Err(error)) => Err(BodyError::Broken(error)),
        Err(_elapsed) => Err(BodyError::TooSlow { limit: time_limit }),
    }
}
