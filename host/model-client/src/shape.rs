//! Which of the parameters that not every model takes a request may hold, and how many tokens it may ask for.
//!
//! Reasoning models refuse any temperature, some servers that speak OpenAI's protocol want OpenAI's new
//! name for the most tokens of a reply, and every model has its own bound for them: a caller without a wish
//! is given all that its budget leaves, which may be more. No list of models stays true for long and a
//! server behind another address may serve any of them, so the refusal itself is read: it names the
//! parameter, the request is sent again without it, under its other name or with less, and the client
//! remembers. This is not a retry: that would be the same request.

use crate::complaint::Complaint;

/// A mention of a parameter counts only this early in a refusal without a `param` field. Further on it may
/// be a quotation of the conversation, and what a caller writes must not change how others are served.
const EARLY: usize = 120;

/// A bound counts only among so many first characters of a refusal, for the same reason.
const BOUND_WITHIN: usize = 200;

/// No server wants more of a reply at least.
const MOST_LEAST: u32 = 64;

/// No model's bound is lower. A smaller number counts something else: a version, a position.
const LEAST_BOUND: u32 = 16;

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
    /// The most tokens of a reply that a request may ask for, once the model has refused more.
    pub(crate) most_tokens: Option<u32>,
    /// The fewest tokens of a reply that a request may ask for, once the server has refused fewer.
    pub(crate) least_tokens: Option<u32>,
    /// The server takes `tool_choice: none`. Tools are left out of such requests to one that does not.
    pub(crate) tool_choice: bool,
}

impl Shape {
    /// What OpenAI itself takes: its own servers know nothing but the new name.
    pub(crate) const OPENAI: Self = Self {
        temperature: true,
        completion_tokens: true,
        short_ids: true,
        most_tokens: None,
        least_tokens: None,
        tool_choice: true,
    };
    /// What everybody else takes: the many servers that imitate OpenAI know the old name for sure.
    pub(crate) const OTHER: Self = Self {
        temperature: true,
        completion_tokens: false,
        short_ids: false,
        most_tokens: None,
        least_tokens: None,
        tool_choice: true,
    };

    /// The most tokens that are asked for when the request's own bound is `wanted`.
    pub(crate) fn tokens(self, wanted: u32) -> u32 {
        let bounded = self.most_tokens.map_or(wanted, |most| most.min(wanted));
        self.least_tokens.map_or(bounded, |least| least.max(bounded))
    }

    /// The shape that a refused request should have had, if the refusal is about that. Every step goes one way,
    /// and the bounds only towards each other, so that asking again ends.
    pub(crate) fn corrected_by(self, refusal: &Complaint, sent: Sent) -> Option<Correction> {
        let about = |parameter: &str| match &refusal.parameter {
            Some(named) => named == parameter,
            None => refusal.message.find(parameter).is_some_and(|place| place < EARLY),
        };
        let message = refusal.message.to_ascii_lowercase();
        let unsupported = ["support", "deprecated", "unrecognized", "not permitted", "not allowed"]
            .iter()
            .any(|word| message.contains(word));
        let renamed = message.contains("max_completion_tokens");
        let lasting = |shape| Some(Correction { shape, lasting: true });
        if sent.forbids_calls && self.tool_choice && about("tool_choice") {
            lasting(Self { tool_choice: false, ..self })
        } else if unsupported && self.temperature && about("temperature") {
            lasting(Self { temperature: false, ..self })
        } else if unsupported && renamed && !self.completion_tokens && about("max_tokens") {
            lasting(Self { completion_tokens: true, ..self })
        } else if about("max_tokens") || about("max_completion_tokens") {
            if let Some(least) = least(&message, sent.tokens) {
                return lasting(Self { least_tokens: Some(least), ..self });
            }
            let shape = Self { most_tokens: Some(bound(&message, sent.tokens)?), ..self };
            Some(Correction { shape, lasting: is_about_the_model(&message) })
        } else {
            None
        }
    }
}

/// What a refused request held, as far as a refusal can be about it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sent {
    /// The most tokens that it asked for.
    pub(crate) tokens: u32,
    /// It said that no tool may be called.
    pub(crate) forbids_calls: bool,
}

/// A better shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Correction {
    pub(crate) shape: Shape,
    /// It holds for other requests too. What is only left at the moment of somebody's quota does not.
    pub(crate) lasting: bool,
}

/// Whether a bound is the model's own: its text says so and speaks of nothing that is used up.
fn is_about_the_model(refusal: &str) -> bool {
    let says = |words: &[&str]| words.iter().any(|word| refusal.contains(word));
    let limit = ["maximum", "at most", "less than or equal", "valid range", "not in [", "this model", "<="];
    let passing = [
        " left",
        "remaining",
        "right now",
        "currently",
        "at the moment",
        "available",
        "quota",
        "credit",
        "afford",
        "balance",
        "budget",
        "per minute",
    ];
    says(&limit) && !says(&passing)
}

/// The number of tokens that a reply must at least be given, if a refusal says that `sent` was less.
fn least(refusal: &str, sent: u32) -> Option<u32> {
    let small = ["below minimum", "minimum value", ">=", "at least", "greater than"];
    let is_small = small.iter().any(|words| refusal.contains(words));
    let numbers = numbers(refusal).filter(|number| (sent + 1..=MOST_LEAST).contains(number));
    if is_small && sent < MOST_LEAST { numbers.min() } else { None }
}

/// The bound below `sent` that a refusal, in lower case, names: the largest number that can be one, because
/// what else is counted beside it is either `sent` itself or small.
///
/// A refusal that counts the conversation too is about its length, which is no other conversation's.
fn bound(refusal: &str, sent: u32) -> Option<u32> {
    let end = refusal.char_indices().nth(BOUND_WITHIN).map_or(refusal.len(), |(end, _)| end);
    let said = &refusal[..end];
    let about_the_conversation = ["context length", "context limit", "input length", "input token", "prompt"]
        .iter()
        .any(|words| said.contains(words));
    numbers(said).filter(|number| !about_the_conversation && (LEAST_BOUND..sent).contains(number)).max()
}

/// The whole numbers in a text. What is part of a name (`haiku-20240307`) is none.
fn numbers(text: &str) -> impl Iterator<Item = u32> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && !"-_.,".contains(c));
    words.flat_map(|word| ungrouped(word.trim_matches(['.', ',', '-', '_'])))
}

/// The whole numbers in a word: one, perhaps with commas between its thousands, or several with commas
/// between them.
fn ungrouped(word: &str) -> Vec<u32> {
    let thousands = word.split(',').skip(1).all(|group| group.len() == 3);
    let joined = if thousands { word.replace(',', "") } else { word.to_owned() };
    joined.split(',').filter_map(|number| number.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn correction(shape: Shape, message: &str, parameter: Option<&str>, tokens: u32) -> Option<Correction> {
        let parameter = parameter.map(str::to_owned);
        let refusal = Complaint { message: message.into(), parameter, ..Complaint::default() };
        shape.corrected_by(&refusal, Sent { tokens: shape.tokens(tokens), forbids_calls: true })
    }

    fn corrected(shape: Shape, message: &str, parameter: Option<&str>) -> Option<Shape> {
        correction(shape, message, parameter, 20_000).map(|better| better.shape)
    }

    #[test]
    fn only_a_bound_that_is_the_models_own_is_worth_remembering() {
        for (message, bound, lasting) in [
            ("max_tokens: 20000 > 4096, which is the maximum allowed number of output tokens", 4096, true),
            ("max_tokens must be less than or equal to 8192", 8192, true),
            ("max_tokens not in [1,8192]", 8192, true),
            ("max_tokens: only 512 left right now", 512, false),
            ("max_tokens: you can afford at most 512 with your credits", 512, false),
            ("max_tokens: at most 900 remaining this minute", 900, false),
            ("max_tokens: 20,000 is more than 16,384", 16_384, false),
        ] {
            let better = correction(Shape::OTHER, message, None, 20_000).unwrap();
            assert_eq!((better.shape.most_tokens, better.lasting), (Some(bound), lasting), "{message}");
        }
    }

    #[test]
    fn a_server_that_wants_to_write_more_is_let() {
        let message =
            "Invalid 'max_tokens': integer below minimum value. Expected a value >= 16, but got 1 instead.";
        let better = correction(Shape::OTHER, message, None, 1).unwrap();
        assert_eq!((better.shape.least_tokens, better.lasting), (Some(16), true));
        assert_eq!([1, 16, 500].map(|wanted| better.shape.tokens(wanted)), [16, 16, 500]);
        assert_eq!(correction(better.shape, message, None, 16), None);
    }

    #[test]
    fn refusals_of_a_parameter_are_understood() {
        let cold = Some(Shape { temperature: false, ..Shape::OTHER });
        let renamed = Some(Shape { completion_tokens: true, ..Shape::OTHER });
        let choosing = Some(Shape { tool_choice: false, ..Shape::OTHER });
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
            ("tool_choice: only 'auto' is taken", None, choosing),
            (
                "Input tag 'none' found using 'type' does not match any of the expected tags",
                Some("tool_choice"),
                choosing,
            ),
            ("temperature: Input should be less than or equal to 1", None, None),
            ("Invalid schema for function 'f': 'temperature' is not supported", Some("tools[0]"), None),
            ("The model `x` does not exist", None, None),
        ] {
            assert_eq!(corrected(Shape::OTHER, message, parameter), expected, "{message}");
        }
    }

    #[test]
    fn the_bound_of_a_models_tokens_is_understood() {
        let openai = "max_tokens is too large: 20000. This model supports at most 16384 completion tokens, \
                      whereas you provided 20000.";
        let anthropic = "invalid_request_error: max_tokens: 20000 > 4096, which is the maximum allowed \
                         number of output tokens for claude-3-haiku-20240307";
        let groq = "`max_completion_tokens` must be less than or equal to `8192`, the maximum value for \
                    `max_completion_tokens` is less than the `context_window` for this model";
        for (message, parameter, expected) in [
            (openai, Some("max_tokens"), Some(16_384)),
            (openai, Some("max_completion_tokens"), Some(16_384)),
            (openai, None, Some(16_384)),
            (openai, Some("messages"), None),
            (anthropic, None, Some(4096)),
            (groq, None, Some(8192)),
            ("Invalid max_tokens value, the valid range of max_tokens is [1, 8192]", None, Some(8192)),
            ("max_tokens not in [1,8192]", None, Some(8192)),
            ("max_tokens: Input should be less than or equal to 4096.", None, Some(4096)),
            ("max_tokens: 20,000 is more than 16,384", None, Some(16_384)),
            ("At most 4096.", Some("max_tokens"), Some(4096)),
            ("max_tokens: 20000 is too large for gpt-4-0613", None, None),
            ("max_tokens: 20000 is too large, see section 15", None, None),
            ("max_tokens: 20000 < 32000, the least this model takes", None, None),
            ("max_tokens: 99999999999999999999 is no number", None, None),
        ] {
            let expected = expected.map(|most| Shape { most_tokens: Some(most), ..Shape::OTHER });
            assert_eq!(corrected(Shape::OTHER, message, parameter), expected, "{message}");
        }
    }

    #[test]
    fn a_conversation_that_is_too_long_is_no_bound_for_others() {
        for message in [
            "'max_tokens' or 'max_completion_tokens' is too large: 20000. This model's maximum context length \
             is 8192 tokens and your request has 150 input tokens (20000 > 8192 - 150).",
            "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease input \
             length or `max_tokens` and try again",
        ] {
            assert_eq!(corrected(Shape::OTHER, message, None), None, "{message}");
        }
    }

    #[test]
    fn the_bound_only_ever_falls() {
        let bounded = |most| Shape { most_tokens: Some(most), ..Shape::OTHER };
        let refusal = "max_tokens must be between 16 and 4096";
        assert_eq!(corrected(bounded(8192), refusal, None), Some(bounded(4096)));
        assert_eq!(corrected(bounded(4096), refusal, None), Some(bounded(16)));
        assert_eq!(corrected(bounded(16), refusal, None), None);
        assert_eq!([1, 4096, 9000].map(|wanted| bounded(4096).tokens(wanted)), [1, 4096, 4096]);
    }

    #[test]
    fn a_quotation_of_the_conversation_changes_nothing() {
        let long = "x".repeat(EARLY);
        for message in [
            format!("refused: {long} temperature is deprecated"),
            format!("refused: {long} max_tokens is at most 17"),
            format!("max_tokens refused: {long} {long} at most 17"),
        ] {
            assert_eq!(corrected(Shape::OTHER, &message, None), None);
        }
    }

    #[test]
    fn what_was_corrected_once_is_not_corrected_again() {
        let bare = Shape { temperature: false, ..Shape::OPENAI };
        for message in ["temperature is not supported", "max_tokens unsupported, use max_completion_tokens"] {
            assert_eq!(corrected(bare, message, None), None);
        }
    }
}
