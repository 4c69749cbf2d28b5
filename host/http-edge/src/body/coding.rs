//! Content codings of request bodies, as the Node stack's body parser takes them (`inflate`), and `br`.
//!
//! A body is decoded when all of it is there, within the limit on what it decodes to: a small body that would
//! become a large one costs no more than a plain one of the limit's size. That bounds the time as well, so
//! nothing is awaited.

use std::io::{self, Read};

use brotli_decompressor::{BrotliDecoderParameter, Decompressor};
use bytes::Bytes;
use flate2::bufread::{MultiGzDecoder, ZlibDecoder};
use http::header::CONTENT_ENCODING;
use http::{HeaderMap, HeaderValue};

/// What a client is told that sent another one (RFC 9110, section 15.5.16).
pub(crate) const ACCEPTED_CODINGS: HeaderValue = HeaderValue::from_static("gzip, deflate, br");

/// What the frames of a coding add to a body that cannot be made smaller.
const FRAMES: usize = 1024;

/// How many bytes of a Brotli stream are decoded at a time.
const BUFFER: usize = 4096;

/// A content coding that is understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Coding {
    Identity,
    Gzip,
    /// The zlib format (RFC 9110, section 8.4.1.2), as in Node; not bare deflate.
    Deflate,
    Brotli,
}

/// Why a body cannot be decoded.
#[derive(Debug)]
pub(crate) enum DecodeError {
    TooLarge,
    Broken(io::Error),
}

impl Coding {
    /// The coding of a body; none when it is not understood. Codings on top of one another are not: the Node
    /// stack does not take them either.
    pub(crate) fn of(headers: &HeaderMap) -> Option<Self> {
        let mut lines = headers.get_all(CONTENT_ENCODING).into_iter();
        let (Some(coding), None) = (lines.next(), lines.next()) else {
            return (!headers.contains_key(CONTENT_ENCODING)).then_some(Self::Identity);
        };
        let names: [(&[u8], Self); 6] = [
            (b"", Self::Identity),
            (b"identity", Self::Identity),
            (b"gzip", Self::Gzip),
            // RFC 9110, section 8.4.1.3: to be taken for the same.
            (b"x-gzip", Self::Gzip),
            (b"deflate", Self::Deflate),
            (b"br", Self::Brotli),
        ];
        let coding = coding.as_bytes();
        names.into_iter().find(|(name, _)| name.eq_ignore_ascii_case(coding)).map(|(_, coding)| coding)
    }

    /// Most bytes that a body may have on the wire so that it can decode to `limit` bytes.
    pub(crate) fn most_encoded(self, limit: usize) -> usize {
        match self {
            Self::Identity => limit,
            Self::Gzip | Self::Deflate | Self::Brotli => limit.saturating_add(limit / FRAMES + FRAMES),
        }
    }

    /// What was encoded, if it has at most `limit` bytes.
    pub(crate) fn decode(self, encoded: Bytes, limit: usize) -> Result<Bytes, DecodeError> {
        match self {
            Self::Identity => Ok(encoded),
            Self::Gzip => read(MultiGzDecoder::new(&*encoded), limit),
            Self::Deflate => read(ZlibDecoder::new(&*encoded), limit),
            Self::Brotli => {
                let mut decoder = Decompressor::new(&*encoded, BUFFER);
                // Not part of RFC 7932: such a stream may ask for a window of 1 GiB.
                decoder.set_parameter(BrotliDecoderParameter::BROTLI_DECODER_PARAM_LARGE_WINDOW, 0);
                read(decoder, limit)
            }
        }
    }
}

fn read(decoder: impl Read, limit: usize) -> Result<Bytes, DecodeError> {
    let mut decoded = Vec::new();
    let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    decoder.take(most).read_to_end(&mut decoded).map_err(DecodeError::Broken)?;
    if decoded.len() > limit { Err(DecodeError::TooLarge) } else { Ok(decoded.into()) }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};

    use super::*;

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn zlib(text: &[u8]) -> Vec<u8> {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn bare_deflate(text: &[u8]) -> Vec<u8> {
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    /// `hello` as one uncompressed block; the header says how large the window is.
    const BROTLI: &[u8] = b"\x0b\x02\x80hello\x03";

    fn decode(coding: Coding, encoded: Vec<u8>, limit: usize) -> Result<Vec<u8>, &'static str> {
        match coding.decode(encoded.into(), limit) {
            Ok(bytes) => Ok(bytes.to_vec()),
            Err(DecodeError::TooLarge) => Err("too large"),
            Err(DecodeError::Broken(_)) => Err("broken"),
        }
    }

    #[test]
    fn each_coding_gives_back_what_was_encoded() {
        assert_eq!(decode(Coding::Gzip, gzip(b"hello"), 5), Ok(b"hello".into()));
        assert_eq!(decode(Coding::Gzip, [gzip(b"hel"), gzip(b"lo")].concat(), 5), Ok(b"hello".into()));
        assert_eq!(decode(Coding::Deflate, zlib(b"hello"), 5), Ok(b"hello".into()));
        assert_eq!(decode(Coding::Brotli, BROTLI.into(), 5), Ok(b"hello".into()));
        // By an encoder of another make: `brotli -q 11`.
        let input = b"{\"input\":\"hi\"}";
        let encoded = [&b"\x8b\x06\x80"[..], input, b"\x03"].concat();
        assert_eq!(decode(Coding::Brotli, encoded, 99), Ok(input.into()));
    }

    #[test]
    fn a_small_body_that_becomes_a_large_one_is_given_up_at_the_limit() {
        let zeros = vec![0; 64 << 20];
        for (coding, encoded) in [(Coding::Gzip, gzip(&zeros)), (Coding::Deflate, zlib(&zeros))] {
            assert!(encoded.len() < 102_400);
            assert_eq!(decode(coding, encoded, 102_400), Err("too large"), "{coding:?}");
        }
        assert_eq!(decode(Coding::Brotli, BROTLI.into(), 4), Err("too large"));
    }

    #[test]
    fn what_is_no_such_coding_or_breaks_off_is_broken() {
        for coding in [Coding::Gzip, Coding::Deflate, Coding::Brotli] {
            assert_eq!(decode(coding, b"{\"input\":\"hi\"}".into(), 100), Err("broken"), "{coding:?}");
        }
        let (whole, zlibbed) = (gzip(b"hello"), zlib(b"hello"));
        assert_eq!(decode(Coding::Gzip, zlibbed.clone(), 100), Err("broken"));
        assert_eq!(decode(Coding::Deflate, bare_deflate(b"hello"), 100), Err("broken"));
        assert_eq!(decode(Coding::Gzip, whole[..whole.len() - 1].into(), 100), Err("broken"));
        assert_eq!(decode(Coding::Deflate, zlibbed[..zlibbed.len() - 5].into(), 100), Err("broken"));
        assert_eq!(decode(Coding::Brotli, BROTLI[..BROTLI.len() - 3].into(), 100), Err("broken"));
        // A window of 2^30 bytes: the large-window extension.
        assert_eq!(decode(Coding::Brotli, b"\x11\x1e\x00\x00\x00\x00".into(), 100), Err("broken"));
    }

    #[test]
    fn names_of_codings_have_no_case_and_stand_alone() {
        let of = |lines: &[&'static str]| {
            let mut headers = HeaderMap::new();
            lines.iter().for_each(|line| {
                headers.append(CONTENT_ENCODING, HeaderValue::from_static(line));
            });
            Coding::of(&headers)
        };
        assert_eq!(of(&[]), Some(Coding::Identity));
        assert_eq!(of(&[""]), Some(Coding::Identity));
        assert_eq!(of(&["Identity"]), Some(Coding::Identity));
        assert_eq!(of(&["GZIP"]), Some(Coding::Gzip));
        assert_eq!(of(&["x-gzip"]), Some(Coding::Gzip));
        assert_eq!(of(&["deflate"]), Some(Coding::Deflate));
        assert_eq!(of(&["br"]), Some(Coding::Brotli));
        for lines in [&["zstd"][..], &["gzip, br"], &["gzip", "gzip"], &["utf-8"]] {
            assert_eq!(of(lines), None, "{lines:?}");
        }
    }
}
