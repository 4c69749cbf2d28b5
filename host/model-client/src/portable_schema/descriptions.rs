//! Descriptions, and what a keyword that is left out says, in words.

use json_schema::syntax::Keywords;

/// The most characters of a description. OpenAI takes no more of a tool's.
pub(crate) const MOST_CHARACTERS: usize = 1_024;

/// A longer pattern or example says nothing to a model that its price is worth.
const MOST_QUOTED: usize = 60;

/// The description of a part. `own` is one that its form has already.
pub(super) fn description(keywords: Keywords<'_>, own: Option<&str>) -> Option<String> {
    let said = keywords.text("description").map(str::trim);
    let parts: Vec<&str> = [said, own].into_iter().flatten().filter(|text| !text.is_empty()).collect();
    let notes = notes(keywords);
    let mut text = parts.join(" ");
    if !notes.is_empty() {
        let space = if text.is_empty() { "" } else { " " };
        text = format!("{text}{space}({})", notes.join(", "));
    }
    (!text.is_empty()).then(|| cut(&text))
}

/// The first characters of a text.
pub(crate) fn cut(text: &str) -> String {
    match text.char_indices().nth(MOST_CHARACTERS - 1) {
        Some((end, last)) if end + last.len_utf8() < text.len() => format!("{}…", &text[..end]),
        _ => text.to_owned(),
    }
}

fn notes(keywords: Keywords<'_>) -> Vec<String> {
    let number = |key: &str| keywords.number(key);
    let mut notes = Vec::new();
    for (least, most, what) in [("minLength", "maxLength", "characters"), ("minItems", "maxItems", "items")] {
        match (number(least).filter(|least| least.as_f64() != Some(0.0)), number(most)) {
            (Some(least), Some(most)) if least == most => notes.push(format!("exactly {least} {what}")),
            (Some(least), Some(most)) => notes.push(format!("{least} to {most} {what}")),
            (Some(least), None) => notes.push(format!("at least {least} {what}")),
            (None, Some(most)) => notes.push(format!("at most {most} {what}")),
            (None, None) => {}
        }
    }
    let is_whole = keywords.text("type") == Some("integer");
    for (key, words) in [
        ("exclusiveMinimum", "more than"),
        ("exclusiveMaximum", "less than"),
        ("multipleOf", "a multiple of"),
    ] {
        // Of whole numbers the exclusive bounds are said by others.
        if let Some(bound) = number(key).filter(|_| !is_whole || key == "multipleOf") {
            notes.push(format!("{words} {bound}"));
        }
    }
    if keywords.is("uniqueItems", true) {
        notes.push("no item twice".to_owned());
    }
    notes
        .extend(keywords.text("pattern").filter(|text| is_short(text)).map(|text| format!("pattern {text}")));
    let example = keywords.list("examples").first();
    let example = example.map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned));
    notes.extend(example.filter(|text| is_short(text)).map(|text| format!("e.g. {text}")));
    notes
}

fn is_short(text: &str) -> bool {
    text.len() <= MOST_QUOTED
}
