//! The words of one reply as they were sent. A stream of OpenAI's cannot take words back; a reply that broke
//! off is written again, and mostly begins with the same words. Those are sent once.

/// What of a reply has been sent.
#[derive(Debug, Default)]
pub(crate) struct SentText {
    sent: String,
    /// How many bytes of it were written again, while a reply is written again.
    repeated: Option<usize>,
}

/// What is to be sent now.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Say {
    Nothing,
    /// The reply that was begun goes on with this text.
    More(String),
    /// The reply is another than the one that was begun: this is it so far.
    Anew(String),
}

impl SentText {
    /// The words that were sent.
    pub(crate) fn as_str(&self) -> &str {
        &self.sent
    }

    /// The next words of the reply.
    pub(crate) fn push(&mut self, text: &str) -> Say {
        let Some(repeated) = self.repeated else {
            self.sent.push_str(text);
            return more(text);
        };
        let left = self.sent.get(repeated..).unwrap_or_default();
        if left.starts_with(text) {
            self.repeated = Some(repeated + text.len());
            return Say::Nothing;
        }
        self.repeated = None;
        match text.strip_prefix(left) {
            Some(new) => {
                let new = new.to_owned();
                self.sent.push_str(&new);
                more(&new)
            }
            None => {
                self.sent.truncate(repeated);
                self.sent.push_str(text);
                Say::Anew(self.sent.clone())
            }
        }
    }

    /// The words so far do not count: the reply is written again.
    pub(crate) fn reset(&mut self) {
        self.repeated = (!self.sent.is_empty()).then_some(0);
    }

    /// The reply is over, and this is the whole of it.
    pub(crate) fn finish(&mut self, whole: &str) -> Say {
        // Written again, it ended before it came to all that was sent.
        let left = self.repeated.take().and_then(|repeated| self.sent.get(repeated..)).unwrap_or_default();
        let is_shorter = !left.trim().is_empty();
        if let Some(rest) = whole.strip_prefix(self.sent.as_str()) {
            let rest = rest.to_owned();
            self.sent.push_str(&rest);
            return more(&rest);
        }
        // What models write around their words, and tool calls that they write into them, is left out of the
        // whole.
        if whole.trim().is_empty() || (!is_shorter && self.sent.contains(whole.trim())) {
            return Say::Nothing;
        }
        whole.clone_into(&mut self.sent);
        Say::Anew(self.sent.clone())
    }

    /// Another reply follows.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

fn more(text: &str) -> Say {
    if text.is_empty() { Say::Nothing } else { Say::More(text.to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a reader has in the end, `|` where the reply began anew. `<` in the script is a reset.
    fn read(script: &[&str], whole: &str) -> String {
        let (mut text, mut read) = (SentText::default(), String::new());
        let mut said: Vec<_> = script
            .iter()
            .map(|part| match *part {
                "<" => {
                    text.reset();
                    Say::Nothing
                }
                part => text.push(part),
            })
            .collect();
        said.push(text.finish(whole));
        for say in said {
            match say {
                Say::Nothing => {}
                Say::More(more) => read.push_str(&more),
                Say::Anew(anew) => {
                    read.push('|');
                    read.push_str(&anew);
                }
            }
        }
        read
    }

    #[test]
    fn no_word_is_sent_twice_and_none_is_lost() {
        for (script, whole, expected) in [
            (&["Hel", "lo"][..], "Hello", "Hello"),
            // Of a model that does not stream, or in another process.
            (&[], "Hello", "Hello"),
            (&["Hel"], "Hello", "Hello"),
            // The reply is written again, in other pieces, once and twice.
            (&["Hel", "<", "H", "ell", "o"], "Hello", "Hello"),
            (&["Hel", "<", "He", "<", "Hello"], "Hello", "Hello"),
            (&["Hello", "<"], "Hello", "Hello"),
            (&["<", "Hello"], "Hello", "Hello"),
            // Another reply.
            (&["Hel", "<", "Hi", "!"], "Hi!", "Hel|Hi!"),
            (&["Hello", "<", "Hel"], "Help", "Hello|Help"),
            (&["Hello you", "<", "Hello"], "Hello", "Hello you|Hello"),
            (&["Hello\n", "<", "Hello"], "Hello", "Hello\n"),
            // Tool calls in the text, and blanks around it.
            (&["Sure. <call>"], "Sure.", "Sure. <call>"),
            (&["\n\nHello "], "Hello", "\n\nHello "),
            (&["<call>"], "", "<call>"),
            (&[], "", ""),
        ] {
            assert_eq!(read(script, whole), expected, "{script:?} {whole:?}");
        }
    }
}
