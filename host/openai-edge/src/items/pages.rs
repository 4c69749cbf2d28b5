//! Pages of items: `limit`, `order` and `after`, and OpenAI's list object.

use serde_json::{Value, json};

use super::turn_items::Item;
use http_edge::request::path_id::may_be_id;
use http_edge::request::{Field, FromJson, Kind, Object, Pattern, request};
use http_edge::variant_b::error::Problem;
use http_edge::variant_b::parameters::LIMIT;

/// In which order items are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    OldestFirst,
    NewestFirst,
}

impl Order {
    fn words() -> Vec<&'static str> {
        vec!["asc", "desc"]
    }
}

impl FromJson for Order {
    fn from_json(value: Option<Value>) -> Option<Self> {
        match value?.as_str()? {
            "asc" => Some(Self::OldestFirst),
            "desc" => Some(Self::NewestFirst),
            _ => None,
        }
    }
}

const AFTER: Pattern =
    Pattern { is: may_be_id, fault: "Invalid item", keywords: || json!({ "maxLength": 256 }) };

request! {
    /// Which items a client of OpenAI wants to see.
    pub(crate) struct ItemListing = Object::OPEN;

    /// Most items of the page.
    limit: usize = LIMIT;

    /// The newest item first (`desc`), or the oldest.
    order: Order = Field::new("order", Kind::Word { words: Order::words, most_quoted: usize::MAX })
        .default(|| json!("desc"));

    /// The last item of the page before.
    after: Option<String> = Field::text("after").like(&AFTER)
        .example(|| json!("msg_01a204ec6206715fbb305322b42db99d"));
}

impl ItemListing {
    /// The page of these items, of which the oldest is the first. Items behind the page are not made.
    pub(crate) fn page<'a>(
        &self,
        items: impl DoubleEndedIterator<Item = Item> + 'a,
    ) -> Result<Value, Problem> {
        let mut items: Box<dyn Iterator<Item = Item> + 'a> = match self.order {
            Order::NewestFirst => Box::new(items.rev()),
            Order::OldestFirst => Box::new(items),
        };
        if let Some(after) = &self.after {
            let found = items.find(|item| item.id == *after);
            found.ok_or_else(|| Problem::invalid("after", "there is no item of that id."))?;
        }
        let page: Vec<_> = items.by_ref().take(self.limit).collect();
        let has_more = items.next().is_some();
        Ok(list(page.into_iter(), has_more))
    }
}

/// The list object. Ids of an empty one are empty: readers that are strict want texts.
pub(crate) fn list(items: impl Iterator<Item = Item>, has_more: bool) -> Value {
    let (ids, data): (Vec<_>, Vec<_>) = items.map(|item| (item.id, item.shown)).unzip();
    json!({
        "object": "list", "data": data, "has_more": has_more,
        "first_id": ids.first().map_or("", String::as_str), "last_id": ids.last().map_or("", String::as_str),
    })
}

#[cfg(test)]
mod tests {
    use agent_core::words::{Message, Turn};

    use super::super::turn_items::of_turns;
    use super::*;
    use http_edge::request::read_query;

    #[test]
    fn pages_go_on_behind_an_item_in_either_order() {
        let messages = ["a", "b", "c"].map(|text| Message::User { content: text.into() }).to_vec();
        let turns = [Turn { messages, ..Turn::default() }];
        let ids: Vec<_> = of_turns(&turns).map(|item| item.id).collect();
        let page = |query: &str| read_query::<ItemListing>(Some(query)).unwrap().page(of_turns(&turns));
        let brief = |query: &str| {
            let page = page(query).unwrap();
            let of = |item: &Value| item["content"][0]["text"].as_str().unwrap().to_owned();
            let data = page["data"].as_array().unwrap();
            assert_eq!(page["first_id"], data.first().map_or(json!(""), |item| item["id"].clone()));
            assert_eq!(page["last_id"], data.last().map_or(json!(""), |item| item["id"].clone()));
            (data.iter().map(of).collect::<String>(), page["has_more"] == true)
        };
        for (query, expected) in [
            ("", ("cba", false)),
            ("order=asc", ("abc", false)),
            ("limit=2", ("cb", true)),
            ("limit=3&order=asc", ("abc", false)),
            (&*format!("limit=1&after={}", ids[2]), ("b", true)),
            (&*format!("order=asc&after={}", ids[2]), ("", false)),
        ] {
            assert_eq!(brief(query), (expected.0.to_owned(), expected.1), "{query}");
        }
        assert_eq!(page("after=msg_1").unwrap_err().body()["error"]["param"], "after");
    }

    #[test]
    fn items_behind_the_page_are_not_made() {
        let made = std::cell::Cell::new(0);
        let messages = vec![Message::User { content: "a".into() }];
        let turns = vec![Turn { messages, ..Turn::default() }; 50];
        let items = turns.iter().flat_map(|turn| {
            made.set(made.get() + 1);
            of_turns(std::slice::from_ref(turn)).collect::<Vec<_>>()
        });
        let page = read_query::<ItemListing>(Some("limit=3")).unwrap().page(items).unwrap();
        assert_eq!((page["data"].as_array().unwrap().len(), made.get()), (3, 4));
    }
}
