//! Texts as a schema asks for them.

use fastrand::Rng;
use json_schema::syntax::Keywords;

use super::{MOST_CHARS, bound, pattern};

/// Words that are made into texts: what people write, and what trips programs over.
const WORDS: [&str; 12] =
    ["hello", "Ada", "2", "3 + 4", "a,b\n1,2", "München", "日本", "🦀", "it's", "[1]", "name", "x"];

/// A text.
pub(super) fn make(keywords: Keywords<'_>, edges: bool, random: &mut Rng) -> String {
    if let Some(text) = keywords.text("format").and_then(|format| of_format(format, random)) {
        return text;
    }
    if let Some(pattern) = keywords.text("pattern")
        && let Some(text) = pattern::sample(pattern, random)
    {
        return fitted(&text, keywords);
    }
    let count = if edges { 1 } else { random.usize(1..=3) };
    let words: Vec<_> = (0..count).filter_map(|_| WORDS.get(random.usize(..WORDS.len())).copied()).collect();
    fitted(&words.join(" "), keywords)
}

/// Cut or filled up to the bounds of the schema, which count characters.
fn fitted(text: &str, keywords: Keywords<'_>) -> String {
    let least = usize::try_from(bound(keywords, "minLength").unwrap_or(0)).unwrap_or(usize::MAX);
    let most = bound(keywords, "maxLength").and_then(|most| usize::try_from(most).ok());
    let most = most.unwrap_or_else(|| least.max(MOST_CHARS).max(text.chars().count()));
    let length = text.chars().count().clamp(least.min(most), most);
    text.chars().chain(std::iter::repeat('x')).take(length).collect()
}

fn of_format(format: &str, random: &mut Rng) -> Option<String> {
    let (year, month, day) = (random.u16(1970..2100), random.u8(1..=12), random.u8(1..=28));
    let (hour, minute) = (random.u8(..24), random.u8(..60));
    Some(match format {
        "date" => format!("{year}-{month:02}-{day:02}"),
        "time" => format!("{hour:02}:{minute:02}:00Z"),
        "date-time" => format!("{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:00Z"),
        "duration" => format!("P{day}D"),
        "email" => "ada@example.org".to_owned(),
        "hostname" => "www.example.org".to_owned(),
        "ipv4" => "192.0.2.1".to_owned(),
        "ipv6" => "2001:db8::1".to_owned(),
        "uri" | "url" | "iri" | "uri-reference" => format!("https://example.org/{day}"),
        "uuid" => format!("00000000-0000-4000-8000-{:012x}", random.u32(..)),
        "regex" => "a+".to_owned(),
        "json-pointer" => "/a/0".to_owned(),
        _ => return None,
    })
}
