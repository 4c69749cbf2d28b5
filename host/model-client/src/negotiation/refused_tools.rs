//! The search for the tool that a provider refuses.
//!
//! A provider that refuses one tool refuses every request that shows it, whatever its conversation. So such a
//! refusal is read: it may name the tool or its index in the list. When it names none, a binary search sends
//! probes with half of the tools until one is left. A result counts only once a request without the tool was
//! accepted, so that no text of a caller that a refusal happens to quote can take a tool from others.

use std::collections::BTreeSet;

use crate::http::provider_error::ProviderError;

/// The most requests of one search.
const MOST_REQUESTS: u32 = 12;

/// Only so many first characters of a refusal are read: further on it may quote the conversation.
const READ_CHARACTERS: usize = 300;

/// A search among the tools of one request.
#[derive(Debug)]
pub(crate) struct RefusedToolSearch<'a> {
    /// The names of the tools that were shown first.
    shown: Vec<&'a str>,
    /// Indices of those that are taken for refused.
    refused: BTreeSet<usize>,
    phase: Phase,
    /// A request without any tool was accepted.
    works_without: bool,
    requests: u32,
}

#[derive(Debug, PartialEq)]
enum Phase {
    /// Shows everything but what is taken for refused.
    Rest,
    /// A probe without tools: is the refusal about the tools at all?
    Nothing,
    /// A probe with half of the suspects, beside those that were accepted.
    Half { suspects: Vec<usize>, accepted: Vec<usize> },
    /// Shows nothing, and ends the search.
    GiveUp,
}

/// What to do after a response.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Send the request again with the tools that [`RefusedToolSearch::offers`].
    Send,
    /// The last response is the result of the call.
    End,
}

impl<'a> RefusedToolSearch<'a> {
    /// Begins with a refusal of a request with these tools, if it is about them.
    pub(crate) fn begin(shown: Vec<&'a str>, refusal: &ProviderError) -> Option<Self> {
        if shown.is_empty() || !is_about_tools(refusal) {
            return None;
        }
        let mut search =
            Self { shown, refused: BTreeSet::new(), phase: Phase::Rest, works_without: false, requests: 0 };
        (search.after_refusal(refusal) == Next::Send).then_some(search)
    }

    /// Whether the next request shows this tool.
    pub(crate) fn offers(&self, name: &str) -> bool {
        let Some(index) = self.shown.iter().position(|shown| *shown == name) else { return false };
        match &self.phase {
            Phase::Rest => !self.refused.contains(&index),
            Phase::Nothing | Phase::GiveUp => false,
            Phase::Half { suspects, accepted } => {
                accepted.contains(&index) || suspects.iter().take(half(suspects)).any(|one| *one == index)
            }
        }
    }

    /// Whether the next request is a probe, so that its reply may be short.
    pub(crate) fn is_probe(&self) -> bool {
        matches!(self.phase, Phase::Nothing | Phase::Half { .. })
    }

    /// The provider refused again.
    pub(crate) fn after_refusal(&mut self, refusal: &ProviderError) -> Next {
        self.requests += 1;
        if self.requests > MOST_REQUESTS {
            return self.give_up();
        }
        if !is_about_tools(refusal) {
            return Next::End;
        }
        let offered = self.offered();
        if offered.is_empty() {
            // The provider refuses without any tool as well, so the refusal is not about them.
            return Next::End;
        }
        if refuses_all(refusal) {
            return self.give_up();
        }
        let named = named(refusal, &offered, &self.shown);
        if !named.is_empty() {
            self.refused.extend(named);
            self.phase = Phase::Rest;
            return Next::Send;
        }
        match std::mem::replace(&mut self.phase, Phase::Nothing) {
            Phase::Half { suspects, accepted } => {
                let fewer = suspects[..half(&suspects)].to_vec();
                self.narrow(fewer, accepted);
            }
            Phase::Rest if self.works_without => self.halve(),
            Phase::Rest | Phase::Nothing | Phase::GiveUp => {}
        }
        Next::Send
    }

    /// The provider accepted.
    pub(crate) fn after_acceptance(&mut self) -> Next {
        self.requests += 1;
        match std::mem::replace(&mut self.phase, Phase::Rest) {
            Phase::Rest => Next::End,
            Phase::GiveUp => {
                self.refused = (0..self.shown.len()).collect();
                Next::End
            }
            Phase::Nothing => {
                self.works_without = true;
                self.halve();
                Next::Send
            }
            Phase::Half { suspects, mut accepted } => {
                let (fine, rest) = suspects.split_at(half(&suspects));
                accepted.extend(fine);
                self.narrow(rest.to_vec(), accepted);
                Next::Send
            }
        }
    }

    /// The tools that the next request is sent without for good: once the search has ended, those that the
    /// provider refuses.
    pub(crate) fn refused(&self) -> Vec<&'a str> {
        if self.phase == Phase::GiveUp {
            return self.shown.clone();
        }
        self.refused.iter().filter_map(|index| self.shown.get(*index).copied()).collect()
    }

    fn offered(&self) -> Vec<usize> {
        (0..self.shown.len()).filter(|index| self.offers(self.shown[*index])).collect()
    }

    /// Begins the binary search among what is left.
    fn halve(&mut self) {
        let suspects = (0..self.shown.len()).filter(|one| !self.refused.contains(one)).collect();
        self.narrow(suspects, Vec::new());
    }

    fn narrow(&mut self, suspects: Vec<usize>, accepted: Vec<usize>) {
        self.phase = if suspects.len() > 1 && self.requests < MOST_REQUESTS - 1 {
            Phase::Half { suspects, accepted }
        } else {
            self.refused.extend(suspects);
            Phase::Rest
        };
    }

    /// The last request is sent without any tool: the run goes on without them.
    fn give_up(&mut self) -> Next {
        if self.phase == Phase::GiveUp {
            return Next::End;
        }
        self.phase = Phase::GiveUp;
        Next::Send
    }
}

fn half(suspects: &[usize]) -> usize {
    suspects.len().div_ceil(2)
}

fn beginning(refusal: &ProviderError) -> String {
    refusal.message.chars().take(READ_CHARACTERS).collect::<String>().to_ascii_lowercase()
}

/// Whether a refusal is about the list of tools, and not about a call or an answer in the conversation.
fn is_about_tools(refusal: &ProviderError) -> bool {
    if let Some(parameter) = &refusal.parameter {
        return parameter.starts_with("tools") || parameter.starts_with("functions");
    }
    if refusal.kinds.iter().any(|kind| kind == "tool_use_failed") {
        return false;
    }
    let text = beginning(refusal);
    let mentions = |words: &[&str]| words.iter().any(|word| text.contains(word));
    let conversation = [
        // About what the model wrote, which depends on the prompt and says nothing of the tools.
        "failed_generation",
        "failed to call a function",
        "attempted to call",
        "tool call",
        "tool_call",
        "tool_use",
        "tool_result",
        "tool message",
        "tool role",
        "messages.",
        "context length",
        "context size",
        "context window",
        "context_length",
        "thought_signature",
        "reasoning_content",
    ];
    refuses_all(refusal) || (mentions(&["tool", "function", "schema", "grammar"]) && !mentions(&conversation))
}

/// Whether a server takes no tools at all: Ollama, vLLM, OpenRouter and others in their own words.
fn refuses_all(refusal: &ProviderError) -> bool {
    let text = beginning(refusal);
    [
        "does not support tools",
        "no endpoints found that support tool use",
        "not support tool",
        "not support function",
        "tool choice requires",
        "tools are not supported",
        "tool use is not supported",
        "calling is not supported",
        "calling is not enabled",
        "tools is not supported",
        "requires --jinja",
        "tools param requires",
    ]
    .iter()
    .any(|words| text.contains(words))
}

/// The indices of the tools that a refusal names, by their names or by their indices in the list that was
/// sent.
fn named(refusal: &ProviderError, offered: &[usize], shown: &[&str]) -> Vec<usize> {
    let mut texts: Vec<String> = refusal.parameter.iter().map(|text| text.to_ascii_lowercase()).collect();
    texts.push(beginning(refusal));
    let by_index: Vec<_> =
        texts.iter().flat_map(|text| indices(text)).filter_map(|index| offered.get(index).copied()).collect();
    if !by_index.is_empty() {
        return by_index;
    }
    let is_named =
        |index: &usize| texts.iter().any(|text| has_word(text, &shown[*index].to_ascii_lowercase()));
    let by_name: Vec<_> = offered.iter().copied().filter(is_named).collect();
    // A text that names all of them singles out none.
    if by_name.len() < offered.len() || offered.len() == 1 { by_name } else { Vec::new() }
}

/// The numbers behind `tools`: `tools[3].function`, `tools.3.custom`, `('body', 'tools', 3)`, `tools -> 3`.
fn indices(text: &str) -> Vec<usize> {
    let mut found = Vec::new();
    for (begin, word) in text.match_indices("tools") {
        let rest = text[begin + word.len()..].trim_start_matches(|c: char| "[.'\", ->/:]".contains(c));
        let separated = rest.len() < text[begin + word.len()..].len();
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        if separated && let Ok(index) = digits.parse() {
            found.push(index);
        }
    }
    found
}

/// Whether a name stands in quotes or behind a mark, and is not just a word of the sentence.
fn has_word(text: &str, name: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    text.match_indices(name).any(|(begin, _)| {
        let before = text[..begin].chars().next_back();
        let behind = text[begin + name.len()..].chars().next();
        let whole = !before.is_some_and(is_part) && !behind.is_some_and(is_part);
        let quoted = before.is_some_and(|c| "'\"`:/.".contains(c)) || name.contains('_');
        let announced =
            ["function ", "tool ", "function: ", "tool: "].iter().any(|word| text[..begin].ends_with(word));
        whole && (quoted || announced)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHOWN: [&str; 5] = ["add", "calculate", "current_time", "json_query", "text_stats"];

    fn provider_error(message: &str, parameter: Option<&str>) -> ProviderError {
        ProviderError {
            message: message.into(),
            parameter: parameter.map(str::to_owned),
            ..ProviderError::default()
        }
    }

    #[test]
    fn what_a_prompt_made_the_model_write_takes_no_tool_from_others() {
        for message in [
            "Failed to call a function. Please adjust your prompt. See 'failed_generation' for more details.",
            "tool call validation failed: parameters for tool calculate did not match schema: errors: [missing properties]",
            "tool call validation failed: attempted to call tool 'calculate' which was not in request.tools",
        ] {
            assert!(
                RefusedToolSearch::begin(SHOWN.to_vec(), &provider_error(message, None)).is_none(),
                "{message}"
            );
        }
        let kinds = vec!["tool_use_failed".to_owned()];
        let refusal = ProviderError { kinds, ..provider_error("The function is not right.", None) };
        assert!(RefusedToolSearch::begin(SHOWN.to_vec(), &refusal).is_none());
    }

    /// Plays a server that refuses requests with one of `bad` tools in these words, and says what the search
    /// found and after how many requests.
    fn search(shown: &[&str], bad: &[&str], words: impl Fn(&[&str]) -> ProviderError) -> (Vec<String>, u32) {
        let all: Vec<_> = shown.to_vec();
        let mut search = RefusedToolSearch::begin(shown.to_vec(), &words(&all)).expect("it is about tools");
        let mut asked = 1;
        loop {
            let offered: Vec<_> = shown.iter().copied().filter(|name| search.offers(name)).collect();
            asked += 1;
            assert!(asked < 20, "there is no end of it");
            let next = if offered.iter().any(|name| bad.contains(name)) {
                search.after_refusal(&words(&offered))
            } else {
                search.after_acceptance()
            };
            if next == Next::End {
                let found = search.refused().iter().map(|name| (*name).to_owned()).collect();
                return (found, asked);
            }
        }
    }

    #[test]
    fn a_refusal_that_names_a_tool_is_believed_after_one_more_request() {
        // In place of `#` stands where the tool is in the list that was sent.
        for (message, parameter) in [
            (
                "Invalid schema for function 'json_query': In context=('properties', 'json'), array schema missing items.",
                Some("tools[3].function.parameters"),
            ),
            (
                "Invalid schema for function 'json_query': In context=('properties', 'json'), missing items",
                None,
            ),
            ("tools.#.custom.input_schema: not supported", None),
            ("[{'loc': ('body', 'tools', #, 'function')}]", None),
            ("Failed to build the grammar of tool json_query", None),
        ] {
            let words = |offered: &[&str]| {
                let place = offered.iter().position(|name| *name == "json_query").unwrap();
                provider_error(&message.replace('#', &place.to_string()), parameter)
            };
            assert_eq!(search(&SHOWN, &["json_query"], words), (vec!["json_query".to_owned()], 2));
        }
    }

    #[test]
    fn a_refusal_that_names_none_is_narrowed_down() {
        let words =
            |_: &[&str]| provider_error("JSON schema conversion failed: Unrecognized schema: true", None);
        for bad in SHOWN {
            let (found, asked) = search(&SHOWN, &[bad], words);
            assert_eq!(found, [bad]);
            assert!(asked <= 7, "{bad}: {asked}");
        }
        let many: Vec<String> = (0..100).map(|n| format!("tool_{n}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(search(&many, &["tool_77"], words).0, ["tool_77"]);
    }

    #[test]
    fn several_refused_tools_cost_those_or_in_the_end_all() {
        let named = |offered: &[&str]| {
            let bad = offered.iter().find(|name| ["add", "text_stats"].contains(name)).unwrap();
            provider_error(&format!("Invalid schema for function '{bad}'"), None)
        };
        assert_eq!(search(&SHOWN, &["add", "text_stats"], named).0, ["add", "text_stats"]);
        let unnamed = |_: &[&str]| provider_error("failed to parse grammar", None);
        assert_eq!(search(&SHOWN, &SHOWN, unnamed).0, SHOWN);
        for words in [
            "model \"gemma\" does not support tools",
            "No endpoints found that support tool use.",
            "Function calling is not enabled for models/gemma-3-27b-it",
        ] {
            let none = |_: &[&str]| provider_error(words, None);
            assert_eq!(search(&SHOWN, &SHOWN, none), (SHOWN.map(str::to_owned).to_vec(), 2));
        }
    }

    #[test]
    fn what_is_not_about_the_list_of_tools_is_not_looked_into() {
        for (message, parameter) in [
            ("The model `x` does not exist", None),
            ("An assistant message with 'tool_calls' must be followed by tool messages", None),
            ("messages.1.content.0.tool_use.id: String should match pattern", None),
            ("the request exceeds the available context size, with its tools", None),
            ("Function call is missing a thought_signature: function call `default_api:add`", None),
            ("Invalid value: the tool list", Some("messages[0].content")),
        ] {
            assert!(
                RefusedToolSearch::begin(SHOWN.to_vec(), &provider_error(message, parameter)).is_none(),
                "{message}"
            );
        }
        let about = provider_error("Unrecognized schema", None);
        assert!(RefusedToolSearch::begin(vec![], &about).is_none());
        // The provider refuses without any tool as well: two requests, and nothing is learnt.
        let mut search = RefusedToolSearch::begin(SHOWN.to_vec(), &about).unwrap();
        assert!(SHOWN.iter().all(|name| !search.offers(name)) && search.is_probe());
        assert_eq!(search.after_refusal(&about), Next::End);
        assert!(search.refused().is_empty());
    }
}
