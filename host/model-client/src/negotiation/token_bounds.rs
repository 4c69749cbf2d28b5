//! What a refusal says about the number of tokens that a request asked for: how many the model, the rest of
//! its context or the account allows.

/// A bound counts only among so many first characters of a refusal: further on it may quote the conversation.
const BOUND_WITHIN: usize = 200;

/// The counts of a conversation's and a reply's tokens stand among so many first characters.
const COUNTS_WITHIN: usize = 300;

/// No server demands a higher limit of tokens than this.
const HIGHEST_MINIMUM: u32 = 64;

/// No model's bound is lower. A smaller number counts something else: a version, a position.
const LOWEST_BOUND: u32 = 16;

/// A reply that may have fewer tokens beside a long conversation is not asked for.
const LEAST_ROOM: u32 = 64;

/// Whether a bound is the model's own: the text says so, and names nothing that is used up.
pub(crate) fn is_of_the_model(refusal: &str) -> bool {
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

/// The least limit of tokens that the server takes, if a refusal says that `sent` was less.
pub(crate) fn minimum(refusal: &str, sent: u32) -> Option<u32> {
    let small = ["below minimum", "minimum value", ">=", "at least", "greater than"];
    let is_small = small.iter().any(|words| refusal.contains(words));
    let numbers = numbers(refusal).filter(|number| (sent + 1..=HIGHEST_MINIMUM).contains(number));
    if is_small && sent < HIGHEST_MINIMUM { numbers.min() } else { None }
}

/// The bound below `sent` that a refusal, in lower case, names: the largest number that can be one, because
/// the others in such a text are `sent` itself or small.
///
/// `None` for a refusal that counts the conversation too: that is [`room`]'s.
pub(crate) fn maximum(refusal: &str, sent: u32) -> Option<u32> {
    let end = refusal.char_indices().nth(BOUND_WITHIN).map_or(refusal.len(), |(end, _)| end);
    let beginning = &refusal[..end];
    let about_the_conversation = ["context length", "context limit", "input length", "input token", "prompt"]
        .iter()
        .any(|words| beginning.contains(words));
    numbers(beginning).filter(|number| !about_the_conversation && (LOWEST_BOUND..sent).contains(number)).max()
}

/// What a conversation leaves of the model's context for the reply, if a refusal, in lower case, says that
/// `sent` tokens are too many beside it. That holds for this conversation only.
pub(crate) fn room(refusal: &str, sent: u32) -> Option<u32> {
    let end = refusal.char_indices().nth(COUNTS_WITHIN).map_or(refusal.len(), |(end, _)| end);
    // vLLM ends with how long the conversation might be.
    let text = refusal[..end].split("resulting in").next().unwrap_or_default();
    let says = |words: &[&str]| words.iter().any(|word| text.contains(word));
    let half = Some(sent / 2).filter(|half| *half >= LEAST_ROOM);
    let behind = |words: &str| text.split_once(words).and_then(|(_, rest)| numbers(rest).next());
    // Groq and OpenAI: more tokens than may be used in a minute, those of the reply included.
    if says(&["request too large"]) {
        let conversation = behind("requested ").map(|all| all.saturating_sub(sent));
        let is_alone_too_large = conversation.zip(behind("limit ")).is_some_and(|(it, limit)| it >= limit);
        return half.filter(|_| !is_alone_too_large);
    }
    let mut counts: Vec<u32> = numbers(text).collect();
    if !counts.contains(&sent) || !says(&["context length", "context limit", "max_new_tokens"]) {
        return None;
    }
    // Where even the sum without the reply is above the context, no reply is short enough.
    let least = behind("context length is").map(|context| context.saturating_add(sent));
    if least.is_some_and(|least| counts.iter().any(|count| *count >= least)) {
        return None;
    }
    counts.sort_unstable();
    counts.dedup();
    // Neither the reply nor the sum of both: that leaves the conversation and the context.
    let sums: Vec<_> = counts.iter().filter_map(|count| count.checked_add(sent)).collect();
    counts.retain(|count| *count != sent && !sums.contains(count));
    match counts[..] {
        [conversation, context] if !says(&["at least", "about", "you passed"]) => {
            Some(context - conversation).filter(|room| (LEAST_ROOM..sent).contains(room))
        }
        // The conversation was not counted to its end, or in parts.
        _ => half,
    }
}

/// The whole numbers in a text. Digits within a name (`haiku-20240307`) are none.
fn numbers(text: &str) -> impl Iterator<Item = u32> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && !"-_.,".contains(c));
    words.flat_map(|word| ungrouped(word.trim_matches(['.', ',', '-', '_'])))
}

/// The whole numbers in a word: one, perhaps with commas between its thousands, or several, separated by
/// commas.
fn ungrouped(word: &str) -> Vec<u32> {
    let thousands = word.split(',').skip(1).all(|group| group.len() == 3);
    let joined = if thousands { word.replace(',', "") } else { word.to_owned() };
    joined.split(',').filter_map(|number| number.parse().ok()).collect()
}
