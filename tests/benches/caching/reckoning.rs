//! What providers keep of requests, and what they bill, by the rules that they publish. A token is taken for
//! four bytes: what counts here is a ratio.

use acceptance::Request;
use test_servers::provider_rules::blocks_read;

/// Fewer tokens than that are not kept, by both providers (docs.anthropic.com, "Prompt caching", "Cache
/// limitations"; platform.openai.com, "Prompt caching", "Requirements").
const LEAST: f64 = 1_024.0;

/// Anthropic: a token that is written costs 1.25 of one that is read anew, and one that is read from the
/// cache a tenth (docs.anthropic.com, "Prompt caching", "Pricing").
const WRITING: f64 = 1.25;
const READING: f64 = 0.1;

/// Anthropic looks for what it has kept at a mark, and at most that many blocks before it.
const LOOKBACK: usize = 20;

/// OpenAI reads in steps of so many tokens, at a tenth of the price of its newest models.
const STEP: f64 = 128.0;

/// The input of one request, in tokens.
#[derive(Debug, Default)]
pub(crate) struct Bill {
    /// All of the input, whatever it costs.
    pub(crate) input: f64,
    /// What of it was read from the cache.
    pub(crate) read: f64,
    /// What of it was written to the cache, where that costs more.
    pub(crate) written: f64,
    /// What is paid, in tokens of full price.
    pub(crate) paid: f64,
}

impl Bill {
    pub(crate) fn plus(&self, other: &Self) -> Self {
        Self {
            input: self.input + other.input,
            read: self.read + other.read,
            written: self.written + other.written,
            paid: self.paid + other.paid,
        }
    }
}

/// Requests to Anthropic: what lies before a mark is kept.
pub(crate) fn anthropic(requests: &[Request]) -> Vec<Bill> {
    let mut kept: Vec<Vec<String>> = Vec::new();
    let bills = requests.iter().map(|request| {
        let (blocks, marks) = blocks_read(&request.body);
        let tokens = |blocks: &[String]| -> f64 { blocks.iter().map(|block| tokens(block)).sum() };
        let candidates = marks.iter().flat_map(|mark| (mark.saturating_sub(LOOKBACK)..=*mark).rev());
        let known = |end: &usize| kept.iter().any(|kept| *kept == blocks[..*end]);
        let read = candidates.filter(known).max().unwrap_or(0);
        let written = marks.iter().copied().filter(|mark| tokens(&blocks[..*mark]) >= LEAST).max();
        let (input, read_tokens) = (tokens(&blocks), tokens(&blocks[..read]));
        let written = written.map_or(0.0, |mark| tokens(&blocks[..mark.max(read)]) - read_tokens);
        kept.extend(
            marks
                .iter()
                .filter(|mark| tokens(&blocks[..**mark]) >= LEAST)
                .map(|mark| blocks[..*mark].to_vec()),
        );
        let anew = input - read_tokens - written;
        Bill { input, read: read_tokens, written, paid: anew + WRITING * written + READING * read_tokens }
    });
    bills.collect()
}

/// Requests to OpenAI: every beginning is kept.
pub(crate) fn openai(requests: &[Request]) -> Vec<Bill> {
    let mut earlier: Vec<Vec<String>> = Vec::new();
    let bills = requests.iter().map(|request| {
        let (blocks, _) = blocks_read(&request.body);
        let tokens = |blocks: &[String]| -> f64 { blocks.iter().map(|block| tokens(block)).sum() };
        let common = |other: &Vec<String>| blocks.iter().zip(other).take_while(|(a, b)| a == b).count();
        let same = earlier.iter().map(common).max().unwrap_or(0);
        let same = tokens(&blocks[..same]);
        let read = if same < LEAST { 0.0 } else { (same / STEP).floor() * STEP };
        let input = tokens(&blocks);
        earlier.push(blocks);
        Bill { input, read, written: 0.0, paid: input - read + READING * read }
    });
    bills.collect()
}

fn tokens(text: &str) -> f64 {
    text.len() as f64 / 4.0
}
