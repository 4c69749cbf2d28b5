//! Reads request bodies: how many bytes, for how long, and in which coding. What they mean is not known here.
//!
//! The limits stand here and not in a layer, because Variant B looks at a body only after it knows the caller
//! (host/docs/interface/decisions-http.md#order-of-checks): someone without a token gets 401 for a large
//! body, not 413. What becomes of a body that is not read is the connection's concern.

pub mod coding;

use std::convert::Infallible;
use std::time::Duration;

use axum::BoxError;
use axum::body::{Body, HttpBody};
use axum::extract::{FromRequest, Request};
use bytes::Bytes;
use http::HeaderMap;
use http_body_util::{BodyExt, LengthLimitError, Limited};

use crate::dependencies::Settings;
use coding::{Coding, DecodeError};

pub(crate) use coding::ACCEPTED_CODINGS;

/// Why there is no body. Each variant's error table says what the client is told.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    #[error("the body is larger than {limit} bytes")]
    TooLarge { limit: usize },
    #[error("the body did not arrive within {} ms", .limit.as_millis())]
    TooSlow { limit: Duration },
    #[error("the body broke off")]
    Broken(#[source] BoxError),
    #[error("the body has a content coding other than gzip, deflate and br")]
    UnknownCoding,
    #[error("the body is not what its content coding says")]
    Undecodable(#[source] std::io::Error),
}

/// A body that has not been read. Handlers take it as their last argument.
#[derive(Debug)]
pub struct Payload {
    body: Body,
    coding: Result<Coding, BodyError>,
}

impl Payload {
    pub fn new(headers: &HeaderMap, body: Body) -> Self {
        Self { body, coding: Coding::of(headers).ok_or(BodyError::UnknownCoding) }
    }

    /// The whole body, decoded. Nothing is copied when it arrives plain and in one piece, as small ones do.
    pub async fn read(self, settings: &Settings) -> Result<Bytes, BodyError> {
        // Nothing is nothing in any coding.
        if self.body.is_end_stream() {
            return Ok(Bytes::new());
        }
        let limit = settings.max_body_bytes;
        let coding = self.coding?;
        let most = coding.most_encoded(limit);
        // This is the declared `Content-Length`. A client that waits for `100 Continue` is spared the upload.
        if self.body.size_hint().lower() > most as u64 {
            return Err(BodyError::TooLarge { limit });
        }
        let time_limit = settings.body_time_limit;
        let encoded = match tokio::time::timeout(time_limit, Limited::new(self.body, most).collect()).await {
            Ok(Ok(body)) => body.to_bytes(),
            Ok(Err(error)) if error.is::<LengthLimitError>() => return Err(BodyError::TooLarge { limit }),
            Ok(Err(error)) => return Err(BodyError::Broken(error)),
            Err(_elapsed) => return Err(BodyError::TooSlow { limit: time_limit }),
        };
        coding.decode(encoded, limit).map_err(|error| match error {
            DecodeError::TooLarge => BodyError::TooLarge { limit },
            DecodeError::Broken(error) => BodyError::Undecodable(error),
        })
    }
}

impl<S: Sync> FromRequest<S> for Payload {
    type Rejection = Infallible;

    async fn from_request(request: Request, _state: &S) -> Result<Self, Infallible> {
        let (parts, body) = request.into_parts();
        Ok(Self::new(&parts.headers, body))
    }
}
