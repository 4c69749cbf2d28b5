//! What a user says: a text, or texts and images in their order.

use std::borrow::Cow;
use std::fmt;

use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::Image;

/// The content of a message of a user. As JSON a text is a string, as it was before there were images, and
/// parts are a list.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum UserContent {
    /// A text as it was sent.
    Text(String),
    /// Parts, at least one of which is an image ([`UserContent::of_parts`]).
    Parts(Vec<ContentPart>),
}

/// A part of what a user says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum ContentPart {
    /// Words.
    Text {
        /// The words.
        text: String,
    },
    Image(Image),
}

impl UserContent {
    /// The content that these parts are. Without an image it is one text, a part on each line.
    pub fn of_parts(parts: Vec<ContentPart>) -> Self {
        let content = Self::Parts(parts);
        if content.images().next().is_some() { content } else { Self::Text(content.text().into_owned()) }
    }

    /// All of it as a text for people, a part on each line. Images are named, not shown.
    pub fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Text(text) => text.into(),
            Self::Parts(parts) => {
                let lines = parts.iter().map(|part| match part {
                    ContentPart::Text { text } => Cow::from(text),
                    ContentPart::Image(image) => image.to_string().into(),
                });
                lines.collect::<Vec<_>>().join("\n").into()
            }
        }
    }

    pub fn texts(&self) -> impl Iterator<Item = &str> {
        let (whole, parts) = self.split();
        whole.into_iter().chain(parts.iter().filter_map(ContentPart::text))
    }

    pub fn images(&self) -> impl Iterator<Item = &Image> {
        self.split().1.iter().filter_map(|part| match part {
            ContentPart::Image(image) => Some(image),
            ContentPart::Text { .. } => None,
        })
    }

    /// The content as one text, in which images are only named.
    pub fn without_images(&self) -> Self {
        Self::Text(self.text().into_owned())
    }

    /// Bytes of its texts and of its images, as they are kept.
    pub fn bytes(&self) -> usize {
        let images = self.images().map(|image| size_of::<ContentPart>() + image.url().len());
        self.texts().map(str::len).chain(images).sum()
    }

    fn split(&self) -> (Option<&str>, &[ContentPart]) {
        match self {
            Self::Text(text) => (Some(text), &[]),
            Self::Parts(parts) => (None, parts),
        }
    }
}

impl ContentPart {
    fn text(&self) -> Option<&str> {
        match self {
            Self::Text { text } => Some(text),
            Self::Image(_) => None,
        }
    }
}

impl From<String> for UserContent {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for UserContent {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

/// By hand, so that a text is moved and not copied, and an error says what was expected.
impl<'de> Deserialize<'de> for UserContent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ContentVisitor)
    }
}

struct ContentVisitor;

impl<'de> Visitor<'de> for ContentVisitor {
    type Value = UserContent;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text or a list of parts")
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(text.into())
    }

    fn visit_string<E>(self, text: String) -> Result<Self::Value, E> {
        Ok(text.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut parts = vec![];
        while let Some(part) = list.next_element()? {
            parts.push(part);
        }
        Ok(UserContent::Parts(parts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::{ImageDetail, Message};

    fn text(text: &str) -> ContentPart {
        ContentPart::Text { text: text.into() }
    }

    #[test]
    fn content_is_read_as_it_was_written_and_a_text_as_ever() {
        let image = Image::new("data:image/png;base64,AAAA", Some(ImageDetail::Low)).unwrap();
        let remote = Image::new("https://example.com/a.png", None).unwrap();
        let parts = vec![text("Which?"), ContentPart::Image(image), ContentPart::Image(remote)];
        for (content, written) in [
            (
                UserContent::of_parts(parts.clone()),
                r#"{"role":"user","content":[{"type":"text","text":"Which?"},{"type":"image","url":"data:image/png;base64,AAAA","detail":"low"},{"type":"image","url":"https://example.com/a.png"}]}"#,
            ),
            (UserContent::of_parts(vec![text("a"), text("b")]), r#"{"role":"user","content":"a\nb"}"#),
            ("".into(), r#"{"role":"user","content":""}"#),
        ] {
            let message = Message::User { content };
            assert_eq!(serde_json::to_string(&message).unwrap(), written);
            assert_eq!(serde_json::from_str::<Message>(written).unwrap(), message);
        }
        assert!(serde_json::from_str::<Message>(r#"{"role":"user","content":1}"#).is_err());
        assert!(serde_json::from_str::<Message>(r#"{"role":"user","content":[{"type":"audio"}]}"#).is_err());
    }

    #[test]
    fn people_read_a_name_in_the_place_of_an_image() {
        let image = Image::new("data:image/png;base64,AAAA", None).unwrap();
        let content = UserContent::of_parts(vec![text("a"), ContentPart::Image(image), text("b")]);
        assert_eq!(content.text(), "a\n[image image/png, 3 bytes]\nb");
        assert_eq!(content.texts().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(content.without_images(), "a\n[image image/png, 3 bytes]\nb".into());
        assert!(!format!("{content:?}").contains("base64"));
        assert!(content.bytes() > 28 && UserContent::from("abc").bytes() == 3);
    }
}
