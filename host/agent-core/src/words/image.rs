//! An image in what a user says: where it is, never what it shows. Whether it can be read is the provider's
//! to find out.
//!
//! The host neither fetches nor decodes images. An image stands in a message as its URL, which holds the
//! image itself (`data:`) or says where the provider finds it (`https:`).

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Most images that a caller may send with one request: what Anthropic takes for models with a context of
/// 200,000 tokens. OpenAI takes 500.
pub const MOST_IMAGES: usize = 100;

/// Longest URL of an image, in bytes: 5 MiB. Anthropic limits an image to that, counted as base64; OpenAI
/// takes 20 MB.
pub const LONGEST_IMAGE_URL: usize = 5 << 20;

/// Longest path of an `https:` URL, its query included. RFC 9110, section 4.1, wants URLs of 8,000 octets
/// supported.
pub const LONGEST_IMAGE_PATH: usize = 8_000;

/// Longest name of a host, as in DNS.
const LONGEST_HOST: usize = 253;

/// Media types of images, which are those that both providers read.
pub const IMAGE_TYPES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// An image. Clones share its URL.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    #[serde(serialize_with = "write_shared", deserialize_with = "read_shared")]
    url: Arc<str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    detail: Option<ImageDetail>,
}

/// How closely the model is to look. Only OpenAI knows the difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ImageDetail {
    /// As the provider sees fit.
    Auto,
    /// At a small version of the image.
    Low,
    /// At the image in its full size.
    High,
}

impl ImageDetail {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Auto, Self::Low, Self::High];

    /// As OpenAI calls it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Low => "low",
            Self::High => "high",
        }
    }
}

/// Where an image is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImageSource<'a> {
    /// In the message.
    Inline {
        /// One of [`IMAGE_TYPES`].
        media_type: &'a str,
        /// The image as base64.
        data: &'a str,
    },
    /// At this URL. The provider fetches it.
    Remote(&'a str),
}

/// Why a URL is none of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ImageFault {
    /// Neither `data:` nor `https:`.
    #[error("it must be a data: URL or an https: URL.")]
    Scheme,
    /// A `data:` URL of something else, or in another form.
    #[error("it must begin with data:image/png;base64, or the same of jpeg, gif or webp.")]
    MediaType,
    /// What follows is no base64.
    #[error("what follows base64, must be base64, with its padding.")]
    Base64,
    /// Longer than [`LONGEST_IMAGE_URL`].
    #[error("it may have at most {} characters.", LONGEST_IMAGE_URL)]
    TooLarge,
    /// An `https:` URL that no provider could fetch.
    #[error(
        "it must be https://, a host, perhaps a port, and a path of at most {} visible characters of ASCII.",
        LONGEST_IMAGE_PATH
    )]
    Address,
}

impl Image {
    /// The image at a URL, if that is one of an image.
    pub fn new(url: &str, detail: Option<ImageDetail>) -> Result<Self, ImageFault> {
        if url.len() > LONGEST_IMAGE_URL {
            return Err(ImageFault::TooLarge);
        }
        if url.starts_with("data:") {
            let Some((media_type, data)) = split_data(url) else { return Err(ImageFault::MediaType) };
            if !IMAGE_TYPES.contains(&media_type) {
                return Err(ImageFault::MediaType);
            }
            if !is_base64(data) {
                return Err(ImageFault::Base64);
            }
        } else {
            let address = url.strip_prefix("https://").ok_or(ImageFault::Scheme)?;
            if !is_address(address) {
                return Err(ImageFault::Address);
            }
        }
        Ok(Self { url: url.into(), detail })
    }

    /// URL of the image, which may hold the image itself: not for logs.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// How closely the model is to look, if the caller says so.
    pub fn detail(&self) -> Option<ImageDetail> {
        self.detail
    }

    /// Where it is.
    pub fn source(&self) -> ImageSource<'_> {
        match split_data(&self.url) {
            Some((media_type, data)) => ImageSource::Inline { media_type, data },
            None => ImageSource::Remote(&self.url),
        }
    }
}

/// What people read in its place: `[image image/png, 12 KiB]`, or `[image at example.com]`. Paths and queries
/// of URLs may hold keys.
impl fmt::Display for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.source() {
            ImageSource::Inline { media_type, data } => {
                let padding = data.len() - data.trim_end_matches('=').len();
                let bytes = (data.len() / 4 * 3).saturating_sub(padding);
                match bytes {
                    0..1024 => write!(f, "[image {media_type}, {bytes} bytes]"),
                    _ => write!(f, "[image {media_type}, {} KiB]", bytes.div_ceil(1024)),
                }
            }
            ImageSource::Remote(url) => {
                let address = url.strip_prefix("https://").unwrap_or_default();
                write!(f, "[image at {}]", split_address(address).0)
            }
        }
    }
}

/// As in [`fmt::Display`]: what is printed for debugging ends up in logs.
impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// Media type and data of a `data:` URL with base64.
fn split_data(url: &str) -> Option<(&str, &str)> {
    url.strip_prefix("data:")?.split_once(";base64,")
}

/// Whether this is base64 of at least one byte, padded, without blanks (RFC 4648, section 4).
fn is_base64(data: &str) -> bool {
    let digits = data.trim_end_matches('=');
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/';
    !digits.is_empty()
        && data.len().is_multiple_of(4)
        && data.len() - digits.len() <= 2
        && digits.bytes().all(is_digit)
}

/// What stands before the path of an address, and the path with its query.
fn split_address(address: &str) -> (&str, &str) {
    let end = address.find(['/', '?']).unwrap_or(address.len());
    address.split_at(end)
}

/// Whether this, after `https://`, names a host. No user and no password: those would be handed to the
/// provider.
fn is_address(address: &str) -> bool {
    let (authority, path) = split_address(address);
    let (host, port) = match authority.split_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (authority, None),
    };
    let is_of_host = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'.' || byte == b'-';
    let is_port =
        |port: &str| (1..=5).contains(&port.len()) && port.bytes().all(|byte| byte.is_ascii_digit());
    host.starts_with(|first: char| first.is_ascii_alphanumeric())
        && host.len() <= LONGEST_HOST
        && host.bytes().all(is_of_host)
        && port.is_none_or(is_port)
        && path.len() <= LONGEST_IMAGE_PATH
        && path.bytes().all(|byte| byte.is_ascii_graphic())
}

fn write_shared<S: Serializer>(text: &str, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(text)
}

fn read_shared<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<str>, D::Error> {
    String::deserialize(deserializer).map(Arc::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_a_data_url_of_one_or_an_address() {
        let path = "x".repeat(LONGEST_IMAGE_PATH - 1);
        let (longest, too_long) = (format!("https://a/{path}"), format!("https://a/{path}x"));
        let host = "a".repeat(LONGEST_HOST);
        let (long_host, longer_host) = (format!("https://{host}"), format!("https://{host}a/"));
        for (url, shown) in [
            ("data:image/png;base64,AAAA", "[image image/png, 3 bytes]"),
            ("data:image/jpeg;base64,AAA=", "[image image/jpeg, 2 bytes]"),
            ("data:image/gif;base64,+/==", "[image image/gif, 1 bytes]"),
            ("https://example.com/a.png?key=secret#x", "[image at example.com]"),
            ("https://example.com:8443", "[image at example.com:8443]"),
            ("https://1.example?a=b", "[image at 1.example]"),
            (&longest, "[image at a]"),
            (&long_host, &format!("[image at {host}]")),
        ] {
            let image = Image::new(url, None).unwrap();
            assert_eq!((image.url(), image.to_string().as_str()), (url, shown));
            assert_eq!(format!("{image:?}"), shown);
        }
        for (url, fault) in [
            ("", ImageFault::Scheme),
            ("http://example.com/a.png", ImageFault::Scheme),
            ("HTTPS://example.com/a.png", ImageFault::Scheme),
            ("file:///etc/passwd", ImageFault::Scheme),
            ("AAAA", ImageFault::Scheme),
            ("data:image/svg+xml;base64,AAAA", ImageFault::MediaType),
            ("data:image/jpg;base64,AAAA", ImageFault::MediaType),
            ("data:text/html;base64,AAAA", ImageFault::MediaType),
            ("data:image/png;charset=x;base64,AAAA", ImageFault::MediaType),
            ("data:image/png,AAAA", ImageFault::MediaType),
            ("data:image/png;base64,", ImageFault::Base64),
            ("data:image/png;base64,AAA", ImageFault::Base64),
            ("data:image/png;base64,A===", ImageFault::Base64),
            ("data:image/png;base64,====", ImageFault::Base64),
            ("data:image/png;base64,A=AA", ImageFault::Base64),
            ("data:image/png;base64,AA-_", ImageFault::Base64),
            ("data:image/png;base64,AAA A", ImageFault::Base64),
            ("https://", ImageFault::Address),
            ("https:///a.png", ImageFault::Address),
            ("https://me:secret@example.com/a.png", ImageFault::Address),
            ("https://[::1]/a.png", ImageFault::Address),
            ("https://.example.com/a.png", ImageFault::Address),
            ("https://example.com:/a.png", ImageFault::Address),
            ("https://example.com:123456/a.png", ImageFault::Address),
            ("https://example.com/a b.png", ImageFault::Address),
            ("https://example.com/ä.png", ImageFault::Address),
            ("https://example.com/a\n", ImageFault::Address),
            (&too_long, ImageFault::Address),
            (&longer_host, ImageFault::Address),
        ] {
            assert_eq!(Image::new(url, None), Err(fault), "{url:.60}");
        }
    }

    #[test]
    fn a_large_image_is_refused_and_never_shown_whole() {
        let of = |digits: usize| Image::new(&format!("data:image/webp;base64,{}", "A".repeat(digits)), None);
        assert_eq!(of(16_384).unwrap().to_string(), "[image image/webp, 12 KiB]");
        assert!(of(LONGEST_IMAGE_URL - 24).is_ok());
        assert_eq!(of(LONGEST_IMAGE_URL - 20), Err(ImageFault::TooLarge));
    }
}
