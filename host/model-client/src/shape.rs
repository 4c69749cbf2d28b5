//! Which of the parameters that not every model takes a request may hold.
//!
//! Reasoning models refuse any temperature, and some servers that speak OpenAI's protocol want OpenAI's new
//! name for the most tokens of a reply. No list of models stays true for long and a server behind another
//! address may serve any of them, so the refusal itself is read: it names the parameter, the request is
//! sent again without it, and the client remembers. This is not a retry: that would be the same request.

use crate::complaint::Complaint;

/// A mention of a parameter counts only this early in a refusal without a `param` field. Further on it may
/// be a quotation of the conversation, and what a caller writes must not change how others are served.
const EARLY: usize = 120;

/// How requests to one model are shaped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    /// The model takes a temperature.
    pub(crate) temperature: bool,
    /// The most tokens are called `max_completion_tokens`, not `max_tokens`.
    pub(crate) completion_tokens: bool,
    /// Ids of tool calls are short. Elsewhere they go back as they came, however long: some gateways keep
    /// a model's state in them.
    pub(crate) short_ids: bool,
}

impl Shape {
    /// What OpenAI itself takes: its own servers know nothing but the new name.
    pub(crate) const OPENAI: Self = Self { temperature: true, completion_tokens: true, short_ids: true };
    /// What everybody else takes: the many servers that imitate OpenAI know the old name for sure.
    pub(crate) const OTHER: Self = Self { temperature: true, completion_tokens: false, short_ids: false };

    /// The shape that a refused request should have had, if the refusal is about that. Every step goes one
    /// way, so that asking again ends.
    pub(crate) fn corrected_by(self, refusal: &Complaint) -> Option<Self> {
        let about = |parameter: &str| match &refusal.parameter {
            Some(named) => named == parameter,
            None => refusal.message.find(parameter).is_some_and(|place| place < EARLY),
        };
        let message = refusal.message.to_ascii_lowercase();
        let unsupported = ["support", "deprecated", "unrecognized", "not permitted", "not allowed"]
            .iter()
            .any(|word| message.contains(word));
        if !unsupported {
            None
        } else if self.temperature && about("temperature") {
            Some(Self { temperature: false, ..self })
        } else if !self.completion_tokens && about("max_tokens") && message.contains("max_completion_tokens")
        {
            Some(Self { completion_tokens: true, ..self })
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn corrected(shape: Shape, message: &str, parameter: Option<&str>) -> Option<Shape> {
        let parameter = parameter.map(str::to_owned);
        shape.corrected_by(&Complaint { message: message.into(), status: None, parameter })
    }

    #[test]
    fn refusals_of_a_parameter_are_understood() {
        let cold = Some(Shape { temperature: false, ..Shape::OTHER });
        let renamed = Some(Shape { completion_tokens: true, ..Shape::OTHER });
        let openai_temperature = "Unsupported value: 'temperature' does not support 0 with this model. \
                                  Only the default (1) value is supported.";
        let openai_tokens = "Unsupported parameter: 'max_tokens' is not supported with this model. \
                             Use 'max_completion_tokens' instead.";
        for (message, parameter, expected) in [
            (openai_temperature, Some("temperature"), cold),
            (openai_temperature, None, cold),
            ("`temperature` is deprecated for this model.", None, cold),
            (openai_tokens, Some("max_tokens"), renamed),
            (openai_tokens, None, renamed),
            ("max_tokens is too large: 20000. This model supports at most 16384.", None, None),
            ("temperature: Input should be less than or equal to 1", None, None),
            ("Invalid schema for function 'f': 'temperature' is not supported", Some("tools[0]"), None),
            ("The model `x` does not exist", None, None),
        ] {
            assert_eq!(corrected(Shape::OTHER, message, parameter), expected, "{message}");
        }
    }

    #[test]
    fn a_quotation_of_the_conversation_changes_nothing() {
        let message = format!("prompt refused: {} temperature is deprecated", "x".repeat(EARLY));
        assert_eq!(corrected(Shape::OTHER, &message, None), None);
    }

    #[test]
    fn what_was_corrected_once_is_not_corrected_again() {
        let bare = Shape { temperature: false, ..Shape::OPENAI };
        for message in ["temperature is not supported", "max_tokens unsupported, use max_completion_tokens"] {
            assert_eq!(corrected(bare, message, None), None);
        }
    }
}
